"""What falls to process 1 of a container: to collect the ended processes whose parents have ended before them."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from webhook.probe import Beat

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_EVERY = 2.0  # seconds


def collect(ours: Collection[int]) -> None:
    """Collect each ended child that isn't one of `ours`, for whom somebody waits."""
    with contextlib.suppress(ChildProcessError):
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid in ours:
                return
            os.waitpid(ended.si_pid, 0)


@contextlib.contextmanager
def reaped(ours: Callable[[], Collection[int]]) -> Iterator[None]:
    """Collect them now and then, as long as it lasts."""
    beat = Beat(_EVERY, lambda: collect(ours()))
    beat.start()
    try:
        yield
    finally:
        beat.stop()

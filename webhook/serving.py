"""`rankfix serve`: one process, or several and one that looks after them."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

    from webhook.settings import Settings


def run(settings: Settings, *, version: str, stream: TextIO) -> None:
    """Serve until a signal says stop. Raises `RankfixError` if it can't begin."""
    with _ends_at_once():
        if settings.workers > 1:
            from webhook import workers  # noqa: PLC0415 - the supervisor needs no FastAPI

            workers.run(settings, version=version, stream=stream)
        else:
            from webhook import serve  # noqa: PLC0415 - FastAPI takes longer to import than `mutate` to run

            serve.run(settings, version=version, stream=stream)


def work(  # noqa: PLR0913 - what a supervisor tells its worker
    settings: Settings,
    slot: int,
    sockets: list[int],
    pulse: int,
    shared: Path,
    *,
    again: bool,
    version: str,
    stream: TextIO,
) -> None:
    """Serve as one of several."""
    from webhook import serve  # noqa: PLC0415 - see run

    with _ends_at_once():
        serve.work(settings, serve.Member(slot, sockets, pulse, shared, again=again), version=version, stream=stream)


@contextlib.contextmanager
def _ends_at_once() -> Iterator[None]:
    """Before there is a server, SIGTERM ends the process. Process 1 of a container wouldn't hear it else."""

    def ended(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, ended)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

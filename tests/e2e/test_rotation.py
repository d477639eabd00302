"""Bug 3, whole: CA and key are replaced while pods are created as fast as they go, and not one of them fails."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.installation import installation
from tests.e2e.traffic import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.e2e.controlplane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

NAMESPACE = "rankfix-rotation"
SETTLE = "--settle=1"


@contextlib.contextmanager
def kubelets(installed: Installation, folders: list[Path]) -> Iterator[None]:
    """One node a server: each brings the Secret's files at its own leisure, as kubelets do."""
    over = threading.Event()

    def bring(folder: Path, pause: float) -> None:
        while not over.wait(pause):
            installed.mount(folder)

    threads = [threading.Thread(target=bring, args=(folder, 0.5 + 2 * i)) for i, folder in enumerate(folders)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("interrupted", [False, True], ids=["in one run", "by runs that are cut short"])
def test_rotation_fails_no_pod(
    plane: ControlPlane,
    tmp_path: Path,
    interrupted: bool,
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    """Two replicas whose kubelets are two seconds apart; leaf, CA and keys are others afterwards."""
    folders = [tmp_path / "one", tmp_path / "two"]
    with installation(plane, folders[0], namespace=NAMESPACE) as made, contextlib.ExitStack() as stack:
        made.apply()
        made.make_certificate()
        made.mount(folders[1])
        servers = [stack.enter_context(made.server(folder=folder)) for folder in folders]
        made.await_repair()
        before = made.secret(), made.bundle()
        with kubelets(made, folders), load(made, 8) as pods:
            pods.wait(20)
            start, already = time.monotonic(), pods.repaired
            replicas = [f"--replica=127.0.0.1:{server.port}" for server in servers]
            said = rotated(made, replicas, interrupted=interrupted)
            rate = (pods.repaired - already) / (time.monotonic() - start)
            pods.wait(20)
        assert said == ""
        assert (pods.failed, pods.plain) == ([], 0)
        after = made.secret(), made.bundle()
        assert not {*before[0].values()} & {*after[0].values()}
        assert before[1] != after[1]
        record_testsuite_property("pods a second", round(rate))  # as many as this machine can
        assert rate > 1


def rotated(installed: Installation, replicas: list[str], *, interrupted: bool) -> str:
    """The CronJob's command, told to replace the CA; or run after run, each ending where it would have to wait."""
    if not interrupted:
        return installed.run_job("CronJob", "--force", SETTLE, "--timeout=60", *replicas)
    said = installed.run_job("CronJob", "--force", SETTLE, "--timeout=0", *replicas)
    deadline = time.monotonic() + 90
    while said and time.monotonic() < deadline:
        assert "the next run goes on from here" in said
        time.sleep(0.3)
        said = installed.run_job("CronJob", "--settle=0", "--timeout=0", *replicas)
    return said

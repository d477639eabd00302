"""`webhook.keeper`: the process that keeps certificates beside the server."""

from __future__ import annotations

import io
import json
import sys
import time
from typing import TYPE_CHECKING

from webhook import keeper, logs
from webhook.settings import load

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def until(good: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not good():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def lines(stream: io.StringIO) -> list[str]:
    return [json.loads(line)["said"] for line in stream.getvalue().splitlines()]


def test_the_command() -> None:
    """What the server was told about its place goes to `rankfix-certs`, and a Lease called after the Service."""
    given = {"namespace": "ml", "service": "hook", "webhook_config": "hook.ml", "dns_name": "a.example,b.example"}
    _, *words = keeper.command(load(given, environ={}).settings)
    assert words == [
        "-m", "certs", "rotate", "--watch", "--stop-when-orphaned", "--namespace=ml", "--secret=rankfix-tls",
        "--service=hook", "--webhook-config=hook.ml", "--lease=hook-certs", "--dns-name=a.example",
        "--dns-name=b.example",
    ]  # fmt: skip


def test_lines_are_logged_and_the_child_ends_with_us() -> None:
    """What it says on stderr is in our log; a stop ends it."""
    stream = io.StringIO()
    program = "import sys, time; print('rankfix-certs: NewLeaf: due', file=sys.stderr, flush=True); time.sleep(600)"
    kept = keeper.Keeper([sys.executable, "-c", program], logs.make(stream, "info"))
    kept.start()
    until(lambda: lines(stream) == ["NewLeaf: due"])
    kept.stop()
    assert kept._child
    assert kept._child.poll() is not None


def test_a_child_that_ends_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its exit code in the log, and not in a tight loop."""
    monkeypatch.setattr(keeper, "AGAIN_AFTER", 0.05)
    stream = io.StringIO()
    kept = keeper.Keeper([sys.executable, "-c", "raise SystemExit(3)"], logs.make(stream, "info"))
    kept.start()
    until(lambda: lines(stream).count("ended with code 3") >= 2)
    kept.stop()


def test_a_child_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own end has a bound."""
    monkeypatch.setattr(keeper, "GRACE", 0.3)
    stream = io.StringIO()
    program = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('on', file=sys.stderr, flush=True); time.sleep(600)"
    )
    kept = keeper.Keeper([sys.executable, "-c", program], logs.make(stream, "info"))
    kept.start()
    until(lambda: lines(stream) == ["on"])
    kept.stop()
    assert kept._child
    assert kept._child.wait(10) == -9

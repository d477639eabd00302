"""`make demo`: true to the end, readable in a pipe, clean after Ctrl-C, and honest where a promise is broken."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from demo import __main__ as demo
from demo import pods, server
from tests.support_edges import REPO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def shown() -> tuple[int, str]:
    out = io.StringIO()
    return demo.main(Console(file=out, width=100)), out.getvalue()


def test_shows_what_it_promises() -> None:
    """Seven pods, the values that the patch gives them, every promise kept, nothing wider than 100 columns."""
    code, out = shown()
    rows = [line.split() for line in out.splitlines() if line.strip().startswith(("master-", "worker-"))]
    assert [(row[0], "->" in row) for row in rows] == [
        ("master-0", False), ("worker-0", True),
        ("master-0", True), ("worker-0", True), ("worker-1", True),
        ("master-0", True), ("worker-0", True),
    ]  # fmt: skip
    assert "1 -> 4" in out
    assert "24 -> 3" in out
    assert "--node_rank=0 -> 1" in out
    assert "3 of 3 promises kept" in out
    assert max(map(len, out.splitlines())) <= 100
    assert code == 0


@pytest.mark.skipif(not (REPO / "tests/data/reviews").is_dir(), reason="the recordings aren't in this checkout")
def test_the_pods_are_the_recorded_ones() -> None:
    """Byte for byte."""
    for path in demo.DATA.glob("*.json"):
        assert path.read_bytes() == (REPO / "tests/data/reviews" / "v1.9.0" / path.name).read_bytes()


def test_a_broken_promise_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1, and which one it was."""
    first, *rest = demo.JOBS
    monkeypatch.setattr(demo, "JOBS", (replace(first, kept=lambda _: False), *rest))
    code, out = shown()
    assert code == 1
    assert "BROKEN: the processes number" in out
    assert "2 of 3 promises kept" in out


def test_a_job_without_pods_keeps_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty folder isn't a success."""
    monkeypatch.setattr(demo, "DATA", tmp_path)
    assert shown()[0] == 1


def test_a_server_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said is passed on in one line."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(server, "free_port", lambda: port)
        code, out = shown()
    assert code == 1
    assert "the server ended with code 2 and said: rankfix: 127.0.0.1 port" in out.replace("\n", " ")


def test_a_server_that_is_never_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience ends."""
    monkeypatch.setattr(server, "PATIENCE", 0.0)
    code, out = shown()
    assert (code, "wasn't ready within 0 s" in out) == (1, True)


def test_a_server_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """An HTTP error is not taken for an answer."""
    monkeypatch.setattr(server.Client, "ask", lambda *_: (200 if _[2] == "/readyz" else 400, b"why"))
    code, out = shown()
    assert (code, "answered 400" in out) == (1, True)


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code 130."""

    def interrupt(*_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "show", interrupt)
    assert shown()[0] == 130


def test_a_server_that_hangs_is_killed() -> None:
    """Nothing is left running, whatever the child does with SIGTERM."""
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        server.stop(process, patience=0.2)
        assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cleans_up(tmp_path: Path, number: int) -> None:
    """Ctrl-C and kill end it with 130; no server and no key are left behind."""
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    code = "import sys, time; from demo import __main__ as d; d.show = lambda *_: time.sleep(60); sys.exit(d.main())"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=REPO, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        port = int(process.stdout.readline().partition("127.0.0.1:")[2].partition("/")[0])
        time.sleep(0.1)
        process.send_signal(number)
        assert process.wait(20) == 130
    assert list(tmp_path.glob("rankfix-demo-*")) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


def test_runs_in_a_pipe() -> None:
    """`make demo | cat`, in any locale."""
    env = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "RANKFIX_PORT": "1"}
    ran = subprocess.run([sys.executable, "-m", "demo"], cwd=REPO, env=env, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\x1b" not in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 100


def _seen(rank: str, world: str, local: str = "2", args: tuple[str, ...] = ()) -> pods.Seen:
    env = [{"name": "RANK", "value": rank}, {"name": "WORLD_SIZE", "value": world}]
    env.append({"name": "LOCAL_WORLD_SIZE", "value": local})
    pod = {"metadata": {}, "spec": {"containers": [{"name": "pytorch", "env": env, "args": list(args)}]}}
    return pods.Seen("p", pod, json.loads(json.dumps(pod)))


def test_the_promises_can_be_broken() -> None:
    """Each check tells right from wrong."""
    assert pods.ranks_tile([_seen("0", "4"), _seen("2", "4")])
    assert not pods.ranks_tile([_seen("0", "4"), _seen("1", "4")])
    assert not pods.ranks_tile([_seen("0", "4"), _seen("2", "5")])
    assert pods.pair_is_of_nodes([_seen("0", "2"), _seen("1", "2")])
    assert not pods.pair_is_of_nodes([_seen("0", "2"), _seen("0", "2")])
    good = ("--nnodes=1", "--node_rank=0", "--master_addr=$(MASTER_ADDR)")
    assert pods.nodes_find_their_master([_seen("0", "1", args=good)])
    assert not pods.nodes_find_their_master([_seen("0", "1", args=good[:2])])


def test_seen() -> None:
    """Without a patch nothing differs; an absent variable is a dash."""
    review = json.dumps({"request": {"object": _seen("0", "1").before}}).encode()
    pod = pods.seen("p", review, {})
    assert (pod.words(), pod.rules, pod.env("NO")) == ([], "-", ("-", "-"))

"""How the server ends: in steps, within a bound, at once if it's asked twice, and as process 1 of a container."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support_edges import Running, ask, body, child, drain, serve_command, tls_socket

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = b"POST /mutate HTTP/1.1\r\nHost: rankfix.ml.svc:443\r\nContent-Type: application/json\r\n"
SMALL = body()
HALF = HEAD + b"Content-Length: %d\r\n\r\n" % len(SMALL) + SMALL[:20]


@contextlib.contextmanager
def silent_peers(running: Running) -> Iterator[list[socket.socket]]:
    """All that may keep a server from ending: no handshake, half of one, no request, half a head, half a body."""
    with contextlib.ExitStack() as stack:
        plain = [stack.enter_context(socket.create_connection(("127.0.0.1", running.port))) for _ in range(2)]
        plain[1].sendall(b"\x16\x03\x01\x02\x00")
        secure = [stack.enter_context(tls_socket(running)) for _ in range(3)]
        secure[1].sendall(HEAD)
        secure[2].sendall(HALF)
        time.sleep(0.2)
        yield [*plain, *secure]


def test_bug_41_silent_peers_do_not_hold_it(folder: Path) -> None:
    """Bug 41: with peers in each state in which they can be silent it ends within drain, grace and a moment."""
    with child(folder, "--drain", "0.5", "--grace", "1") as running, silent_peers(running):
        start = time.monotonic()
        assert running.stop(timeout=30) == 0
        assert time.monotonic() - start < 15  # 3 s on a machine that does nothing else; 30 s without a bound


def test_a_second_signal_ends_it_now(folder: Path) -> None:
    """However long it might go on: who asks twice doesn't want to wait for anybody."""
    with child(folder, "--drain", "60", "--grace", "60", "--body-timeout", "60") as running, silent_peers(running):
        assert running.process
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert running.process.poll() is None
        start = time.monotonic()
        assert running.stop(signal.SIGTERM) == 0
        assert time.monotonic() - start < 15


def test_bug_39_what_runs_is_finished(folder: Path) -> None:
    """Bug 39: a call that had begun gets its answer, also after the listener has closed, and the wish to close."""
    with child(folder, "--drain", "0.3", "--grace", "10") as running, tls_socket(running) as half:
        half.sendall(HALF)
        time.sleep(0.2)
        assert running.process
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.8)
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", running.port))
        half.sendall(SMALL[20:])
        got = drain(half)
        assert got.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in got
        assert running.process.wait(20) == 0


def test_not_ready_from_the_first_moment(folder: Path) -> None:
    """No time is lost until the endpoint goes: the first answer after the signal says it."""
    with child(folder, "--drain", "2") as running, contextlib.closing(running.connect()) as connection:
        assert ask(connection, "GET", "/readyz").status == 200
        assert running.process
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.05)
        assert ask(connection, "GET", "/readyz").status == 503


UNSHARE = shutil.which("unshare")


def namespaces() -> bool:
    """Whether this machine lets us have a process namespace of our own."""
    if UNSHARE is None or shutil.which("nsenter") is None:
        return False
    return subprocess.run([UNSHARE, "--pid", "--fork", "true"], capture_output=True, check=False).returncode == 0


def child_of(process: int) -> int:
    """The one child of a process."""
    (found,) = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return int(found)


def zombies(parent: int) -> list[str]:
    """The ended children that a process hasn't collected."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, ppid = path.read_text().rpartition(") ")[2].split()[:2]
            found += [path.parent.name] if (state, ppid) == ("Z", str(parent)) else []
    return found


@pytest.mark.skipif(not namespaces(), reason="needs unshare and nsenter, and the right to make a process namespace")
def test_as_process_1(folder: Path) -> None:
    """As the first process of a container it hears SIGTERM, collects whom nobody else will, and ends with code 0."""
    with child(folder, prefix=["unshare", "--pid", "--fork", "--kill-child"]) as running:
        assert running.process
        server = child_of(running.process.pid)
        assert "NSpid:" + f"\t{server}\t1" in Path(f"/proc/{server}/status").read_text()
        orphan = ["nsenter", "--pid", f"--target={server}", "sh", "-c", "sleep 0.2 & sleep 0.2 &"]
        subprocess.run(orphan, check=True)
        time.sleep(0.4)
        deadline = time.monotonic() + 10
        while zombies(server):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert running.ask("POST", "/mutate", SMALL).status == 200
        os.kill(server, signal.SIGTERM)
        assert running.process.wait(20) == 0


@pytest.mark.skipif(not namespaces(), reason="needs unshare and nsenter, and the right to make a process namespace")
def test_as_process_1_before_it_serves(tmp_path: Path) -> None:
    """Process 1 hears only what it has a handler for: a pod that still waits for its certificate can be ended."""
    command = ["unshare", "--pid", "--fork", "--kill-child", *serve_command(tmp_path), "--cert-wait", "60"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert "waiting" in process.stderr.readline()
        os.kill(child_of(process.pid), signal.SIGTERM)
        assert process.wait(20) == 0

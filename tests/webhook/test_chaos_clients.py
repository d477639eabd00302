"""Chaos: hostile and broken clients by the hundred. Others are answered meanwhile, and all is as it was afterwards."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support_edges import Running, body, child, drain, pod, threaded, tls_socket
from tests.support_traffic import Load, load, told

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

HEAD = b"POST /mutate?timeout=3s HTTP/1.1\r\nHost: rankfix.ml.svc:443\r\nContent-Type: application/json\r\n"
SMALL = body()


@pytest.fixture(scope="module", name="running")
def _running(folder: Path) -> Iterator[Running]:
    """One server for all of them: what one test leaves behind, the next one would suffer from. At the end it's as it
    was: ready, without a fault of its own, and no connection left but the one that asks.
    """
    with child(folder, "--header-timeout", "2", "--handshake-timeout", "2", "--body-timeout", "5") as made:
        yield made
        deadline = time.monotonic() + 10
        while "rankfix_connections 1.0" not in metrics(made):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert {"rankfix_bugs_total 0.0", "rankfix_in_flight 0.0"} <= set(metrics(made).splitlines())
        assert made.ask("GET", "/readyz").body == b"ok\n"
        assert "error" not in {json.loads(line)["level"] for line in made.said}


def metrics(running: Running) -> str:
    return running.ask("GET", "/metrics").body.decode()


@contextlib.contextmanager
def others(running: Running, what: str) -> Iterator[Load]:
    """Well-behaved callers meanwhile, none of whom may notice."""
    with load(running.folder, running.port, clients=2, pause=0.02) as made:
        made.wait(5)
        yield made
        made.wait(20)
    told(what, made)
    assert made.failed == {}


def memory(running: Running) -> float:
    """Resident MiB of the server."""
    assert running.process
    pages = int(Path(f"/proc/{running.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.soak)])
def test_idle_connections(running: Running, count: int) -> None:
    """Hundreds that have shaken hands and say nothing."""
    before = memory(running)
    with others(running, f"{count} idle connections"), contextlib.ExitStack() as stack:
        context = running.context()
        for _ in range(count):
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", running.port)))
            stack.enter_context(context.wrap_socket(plain, server_hostname="localhost"))
        grown = memory(running) - before
        logging.getLogger("figures").info("%d idle connections: %.1f MiB more", count, grown)
    assert grown < 0.2 * count  # MiB: a thousand must fit into a pod


def ask_anew(running: Running, context: ssl.SSLContext) -> None:
    """As a kubelet probes: a connection for one question. (Packets leave at once, as Go's do.)"""
    plain = socket.create_connection(("127.0.0.1", running.port), timeout=10)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with context.wrap_socket(plain, server_hostname="localhost") as secure:
        secure.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert drain(secure).endswith(b"\r\n\r\nok\n")


@pytest.mark.soak
def test_connections_without_end(running: Running) -> None:
    """Clients that come anew for each question leave nothing behind: 16,000 take no more memory than 8,000."""
    context, seen = running.context(), list[float]()
    with others(running, "16,000 connections, one after the other"), ThreadPoolExecutor(8) as pool:
        for _ in range(4):
            list(pool.map(lambda _: ask_anew(running, context), range(4000)))
            seen.append(memory(running))
    logging.getLogger("figures").info("after each 4,000 connections: %s MiB", [round(one, 1) for one in seen])
    assert seen[3] < 1.03 * seen[1]


def test_slow_loris(running: Running) -> None:
    """200 clients who send a byte now and then: half of them within the handshake, half of them within a head."""
    with others(running, "200 slow-loris clients"), contextlib.ExitStack() as stack:
        raw = [stack.enter_context(socket.create_connection(("127.0.0.1", running.port))) for _ in range(100)]
        secure = [stack.enter_context(tls_socket(running)) for _ in range(100)]
        for byte in (b"\x16", b"\x03", b"\x01", b"\x02"):
            for sock in raw:
                with contextlib.suppress(OSError):
                    sock.sendall(byte)
            for line in secure:
                with contextlib.suppress(OSError):
                    line.sendall(b"X-A: %s\r\n" % byte.hex().encode() if byte != b"\x16" else HEAD)
            time.sleep(0.5)
        deadline = time.monotonic() + 10
        for sock in (*raw, *secure):
            sock.settimeout(max(0.1, deadline - time.monotonic()))
            drain(sock)
        assert time.monotonic() < deadline
    assert 'rankfix_connections_ended_total{cause="header-timeout"} 100.0' in metrics(running)


def test_garbage(running: Running) -> None:
    """Bytes that are no TLS, plain HTTP on the TLS port, a port scan: 300 of them."""
    dice = random.Random(8)  # noqa: S311 - noise, no secret
    openings = [b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\x00" + b"x" * 600, b"\x80\x2e\x01", b""]
    with others(running, "300 clients that send garbage"):
        for number in range(300):
            data = openings[number % 5] if number % 5 < 4 else dice.randbytes(dice.randrange(2000))
            with (
                socket.create_connection(("127.0.0.1", running.port), timeout=5) as sock,
                contextlib.suppress(ConnectionError),
            ):
                sock.sendall(data)
    assert running.ask("GET", "/readyz").status == 200


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl program")
def test_renegotiation(running: Running) -> None:
    """TLS 1.2 lets a client ask for a new handshake on an open connection, a way to keep a server busy: refused."""
    command = ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{running.port}", "-legacy_renegotiation"]
    with others(running, "TLS renegotiation"):
        for _ in range(3):
            ran = subprocess.run(command, input="R\n" * 3, capture_output=True, text=True, timeout=20, check=False)
            assert "RENEGOTIATING" in ran.stdout + ran.stderr
            assert "no renegotiation" in ran.stderr


def huge(entries: int) -> dict[str, Any]:
    return pod(*((f"VARIABLE_{number}", "x" * 10) for number in range(entries)))


def nested(levels: int) -> bytes:
    """A pod with so many lists in each other in a field that nobody knows."""
    return SMALL.replace(b'"containers"', b'"future": ' + b"[" * levels + b"]" * levels + b', "containers"')


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(body(huge(100_000)), {200}, id="100000-env"),
        pytest.param(nested(50), {200}, id="nested-50"),
        pytest.param(nested(5000), {200, 400}, id="nested-5000"),
        pytest.param(b"[" + b"[]," * 6_000_000 + b"[]]", {413}, id="6000000-lists"),
    ],
)
def test_bug_36_monstrous_pods(running: Running, data: bytes, status: set[int]) -> None:
    """Bug 36: cost is linear and depth bounded; who comes behind waits for a moment, and not for a time-out."""
    with others(running, f"a pod of {len(data)} bytes"):
        for _ in range(3):
            assert running.ask("POST", "/mutate", data).status in status


def test_a_body_that_is_cut_anywhere(folder: Path) -> None:
    """At each offset: the client gets 400 where the length says that this was all, and others get their answers."""
    with threaded(folder, plain_http=True) as (running, log):
        for size in range(len(SMALL)):
            with socket.create_connection(("127.0.0.1", running.port), timeout=5) as sock:
                sock.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % size + SMALL[:size])
                assert sock.recv(1000).startswith(b"HTTP/1.1 400"), size
            with socket.create_connection(("127.0.0.1", running.port), timeout=5) as sock:
                sock.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(SMALL) + SMALL[:size])
        with socket.create_connection(("127.0.0.1", running.port), timeout=5) as sock:
            sock.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(SMALL) + SMALL)
            assert sock.recv(1000).startswith(b"HTTP/1.1 200")
    assert '"error"' not in log.getvalue()

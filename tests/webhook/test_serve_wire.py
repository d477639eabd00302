"""`webhook.serve` on the wire: framing right and wrong, clients that leave, bytes that are no HTTP and no TLS."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support_edges import (
    Running,
    body,
    drain,
    pod,
    raw,
    threaded,
    tls_socket,
)

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from pathlib import Path

HEAD = b"POST /mutate?timeout=3s HTTP/1.1\r\nHost: rankfix.ml.svc:443\r\nContent-Type: application/json\r\n"
SMALL = body()


@pytest.fixture(scope="module", name="both")
def _both(folder: Path) -> Iterator[tuple[Running, io.StringIO]]:
    with threaded(folder, body_timeout=1, max_body=2**20) as pair:
        yield pair


@pytest.fixture(scope="module", name="running")
def _running(both: tuple[Running, io.StringIO]) -> Running:
    return both[0]


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def chunks(data: bytes, size: int) -> bytes:
    return b"".join(
        b"%x\r\n%s\r\n" % (len(data[at : at + size]), data[at : at + size]) for at in range(0, len(data), size)
    )


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(HEAD + b"Content-Length: %d\r\n\r\n" % len(SMALL) + SMALL, 200, id="length"),
        pytest.param(CHUNKED + chunks(SMALL, 100) + b"0\r\n\r\n", 200, id="chunked"),
        pytest.param(CHUNKED + chunks(b"x" * (3 << 20), 1 << 16) + b"0\r\n\r\n", 413, id="chunked-too-large"),
        pytest.param(CHUNKED + chunks(b"x" * ((2 << 20) + 9), 1 << 16), 413, id="chunked-endless"),
        pytest.param(HEAD + b"Content-Length: 99999999\r\n\r\n" + b"x" * 100, 413, id="says-too-large"),
        pytest.param(HEAD + b"Content-Length: 1500000\r\n\r\n" + b"x" * 1_500_000, 413, id="too-large"),
        pytest.param(HEAD + b"Content-Length: 50000\r\n\r\n" + SMALL, 408, id="says-more-than-it-sends"),
        pytest.param(HEAD + b"Content-Length: 10\r\n\r\n" + SMALL, 400, id="says-less-than-it-sends"),
        pytest.param(HEAD + b"Content-Length: x\r\n\r\n", 400, id="length-is-no-number"),
        pytest.param(HEAD + b"Content-Length: -1\r\n\r\n", 400, id="length-below-zero"),
        pytest.param(HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n123456", 400, id="two-lengths"),
        pytest.param(CHUNKED + b"zz\r\n", 400, id="chunk-size-is-no-number"),
        pytest.param(HEAD + b"\r\n", 400, id="no-length-no-body"),
        pytest.param(HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}", 100, id="expect"),
        pytest.param(
            HEAD + b"Upgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\n{}", 400, id="upgrade"
        ),
        pytest.param(b"GET / HTTP/0.9\r\n\r\n", 404, id="http-0.9"),
        pytest.param(b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400, id="connect"),
        pytest.param(
            b"POST /mutate HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", 400, id="1.0"
        ),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, id="h2-preface"),
        pytest.param(b"GET /%ff%00 HTTP/1.1\r\nHost: a\r\n\r\n", 404, id="odd-path"),
        pytest.param(b"\x00\x01\x02\x03\r\n\r\n", 400, id="garbage"),
    ],
)
def test_wire_matrix(running: Running, data: bytes, status: int) -> None:
    """Right and wrong framing over the real parser: the code that fits, in bounded time."""
    start = time.monotonic()
    with tls_socket(running, timeout=3) as secure:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            secure.sendall(data)
        got = secure.recv(65536)
    assert got.startswith(b"HTTP/1.1 %d" % status), got[:200]
    assert time.monotonic() - start < 3
    assert running.ask("POST", "/mutate", SMALL).status == 200


def test_pipelined_requests(running: Running) -> None:
    """Two requests in one packet get two answers, in order."""
    one = HEAD + b"Content-Length: %d\r\n\r\n" % len(SMALL) + SMALL
    two = HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
    got = raw(running, one + two)
    assert got.index(b"HTTP/1.1 200") < got.index(b"HTTP/1.1 400")


@given(st.binary(max_size=300))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_as_a_body(running: Running, data: bytes) -> None:
    """Contract 9.5 over the real server: 400, in time, and the server goes on."""
    start = time.monotonic()
    assert running.ask("POST", "/mutate", data).status == 400
    assert time.monotonic() - start < 2


@given(st.binary(min_size=1, max_size=300), st.booleans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_as_a_request(running: Running, data: bytes, behind_a_head: bool) -> None:
    """Whatever comes over TLS: no 5xx, nothing that hangs once the client has said its last."""
    with tls_socket(running) as secure:
        secure.settimeout(0.05)
        secure.sendall((HEAD if behind_a_head else b"") + data + b"\r\n\r\n")
        got = drain(secure)
    assert b"HTTP/1.1 5" not in got


def test_plain_http_and_garbage_on_the_tls_port(both: tuple[Running, io.StringIO]) -> None:
    """A probe of the wrong kind is dropped; nobody else notices, and no stack trace is logged."""
    running, log = both
    for data in (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\x00" + b"x" * 600, b"\x00" * 50):
        with socket.create_connection(("127.0.0.1", running.port), timeout=2) as sock:
            sock.sendall(data)
            assert b"HTTP" not in drain(sock)
    assert running.ask("GET", "/healthz").status == 200
    assert "Traceback" not in log.getvalue()


def disconnects(running: Running) -> float:
    """How many clients went away before their body was whole."""
    found = re.search(rb'cause="disconnected"} ([0-9.]+)', running.ask("GET", "/metrics").body)
    return float(found[1]) if found else 0


def test_a_client_that_leaves_in_the_middle(both: tuple[Running, io.StringIO]) -> None:
    """A connection cut within a body is counted and nothing else: no stack trace, no error line."""
    running, log = both
    before, already = log.getvalue(), disconnects(running)
    for size in (0, 1, len(SMALL) - 1):
        with tls_socket(running) as secure:
            secure.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(SMALL) + SMALL[:size])
    deadline = time.monotonic() + 5
    while disconnects(running) < already + 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    said = log.getvalue()[len(before) :]
    assert '"error"' not in said
    assert "stack" not in said


def test_a_large_review(running: Running) -> None:
    """A review just under the cap goes through, with a value beyond any buffer."""
    data = body(pod(("BIG", "<" * 900_000)))
    reply = running.ask("POST", "/mutate", data)
    assert reply.status == 200
    assert reply.json["response"]["patchType"] == "JSONPatch"


def test_expect_100_continue(running: Running) -> None:
    """A careful client gets its go-ahead, then the answer."""
    with tls_socket(running) as secure:
        secure.sendall(HEAD + b"Connection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(SMALL))
        assert secure.recv(1000).startswith(b"HTTP/1.1 100")
        secure.sendall(SMALL)
        assert drain(secure).startswith(b"HTTP/1.1 200")

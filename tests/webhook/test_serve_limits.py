"""`webhook.serve` and clients that hold connections: each has its time, and in the meantime others are answered."""

from __future__ import annotations

import contextlib
import gc
import http.client
import re
import socket
import ssl
import time
from collections import deque
from typing import TYPE_CHECKING

from demo.server import free_port
from tests.support_edges import Running, ask, body, drain, threaded, tls_socket
from webhook import serve

if TYPE_CHECKING:
    from pathlib import Path

HEAD = b"POST /mutate?timeout=3s HTTP/1.1\r\nHost: rankfix.ml.svc:443\r\nContent-Type: application/json\r\n"
SMALL = body()
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n" % len(SMALL) + SMALL


def ended(running: Running, cause: str) -> float:
    """How many connections the server says it ended for this."""
    said = running.ask("GET", "/metrics").body.decode()
    found = re.search(rf'rankfix_connections_ended_total{{cause="{cause}"}} ([0-9.]+)', said)
    return float(found[1]) if found else 0


def closes(sock: socket.socket) -> bool:
    """Whether the other side says that it's over, within the socket's time-out."""
    try:
        return sock.recv(1) == b""
    except TimeoutError:
        return False
    except (ConnectionError, ssl.SSLError):
        return True


def test_a_head_that_never_ends(folder: Path) -> None:
    """Slow-loris: a header line now and then doesn't keep a connection; the client hears 408."""
    with threaded(folder, header_timeout=1) as (running, _), tls_socket(running) as slow:
        start = time.monotonic()
        for line in (b"POST /mutate HTTP/1.1\r\n", b"A: b\r\n", b"C: d\r\n"):
            slow.sendall(line)
            time.sleep(0.3)
        assert drain(slow).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert time.monotonic() - start < 4
        assert ended(running, "header-timeout") == 1


def test_a_head_without_a_bound(folder: Path) -> None:
    """Headers fill no memory: 431 after 64 KiB."""
    with threaded(folder) as (running, _), tls_socket(running) as wide:
        wide.sendall(HEAD)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for _ in range(40):
                wide.sendall(b"X-Filler: %s\r\n" % (b"x" * 4000))
        assert drain(wide).startswith(b"HTTP/1.1 431 ")
        assert ended(running, "header-too-large") == 1


def test_a_body_of_framing_only(folder: Path) -> None:
    """Chunk extensions are no body, and still there's an end to what is taken in."""
    with threaded(folder, max_body=1024) as (running, _), tls_socket(running) as odd:
        odd.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for _ in range(100):
                odd.sendall(b"1;%s\r\n{\r\n" % (b"x" * 1000))
        assert closes(odd)
        assert ended(running, "request-too-large") == 1


def test_a_connection_on_which_nothing_is_ever_asked(folder: Path) -> None:
    """It stays as long as an idle one, since the API server keeps such in reserve, and no longer."""
    with threaded(folder, keep_alive=1) as (running, _), tls_socket(running) as silent:
        assert closes(silent)


def test_a_handshake_that_never_ends(folder: Path) -> None:
    """Open TCP, say nothing, or half a hello: closed after the handshake's time-out."""
    with threaded(folder, handshake_timeout=0.5) as (running, _):
        for hello in (b"", b"\x16\x03\x01\x02\x00"):
            with socket.create_connection(("127.0.0.1", running.port), timeout=5) as silent:
                silent.sendall(hello)
                assert closes(silent)
        assert ended(running, "handshake-timeout") == 2


def test_idle_strangers_make_room(folder: Path) -> None:
    """A full house: who never asked anything goes first; the one that has been answered stays and is answered again."""
    with threaded(folder, max_connections=8) as (running, _), contextlib.ExitStack() as stack:
        known = stack.enter_context(contextlib.closing(running.connect()))
        assert ask(known, "POST", "/mutate", SMALL).status == 200
        first = known.sock
        strangers = [stack.enter_context(tls_socket(running)) for _ in range(7)]
        time.sleep(1.1)
        assert running.ask("POST", "/mutate", SMALL).status == 200
        assert ask(known, "POST", "/mutate", SMALL).status == 200
        assert known.sock is first
        assert closes(strangers[0])
        assert ended(running, "full") >= 1


def test_a_full_house_waits_in_the_queue(folder: Path) -> None:
    """Where nobody can be spared yet, a new client isn't refused: it's taken in as soon as there is room."""
    with threaded(folder, max_connections=8) as (running, _), contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(tls_socket(running))
        assert running.ask("POST", "/mutate", SMALL).status == 200


def test_handshakes_count_as_connections(folder: Path) -> None:
    """TCP alone can't fill the house for longer than a second."""
    with threaded(folder, max_connections=8) as (running, _), contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port)))
        assert running.ask("POST", "/mutate", SMALL).status == 200


def test_an_answer_before_the_body(folder: Path) -> None:
    """What comes of a body that nobody wants any more is no head: the next request on the connection is answered."""
    unwanted = HEAD.replace(b"application/json", b"text/plain") + b"Content-Length: 300000\r\n\r\n"
    with threaded(folder) as (running, _), tls_socket(running) as early:
        early.sendall(unwanted)
        assert early.recv(1000).startswith(b"HTTP/1.1 415 ")
        for _ in range(3):
            early.sendall(b"x" * 100_000)
            time.sleep(0.05)
        early.sendall(WHOLE)
        assert early.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_takes_no_answer(folder: Path) -> None:
    """Requests without end from one who never reads: the server neither fills up nor waits for it."""
    with (
        threaded(folder, plain_http=True, keep_alive=1) as (running, _),
        socket.create_connection(("127.0.0.1", running.port), timeout=0.2) as deaf,
    ):
        with contextlib.suppress(TimeoutError, ConnectionError):
            for _ in range(5000):
                deaf.sendall(WHOLE)
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", running.port, timeout=5)) as connection:
            assert ask(connection, "POST", "/mutate", SMALL).status == 200


def test_a_port_for_metrics_and_probes(folder: Path) -> None:
    """Without TLS, for Prometheus: the same figures, the probes, and no way to a review."""
    port = free_port()
    with threaded(folder, metrics_port=port) as (running, _):
        assert running.ask("POST", "/mutate", SMALL).status == 200
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.closing(connection):
            assert (
                b'rankfix_requests_total{outcome="changed",reason="patched"} 1.0'
                in ask(connection, "GET", "/metrics").body
            )
            assert ask(connection, "GET", "/healthz").body == b"ok\n"
            assert ask(connection, "GET", "/readyz").body == b"ok\n"
            assert ask(connection, "POST", "/mutate", SMALL).status == 404


def test_remains_of_connections_do_not_pile_up() -> None:
    """What refers to itself and has lived for a while is found soon, however much there was at the start.

    Python would look for it when there is a quarter as much as that: 250,000 of these, or a thousand connections.
    """
    heap = [[number] for number in range(1_000_000)]
    with serve.unsearched():
        searches = gc.get_stats()[2]["collections"]
        living: deque[list[object]] = deque(maxlen=5000)
        for _ in range(500_000):
            ring: list[object] = []
            ring.append(ring)
            living.append(ring)
        assert gc.get_stats()[2]["collections"] > searches
        assert len(gc.get_objects()) < 100_000
    assert len(heap) == 1_000_000

"""`webhook.serve`: the real server over TLS, in a process of its own where signals count, else in a thread."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support_edges import (
    CANARY,
    RECORDED,
    UID,
    Running,
    ask,
    body,
    certificate_folder,
    child,
    drain,
    pod,
    raw,
    threaded,
    tls_socket,
    typo,
)
from webhook import mutate, serve
from webhook.policy import Policy

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from pathlib import Path

HEAD = b"POST /mutate?timeout=3s HTTP/1.1\r\nHost: rankfix.ml.svc:443\r\nContent-Type: application/json\r\n"
SMALL = body()


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate_folder(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module", name="process")
def _process(folder: Path) -> Iterator[Running]:
    with child(folder, "--body-timeout", "1", "--max-body", "2MiB") as running:
        yield running


@pytest.fixture(scope="module", name="both")
def _both(folder: Path) -> Iterator[tuple[Running, io.StringIO]]:
    with threaded(folder, body_timeout=1, max_body=2**20) as pair:
        yield pair


@pytest.fixture(scope="module", name="running")
def _running(both: tuple[Running, io.StringIO]) -> Running:
    return both[0]


@pytest.mark.skipif(not RECORDED, reason="the recorded reviews aren't in this checkout")
def test_every_recorded_review_over_https(process: Running) -> None:
    """What goes over the wire is the core's answer, byte for byte, for every pod of every operator version."""
    with contextlib.closing(process.connect()) as connection:
        for path in RECORDED:
            data = path.read_bytes()
            reply = ask(connection, "POST", "/mutate?timeout=5s", data)
            assert (reply.status, reply.body) == (200, mutate.respond(data, Policy()).body), path


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_one_review_over_https(process: Running, version: str) -> None:
    """HTTP/1.1, Content-Length, never chunked, version and uid as asked."""
    reply = process.ask("POST", "/mutate", body(version=version))
    assert reply.status == 200
    assert reply.json["apiVersion"] == f"admission.k8s.io/{version}"
    assert reply.json["response"]["uid"] == UID
    assert int(reply.headers["content-length"]) == len(reply.body)
    assert "transfer-encoding" not in reply.headers
    assert "server" not in reply.headers


def test_probes_over_https(process: Running) -> None:
    """What the kubelet and Prometheus ask."""
    assert process.ask("GET", "/healthz").body == b"ok\n"
    assert process.ask("GET", "/readyz").status == 200
    assert set(process.ask("GET", "/version").json) == {"version"}
    assert b"rankfix_build_info" in process.ask("GET", "/metrics").body


@pytest.mark.parametrize(
    ("version", "agreed"), [(ssl.TLSVersion.TLSv1_3, "TLSv1.3"), (ssl.TLSVersion.TLSv1_2, "TLSv1.2")]
)
def test_tls_versions(running: Running, version: ssl.TLSVersion, agreed: str) -> None:
    """1.3 where the client can, 1.2 where that's all it has, HTTP/1.1 by ALPN."""
    context = running.context()
    context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    with contextlib.closing(socket.create_connection(("127.0.0.1", running.port))) as plain:
        secure = context.wrap_socket(plain, server_hostname="rankfix.ml.svc")
        assert (secure.version(), secure.selected_alpn_protocol()) == (agreed, "http/1.1")
        secure.close()


def test_tls_prefers_1_3(running: Running) -> None:
    """Without a wish of the client."""
    with tls_socket(running) as secure:
        assert secure.version() == "TLSv1.3"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_tls_is_refused(running: Running, version: ssl.TLSVersion) -> None:
    """Nothing below 1.2, even for a client that would do anything."""
    context = running.context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    with socket.create_connection(("127.0.0.1", running.port)) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="localhost")


def test_connections_are_kept(running: Running) -> None:
    """Bug 40: many calls on one connection, and the keep-alive is beyond the API server's 90 s."""
    with contextlib.closing(running.connect()) as connection:
        for _ in range(20):
            assert ask(connection, "POST", "/mutate", SMALL).headers.get("connection") is None
        first = connection.sock
        time.sleep(0.3)
        assert ask(connection, "POST", "/mutate", SMALL).status == 200
        assert connection.sock is first


def test_head_and_body_leave_together(folder: Path) -> None:
    """Two writes, each in a packet of its own, cost 48 ms a pod: the first read must see all of the answer."""
    with (
        threaded(folder, plain_http=True) as (running, _),
        socket.create_connection(("127.0.0.1", running.port)) as sock,
    ):
        for _ in range(20):
            sock.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(SMALL) + SMALL)
            head, _, rest = sock.recv(1 << 20).partition(b"\r\n\r\n")
            assert f"content-length: {len(rest)}\r\n".encode() in head + b"\r\n"
            assert rest


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


def test_many_at_once(process: Running) -> None:
    """Sixteen clients on connections of their own: each gets its own answer."""

    def client(number: int) -> set[bool]:
        with contextlib.closing(process.connect()) as connection:
            uids = [f"{number}-{call}" for call in range(20)]
            return {ask(connection, "POST", "/mutate", body(uid=uid)).json["response"]["uid"] == uid for uid in uids}

    with ThreadPoolExecutor(16) as pool:
        assert set().union(*pool.map(client, range(16))) == {True}


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


def test_drains_before_it_ends(folder: Path) -> None:
    """Bug 39: after SIGTERM all goes on for a while, old connections and new ones, and each answer ends its connection."""
    with child(folder, "--drain", "1.5") as running, contextlib.closing(running.connect()) as connection:
        assert "connection" not in ask(connection, "POST", "/mutate", SMALL).headers
        assert running.process
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        for reply in (ask(connection, "POST", "/mutate", SMALL), running.ask("POST", "/mutate", SMALL)):
            assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert running.ask("GET", "/readyz").body == b"not ready: stopping\n"
        assert running.process.wait(10) == 0


def test_a_second_signal_cuts_the_drain_short(folder: Path) -> None:
    """Whoever asks twice wants the end now."""
    with child(folder, "--drain", "60") as running:
        assert running.process
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert running.stop(signal.SIGTERM, timeout=10) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well(folder: Path, number: int) -> None:
    """Exit code 0 within the bound, a word in the log at the beginning and at the end."""
    with child(folder) as running:
        assert running.ask("POST", "/mutate", SMALL).status == 200
        assert running.stop(number) == 0
    events = [json.loads(line)["event"] for line in running.said]
    assert events[0] == "starting"
    assert events[-1] == "stopped"
    assert "listening" in events


def test_a_silent_peer_does_not_hold_it(folder: Path) -> None:
    """Bug 41: open connections that say nothing, before and after the handshake, and a half-sent body."""
    with child(folder, "--grace", "1") as running, contextlib.ExitStack() as open_:
        open_.enter_context(socket.create_connection(("127.0.0.1", running.port)))
        open_.enter_context(tls_socket(running))
        half = open_.enter_context(tls_socket(running))
        half.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
        start = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - start < 5


def test_settings_from_variables_reach_the_server(folder: Path) -> None:
    """RANKFIX_* decide as flags do."""
    with child(folder, env={"RANKFIX_DEFAULT_MODE": "off", "RANKFIX_PORT": "tcp://10.0.0.1:443"}) as running:
        reply = running.ask("POST", "/mutate", SMALL)
    assert reply.json["response"] == {"uid": UID, "allowed": True} | reply.json["response"]
    assert "patch" not in reply.json["response"]


def test_no_secret_gets_out(folder: Path) -> None:
    """Bug 47: nothing that the process writes or answers holds a value of a pod's env, at the most talkative level."""
    secret = pod(("AWS_SECRET_ACCESS_KEY", CANARY))
    denied = typo()
    denied["spec"] = secret["spec"]
    whole = body(secret)
    said = b""
    with child(folder, "--log-level", "debug", "--max-body", "64KiB", "--body-timeout", "0.5") as running:
        for data in (whole, body(denied), whole[:-2], whole[:-40] + b"\xff", whole * 100):
            said += running.ask("POST", "/mutate", data).body
        said += running.ask("POST", "/mutate", whole, {"Content-Type": CANARY}).body
        said += running.ask("PUT", "/mutate", whole).body
        said += raw(running, HEAD + b"Content-Length: 90000\r\n\r\n" + whole, timeout=2)
        said += raw(running, whole, timeout=1)
        said += running.ask("GET", "/metrics").body
        assert running.process
        assert running.process.stdout
        running.stop()
        said += running.process.stdout.read().encode()
    said += "".join(running.said).encode()
    assert b"rankfix_requests_total" in said
    assert CANARY.encode() not in said


@pytest.mark.parametrize("host", ["*", "127.0.0.1", "::1", "localhost"])
def test_listen(host: str) -> None:
    """Each way to say where, and * is reached over IPv4 always (bug 45: and over IPv6 where there is one)."""
    try:
        sock = serve.listen(host, 0)
    except serve.CannotListen:
        assert host == "::1"
        pytest.skip("this machine has no IPv6")
    with sock:
        address = host if host != "*" else "127.0.0.1"
        with socket.create_connection((address, sock.getsockname()[1]), timeout=2):
            pass


def test_listen_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPv6 unknown to the kernel, or known and switched off: * is IPv4 then."""
    real = socket.create_server

    def no_ipv6(address: tuple[str, int], **options: object) -> socket.socket:
        if address[0] == "::":
            raise OSError(99, "Cannot assign requested address")
        return real(address, **options)  # type: ignore[arg-type] # as it came

    monkeypatch.setattr(socket, "create_server", no_ipv6)
    for dual in (True, False):
        monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda dual=dual: dual)
        with serve.listen("*", 0) as sock:
            assert sock.family is socket.AF_INET


def test_a_port_that_is_taken() -> None:
    """One line that names the address and the way out."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            serve.CannotListen, match=rf"127\.0\.0\.1 port {port}: Address already in use: choose another"
        ):
            serve.listen("127.0.0.1", port)


def test_plain_http_only_if_asked_for(folder: Path) -> None:
    """--plain-http serves what an ingress sends."""
    with threaded(folder, plain_http=True) as (running, _):
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=5)
        assert ask(connection, "POST", "/mutate", SMALL).status == 200
        connection.close()

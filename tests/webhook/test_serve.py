"""`webhook.serve`: the real server over TLS, in a process of its own where signals count, else in a thread."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.support_edges import (
    CANARY,
    RECORDED,
    UID,
    Running,
    ask,
    body,
    child,
    pod,
    raw,
    threaded,
    tls_socket,
    typo,
)
from webhook import mutate
from webhook.listen import CannotListen, listen
from webhook.policy import Policy

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from pathlib import Path

HEAD = b"POST /mutate?timeout=3s HTTP/1.1\r\nHost: rankfix.ml.svc:443\r\nContent-Type: application/json\r\n"
SMALL = body()


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


def test_bug_40_connections_are_kept(running: Running) -> None:
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


def test_many_at_once(process: Running) -> None:
    """Sixteen clients on connections of their own: each gets its own answer."""

    def client(number: int) -> set[bool]:
        with contextlib.closing(process.connect()) as connection:
            uids = [f"{number}-{call}" for call in range(20)]
            return {ask(connection, "POST", "/mutate", body(uid=uid)).json["response"]["uid"] == uid for uid in uids}

    with ThreadPoolExecutor(16) as pool:
        assert set().union(*pool.map(client, range(16))) == {True}


def test_bug_39_drains_before_it_ends(folder: Path) -> None:
    """Bug 39: after SIGTERM all goes on for a while, and each answer ends its connection, an old one or a new one."""
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
    assert "pod" in events  # its line waits for others, but not for ever


def test_bug_41_a_silent_peer_does_not_hold_it(folder: Path) -> None:
    """Bug 41: open connections that say nothing, before and after the handshake, and a half-sent body."""
    with child(folder, "--grace", "1") as running, contextlib.ExitStack() as open_:
        open_.enter_context(socket.create_connection(("127.0.0.1", running.port)))
        open_.enter_context(tls_socket(running))
        half = open_.enter_context(tls_socket(running))
        half.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
        start = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - start < 20  # without a bound: 30 s for the handshake alone


def test_settings_from_variables_reach_the_server(folder: Path) -> None:
    """RANKFIX_* decide as flags do."""
    with child(folder, env={"RANKFIX_DEFAULT_MODE": "off", "RANKFIX_PORT": "tcp://10.0.0.1:443"}) as running:
        reply = running.ask("POST", "/mutate", SMALL)
    assert reply.json["response"] == {"uid": UID, "allowed": True} | reply.json["response"]
    assert "patch" not in reply.json["response"]


def test_bug_47_no_secret_gets_out(folder: Path) -> None:
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
        sock = listen(host, 0)
    except CannotListen:
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
        with listen("*", 0) as sock:
            assert sock.family is socket.AF_INET


def test_a_port_that_is_taken() -> None:
    """One line that names the address and the way out."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=rf"127\.0\.0\.1 port {port}: Address already in use: choose another"):
            listen("127.0.0.1", port)


def test_plain_http_only_if_asked_for(folder: Path) -> None:
    """--plain-http serves what an ingress sends."""
    with threaded(folder, plain_http=True) as (running, _):
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=5)
        assert ask(connection, "POST", "/mutate", SMALL).status == 200
        connection.close()

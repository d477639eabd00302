"""`webhook.probe`: what the server knows of itself as a client sees it, and for how long that is believed."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.support_edges import threaded
from tests.support_tls import authority, leaf, pair, volume
from webhook import probe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from certs.issue import Identity


def test_a_verdict_is_believed_for_a_while() -> None:
    """Never looked: not ready. Then the verdict, until it is too old; a look that fails changes nothing but the age."""
    clock, verdicts = [100.0], iter(["bad", None])

    def check() -> str | None:
        try:
            return next(verdicts)
        except StopIteration:
            raise probe.Unknown("nobody answers") from None

    made = probe.Probe("trust", check, max_age=60, clock=lambda: clock[0])
    assert made.not_ready() == "trust: not looked at yet"
    made.look()
    assert made.not_ready() == "trust: bad"
    made.look()
    assert made.not_ready() is None
    clock[0] += 60
    made.look()
    assert made.not_ready() is None
    clock[0] += 1
    assert made.not_ready() == "trust: not known for 61 s (nobody answers)"


def test_what_was_good_lately_is_not_looked_at_again() -> None:
    """A bad verdict is looked at again at once, a good one when it isn't fresh any more."""
    clock, verdicts = [0.0], ["one", None, None]
    made = probe.Probe("trust", lambda: verdicts.pop(0), 60, lambda: clock[0], fresh=30)
    for moment, left in ((0, 2), (2, 1), (4, 1), (31, 1), (32, 0)):
        clock[0] = moment
        made.look()
        assert len(verdicts) == left


def test_what_could_never_be_known() -> None:
    """A cluster that can't be asked from the start: the reason is said."""

    def check() -> str | None:
        raise probe.Unknown("forbidden")

    made = probe.Probe("trust", check, max_age=60, clock=lambda: 0.0)
    made.look()
    assert made.not_ready() == "trust: forbidden"


def test_a_beat_goes_on_until_it_is_stopped() -> None:
    """At once, then again and again."""
    calls, enough = [0], threading.Event()

    def job() -> None:
        calls[0] += 1
        if calls[0] >= 3:
            enough.set()

    beat = probe.Beat(0.01, job)
    beat.start()
    assert enough.wait(10)
    beat.stop()
    time.sleep(0.1)
    before = calls[0]
    time.sleep(0.1)
    assert calls[0] == before


@pytest.fixture(name="ca")
def _ca() -> Identity:
    return authority()


@pytest.fixture(name="identity")
def _identity(ca: Identity) -> Identity:
    return pair(ca)


@pytest.fixture(name="port")
def _port(tmp_path: Path, ca: Identity, identity: Identity) -> Iterator[int]:
    folder = volume(tmp_path / "tls", identity).path
    (folder / "ca.crt").write_bytes(ca.certificate)
    with threaded(folder) as (running, _):
        yield running.port


def test_bug_12_our_own_listener(port: int, identity: Identity) -> None:
    """Bug 12: it answers a handshake with the certificate that is meant; anything else is told apart."""
    where = ("127.0.0.1", port)
    assert probe.own_listener(lambda: where, lambda: leaf(identity)) is None
    assert "another certificate" in (probe.own_listener(lambda: where, lambda: b"other") or "")
    leaves = iter([b"old", leaf(identity)])
    assert probe.own_listener(lambda: where, lambda: next(leaves)) is None
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = closed.getsockname()[:2]
    assert "doesn't answer" in (probe.own_listener(lambda: gone, lambda: b"") or "")


def test_our_own_listener_among_several(port: int, identity: Identity) -> None:
    """Where another process may have answered, one that took the new pair a moment before us, it's asked again."""
    where = ("127.0.0.1", port)
    leaves = iter([b"old", b"old", leaf(identity), leaf(identity)])
    assert probe.own_listener(lambda: where, lambda: next(leaves), again_after=0.01) is None
    assert "another" in (probe.own_listener(lambda: where, lambda: b"other", again_after=0.01) or "")


def test_bug_12_trust(port: int, ca: Identity, identity: Identity) -> None:
    """Bug 12: the caBundle verifies the leaf under the name that the API server asks for, or it is said why not."""
    name = "rankfix.ml.svc"

    def ask(pem: bytes, server: str = name) -> str | None:
        return probe.trust(lambda: ("127.0.0.1", port), lambda: [("pods", pem, server)])

    assert ask(ca.certificate) is None
    assert ask(authority().certificate + ca.certificate) is None
    assert ask(identity.certificate) is None  # Go takes a leaf as its own root
    assert "doesn't verify" in (ask(authority().certificate) or "")
    assert "doesn't verify" in (ask(ca.certificate, "other.ml.svc") or "")
    for pem in (b"", b"garbage", b"\xff"):
        assert ask(pem) == "webhook pods has no caBundle yet"


def test_trust_is_unknown_where_our_port_is_silent(ca: Identity) -> None:
    """That is the other probe's to say."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = closed.getsockname()[:2]
    with pytest.raises(probe.Unknown):
        probe.trust(lambda: gone, lambda: [("pods", ca.certificate, "rankfix.ml.svc")])


@pytest.mark.parametrize(
    ("bound", "dual", "dialled"),
    [
        ("0.0.0.0", False, "127.0.0.1"),  # noqa: S104 - a server's usual place
        ("127.0.0.1", False, "127.0.0.1"),
        ("::", True, "127.0.0.1"),
        ("::", False, "::1"),
        ("::1", False, "::1"),
    ],
)
def test_where_we_are(*, bound: str, dual: bool, dialled: str) -> None:
    """Bug 45: a server on every address is dialled on loopback, of the family that it surely has."""
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    try:
        listening = socket.create_server((bound, 0), family=family, dualstack_ipv6=dual)
    except OSError:
        pytest.skip(f"this machine can't listen on {bound}")
    with listening as sock:
        assert probe.reachable(sock) == (dialled, sock.getsockname()[1])
        socket.create_connection(probe.reachable(sock), timeout=5).close()


def test_a_peer_that_speaks_no_tls() -> None:
    """A stranger on our port is no answer."""
    with socket.create_server(("127.0.0.1", 0)) as sock:

        def answer() -> None:
            connection, _ = sock.accept()
            with connection:
                connection.recv(1)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert "doesn't answer" in (probe.own_listener(lambda: sock.getsockname()[:2], lambda: b"") or "")
        thread.join()

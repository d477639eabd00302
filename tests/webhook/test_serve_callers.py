"""`webhook.serve` where callers must show who they are: the API server may, others hear 403, probes need nothing."""

from __future__ import annotations

import contextlib
import ssl
import time
from typing import TYPE_CHECKING

import pytest

from tests.support_edges import Running, ask, body, threaded
from tests.support_tls import authority, client, pair, volume
from webhook import begin
from webhook.settings import BadSettings, load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from certs.issue import Identity

SMALL = body()
CALLERS = authority()


class Caller(Running):
    """A client with a certificate."""

    identity: Path

    def context(self) -> ssl.SSLContext:
        made = super().context()
        made.load_cert_chain(self.identity)
        return made


def calls(running: Running, folder: Path, identity: Identity) -> Caller:
    """The same server, for somebody who shows `identity`."""
    caller = Caller(running.port, running.folder)
    caller.identity = folder / "client.pem"
    caller.identity.write_bytes(identity.certificate + identity.key)
    return caller


@pytest.fixture(name="running")
def _running(tmp_path: Path) -> Iterator[Running]:
    """A server that lets `kube-apiserver` in."""
    ca = authority()
    folder = volume(tmp_path / "tls", pair(ca))
    (folder.path / "ca.crt").write_bytes(ca.certificate)
    (tmp_path / "callers.pem").write_bytes(CALLERS.certificate)
    with threaded(
        folder.path, client_ca=str(tmp_path / "callers.pem"), client_name="kube-apiserver,api.example.org"
    ) as (running, _):
        yield running


def test_the_api_server_may_call(running: Running, tmp_path: Path) -> None:
    """A certificate of the CA with one of the names: as if nothing had been asked, on one connection for long."""
    caller = calls(running, tmp_path, client(CALLERS, "kube-apiserver"))
    with contextlib.closing(caller.connect()) as connection:
        for _ in range(3):
            assert ask(connection, "POST", "/mutate", SMALL).status == 200


def test_who_shows_nothing_gets_403_and_probes_do_not(running: Running) -> None:
    """The kubelet has no certificate, and needs none for what it asks."""
    reply = running.ask("POST", "/mutate", SMALL)
    assert (reply.status, reply.headers["connection"]) == (403, "close")
    assert reply.json == {"error": "show a client certificate of the CA in the setting client-ca"}
    assert [running.ask("GET", path).status for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 200]
    assert b'rankfix_refused_total{cause="caller"} 1.0' in running.ask("GET", "/metrics").body


def test_another_name_gets_403(running: Running, tmp_path: Path) -> None:
    """Everybody in a cluster may have a certificate of its CA."""
    assert calls(running, tmp_path, client(CALLERS, "kubelet")).ask("POST", "/mutate", SMALL).status == 403


def test_another_authority_gets_no_handshake(running: Running, tmp_path: Path) -> None:
    """What can't be verified is as good as forged."""
    stranger = calls(running, tmp_path, client(authority(), "kube-apiserver"))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        stranger.ask("POST", "/mutate", SMALL)
    assert b'rankfix_connections_ended_total{cause="tls"} 1.0' in running.ask("GET", "/metrics").body


def test_the_callers_authority_may_change(running: Running, tmp_path: Path) -> None:
    """Its file is followed as the server's own certificate is."""
    new = authority()
    caller = calls(running, tmp_path, client(new, "kube-apiserver"))
    (tmp_path / "callers.pem").write_bytes(CALLERS.certificate + new.certificate)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            assert caller.ask("POST", "/mutate", SMALL).status == 200
            break
    else:
        pytest.fail("the new authority's callers weren't let in")
    old = calls(running, tmp_path, client(CALLERS, "kube-apiserver"))
    assert old.ask("POST", "/mutate", SMALL).status == 200


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"client_ca": "x", "plain_http": True}, "client-ca: without TLS"),
        ({"client_name": "x"}, "client-name: .* give that CA as client-ca"),
    ],
)
def test_settings_that_contradict_each_other(flags: dict[str, object], said: str) -> None:
    """A check that nobody makes would look like one that is made."""
    with pytest.raises(BadSettings, match=said):
        begin.check(load(flags, environ={}).settings)

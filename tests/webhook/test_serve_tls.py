"""The running server and its certificate: swapped under live listeners, refused, waited for, and what /readyz says."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support_certs import CONFIGURATION, Kubelet, World, configuration, over_http
from tests.support_edges import Running, ask, body, child, threaded, until
from tests.support_tls import DAY, Volume, authority, leaf, pair, rsa_pair, volume
from webhook import tls

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from certs.issue import Identity


def shown(port: int, name: str | None) -> bytes:
    """The certificate that a client sees who names a server, or doesn't."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=name) as secure,
    ):
        found = secure.getpeercert(binary_form=True)
    assert found
    return found


def shows(running: Running, name: str | None, identity: Identity) -> Callable[[], bool]:
    return lambda: shown(running.port, name) == leaf(identity)


def with_ca(folder: Volume, ca: Identity) -> Volume:
    (folder.path / "ca.crt").write_bytes(ca.certificate)
    return folder


@pytest.mark.parametrize("name", ["rankfix.ml.svc", None])
def test_bug_5_a_new_pair_is_served_without_a_restart(tmp_path: Path, name: str | None) -> None:
    """Bugs 5 and 6: elliptic, RSA, elliptic, on the same listener, to clients that send SNI and that don't."""
    ca = authority()
    folder = with_ca(volume(tmp_path / "tls", pair(ca)), ca)
    with threaded(folder.path) as (running, _):
        for identity in (rsa_pair(), pair(ca)):
            folder.bring(identity)
            until(shows(running, name, identity))


def test_bug_3_a_connection_that_is_open_outlives_the_swap(tmp_path: Path) -> None:
    """Bug 3: no call fails for a new certificate: what is open stays, what is new sees the new one."""
    ca = authority()
    folder = with_ca(volume(tmp_path / "tls", pair(ca)), ca)
    with threaded(folder.path) as (running, _), contextlib.closing(running.connect()) as connection:
        assert ask(connection, "POST", "/mutate", body()).status == 200
        second = pair(ca)
        folder.bring(second)
        until(lambda: shown(running.port, None) == leaf(second))
        assert ask(connection, "POST", "/mutate", body()).status == 200


def test_bug_3_no_call_fails_while_pairs_change(tmp_path: Path) -> None:
    """Bug 3: new connections all the time, new pairs all the time: every handshake verifies, every call is answered."""
    ca = authority()
    folder = with_ca(volume(tmp_path / "tls", pair(ca)), ca)
    statuses: list[object] = []
    over = threading.Event()

    def call(running: Running) -> None:
        while not over.is_set():
            try:
                statuses.append(running.ask("POST", "/mutate", body()).status)
            except OSError as exc:
                statuses.append(exc)

    with threaded(folder.path) as (running, _):
        callers = [threading.Thread(target=call, args=(running,)) for _ in range(2)]
        for caller in callers:
            caller.start()
        seen = set()
        for _ in range(6):
            folder.bring(pair(ca))
            time.sleep(0.5)
            seen.add(shown(running.port, None))
        over.set()
        for caller in callers:
            caller.join()
    assert set(statuses) == {200}
    assert len(seen) > 1


def test_bug_6_readyz_says_what_was_refused(tmp_path: Path) -> None:
    """Bug 6: ready, since what is served is good, with a line that says what isn't."""
    ca = authority()
    folder = with_ca(volume(tmp_path / "tls", pair(ca)), ca)
    with threaded(folder.path) as (running, _):
        assert running.ask("GET", "/readyz").body == b"ok\n"
        folder.bring_files(pair().certificate, pair().key)
        until(lambda: running.ask("GET", "/readyz").body != b"ok\n")
        reply = running.ask("GET", "/readyz")
        assert reply.status == 200
        assert reply.body.startswith(b"ok\nstill serving the certificate before: ")
        metrics = running.ask("GET", "/metrics").body.decode()
        assert 'rankfix_certificate_reloads_total{outcome="refused"} 1.0' in metrics
        assert "rankfix_certificate_seconds_left 8" in metrics


def test_bug_1_an_expired_pair_is_served_but_not_ready(tmp_path: Path) -> None:
    """Bugs 1 and 12: /readyz is 503 and says why, until there's a good pair."""
    ca = authority(age=9 * DAY)
    folder = volume(tmp_path / "tls", pair(ca, age=3 * DAY, life=DAY))
    with threaded(folder.path) as (running, _):
        untrusting = unverified(running)
        assert untrusting("/healthz")[0] == 200
        status, text = untrusting("/readyz")
        assert (status, text[:40]) == (503, "not ready: the certificate is expired at")
        folder.bring(pair(ca))
        until(lambda: untrusting("/readyz")[0] == 200)


def unverified(running: Running) -> Callable[[str], tuple[int, str]]:
    """A client that takes any certificate, as the kubelet's probes do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def get(path: str) -> tuple[int, str]:
        with contextlib.closing(http.client.HTTPSConnection("127.0.0.1", running.port, context=context)) as connection:
            reply = ask(connection, "GET", path)
            return reply.status, reply.body.decode()

    return get


def test_the_start_waits_for_a_pair(tmp_path: Path) -> None:
    """A pod may start before its Secret is filled."""
    ca = authority()
    folder = volume(tmp_path / "tls", pair(ca))
    folder.bring_files(b"", b"")
    timer = threading.Timer(1.0, with_ca(folder, ca).bring, [pair(ca)])
    timer.start()
    with threaded(folder.path, cert_wait=60) as (running, log):
        assert running.ask("GET", "/readyz").status == 200
        assert log.getvalue().count('"waiting"') == 1
    timer.join()


def test_the_wait_has_an_end(tmp_path: Path) -> None:
    """Nothing came: the start fails with the reason."""
    folder = volume(tmp_path / "tls", pair())
    folder.bring_files(b"", b"")
    started = time.monotonic()
    with pytest.raises(tls.BadCertificate, match="no usable PEM pair"), threaded(folder.path, cert_wait=0.5):
        pass
    assert time.monotonic() - started >= timedelta(seconds=0.5).total_seconds()


def test_bug_4_a_server_that_makes_its_own_certificate(tmp_path: Path) -> None:
    """--manage-certs on an empty cluster: the process beside makes the Secret, the kubelet brings it, the server that
    waited for it begins, and is ready as soon as the caBundle is seen to verify it; at its end the Lease is given back.
    """
    world = World()
    world.api.put(CONFIGURATION, configuration())
    folder = Volume(tmp_path / "tls")
    kubelet = Kubelet(world, folder)
    kubelet.start()
    flags = [
        "--manage-certs", "--cert-wait=60", "--namespace=ml", "--service=rankfix", "--dns-name=localhost",
        "--webhook-config=rankfix.example.org",
    ]  # fmt: skip
    with (
        over_http(world.api, tmp_path) as kubeconfig,
        child(folder.path, *flags, env={"KUBECONFIG": str(kubeconfig)}) as running,
    ):
        get = unverified(running)
        until(lambda: get("/readyz") == (200, "ok\n"))
        assert any('"certs"' in line and "NewLeaf" in line for line in running.said)
        assert running.stop() == 0
    kubelet.over.set()
    assert world.bundle() == world.signer().pem
    lease = world.api.objects["/apis/coordination.k8s.io/v1/namespaces/ml/leases/rankfix-certs"]
    assert lease["spec"]["holderIdentity"] == ""

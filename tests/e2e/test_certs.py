"""`rankfix-certs` on a real API server: versions, patches, rights and Leases behave as tests in memory assume."""

from __future__ import annotations

import base64
import http.client
import itertools
import os
import socket
import ssl
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from certs import inspect, store
from certs.drive import Conflict, Issuer, Run, finish
from certs.issue import service_names
from certs.lease import Lease
from certs.replicas import ask
from certs.rotate import Answer, Held, Wish
from tests.support_edges import REPO, child
from tests.support_tls import Volume

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from certs.replicas import Address
    from tests.e2e.controlplane import ControlPlane

pytestmark = pytest.mark.e2e
NUMBERS = itertools.count()


def now() -> datetime:
    return datetime.now(UTC)


class Site:
    """A namespace with a webhook configuration of its own, and the account that may keep its certificates."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.namespace = plane.namespace(f"certs-{next(NUMBERS)}")
        self.configuration = f"{self.namespace}.example.org"
        self.place = store.Place(self.namespace, "rankfix-tls", "rankfix", self.configuration)
        plane.create(store.CONFIGURATIONS, self._configuration(["first", "pods", "last"]))
        self.kubeconfig = plane.kubeconfig_for(self._account(), self.namespace)
        self.api = store.connect(self.kubeconfig)

    def _configuration(self, names: Sequence[str]) -> dict[str, Any]:
        def entry(name: str) -> dict[str, Any]:
            service = {"namespace": self.namespace, "name": "rankfix" if name == "pods" else name, "path": "/mutate"}
            return {
                "name": f"{name}.example.org",
                "clientConfig": {"service": service},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "failurePolicy": "Ignore",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            }

        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": self.configuration},
            "webhooks": [entry(name) for name in names],
        }

    def _account(self) -> str:
        """What docs/certificates.md says that the account needs, and nothing else."""
        space = f"/api/v1/namespaces/{self.namespace}"
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        self.plane.create(f"{space}/serviceaccounts", {"metadata": {"name": "keeper"}})
        subject = [{"kind": "ServiceAccount", "name": "keeper", "namespace": self.namespace}]
        rules = [
            rule("", "secrets", ["get", "update"], "rankfix-tls"),
            rule("", "secrets", ["create"]),
            rule("discovery.k8s.io", "endpointslices", ["list"]),
            rule("coordination.k8s.io", "leases", ["get", "update"], "rankfix-certs"),
            rule("coordination.k8s.io", "leases", ["create"]),
        ]
        wide = [
            rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", ["get", "patch"], self.configuration)
        ]
        for path, kind, found in (
            (f"{rbac}/namespaces/{self.namespace}", "Role", rules),
            (rbac, "ClusterRole", wide),
        ):
            self.plane.create(f"{path}/{kind.lower()}s", {"metadata": {"name": self.namespace}, "rules": found})
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": self.namespace}
            binding = {"metadata": {"name": self.namespace}, "roleRef": reference, "subjects": subject}
            self.plane.create(f"{path}/{kind.lower()}bindings", binding)
        return self.plane.token(self.namespace, "keeper")

    def cluster(self, served: tuple[Answer, ...] = ()) -> store.KubeCluster:
        def nobody(_addresses: Sequence[Address]) -> tuple[Answer, ...]:
            return served

        return store.KubeCluster(self.api, self.place, nobody)

    def run(self, cluster: store.KubeCluster | None = None, **wish: Any) -> Run:
        names = service_names("rankfix", self.namespace)
        found = {"names": inspect.Names.of(names, ()), "settle": timedelta(seconds=0.1), **wish}
        return Run(cluster or self.cluster(), Wish(**found), Issuer(names), clock=now)

    def bundle(self, name: str = "pods") -> bytes:
        entries = self.plane.get(f"{store.CONFIGURATIONS}/{self.configuration}")["webhooks"]
        (entry,) = [entry for entry in entries if entry["name"] == f"{name}.example.org"]
        return base64.b64decode(entry["clientConfig"].get("caBundle") or "")

    def signer(self) -> inspect.Certificate:
        held = self.cluster().held()
        assert held
        return inspect.certificates(held.authorities)[0]

    def change(self, names: Sequence[str]) -> None:
        """A GitOps tool writes the configuration anew, in another order and without a caBundle."""
        path = f"{store.CONFIGURATIONS}/{self.configuration}"
        version = self.plane.get(path)["metadata"]["resourceVersion"]
        wanted = self._configuration(names)
        wanted["metadata"]["resourceVersion"] = version
        self.plane.request("PUT", path, wanted).must()


def rule(group: str, resource: str, verbs: list[str], name: str = "") -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "resources": [resource],
        "verbs": verbs,
        **({"resourceNames": [name]} if name else {}),
    }


def wait(_seconds: float) -> None:
    time.sleep(0.1)


@pytest.fixture(name="site")
def _site(plane: ControlPlane) -> Iterator[Site]:
    site = Site(plane)
    yield site
    plane.delete(f"{store.CONFIGURATIONS}/{site.configuration}")


def test_bug_10_install_by_name_whatever_the_order(site: Site) -> None:
    """Bugs 9 and 10: our entry gets the caBundle, the others none; reordered and blanked, it gets it again."""
    assert finish(site.run(), sleep=wait, timeout=timedelta(minutes=1))
    good = site.bundle()
    assert good == site.signer().pem
    assert site.bundle("first") == site.bundle("last") == b""
    site.change(["last", "first", "pods"])
    assert site.bundle() == b""
    assert finish(site.run(), sleep=wait, timeout=timedelta(minutes=1))
    assert site.bundle() == good
    before = site.plane.get(f"{store.CONFIGURATIONS}/{site.configuration}")
    assert [entry["name"] for entry in before["webhooks"]] == [
        "last.example.org",
        "first.example.org",
        "pods.example.org",
    ]
    assert before["webhooks"][2]["failurePolicy"] == "Ignore"


def test_an_old_version_is_refused(site: Site) -> None:
    """Bug 4: Secret and configuration are written at the version that was read, or not at all."""
    cluster = site.cluster()
    cluster.write(Held("", b"1"))
    held, published = cluster.held(), cluster.published()
    assert held
    assert published
    with pytest.raises(Conflict):
        cluster.write(Held("", b"1"))
    cluster.write(Held(held.version, b"2"))
    with pytest.raises(Conflict):
        cluster.write(Held(held.version, b"3"))
    site.change(["pods"])
    with pytest.raises(Conflict):
        cluster.publish(site_pem(), ["pods.example.org"], published.version)


def site_pem() -> bytes:
    return Issuer(("a",)).authority(now()).certificate


def test_an_entry_that_vanished_is_not_made_anew(site: Site) -> None:
    """Bug 10: a merge by name must not add half an entry."""
    published = site.cluster().published()
    assert published
    with pytest.raises(store.ApiError):
        site.cluster().publish(site_pem(), ["gone.example.org"], published.version)
    assert len(site.plane.get(f"{store.CONFIGURATIONS}/{site.configuration}")["webhooks"]) == 3


def test_bug_4_five_processes_install_at_once(site: Site) -> None:
    """Five Jobs on an empty cluster: all end well, one authority."""
    words = ["issue", f"--namespace={site.namespace}", "--service=rankfix", f"--webhook-config={site.configuration}"]
    command = [sys.executable, "-m", "certs", *words, f"--kubeconfig={site.kubeconfig}"]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    jobs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) for _ in range(5)]
    ended = [(job.communicate()[1], job.returncode) for job in jobs]
    assert [code for _, code in ended] == [0] * 5, ended
    assert site.bundle() == site.signer().pem
    held = site.cluster().held()
    assert held
    assert inspect.issued(inspect.certificates(held.certificate)[0], by=site.signer())


def test_a_crash_after_each_step_is_continued(site: Site) -> None:
    """Bug 3: runs that end after one step, two, three ...; at no step does the leaf of the Secret lack trust."""
    assert finish(site.run(), sleep=wait, timeout=timedelta(minutes=1))
    old = site.signer()
    for length in itertools.count(1):
        run = site.run(replace=old.fingerprint)
        over = True
        for number, _ in enumerate(run.steps()):
            held = site.cluster().held()
            assert held
            assert inspect.trusted(
                inspect.certificates(held.certificate)[0], inspect.certificates(site.bundle()), now()
            )
            wait(0)
            if number == length:
                over = False
                break
        if over:
            break
    assert site.signer() != old
    assert site.bundle() == site.signer().pem


def test_replicas_are_asked_at_their_endpoints(site: Site, tmp_path: Path) -> None:
    """Bug 3: the old authority stays until the server behind the Service's EndpointSlice shows the new leaf."""
    host = own_address()
    assert finish(site.run(), sleep=wait, timeout=timedelta(minutes=1))
    folder = Volume(tmp_path / "tls")
    with_secret(site, folder)
    with child(folder.path, "--host=*") as running:
        site.plane.create(
            f"/apis/discovery.k8s.io/v1/namespaces/{site.namespace}/endpointslices",
            {
                "metadata": {"name": "rankfix-1", "labels": {"kubernetes.io/service-name": "rankfix"}},
                "addressType": "IPv4",
                "ports": [{"name": "https", "port": running.port}],
                "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
            },
        )
        name = f"rankfix.{site.namespace}.svc"
        cluster = store.KubeCluster(site.api, site.place, lambda addresses: ask(addresses, name=name))
        waited = []
        for action in site.run(cluster, replace=site.signer().fingerprint).steps():
            if action and type(action).__name__ == "AwaitReplicas":
                waited.append(action.why)
                assert len(inspect.certificates(site.bundle())) == 2
                with_secret(site, folder)
                wait(0)
                assert len(waited) < 300
            elif action and type(action).__name__ == "Settle":
                wait(0)
        assert waited
        assert waited[0] == f"not yet served by {host}:{running.port}"
        assert len(inspect.certificates(site.bundle())) == 1


def with_secret(site: Site, folder: Volume) -> None:
    """What the kubelet does."""
    held = site.cluster().held()
    assert held
    if not (folder.path / "tls.crt").exists() or (folder.path / "tls.crt").read_bytes() != held.certificate:
        folder.bring_files(held.certificate, held.key)
    (folder.path / "ca.crt").write_bytes(held.authorities)


def own_address() -> str:
    """An address that isn't loopback, which EndpointSlices refuse."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this machine has no address but loopback, and an EndpointSlice takes none of those")
        return str(sock.getsockname()[0])


def test_a_lease_has_one_holder(site: Site) -> None:
    """Taken, refused, given back, taken: with the rights that the account has."""
    first, second = (Lease(site.api, site.namespace, "rankfix-certs", holder, now) for holder in "ab")
    assert first.hold()
    assert not second.hold()
    assert first.hold()
    first.release()
    assert second.hold()
    assert not first.hold()


def test_bug_12_readiness_knows_the_clusters_bundle(site: Site, tmp_path: Path) -> None:
    """Not ready while the caBundle doesn't verify what is served, and ready soon after it does."""
    assert finish(site.run(), sleep=wait, timeout=timedelta(minutes=1))
    folder = Volume(tmp_path / "tls")
    with_secret(site, folder)
    good = site.bundle()
    site.change(["pods"])
    flags = [f"--webhook-config={site.configuration}", f"--namespace={site.namespace}"]
    with child(folder.path, *flags, env={"KUBECONFIG": str(site.kubeconfig)}) as running:
        assert (
            awaited(running.port, 503, "no caBundle")
            == "not ready: trust: webhook pods.example.org has no caBundle yet\n"
        )
        published = site.cluster().published()
        assert published
        site.cluster().publish(good, ["pods.example.org"], published.version)
        assert awaited(running.port, 200, "ok") == "ok\n"


def awaited(port: int, status: int, said: str) -> str:
    """The text of /readyz, as soon as it has that status and says that."""
    seen = set()
    for _ in range(300):
        found, text = readyz(port)
        if found == status and said in text:
            return text
        seen.add((found, text))
        wait(0)
    raise AssertionError(seen)


def readyz(port: int) -> tuple[int, str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)
    connection.request("GET", "/readyz")
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found

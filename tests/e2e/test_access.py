"""RBAC: what server and certificate jobs may do is what they need, verb by verb, and nothing else."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from certs import store
from certs.issue import CertsError
from certs.lease import Lease
from tests.e2e.installation import CONFIGURATIONS, certs, stream
from tests.support_deploy import Objects, one, rendered
from webhook import kube
from webhook.probe import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

NAMESPACE = "rankfix-access"
WIDE = f"rankfix.{NAMESPACE}"
ROLES = {"Role", "ClusterRole"}
OURS = {*ROLES, "RoleBinding", "ClusterRoleBinding", "ServiceAccount", "MutatingWebhookConfiguration"}
JOBS = rendered(namespace=NAMESPACE)
SERVE = rendered({"certs": {"mode": "serve"}}, namespace=NAMESPACE)
Verb = tuple[str, str, str, str]


def verbs(objects: Objects, account: str) -> list[Verb]:
    """Each verb of each rule of the roles that an account is bound to."""
    bound = {
        (item["roleRef"]["kind"], item["roleRef"]["name"])
        for (kind, _), item in objects.items()
        if kind.endswith("RoleBinding") and item["subjects"][0]["name"] == account
    }
    rules = [(*key, rule) for key in bound for rule in objects[key]["rules"]]
    return sorted((kind, name, rule["resources"][0], verb) for kind, name, rule in rules for verb in rule["verbs"])


def without(objects: Objects, missing: Verb) -> Objects:
    """The manifests with one verb less."""
    made = copy.deepcopy(objects)
    kind, name, resource, verb = missing
    for rule in made[kind, name]["rules"]:
        assert len(rule["resources"]) == 1
        if rule["resources"] == [resource] and verb in rule["verbs"]:
            rule["verbs"].remove(verb)
    made[kind, name]["rules"] = [rule for rule in made[kind, name]["rules"] if rule["verbs"]]
    return made


class Cluster:
    """A cluster in which an account has the rights of some manifests, and does the work of them."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        plane.namespace(NAMESPACE)

    def allow(self, objects: Objects) -> None:
        kept = {key: item for key, item in objects.items() if key[0] in OURS}
        self.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=stream(kept))

    def clean(self) -> None:
        self.plane.delete(f"/api/v1/namespaces/{NAMESPACE}/secrets/rankfix-tls")
        self.plane.delete(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/rankfix-certs")
        kept = {k: item for o in (JOBS, SERVE) for k, item in o.items() if k[0] in OURS - {"ServiceAccount"}}
        self.plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=stream(kept))

    def keep(self, account: str) -> list[str]:
        """What there is to do about certificates: the first, then a renewal that waits for nobody; what was refused."""
        kubeconfig = self.plane.kubeconfig_for(self.plane.token(NAMESPACE, account), account)
        args = [*one(JOBS, "Job")["spec"]["template"]["spec"]["containers"][0]["args"][1:], "--timeout=0", "--settle=0"]
        where = f"--kubeconfig={kubeconfig}"
        return [certs("issue", *args, where), certs("rotate", "--force", *args, where)]

    def lead(self, account: str) -> str:
        """Take the Lease and renew it; what was refused."""
        kubeconfig = self.plane.kubeconfig_for(self.plane.token(NAMESPACE, account), account)
        lease = Lease(store.connect(kubeconfig), NAMESPACE, "rankfix-certs", "me", clock=lambda: datetime.now(UTC))
        try:
            assert [lease.hold(), lease.hold()] == [True, True]
        except CertsError as exc:
            return str(exc)
        return ""

    def look(self, account: str) -> str:
        """Ask for the caBundle, as the server does; what was refused."""
        token = self.plane.token(NAMESPACE, account)

        def get(path: str) -> tuple[int, Any]:
            reply = self.plane.request("GET", path, token=token)
            return reply.status, reply.body

        try:
            kube.bundles(get, configuration=WIDE, namespace=NAMESPACE, service="rankfix", webhook="")
        except Unknown as exc:
            return str(exc)
        return ""


@pytest.fixture(name="cluster")
def _cluster(plane: ControlPlane) -> Iterator[Cluster]:
    made = Cluster(plane)
    yield made
    made.clean()


def test_the_rights_are_enough(cluster: Cluster) -> None:
    """The jobs make a certificate, publish its authority, and are never told that they may not."""
    cluster.allow(JOBS)
    said = cluster.keep("rankfix-certs")
    assert said[0] == ""
    assert "forbidden" not in said[1]
    assert cluster.look("rankfix") == ""
    entry = cluster.plane.get(f"{CONFIGURATIONS}/{WIDE}")["webhooks"][0]
    assert entry["clientConfig"]["caBundle"]
    assert cluster.plane.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/rankfix-tls")["type"] == "kubernetes.io/tls"


def test_a_server_that_keeps_certificates_has_enough(cluster: Cluster) -> None:
    """Profile serve: all of that by the server's own account, and the Lease."""
    cluster.allow(SERVE)
    assert not [text for text in cluster.keep("rankfix") if "forbidden" in text]
    assert cluster.lead("rankfix") == cluster.look("rankfix") == ""


@pytest.mark.parametrize("missing", verbs(JOBS, "rankfix-certs"), ids="-".join)
def test_each_verb_of_the_jobs_is_needed(cluster: Cluster, missing: Verb) -> None:
    """Without it, they are told that they may not."""
    cluster.allow(without(JOBS, missing))
    assert any(f'cannot {missing[3]} resource "{missing[2]}"' in text for text in cluster.keep("rankfix-certs"))


@pytest.mark.parametrize("missing", verbs(JOBS, "rankfix"), ids="-".join)
def test_each_verb_of_the_server_is_needed(cluster: Cluster, missing: Verb) -> None:
    """Without it, /readyz couldn't know whether the API server trusts us."""
    cluster.allow(without(JOBS, missing))
    assert f'cannot {missing[3]} resource "{missing[2]}"' in cluster.look("rankfix")


@pytest.mark.parametrize("missing", verbs(SERVE, "rankfix"), ids="-".join)
def test_each_verb_of_profile_serve_is_needed(cluster: Cluster, missing: Verb) -> None:
    """Without it, the server is told that it may not."""
    cluster.allow(without(SERVE, missing))
    said = [*cluster.keep("rankfix"), cluster.lead("rankfix")]
    assert any(f'cannot {missing[3]} resource "{missing[2]}"' in text for text in said)


@pytest.mark.parametrize("objects", [JOBS, SERVE], ids=["jobs", "serve"])
def test_there_are_no_wildcards(objects: Objects) -> None:
    """Each rule names its verbs, its resources and, but where the API has no name yet, its objects."""
    rules = [rule for (kind, _), item in objects.items() if kind in ROLES for rule in item["rules"]]
    assert "*" not in [word for rule in rules for part in rule.values() for word in part]
    unnamed = {(rule["resources"][0], *rule["verbs"]) for rule in rules if "resourceNames" not in rule}
    assert unnamed <= {("secrets", "create"), ("endpointslices", "list"), ("leases", "create")}


FOREIGN: list[tuple[str, str, Any]] = [
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/other", None),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets", None),
    ("DELETE", f"/api/v1/namespaces/{NAMESPACE}/secrets/rankfix-tls", None),
    ("GET", "/api/v1/namespaces/team-a/secrets/rankfix-tls", None),
    ("GET", f"{CONFIGURATIONS}/other", None),
    ("GET", CONFIGURATIONS, None),
    ("DELETE", f"{CONFIGURATIONS}/{WIDE}", None),
    ("POST", CONFIGURATIONS, {"metadata": {"name": "mine"}}),
    ("GET", "/api/v1/pods", None),
    ("GET", "/api/v1/nodes", None),
]


def test_the_rights_end_there(cluster: Cluster) -> None:
    """Other objects, other verbs, other namespaces: forbidden, to the jobs, the server, and one that does both."""
    for objects, account in ((JOBS, "rankfix-certs"), (JOBS, "rankfix"), (SERVE, "rankfix")):
        cluster.allow(objects)
        token = cluster.plane.token(NAMESPACE, account)
        for method, path, body in FOREIGN:
            assert cluster.plane.request(method, path, body, token=token).status == 403, (account, method, path)


def test_the_server_may_look_only(cluster: Cluster) -> None:
    """Where jobs keep the certificate, the server reads its configuration, and no Secret."""
    cluster.allow(JOBS)
    assert verbs(JOBS, "rankfix") == [("ClusterRole", WIDE, "mutatingwebhookconfigurations", "get")]
    token = cluster.plane.token(NAMESPACE, "rankfix")
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/rankfix-tls"
    media = "application/merge-patch+json"
    assert cluster.plane.request("GET", secret, token=token).status == 403
    assert cluster.plane.request("PATCH", f"{CONFIGURATIONS}/{WIDE}", {}, token=token, media=media).status == 403

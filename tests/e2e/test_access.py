"""RBAC: what the certificate jobs may do is what they need, verb by verb, and nothing else."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.installation import CONFIGURATIONS, job, stream
from tests.support_deploy import Objects, rendered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

NAMESPACE = "rankfix-access"
ROLES = {"Role", "ClusterRole"}
OBJECTS = rendered(namespace=NAMESPACE)


OURS = {*ROLES, "RoleBinding", "ClusterRoleBinding", "ServiceAccount", "MutatingWebhookConfiguration"}
WIDE = f"rankfix.{NAMESPACE}"


def verbs(suffix: str) -> list[tuple[str, str, str, str]]:
    """Each verb of each rule of the roles whose names end so."""
    return [
        (kind, name, rule["resources"][0], verb)
        for (kind, name), item in OBJECTS.items()
        if kind in ROLES and name.endswith(suffix)
        for rule in item["rules"]
        for verb in rule["verbs"]
    ]


def without(kind: str, name: str, resource: str, verb: str) -> Objects:
    """The manifests with one verb less."""
    made = copy.deepcopy(OBJECTS)
    role = made[kind, name]
    for rule in role["rules"]:
        assert len(rule["resources"]) == 1
        if rule["resources"] == [resource] and verb in rule["verbs"]:
            rule["verbs"].remove(verb)
    role["rules"] = [rule for rule in role["rules"] if rule["verbs"]]
    return made


@pytest.fixture(name="jobs")
def _jobs(plane: ControlPlane) -> Iterator[Jobs]:
    made = Jobs(plane)
    yield made
    made.clean()


class Jobs:
    """Runs the commands of the manifests' jobs as their ServiceAccount."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        plane.namespace(NAMESPACE)

    def allow(self, objects: Objects) -> None:
        kept = {key: item for key, item in objects.items() if key[0] in OURS}
        self.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=stream(kept))

    def clean(self) -> None:
        self.plane.delete(f"/api/v1/namespaces/{NAMESPACE}/secrets/rankfix-tls")
        self.plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=stream(_cluster_wide()))

    def run(self, kind: str, *more: str) -> str:
        """What the command of a Job or CronJob complains about; nothing, if it has done its work."""
        return job(self.plane, OBJECTS, kind, "--timeout=0", "--settle=0", *more)


def _cluster_wide() -> Objects:
    return {key: item for key, item in OBJECTS.items() if key[0] in OURS - {"ServiceAccount"}}


def work(jobs: Jobs) -> list[str]:
    """First installation, a renewal that nobody waits for, and what each complained about."""
    return [jobs.run("Job"), jobs.run("CronJob", "--force")]


def test_the_rights_are_enough(jobs: Jobs) -> None:
    """The jobs make a certificate, publish its authority, and are never told that they may not."""
    jobs.allow(OBJECTS)
    said = work(jobs)
    assert said[0] == ""
    assert "forbidden" not in said[1]
    entry = jobs.plane.get(f"{CONFIGURATIONS}/rankfix.{NAMESPACE}")["webhooks"][0]
    assert entry["clientConfig"]["caBundle"]
    assert jobs.plane.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/rankfix-tls")["type"] == "kubernetes.io/tls"


@pytest.mark.parametrize(("kind", "name", "resource", "verb"), verbs("-certs"))
def test_each_verb_is_needed(jobs: Jobs, kind: str, name: str, resource: str, verb: str) -> None:
    """Without it, the jobs are told that they may not."""
    jobs.allow(without(kind, name, resource, verb))
    assert any(f'cannot {verb} resource "{resource}"' in text for text in work(jobs))


def test_there_are_no_wildcards() -> None:
    """Each rule names its verbs, its resources and, but where the API has no name yet, its objects."""
    rules = [rule for (kind, _), item in OBJECTS.items() if kind in ROLES for rule in item["rules"]]
    assert "*" not in [word for rule in rules for part in rule.values() for word in part]
    unnamed = [(rule["resources"], rule["verbs"]) for rule in rules if "resourceNames" not in rule]
    assert unnamed == [(["secrets"], ["create"]), (["endpointslices"], ["list"])]


FOREIGN: list[tuple[str, str, Any]] = [
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/other", None),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets", None),
    ("DELETE", f"/api/v1/namespaces/{NAMESPACE}/secrets/rankfix-tls", None),
    ("GET", "/api/v1/namespaces/team-a/secrets/rankfix-tls", None),
    ("GET", f"{CONFIGURATIONS}/other", None),
    ("DELETE", f"{CONFIGURATIONS}/rankfix.{NAMESPACE}", None),
    ("POST", CONFIGURATIONS, {"metadata": {"name": "mine"}}),
    ("GET", "/api/v1/pods", None),
    ("GET", "/api/v1/nodes", None),
]


@pytest.mark.parametrize(("method", "path", "body"), FOREIGN)
def test_the_rights_end_there(jobs: Jobs, method: str, path: str, body: Any) -> None:
    """Other objects, other verbs, other namespaces: forbidden."""
    jobs.allow(OBJECTS)
    token = jobs.plane.token(NAMESPACE, "rankfix-certs")
    assert jobs.plane.request(method, path, body, token=token).status == 403


def test_the_server_may_look_only(jobs: Jobs) -> None:
    """It sees its own configuration, to know whether the API server trusts it, and nothing of Secrets."""
    assert verbs(WIDE) == [("ClusterRole", WIDE, "mutatingwebhookconfigurations", "get")]
    jobs.allow(OBJECTS)
    token = jobs.plane.token(NAMESPACE, "rankfix")
    assert jobs.plane.request("GET", f"{CONFIGURATIONS}/{WIDE}", token=token).status == 200
    assert jobs.plane.request("PATCH", f"{CONFIGURATIONS}/{WIDE}", {}, token=token).status in {403, 415}
    for path in (CONFIGURATIONS, f"/api/v1/namespaces/{NAMESPACE}/secrets/rankfix-tls"):
        assert jobs.plane.request("GET", path, token=token).status == 403

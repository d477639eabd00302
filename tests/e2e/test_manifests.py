"""Everything that can be rendered is what a real API server takes, to the last field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.e2e.installation import until
from tests.support_deploy import ROOT, Object, rendered
from tests.support_renderings import CASES

if TYPE_CHECKING:
    from tests.e2e.controlplane import ControlPlane

pytestmark = pytest.mark.e2e


def test_the_api_server_takes_every_rendering(plane: ControlPlane) -> None:
    """Server-side dry-run, strictly: no unknown field, no value out of bounds, each expression compiles."""
    plane.kubectl("apply", "-f", str(ROOT / "tests" / "data" / "crds" / "cert-manager.yaml"))
    until(lambda: plane.request("GET", "/apis/cert-manager.io/v1/namespaces/x/issuers").status == 200, "no CRDs")
    plane.namespace(namespace := "rankfix-system")
    every = [
        item
        for number, values in enumerate(CASES.values())
        for item in rendered(single_stack(values), name=f"rankfix-{number}", namespace=namespace).values()
    ]
    words = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
    ran = plane.try_kubectl(*words, stdin=yaml.safe_dump_all(every))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(ran.stdout.splitlines()) == len(every)


def single_stack(values: dict[str, Any]) -> dict[str, Any]:
    """The values, for this cluster, which has IPv4 only."""
    return (
        {**values, "service": {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4"]}}
        if "service" in values
        else values
    )


def test_a_cluster_without_ipv6_says_so(plane: ControlPlane) -> None:
    """Bug 45: to prefer two families, as by default, suits every cluster; to require them doesn't."""
    plane.namespace(namespace := "rankfix-families")
    path = f"/api/v1/namespaces/{namespace}/services?dryRun=All"
    for values, status in (({}, 201), (CASES["IPv6"], 422)):
        service = rendered(values, namespace=namespace)["Service", "rankfix"]
        assert plane.request("POST", path, service).status == status


@pytest.mark.parametrize("seconds", [0, 31])
def test_the_bounds_of_the_schema_are_the_api_servers(plane: ControlPlane, seconds: int) -> None:
    """Bug 46: what the schema refuses, the API server would have refused later."""
    configuration = next(v for (kind, _), v in rendered().items() if kind == "MutatingWebhookConfiguration")
    configuration["webhooks"][0]["timeoutSeconds"] = seconds
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations?dryRun=All"
    reply = plane.request("POST", path, configuration)
    assert (reply.status, "timeoutSeconds" in reply.body["message"]) == (422, True)


def test_pods_fit_the_restricted_profile(plane: ControlPlane) -> None:
    """The namespace enforces it, and a pod of the Deployment is let in."""
    objects = rendered(namespace="rankfix-restricted")
    plane.request("POST", "/api/v1/namespaces", objects["Namespace", "rankfix-restricted"])
    for kind in ("Deployment", "Job"):
        template = next(v for (k, _), v in objects.items() if k == kind)["spec"]["template"]
        spec = {key: value for key, value in template["spec"].items() if key != "priorityClassName"}
        pod: Object = {"metadata": {**template["metadata"], "name": "own"}, "spec": spec}
        path = "/api/v1/namespaces/rankfix-restricted/pods?dryRun=All"
        until(lambda: plane.request("POST", path, bad(pod)).status == 403, "the profile isn't enforced")  # noqa: B023 - called at once
        assert plane.request("POST", path, pod).status == 201


def bad(pod: Object) -> Object:
    """The same pod, on the host's network."""
    return {**pod, "spec": {**pod["spec"], "hostNetwork": True}}

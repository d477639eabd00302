"""The chart on a real API server: installed, upgraded and taken away by helm itself, while pods are created."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.e2e.installation import installation, leftovers, on_loopback, stream
from tests.e2e.traffic import load
from tests.support_deploy import CHART, HELM, NO_HELM, helm

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.controlplane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180), pytest.mark.skipif(HELM is None, reason=NO_HELM)]

NAMESPACE = "rankfix-helm"


def run(installed: Installation, *words: str) -> None:
    """Run helm in this cluster."""
    kubeconfig = str(installed.plane.kubeconfig)
    ran = helm(*words, "--kubeconfig", kubeconfig, "--namespace", NAMESPACE)
    assert ran.returncode == 0, ran.stderr


def dial_here(installed: Installation) -> None:
    """Let the installed Service lead to this machine."""
    local = on_loopback(installed.objects, installed.front.port)
    service = {key: item for key, item in local.items() if key[0] == "Service"}
    installed.plane.kubectl("delete", "service", "-n", NAMESPACE, "rankfix")
    installed.plane.kubectl("create", "-f", "-", stdin=stream(service))
    port = [{"op": "replace", "path": "/webhooks/0/clientConfig/service/port", "value": installed.front.port}]
    installed.plane.request("PATCH", installed.configuration, port, media="application/json-patch+json").must()


def test_helm_from_install_to_uninstall(plane: ControlPlane, tmp_path: Path) -> None:
    """Bug 14: an upgrade keeps the caBundle; an uninstall fails no pod and leaves nothing, not even a Secret."""
    with installation(plane, tmp_path, namespace=NAMESPACE) as made, contextlib.ExitStack() as stack:
        run(made, "install", "rankfix", str(CHART), "--create-namespace", "--set", "failurePolicy=Ignore")
        dial_here(made)
        made.make_certificate()
        stack.enter_context(made.server())
        made.await_repair()
        bundle = made.bundle()
        for values in ("timeoutSeconds=5", "timeoutSeconds=3"):
            plane.kubectl("delete", "service", "-n", NAMESPACE, "rankfix")  # helm makes the chart's own again
            run(made, "upgrade", "rankfix", str(CHART), "--set", values)
        dial_here(made)
        assert plane.get(made.configuration)["webhooks"][0]["failurePolicy"] == "Fail"
        assert made.bundle() == bundle
        made.await_repair()
        with load(made, pause=0.02) as pods:
            pods.wait(20)
            run(made, "uninstall", "rankfix")
            made.await_absence()
            pods.wait(10)
        assert pods.failed == []
        assert leftovers(plane, NAMESPACE) == []
        for path in (made.configuration, f"/api/v1/namespaces/{NAMESPACE}/secrets/rankfix-tls"):
            assert plane.request("GET", path).status == 404

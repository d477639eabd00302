"""The control plane that the other tests stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.controlplane import ControlPlane

pytestmark = pytest.mark.e2e


def test_answers_as_a_cluster_does(plane: ControlPlane) -> None:
    """An object that is made can be read, by the API and by kubectl, and a service account is nobody without RBAC."""
    namespace = plane.namespace("plane")
    plane.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "one"}, "data": {"a": "b"}})
    assert plane.get(f"/api/v1/namespaces/{namespace}/configmaps/one")["data"] == {"a": "b"}
    assert "one" in plane.kubectl("get", "configmaps", "-n", namespace, "-o", "name")
    plane.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "nobody"}})
    token = plane.token(namespace, "nobody")
    assert plane.request("GET", f"/api/v1/namespaces/{namespace}/secrets", token=token).status == 403
    kubeconfig = plane.kubeconfig_for(token, "nobody")
    assert plane.try_kubectl("get", "secrets", "-n", namespace, kubeconfig=kubeconfig).returncode == 1

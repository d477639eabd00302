"""What may be done with the API, and by whom. A test on a real API server shows each verb to be needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webhook.manifests.place import Object, Place

_RBAC = "rbac.authorization.k8s.io"
_WEBHOOKS = "admissionregistration.k8s.io"


def for_server(place: Place) -> list[Object]:
    """The right to see whether the API server trusts us; where the server keeps its certificate, to see to that too."""
    if place.values.certs.mode != "serve":
        return _granted(place, "Cluster", "webhook", "", [_configuration(place, ["get"])])
    return [
        *_granted(place, "", "webhook", "", [*_secret(place), *_replicas(), *_lease(place)]),
        *_granted(place, "Cluster", "webhook", "", [_configuration(place, ["get", "patch"])]),
    ]


def for_jobs(place: Place) -> list[Object]:
    """The rights to keep one Secret and one webhook configuration."""
    return [
        place.make("v1", "ServiceAccount", "certs", suffix="-certs", automountServiceAccountToken=False),
        *_granted(place, "", "certs", "-certs", [*_secret(place), *_replicas()]),
        *_granted(place, "Cluster", "certs", "-certs", [_configuration(place, ["get", "patch"])]),
    ]


def _configuration(place: Place, verbs: list[str]) -> Object:
    return _rule(_WEBHOOKS, "mutatingwebhookconfigurations", verbs, [place.wide])


def _secret(place: Place) -> list[Object]:
    # `create` can't be held to a name: the API server doesn't know it yet when it asks whether one may
    return [
        _rule("", "secrets", ["get", "update"], [place.secret]),
        _rule("", "secrets", ["create"]),
    ]


def _replicas() -> list[Object]:
    return [_rule("discovery.k8s.io", "endpointslices", ["list"])]


def _lease(place: Place) -> list[Object]:
    group = "coordination.k8s.io"
    return [_rule(group, "leases", ["get", "update"], [f"{place.name}-certs"]), _rule(group, "leases", ["create"])]


def _rule(group: str, resource: str, verbs: list[str], names: list[str] | None = None) -> Object:
    rule: Object = {"apiGroups": [group], "resources": [resource], "verbs": verbs}
    return rule | {"resourceNames": names} if names else rule


def _granted(place: Place, reach: str, component: str, suffix: str, rules: list[Object]) -> list[Object]:
    wide = bool(reach)
    role = place.make(f"{_RBAC}/v1", f"{reach}Role", component, suffix=suffix, wide=wide, rules=rules)
    bound = place.make(
        f"{_RBAC}/v1", f"{reach}RoleBinding", component, suffix=suffix, wide=wide,
        roleRef={"apiGroup": _RBAC, "kind": f"{reach}Role", "name": role["metadata"]["name"]},
        subjects=[{"kind": "ServiceAccount", "name": place.name + suffix, "namespace": place.namespace}],
    )  # fmt: skip
    return [role, bound]

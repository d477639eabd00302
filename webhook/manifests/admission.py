"""How the API server is told to ask: the webhook's configuration, and the guard behind one that fails open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.manifests.ours import RULE, conditions, namespaces
from webhook.manifests.place import ENTRY

if TYPE_CHECKING:
    from webhook.manifests.place import Object, Place

_ADMISSION = "admissionregistration.k8s.io/v1"
_ACTIONS = {"warn": ["Warn", "Audit"], "deny": ["Deny", "Audit"]}

# What `rankfix` leaves on each pod that it has seen, but for pods that want to be left alone.
_SEEN = """\
has(object.metadata.annotations) && ("rankfix/status" in object.metadata.annotations
  || ("rankfix/mode" in object.metadata.annotations && object.metadata.annotations["rankfix/mode"] == "off"))
"""
_UNSEEN = "rankfix did not see this pod of a PyTorchJob: RANK and WORLD_SIZE are as the operator wrote them; \
create it again once the rankfix server answers"


def webhook(place: Place) -> Object:
    """The MutatingWebhookConfiguration."""
    values = place.values
    made = place.make(_ADMISSION, "MutatingWebhookConfiguration", "webhook", wide=True, webhooks=[_entry(place)])
    annotations = dict(values.webhook_annotations)
    if values.certs.mode == "cert-manager":
        annotations["cert-manager.io/inject-ca-from"] = f"{place.namespace}/{place.name}"
    if annotations:
        made["metadata"]["annotations"] = annotations
    return made


def _entry(place: Place) -> Object:
    client: Object = {"service": {"name": place.name, "namespace": place.namespace, "path": "/mutate", "port": 443}}
    if place.values.certs.ca_bundle:
        client["caBundle"] = place.values.certs.ca_bundle
    return {
        "name": ENTRY,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": place.values.failure_policy,
        "matchConditions": conditions(),
        "matchPolicy": "Equivalent",
        "namespaceSelector": namespaces(place),
        "reinvocationPolicy": "IfNeeded",
        "rules": rules(),
        "sideEffects": "None",
        "timeoutSeconds": place.values.timeout_seconds,
    }


def rules() -> list[Object]:
    """What is sent at all: pods that are created, never their subresources."""
    return [{**RULE, "scope": "Namespaced"}]


def guard(place: Place) -> list[Object]:
    """The ValidatingAdmissionPolicy that names pods which a webhook under failurePolicy Ignore let slip."""
    policy = place.make(
        _ADMISSION, "ValidatingAdmissionPolicy", "guard", suffix="-guard", wide=True, spec=guard_spec()
    )  # fmt: skip
    return [policy, binding(place, "guard", _ACTIONS[place.values.guard])]


def guard_spec() -> Object:
    """What the guard says of a pod that carries no sign of rankfix."""
    return {
        "failurePolicy": "Ignore",
        "matchConstraints": {"resourceRules": [RULE]},
        "matchConditions": conditions(),
        "validations": [{"expression": _SEEN, "message": _UNSEEN, "reason": "Invalid"}],
        "auditAnnotations": [{"key": "unseen", "valueExpression": f'({_SEEN.strip()}) ? "" : "true"'}],
    }


def binding(place: Place, component: str, actions: list[str] | None = None) -> Object:
    """What puts a policy to work; `actions` are those of a validating one."""
    kind = "ValidatingAdmissionPolicyBinding" if actions else "MutatingAdmissionPolicyBinding"
    suffix = f"-{component}" if actions else ""
    spec: Object = {"policyName": place.wide + suffix, "matchResources": {"namespaceSelector": namespaces(place)}}
    if actions:
        spec["validationActions"] = actions
    return place.make(_ADMISSION, kind, component, suffix=suffix, wide=True, spec=spec)

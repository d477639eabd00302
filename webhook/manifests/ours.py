"""Which pods are ours, in the API server's own expression language: section 2 of the contract once more.

Webhook, policy and guard all carry these conditions; a test on a real API server holds them equal to `webhook.pod`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webhook.manifests.place import Object, Place

# Where the owner decides it is the controller's kind; the label counts only for pods that nobody controls.
_OWNED = """\
has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)
? object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller
  && o.kind == "PyTorchJob" && o.apiVersion.startsWith("kubeflow.org/"))
: has(object.metadata.labels) && "training.kubeflow.org/operator-name" in object.metadata.labels
  && object.metadata.labels["training.kubeflow.org/operator-name"] == "pytorchjob-controller"
"""
_NO_MIRROR = """\
!(has(object.metadata.annotations) && "kubernetes.io/config.mirror" in object.metadata.annotations)
"""
RULE: Object = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


def conditions() -> list[Object]:
    """The matchConditions; pods that fail one of them are never sent."""
    return [
        {"name": "pod-of-a-pytorchjob", "expression": _OWNED},
        {"name": "no-mirror-pod", "expression": _NO_MIRROR},
    ]


def namespaces(place: Place) -> Object:
    """The namespaceSelector: not the cluster's own, not ours, and none that says `rankfix/inject: disabled`."""
    left_out = ["kube-system", "kube-node-lease", place.namespace, *place.values.excluded_namespaces]
    return {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": left_out},
            {"key": "rankfix/inject", "operator": "NotIn", "values": ["disabled"]},
        ]
    }

"""Which pods the API server sends at all: the conditions, evaluated by a real one, against all sorts of pods.

The configuration under test calls a Service that isn't there under failurePolicy Fail: a pod that is refused would have
been sent, and one that is created was none of ours.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.installation import REVIEWS, fresh, installation, recorded, stream, until
from tests.support_deploy import Object, one, rendered
from webhook import pod as pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.controlplane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

VERSIONS = ("v1.3.0", "v1.5.0", "v1.6.0", "v1.7.0", "v1.8.1", "v1.9.0")
OURS = recorded("v1.9.0", "bare-n4-worker-0")
PLAIN: Object = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
LABEL = {"training.kubeflow.org/operator-name": "pytorchjob-controller"}


@pytest.fixture(scope="module", name="asked")
def _asked(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installation(plane, tmp_path_factory.mktemp("none"), namespace="rankfix-nowhere") as made:
        plane.namespace("rankfix-nowhere")
        plane.namespace("kube-node-lease")
        webhook = {key: item for key, item in made.objects.items() if key[0] == "MutatingWebhookConfiguration"}
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=stream(webhook))
        until(lambda: is_sent(made, OURS), "the configuration has no effect")
        yield made


def is_sent(asked: Installation, pod: Object, namespace: str = "team-a") -> bool:
    """Whether a pod is sent: nobody is there to answer."""
    reply = asked.create(pod, namespace, "?dryRun=All")
    if reply.status == 500:
        assert 'failed calling webhook "pods.rankfix.webhook"' in reply.body["message"]
        return True
    assert reply.status == 201, reply.body
    return False


def owned(
    kind: str = "PyTorchJob", version: str = "kubeflow.org/v1", *, controller: bool | None = True, **metadata: object
) -> Object:
    """A pod with an owner."""
    owner: Object = {"apiVersion": version, "kind": kind, "name": "j", "uid": "1"}
    if controller is not None:
        owner["controller"] = controller
    return plain(ownerReferences=[owner], **metadata)


def plain(**metadata: object) -> Object:
    """A pod that nobody owns."""
    made = copy.deepcopy(PLAIN)
    made["metadata"] |= metadata
    if metadata.get("annotations") == MIRROR:
        made["spec"]["nodeName"] = "n"  # no mirror pod is valid without
    return made


OWNERS = [
    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "2", "controller": True},
    {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "j", "uid": "1", "controller": False},
]
MIRROR = {"kubernetes.io/config.mirror": "x"}
OLDEST = {"controller-name": "pytorch-operator", "group-name": "kubeflow.org", "pytorch-job-name": "j",
          "pytorch-replica-type": "worker", "pytorch-replica-index": "0"}  # fmt: skip
# What nobody has recorded is built here; True: ours
CASES: dict[str, tuple[Object, bool]] = {
    "pytorch-operator": (owned(labels=OLDEST), True),
    "an API version to come": (owned(version="kubeflow.org/v2beta1"), True),
    "no labels at all": (owned(), True),
    "no owner, but the operator's label": (plain(labels=LABEL), True),
    "an owner that isn't the controller, and the label": (owned(controller=False, labels=LABEL), True),
    "an owner that doesn't say, and the label": (
        owned("Workload", "kueue.x-k8s.io/v1", controller=None, labels=LABEL),
        True,
    ),
    "an owner that isn't the controller": (owned(controller=False), False),
    "somebody else's controller, with the label": (owned("Job", "batch/v1", labels=LABEL), False),
    "a PyTorchJob beside the controller": (plain(ownerReferences=OWNERS, labels=LABEL), False),
    "TFJob": (owned("TFJob", labels={"training.kubeflow.org/operator-name": "tfjob-controller"}), False),
    "MPIJob": (owned("MPIJob", "kubeflow.org/v2beta1"), False),
    "KubeDL's PyTorchJob": (owned(version="training.kubedl.io/v1alpha1", labels={"replica-type": "worker"}), False),
    "a group that begins like ours": (owned(version="kubeflow.org.example/v1"), False),
    "TrainJob's Job": (owned("Job", "batch/v1", labels={"trainer.kubeflow.org/x": "y"}), False),
    "mirror pod": (owned(annotations=MIRROR), False),
    "mirror pod with the label": (plain(labels=LABEL, annotations=MIRROR), False),
    "another operator's label": (plain(labels={"training.kubeflow.org/operator-name": "mpijob-controller"}), False),
    "ReplicaSet": (owned("ReplicaSet", "apps/v1"), False),
    "DaemonSet": (owned("DaemonSet", "apps/v1", labels={"k8s-app": "cilium"}), False),
    "static pod of a node": (owned("Node", "v1", annotations=MIRROR), False),
    "bare pod": (plain(), False),
    "pod called like one of ours": (plain(name="bare-n4-worker-0"), False),
}


@pytest.mark.parametrize("case", CASES)
def test_only_ours_are_sent(asked: Installation, case: str) -> None:
    """An outage of ours can't touch anybody else's pods, and conditions and code agree on whose they are."""
    pod, ours = CASES[case]
    assert is_sent(asked, pod) is ours
    assert is_ours(pod) is ours


def is_ours(pod: Any) -> bool:
    """What the code says."""
    return pods.is_ours(pod)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_operator_generation_is_sent(asked: Installation, version: str) -> None:
    """The recorded pods of every version, master and worker, with Master and without."""
    for name in ("bare-n4-master-0", "bare-n4-worker-0", "workers-only-worker-0", "elastic-workers-worker-0"):
        file = REVIEWS / version / f"{name}.json"
        if file.exists():
            assert is_sent(asked, fresh(json.loads(file.read_bytes())["request"]["object"])), name


@pytest.mark.parametrize(
    "values", [{}, {"certs": {"mode": "serve"}}, {"hostNetwork": True, "podLabels": LABEL}], ids=str
)
def test_our_own_pods_are_never_sent(asked: Installation, values: Object) -> None:
    """Bug 13: pods of the Deployment and of the certificate jobs start while no server answers."""
    objects = rendered(values)
    templates = [one(objects, "Deployment")["spec"]["template"]]
    templates += [item["spec"]["template"] for (kind, _), item in objects.items() if kind == "Job"]
    for template in templates:
        spec = {key: value for key, value in template["spec"].items() if key != "priorityClassName"}
        pod = {"metadata": {**template["metadata"], "name": "own"}, "spec": spec}
        pod["metadata"]["ownerReferences"] = [OWNERS[0]]
        assert not is_sent(asked, pod)
        assert not is_ours(pod)


@pytest.mark.parametrize("namespace", ["kube-system", "kube-node-lease", "rankfix-nowhere"])
def test_the_clusters_own_namespaces_stay_out(asked: Installation, namespace: str) -> None:
    """Bug 13: not even a PyTorchJob there is sent; what the cluster stands on can't depend on us."""
    assert not is_sent(asked, OURS, namespace)

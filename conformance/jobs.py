"""A case's pods: as the operator makes them, and what other controllers and webhooks do to them. Pure functions."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from conformance.cases import LEGACY, BadCase, Case
from webhook import operator_
from webhook.operator_job import GENERATIONS, WORKER, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Pod = dict[str, Any]
MAIN = "pytorch"
KATIB_SIDECAR, ISTIO_SIDECAR = "example.com/katib/file-metrics-collector", "example.com/istio/proxyv2"
# What the images of those sidecars would run never ends by itself; here it does, at once.
SIDECARS = {KATIB_SIDECAR: ("true",), ISTIO_SIDECAR: ("true",)}
LATE = "-late"


def pods(case: Case, *, annotate: bool = False, workers: int | None = None) -> list[Pod]:
    """The pods that the operator sends to the API server, Master first; `workers` replaces the job's own number.

    Raises:
        BadCase: the job is none that this operator makes pods of.
    """
    generation = GENERATIONS["1.3" if case.operator == LEGACY else case.operator]
    try:
        operator_.pods(case.job, generation)  # so that what follows may rely on the job's form
        made = operator_.pods(_job(case, annotate=annotate, workers=workers), generation)
    except operator_.BadJob as bad:
        raise BadCase(f"{case.family}.yaml: case {case.name}: job: {problem}" for problem in bad.problems) from None
    return [_legacy(pod) for pod in made] if case.operator == LEGACY else made


def _job(case: Case, *, annotate: bool, workers: int | None) -> dict[str, Any]:
    job = copy.deepcopy(case.job)
    for key, replicas in job["spec"]["pytorchReplicaSpecs"].items():
        if workers is not None and typed(key) == WORKER:
            replicas["replicas"] = workers
        if annotate:
            metadata = replicas["template"].setdefault("metadata", {})
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **case.annotate}
    return job


def _legacy(pod: Pod) -> Pod:
    """The labels of pytorch-operator, before the training-operator took over; its env is that of 1.3."""
    labels = dict(pod["metadata"]["labels"])
    kind, index = labels.pop("replica-type"), labels.pop("replica-index")
    labels |= {
        "controller-name": "pytorch-operator",
        "pytorch-job-name": labels["job-name"],
        "pytorch-replica-type": kind,
        "pytorch-replica-index": index,
    }
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


def changed(pod: Pod, change: str | None) -> Pod:
    """The pod as another webhook leaves it."""
    return _CHANGES[change.removesuffix(LATE)](copy.deepcopy(pod)) if change else pod


def _katib(pod: Pod) -> Pod:
    """Katib's metrics collector: the Master's command, joined with blanks, under a shell that writes into a file."""
    labels = pod["metadata"].get("labels") or {}
    if "master" not in (labels.get("training.kubeflow.org/job-role"), labels.get("job-role")):
        return pod
    mount = {"name": "metrics-volume", "mountPath": "/var/log/katib"}
    main = next(container for container in pod["spec"]["containers"] if container["name"] == MAIN)
    words = [*(main.get("command") or ()), *(main.get("args") or ())]
    if words[:2] in (["sh", "-c"], ["bash", "-c"]):
        words = words[2:]
    text = f"{' '.join(words)} 1>/var/log/katib/metrics.log 2>&1 && echo completed > /var/log/katib/$$$$.pid"
    main |= {"command": ["sh", "-c"], "args": [text]}
    main["env"] = [*(main.get("env") or ()), {"name": "KATIB_TRIAL_NAME", "value": "trial-1"}]
    main["volumeMounts"] = [*(main.get("volumeMounts") or ()), mount]
    sidecar = {"name": "metrics-logger-and-collector", "image": KATIB_SIDECAR, "args": ["-path", mount["mountPath"]]}
    pod["spec"]["containers"].append({**sidecar, "volumeMounts": [mount]})
    pod["spec"]["volumes"] = [*(pod["spec"].get("volumes") or ()), {"name": "metrics-volume", "emptyDir": {}}]
    return pod


def _istio(pod: Pod) -> Pod:
    """A mesh's sidecar, before the pod's own containers; it has no variable of the operator's."""
    sidecar = {
        "name": "istio-proxy",
        "image": ISTIO_SIDECAR,
        "args": ["proxy", "sidecar"],
        "env": [{"name": "ISTIO_META_CLUSTER_ID", "value": "Kubernetes"}],
    }
    pod["spec"]["containers"].insert(0, sidecar)
    return pod


_CHANGES: Mapping[str, Callable[[Pod], Pod]] = {"katib": _katib, "istio": _istio}


def starters(pod: Pod) -> list[str]:
    """The containers whose end is the pod's: `pytorch`, and those that run the same thing."""
    key = ("image", "command", "args")
    main = next(container for container in pod["spec"]["containers"] if container["name"] == MAIN)
    same = [c for c in pod["spec"]["containers"] if all(c.get(field) == main.get(field) for field in key)]
    return [container["name"] for container in same]

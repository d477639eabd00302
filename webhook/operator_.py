"""PyTorchJob -> the pods that a training-operator of versions 1.3 to 1.9 makes of it.

For `rankfix explain`, the demo and tests: the webhook itself never sees a job. The recorded pods in
`tests/data/reviews` are the truth that this is held to. What the API server adds to a pod (tolerations, defaults) isn't
here.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from webhook import operator_check, operator_env, operator_job
from webhook.operator_job import (
    DEFAULT_CONTAINER,
    DEFAULT_PORT,
    GENERATIONS,
    MASTER,
    NEWEST,
    PORT_NAME,
    WORKER,
    BadJob,
    Generation,
    Job,
    Replicas,
    generation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["GENERATIONS", "NEWEST", "BadJob", "Generation", "generation", "notes", "pods"]

_GROUP, _NEW = "kubeflow.org", "training.kubeflow.org"
_CONTROLLER = "pytorchjob-controller"
_NOT_CREATED = "00000000-0000-0000-0000-000000000000"  # an owner must have a uid, and this job has none yet
_WAIT = "until nslookup {0}; do echo waiting for master; sleep 2; done;"
_WAIT_100 = (
    "err=1;for i in $(seq 100); do if nslookup {0}; then err=0 && break; fi;"
    "echo waiting for master; sleep 2; done; exit $err"
)


def pods(job: Mapping[str, Any], operator: Generation) -> list[dict[str, Any]]:
    """The pods of a job, Master first, as the operator sends them to the API server. The job stays as it is.

    Raises:
        BadJob: the API server or this operator refuses the job; the text says which fields, and what is allowed.
    """
    problems = tuple(operator_check.problems(job, operator))
    if problems:
        raise BadJob(problems)
    view = operator_job.read(job, operator)
    return [_pod(view, operator, replicas, index) for replicas in view.replicas for index in range(replicas.count)]


def notes(job: Mapping[str, Any], operator: Generation) -> list[str]:
    """What is odd about a job that makes pods all the same: fields that this operator ignores, or other ones refuse."""
    return list(operator_check.notes(job, operator))


def _pod(job: Job, operator: Generation, replicas: Replicas, index: int) -> dict[str, Any]:
    template = copy.deepcopy(dict(replicas.template))
    spec = template["spec"]
    _ports(spec["containers"], replicas, operator)
    for container in spec["containers"]:
        container["env"] = [
            *map(_entry, container.get("env") or ()),
            *operator_env.entries(job, operator, replicas.kind, index),
        ]
    if replicas.kind == WORKER and job.has(MASTER) and operator.waits is not None:
        spec["initContainers"] = [*(spec.get("initContainers") or ()), _init(job, bounded=operator.waits)]
    spec["restartPolicy"] = "Never" if replicas.restart == "ExitCode" else replicas.restart
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(job, operator, replicas, index, template.get("metadata") or {}),
        "spec": spec,
    }


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    """A template's entry as it arrives: Go leaves an empty value out, the API server says which API a field is of."""
    if entry.get("value") in ("", None):
        entry.pop("value", None)
    source = entry.get("valueFrom")
    if isinstance(source, dict) and isinstance(source.get("fieldRef"), dict):
        source["fieldRef"].setdefault("apiVersion", "v1")
    return entry


def _metadata(
    job: Job, operator: Generation, replicas: Replicas, index: int, template: Mapping[str, Any]
) -> dict[str, Any]:
    own = dict(_labels(job, operator, replicas, index))
    owner = {"apiVersion": job.api_version, "kind": "PyTorchJob", "name": job.name, "uid": _NOT_CREATED}
    made = {
        "name": f"{job.name}-{replicas.kind.lower()}-{index}",
        "namespace": job.namespace,
        "labels": {**(template.get("labels") or {}), **own},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    return {**made, "annotations": dict(template["annotations"])} if template.get("annotations") else made


def _labels(job: Job, operator: Generation, replicas: Replicas, index: int) -> Iterator[tuple[str, str]]:
    # From 1.8 on the first Worker of a job without a Master has the Master's role, too
    leads = replicas.kind == MASTER or (operator.nproc_always and not job.has(MASTER) and index == 0)
    told = {"job-name": job.name, "replica-type": replicas.kind.lower(), "replica-index": str(index)}
    if leads:
        told["job-role"] = "master"
    if operator.common:
        yield "group-name", _GROUP
        yield from told.items()
    if operator.training:
        yield f"{_NEW}/operator-name", _CONTROLLER
        yield from ((f"{_NEW}/{key}", value) for key, value in told.items())


def _ports(containers: list[dict[str, Any]], replicas: Replicas, operator: Generation) -> None:
    """The rendezvous' port, if the job doesn't name it. Operator 1.3 gives it to the Master only."""
    container = next(c for c in containers if c["name"] == DEFAULT_CONTAINER)
    ports = container.get("ports") or []
    if (operator.elastic or replicas.kind == MASTER) and not any(map(operator_job.is_rendezvous, ports)):
        container["ports"] = [*ports, {"name": PORT_NAME, "containerPort": DEFAULT_PORT}]


def _init(job: Job, *, bounded: bool) -> dict[str, Any]:
    """The container that holds Workers back until the Master's name can be looked up."""
    return {
        "name": "init-pytorch",
        "image": "alpine:3.10",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", (_WAIT_100 if bounded else _WAIT).format(f"{job.name}-master-0")],
        "resources": {"limits": {"cpu": "100m", "memory": "20Mi"}, "requests": {"cpu": "50m", "memory": "10Mi"}},
    }

"""The env that each operator generation appends to every container of a job, in its order.

Source: envvar.go, master.go and elastic.go of the training-operator (1.3: pytorch.go). An entry whose value is empty
has a name only: Go leaves the empty string out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webhook.operator_job import MASTER, WORKER, Generation, Job

if TYPE_CHECKING:
    from collections.abc import Iterator

Pair = tuple[str, str]


def entries(job: Job, operator: Generation, kind: str, index: int) -> list[dict[str, Any]]:
    """The entries for the pod number `index` of a replica type."""
    pairs = _oldest(job, kind, index) if not operator.elastic else _modern(job, operator, kind, index)
    return [{"name": name, "value": value} if value else {"name": name} for name, value in pairs]


def _oldest(job: Job, kind: str, index: int) -> Iterator[Pair]:
    """Operator 1.3: the Master reaches itself by `localhost`, and a job without a Master isn't possible."""
    yield from _master(job, "localhost" if kind == MASTER else _host(job, MASTER))
    yield "WORLD_SIZE", str(job.pods)
    yield "RANK", str(_rank(kind, index))
    yield "PYTHONUNBUFFERED", "0"


def _modern(job: Job, operator: Generation, kind: str, index: int) -> Iterator[Pair]:
    yield "PYTHONUNBUFFERED", operator.unbuffered
    if job.has(MASTER):
        yield from _pair(job, operator, kind, index)
    if operator.nproc_always and job.nproc is not None:
        yield "PET_NPROC_PER_NODE", job.nproc
    if job.is_elastic:
        yield from _elastic(job)
    elif operator.nproc:
        yield "PET_NNODES", str(job.pods)


def _pair(job: Job, operator: Generation, kind: str, index: int) -> Iterator[Pair]:
    """The half node, half process pair: only a job with a Master gets one."""
    rank = str(_rank(kind, index))
    for name, value in _master(job, _host(job, MASTER)):
        yield name, value
        if operator.nproc:
            yield f"PET_{name}", value
    yield "WORLD_SIZE", str(job.pods * _processes(job))
    yield "RANK", rank
    if operator.nproc and not operator.nproc_always and job.nproc is not None:
        yield "PET_NPROC_PER_NODE", job.nproc
    if operator.nproc:
        yield "PET_NODE_RANK", rank


def _master(job: Job, host: str) -> Iterator[Pair]:
    yield "MASTER_PORT", str(job.port(MASTER))
    yield "MASTER_ADDR", host


def _elastic(job: Job) -> Iterator[Pair]:
    """What torchrun's elastic agent reads; its Workers only are counted as nodes."""
    policy = job.elastic
    low, high = policy.get("minReplicas"), policy.get("maxReplicas")
    fallback = job.count(WORKER) if low is None and high is None else low if high is None else high
    host = policy.get("rdzvHost")
    port = policy.get("rdzvPort")
    yield (
        "PET_RDZV_ENDPOINT",
        f"{_host(job, WORKER) if host is None else host}:{job.port(WORKER) if port is None else port}",
    )
    yield "PET_RDZV_BACKEND", policy.get("rdzvBackend") or "c10d"
    yield "PET_NNODES", f"{fallback if low is None else low}:{fallback if high is None else high}"
    for name, field in (("PET_MAX_RESTARTS", "maxRestarts"), ("PET_NPROC_PER_NODE", "nProcPerNode")):
        if policy.get(field) is not None:
            yield name, str(policy[field])
    if policy.get("rdzvId") is not None:
        yield "PET_RDZV_ID", policy["rdzvId"]
    if policy.get("rdzvConf"):
        yield "PET_RDZV_CONF", ",".join(f"{conf.get('key', '')}={conf.get('value', '')}" for conf in policy["rdzvConf"])
    if policy.get("standalone"):
        yield "PET_STANDALONE", ""


def _host(job: Job, kind: str) -> str:
    return f"{job.name}-{kind.lower()}-0"


def _rank(kind: str, index: int) -> int:
    return index + (kind == WORKER)


def _processes(job: Job) -> int:
    """What WORLD_SIZE counts a pod as: nprocPerNode, if it is a number; before 1.7 there is none."""
    return int(job.nproc) if job.nproc is not None and job.nproc.isdigit() else 1

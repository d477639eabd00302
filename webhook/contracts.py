"""The env that each contract gives a container (rank contract, section 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.facts import own_master
from webhook.policy import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.case import Case
    from webhook.notes import Procs
    from webhook.pod import Container

Wanted = list[tuple[str, str]]

INIT_METHOD = ("PYTORCH_DIST_INIT_METHOD", "tcp://$(MASTER_ADDR):$(MASTER_PORT)")
PORT_NAME, DEFAULT_PORT = "pytorchjob-port", "23456"


def process(case: Case, sizes: Procs, *, alone: bool = False) -> Wanted:
    """The process pair, the local size and NODE_RANK of a container; LOCAL_RANK 0 where its process is `alone`."""
    first, own, world = case.facts.span(sizes)
    node, position, local = case.facts.at, 0, own
    if case.twin is not None:
        position, local = case.twin.position, own // case.twin.count
        node = node * case.twin.count + position
    numbers = [
        ("RANK", first + position * local),
        ("WORLD_SIZE", world),
        ("LOCAL_WORLD_SIZE", local),
        ("NODE_RANK", node),
    ]
    if alone:
        numbers.append(("LOCAL_RANK", 0))
    return [*((name, str(number)) for name, number in numbers), *rendezvous(case)]


def node(case: Case) -> Wanted:
    """RANK and NODE_RANK are the pod's rank, WORLD_SIZE the number of pods."""
    rank, pods = str(case.facts.at), str(case.facts.of)
    return [("RANK", rank), ("WORLD_SIZE", pods), ("NODE_RANK", rank), *rendezvous(case)]


def rendezvous(case: Case) -> Iterator[tuple[str, str]]:
    """The master's address where no operator wrote it, then PYTORCH_DIST_INIT_METHOD, which refers to it, if absent."""
    env, new = case.container.env, master(case)
    yield from ((name, value) for name, value in new if name not in env)
    known = {name for name, _ in new}
    if INIT_METHOD[0] not in env and all(name in env or name in known for name in ("MASTER_ADDR", "MASTER_PORT")):
        yield INIT_METHOD


def master(case: Case) -> Wanted:
    """MASTER_ADDR and MASTER_PORT of a job without Master, where a mode asks for a contract: its first Worker."""
    env, job = case.container.env, case.order.pod.job
    if (
        case.order.mode is Mode.AUTO
        or not job
        or case.facts.master
        or ("MASTER_ADDR" in env and not own_master(case.order.pod, env))
    ):
        return []
    return [("MASTER_ADDR", f"{job}-worker-0"), ("MASTER_PORT", port(case.container))]


def port(container: Container) -> str:
    """The container port that the operator opens for the rendezvous, else its default."""
    ports = container.raw.get("ports")
    for item in ports if isinstance(ports, list) else ():
        if isinstance(item, dict) and item.get("name") == PORT_NAME and type(item.get("containerPort")) is int:
            return str(item["containerPort"])
    return DEFAULT_PORT

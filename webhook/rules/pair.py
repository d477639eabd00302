"""Rules on the pair RANK and WORLD_SIZE: which contract a container gets (C2, T1, C1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook import contracts
from webhook.edits import Edits, env_edits
from webhook.launch import LaunchClass
from webhook.notes import Procs
from webhook.policy import Mode

if TYPE_CHECKING:
    from webhook.case import Case

LAUNCHERS = (LaunchClass.LAUNCHER, LaunchClass.LAUNCHER_FIXED)


def node_contract(case: Case) -> Edits | None:
    """The command reads the pair as a node pair, so both halves become one.

    When: WORLD_SIZE feeds a launcher's node count and isn't the number of pods; or a script that spawns its processes
    from a node pair (the word `--multiprocessing-distributed`) runs where N is declared; or mode `node`.
    What: RANK = k, WORLD_SIZE = P, NODE_RANK = k, and PYTORCH_DIST_INIT_METHOD if absent. Goes before T1 and C1.
    Source: training-operator 1.7 to 1.9 write WORLD_SIZE = P * nprocPerNode beside RANK = k, so `--nnodes=$WORLD_SIZE`
    waits for P * N nodes; pytorch/examples imagenet multiplies both by the GPUs of a node itself.
    """
    if case.order.mode is Mode.AUTO and not (_counts_nodes(case) or _spawns_from_node_pair(case)):
        return None
    return env_edits(case.container, contracts.node(case))


def _counts_nodes(case: Case) -> bool:
    return (
        case.launch.cls is LaunchClass.LAUNCHER_ENV
        and any(fed.what == "node_count" and fed.source == "WORLD_SIZE" for fed in case.launch.fed)
        and case.container.env.text("WORLD_SIZE") != str(case.facts.of)
    )


def _spawns_from_node_pair(case: Case) -> bool:
    return case.launch.cls is LaunchClass.PYTHON and case.launch.multiprocessing_distributed and case.sizes is not None


def twins(case: Case) -> Edits | None:
    """Equal containers of one pod share its processes, where the operator gives all of them the same rank.

    When: two or more containers of the pod, one of them `pytorch`, have equal image, command, args and resources, are
    told the same of the job (WORLD_SIZE and its like), and run a plain script (class `python` or `entrypoint`).
    What: N is the declared N (t must divide it) or the number t of twins; container i runs m = N/t processes from
    o = i*m: RANK = k*N + o, WORLD_SIZE = P*N, LOCAL_WORLD_SIZE = m, NODE_RANK = k*t + i, and LOCAL_RANK = 0 if m = 1.
    Each container sees its own GPUs only, so device code must take it for a node of its own.
    Source: the training-operator appends one env to every container of a template.
    """
    sizes = case.sizes
    if case.twin is None or sizes is None:
        return None
    alone = case.facts.span(sizes)[1] == case.twin.count
    return env_edits(case.container, contracts.process(case, sizes, alone=alone))


def process_contract(case: Case) -> Edits | None:
    """The container gets the pair, and the local size, that a process group of N processes a pod needs.

    When: N is declared and the command is a plain script, an image's own entrypoint or a launcher that counts processes
    (composer); or torchrun or accelerate are all that the command starts. Modes `process` and `torchrun` ask for it.
    What: RANK = k*N, WORLD_SIZE = P*N, LOCAL_WORLD_SIZE = N, NODE_RANK = k, and PYTORCH_DIST_INIT_METHOD if absent; in
    mode `process` also LOCAL_RANK = 0 where N = 1 and the job itself asks. Where nodes run unequal numbers, RANK is the
    sum of those of all lower nodes.
    Source: torch's env:// reads the pair as a process pair; the operator writes the node's rank beside the processes'
    world size. A launcher's children get their own env, so there it is for whoever looks into the container.
    """
    if case.order.mode is Mode.AUTO:
        sizes = case.sizes if _reads_process_pair(case) else None
    elif case.order.mode is Mode.TORCHRUN:
        sizes = torchrun_sizes(case)
    else:
        sizes = case.sizes or Procs(1, 1)
    if sizes is None:
        return None
    alone = case.order.mode is Mode.PROCESS and case.order.explicit and case.facts.span(sizes)[1] == 1
    return env_edits(case.container, contracts.process(case, sizes, alone=alone))


def _reads_process_pair(case: Case) -> bool:
    launch = case.launch
    return case.is_open or (launch.cls in LAUNCHERS and launch.only_launchers)


def torchrun_sizes(case: Case) -> Procs | None:
    """The sizes in mode `torchrun`; None where the launcher is to count the GPUs, or the container isn't meant."""
    undeclared = None if case.gpus else Procs(1, 1)
    return (case.sizes or undeclared) if case.chosen else None

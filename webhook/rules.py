"""The rules of the rank contract, one function each, and the list of them that `decide`, `explain` and the docs read.

A rule takes a `Case` and answers with edits; with no edits at all where it is in force already; with None where it
doesn't apply. Its docstring is its page in the docs: when, what, and from which source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook import contracts
from webhook.edits import AddWords, Edit, SetText, env_edits
from webhook.facts import plain
from webhook.launch import FlagValue, LaunchClass, LauncherStart, Span
from webhook.notes import Procs
from webhook.policy import Mode, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from webhook.case import Case

LAUNCHERS = (LaunchClass.LAUNCHER, LaunchClass.LAUNCHER_FIXED)
API_SERVER = "KUBERNETES_SERVICE_HOST"
WRAPPER = ("-m", "torch.distributed.run")

Edits = tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as data.

    `modes` apply it; of the rules of one `group` a container gets the first that applies; `despite` lists the troubles
    that don't keep it from being applied; `unparsed` lets it look at a shell text with a parse error.
    """

    id: str
    title: str
    apply: Callable[[Case], Edits | None]
    modes: frozenset[Mode]
    group: str = ""
    despite: frozenset[Reason] = frozenset()
    unparsed: bool = False


def node_contract(case: Case) -> Edits | None:
    """The command reads the pair as a node pair, so both halves become one.

    When: WORLD_SIZE feeds a launcher's node count and isn't the number of pods; or a script that spawns its processes
    from a node pair (the word `--multiprocessing-distributed`) runs where N is declared; or mode `node`.
    What: RANK = k, WORLD_SIZE = P, NODE_RANK = k, and PYTORCH_DIST_INIT_METHOD if absent. Goes before T1 and C1.
    Source: training-operator 1.7 to 1.9 write WORLD_SIZE = P * nprocPerNode beside RANK = k, so `--nnodes=$WORLD_SIZE`
    waits for P * N nodes; pytorch/examples imagenet multiplies both by the GPUs of a node itself.
    """
    if case.mode is Mode.AUTO and not (_counts_nodes(case) or _spawns_from_node_pair(case)):
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

    When: two or more containers of the pod, one of them `pytorch`, have equal image, command, args and resources, and
    run a plain script (class `python` or `entrypoint`).
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
    if case.mode is Mode.AUTO:
        sizes = case.sizes if _reads_process_pair(case) else None
    elif case.mode is Mode.TORCHRUN:
        sizes = _torchrun_sizes(case)
    else:
        sizes = case.sizes or Procs(1, 1)
    if sizes is None:
        return None
    alone = case.mode is Mode.PROCESS and case.explicit and case.facts.span(sizes)[1] == 1
    return env_edits(case.container, contracts.process(case, sizes, alone=alone))


def _reads_process_pair(case: Case) -> bool:
    launch = case.launch
    return case.is_open or (launch.cls in LAUNCHERS and launch.only_launchers)


def _torchrun_sizes(case: Case) -> Procs | None:
    """The sizes in mode `torchrun`; None where the launcher is to count the GPUs, or the container isn't meant."""
    undeclared = None if case.gpus else Procs(1, 1)
    return (case.sizes or undeclared) if case.chosen else None


def node_rank(case: Case) -> Edits | None:
    """NODE_RANK for those who spawn their own processes and ask which node they are on.

    When: the job has several pods, and the container has no NODE_RANK; whatever its command.
    What: NODE_RANK = k. One that the template sets is kept.
    Source: Lightning, composer, LLaMA-Factory (0.9.1 and later) and ms-swift read it; no operator writes it, and
    without it every node takes itself for the first.
    """
    if case.facts.of <= 1 or "NODE_RANK" in case.container.env:
        return None
    return env_edits(case.container, [("NODE_RANK", str(case.facts.at))])


def old_operator(case: Case) -> Edits | None:
    """Torchrun finds its nodes under operators before 1.7, too.

    When: no PET_* at all, several pods, a launcher's command, each launcher without a node count or with the literal P,
    and without `--master_addr`, `--rdzv*` and `--standalone`.
    What: PET_NNODES = P, PET_NODE_RANK = k, PET_MASTER_ADDR = $(MASTER_ADDR), PET_MASTER_PORT = $(MASTER_PORT).
    Source: training-operator 1.7 writes these; torchrun (torch 1.9 and later) takes its defaults from them. Without
    them each pod trains alone, silently. Flags still win.
    """
    env, launch = case.container.env, case.launch
    if case.facts.of <= 1 or launch.cls not in LAUNCHERS or not launch.launchers:
        return None
    if any(name.startswith("PET_") for name in env.last) or "MASTER_ADDR" not in env or "MASTER_PORT" not in env:
        return None
    if not all(_joins_by_env(start, case.facts.of) for start in launch.launchers):
        return None
    wanted = [
        ("PET_NNODES", str(case.facts.of)),
        ("PET_NODE_RANK", str(case.facts.at)),
        ("PET_MASTER_ADDR", "$(MASTER_ADDR)"),
        ("PET_MASTER_PORT", "$(MASTER_PORT)"),
    ]
    return env_edits(case.container, wanted)


def _joins_by_env(start: LauncherStart, pods: int) -> bool:
    if start.master_addr is not None or start.rdzv or start.standalone or start.dynamic:
        return False
    return start.node_count is None or plain(start.node_count.literal) == pods


def standalone(case: Case) -> Edits | None:
    """Torchrun survives elasticPolicy.standalone.

    When: PET_STANDALONE is there with an empty value.
    What: its value becomes "1".
    Source: the training-operator writes it with a name only, and torchrun does int("") and dies.
    """
    env = case.container.env
    if env.text("PET_STANDALONE") != "":
        return None
    return env_edits(case.container, [("PET_STANDALONE", "1")])


def elastic_master(case: Case) -> Edits | None:
    """An elastic job's Master is counted among the nodes.

    When: PET_NNODES is a range of equal ends, a:a, and the job has a Master.
    What: PET_NNODES = P:P, where P = a + 1.
    Source: elastic.go of training-operator 1.4 to 1.9 counts Workers only, while the Master runs torchrun as well, so
    one node too many comes to the rendezvous.
    """
    env, pods = case.container.env, case.facts.of
    low, colon, high = (env.text("PET_NNODES") or "").partition(":")
    if not colon or low != high or not case.facts.master:
        return None
    return env_edits(case.container, [("PET_NNODES", f"{pods}:{pods}")])


def fixed_node_rank(case: Case) -> Edits | None:
    """One template for all pods, with the node rank written out: each pod gets its own.

    When: a launcher with static rendezvous has a literal node count that is P > 1 and a literal node rank that isn't k,
    and its master is the job's (no `--master_addr`, one fed by MASTER_ADDR, or F2).
    What: the node rank's value in the command becomes k. One that equals k stays: authors write two templates by hand.
    Source: torch.distributed.run takes ranks from the flag when the rendezvous is static; two nodes of rank 0 never
    meet.
    """
    if case.launch.cls is not LaunchClass.LAUNCHER_FIXED or case.facts.of <= 1 or _dynamic_by_env(case):
        return None
    edits = (
        _set(case, start.node_rank, str(case.facts.at))
        for start in case.launch.launchers
        if _has_wrong_rank(case, start)
    )
    return _some(edit for edit in edits if edit is not None)


def _has_wrong_rank(case: Case, start: LauncherStart) -> bool:
    rank, count, address = start.node_rank, start.node_count, start.master_addr
    if rank is None or count is None or start.dynamic or plain(rank.literal) in (None, case.facts.at):
        return False
    moved = address is not None and _is_api_server(case, address)
    if plain(count.literal) != case.facts.of and not (moved and plain(count.literal) == 1 and count.span):
        return False
    return address is None or address.feeds == {"MASTER_ADDR"} or moved


def _dynamic_by_env(case: Case) -> bool:
    env = case.container.env
    return "PET_RDZV_BACKEND" in env and env.text("PET_RDZV_BACKEND") not in ("", "static")


def wrong_master(case: Case) -> Edits | None:
    """A launcher that waits for its nodes at the API server's address gets the job's own.

    When: a launcher's `--master_addr` is $(KUBERNETES_SERVICE_HOST), and the pod has MASTER_ADDR.
    What: that value becomes $(MASTER_ADDR); with several pods and a literal `--nnodes=1`, nnodes becomes P, and then F1
    looks at the node rank.
    Source: nobody but the API server can listen there. Seen in public jobs, copied from one to the next.
    """
    edits: list[Edit | None] = []
    for start in case.launch.launchers:
        if start.master_addr is None or not _is_api_server(case, start.master_addr):
            continue
        edits.append(_set(case, start.master_addr, "$(MASTER_ADDR)"))
        if case.facts.of > 1 and start.node_count is not None and plain(start.node_count.literal) == 1:
            edits.append(_set(case, start.node_count, str(case.facts.of)))
    return _some(edit for edit in edits if edit is not None)


def _is_api_server(case: Case, address: FlagValue) -> bool:
    return address.feeds == {API_SERVER} and address.span is not None and "MASTER_ADDR" in case.container.env


def _set(case: Case, flag: FlagValue | None, value: str) -> Edit | None:
    span = flag.span if flag is not None else None
    return None if span is None or not _fits(case, span) else SetText(case.container, *span, text=value)


def _fits(case: Case, span: Span) -> bool:
    words = case.container.raw.get(span.field)
    word = words[span.index] if isinstance(words, list) and 0 <= span.index < len(words) else None
    return isinstance(word, str) and 0 <= span.start <= span.end <= len(word)


def _some(edits: Iterator[Edit]) -> Edits | None:
    return tuple(edits) or None


def init_containers(case: Case) -> Edits | None:
    """Init containers learn which pod they are in.

    When: the pod has the annotation `rankfix/init-containers: "true"`.
    What: RANK = k, WORLD_SIZE = P, NODE_RANK = k, MASTER_ADDR and MASTER_PORT as in the main container, in each: what a
    step that downloads its pod's shard wants, whatever the training process reads.
    Source: the training-operator appends its env to containers only (asked for in kubeflow/trainer #1690).
    """
    if not case.asked.init_containers or not case.pod.init_containers:
        return None
    rank, pods = str(case.facts.at), str(case.facts.of)
    wanted = [("RANK", rank), ("WORLD_SIZE", pods), ("NODE_RANK", rank), *_copied(case)]
    # A template's init containers come with the pod. One that appears after ours were served is another webhook's.
    served = [c for c in case.pod.init_containers if c.env.text("NODE_RANK") == rank and "RANK" in c.env]
    earlier = "I1" in str(case.pod.annotations.get("rankfix/rules", "")).split(",")
    meant = served if earlier and served else case.pod.init_containers
    return tuple(edit for container in meant for edit in env_edits(container, wanted))


def _copied(case: Case) -> contracts.Wanted:
    """MASTER_ADDR and MASTER_PORT of the main container, where they are plain text that means the same elsewhere."""
    env, new = case.container.env, dict(contracts.master(case))
    values = {name: env.text(name) if name in env else new.get(name) for name in ("MASTER_ADDR", "MASTER_PORT")}
    return [(name, value) for name, value in values.items() if value and "$(" not in value]


def launcher_wrap(case: Case) -> Edits | None:
    """One python command becomes N processes: torchrun's module goes in front of the script.

    When: mode `torchrun`; the container runs a python script or module.
    What: `python [-u] X args` becomes `python [-u] -m torch.distributed.run --nnodes=P --node_rank=k
    --nproc_per_node=N --master_addr=$(MASTER_ADDR) --master_port=$(MASTER_PORT) X args`. With N undeclared it is
    `auto` where the container has a GPU limit (and no contract then), else 1. A command of this form already stays.
    Source: torch.distributed.run's flags win over PET_*; flags with underscores are taken by every torch.
    """
    if not case.chosen:
        return None
    if wrapped(case):
        return ()
    wrap = case.launch.wrap
    if wrap is None or case.launch.cls is not LaunchClass.PYTHON:
        return None
    words = (*WRAPPER, *_flags(case))
    if wrap.offset is None:
        return (AddWords(case.container, wrap.field, wrap.index, words),)
    text = " ".join(words) + " "
    return (SetText(case.container, wrap.field, wrap.index, wrap.offset, wrap.offset, text),)


def _flags(case: Case) -> Iterator[str]:
    nodes, rank, procs = _torchrun_nodes(case)
    yield f"--nnodes={nodes}"
    yield f"--node_rank={rank}"
    yield f"--nproc_per_node={procs}"
    yield "--master_addr=$(MASTER_ADDR)"
    yield "--master_port=$(MASTER_PORT)"


def _torchrun_nodes(case: Case) -> tuple[int, int, str]:
    """What torchrun is told: nodes, this node's rank, its processes. Twins are nodes of their own."""
    sizes, twin = _torchrun_sizes(case), case.twin
    count, position = (twin.count, twin.position) if twin is not None else (1, 0)
    procs = "auto" if sizes is None else str(case.facts.span(sizes)[1] // count)
    return case.facts.of * count, case.facts.at * count + position, procs


def wrapped(case: Case) -> bool:
    """Whether the command is what mode `torchrun` makes of one: a second call sees its own work."""
    if len(case.launch.launchers) != 1:
        return False
    (start,) = case.launch.launchers
    nodes, rank, _ = _torchrun_nodes(case)
    return (
        start.node_count is not None
        and plain(start.node_count.literal) == nodes
        and start.node_rank is not None
        and plain(start.node_rank.literal) == rank
        and start.master_addr is not None
        and start.master_addr.feeds == {"MASTER_ADDR"}
    )


_AUTO = frozenset({Mode.AUTO})
_TORCHRUN = frozenset({Mode.TORCHRUN})
_PROCESS = frozenset({Mode.AUTO, Mode.PROCESS, Mode.TORCHRUN})
_EVERY = frozenset({Mode.AUTO, Mode.PROCESS, Mode.NODE, Mode.TORCHRUN})
_NO_PAIR = frozenset({Reason.ELASTIC, Reason.NO_RANK_ENV})

RULES: tuple[Rule, ...] = (
    Rule(
        "C2",
        "node pair for a command that counts nodes",
        node_contract,
        frozenset({Mode.AUTO, Mode.NODE}),
        "ranks",
        unparsed=True,
    ),
    Rule("T1", "twin containers share the pod's processes", twins, _PROCESS, "ranks"),
    Rule("C1", "process pair and local size", process_contract, _PROCESS, "ranks"),
    Rule("A1", "NODE_RANK for launchers that spawn", node_rank, _AUTO, "ranks"),
    Rule("A2", "torchrun's env under operators before 1.7", old_operator, _AUTO),
    Rule("E1", "PET_STANDALONE that torchrun can read", standalone, _EVERY, despite=_NO_PAIR),
    Rule("E2", "elastic node count with the Master", elastic_master, _EVERY),
    Rule("F1", "a fixed node rank becomes the pod's own", fixed_node_rank, _AUTO),
    Rule("F2", "the master's address instead of the API server's", wrong_master, _AUTO),
    Rule("W1", "torchrun in front of a python script", launcher_wrap, _TORCHRUN),
)
INIT_RULE = Rule("I1", "the node pair for init containers", init_containers, _EVERY)
"""Looks at the pod by way of its main container, so it runs once a pod and stands beside the others."""

ALL_RULES: tuple[Rule, ...] = (*RULES, INIT_RULE)

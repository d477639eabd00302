"""Rules that change one word of a command, or put a launcher in front of it (F1, F2, W1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.edits import AddWords, Edit, Edits, SetText
from webhook.facts import plain
from webhook.launch import FlagValue, LaunchClass, LauncherStart, Span
from webhook.rules.pair import torchrun_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.case import Case

API_SERVER = "KUBERNETES_SERVICE_HOST"
WRAPPER = ("-m", "torch.distributed.run")


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
    wrap = case.launch.wrap
    if wrap is None or wrapped(case):
        return ()
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
    sizes, twin = torchrun_sizes(case), case.twin
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

"""Rules on other names of the env: what the operator leaves out or gets wrong (A1, A2, E1, E2, I1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook import contracts
from webhook.edits import Edits, env_edits
from webhook.facts import plain
from webhook.policy import Status
from webhook.rules.pair import LAUNCHERS

if TYPE_CHECKING:
    from webhook.case import Case
    from webhook.launch import LauncherStart


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


def init_containers(case: Case) -> Edits | None:
    """Init containers learn which pod they are in.

    When: the pod has the annotation `rankfix/init-containers: "true"`.
    What: RANK = k, WORLD_SIZE = P, NODE_RANK = k, MASTER_ADDR and MASTER_PORT as in the main container, in each: what a
    step that downloads its pod's shard wants, whatever the training process reads.
    Source: the training-operator appends its env to containers only (asked for in kubeflow/trainer #1690).
    """
    if not case.order.asked.init_containers:
        return None
    rank, pods = str(case.facts.at), str(case.facts.of)
    wanted = [("RANK", rank), ("WORLD_SIZE", pods), ("NODE_RANK", rank), *_copied(case)]
    meant = case.order.pod.init_containers
    earlier = case.order.earlier
    if earlier is not None and not (earlier.status is Status.WOULD_CHANGE and "I1" in earlier.rules):
        # A template's init containers come with the pod: one that appears after our call is another webhook's.
        meant = tuple(c for c in meant if "NODE_RANK" in c.env and "RANK" in c.env)
    if not meant:
        return None
    return tuple(edit for container in meant for edit in env_edits(container, wanted))


def _copied(case: Case) -> contracts.Wanted:
    """MASTER_ADDR and MASTER_PORT of the main container, where they are plain text that means the same elsewhere."""
    env, new = case.container.env, dict(contracts.master(case))
    values = {name: env.text(name) if name in env else new.get(name) for name in ("MASTER_ADDR", "MASTER_PORT")}
    return [(name, value) for name, value in values.items() if value and "$(" not in value]

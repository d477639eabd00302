"""What the processes of a container will be, as far as its pod tells: without rankfix, and with it.

This is prediction for people, not part of a decision: where a reader of the pod can't be certain it says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.facts import plain
from webhook.launch import LaunchClass

if TYPE_CHECKING:
    from webhook.explained import Kind, Outlook
    from webhook.launch import FlagValue, Launch, LauncherStart
    from webhook.pod import Env

API_SERVER = "KUBERNETES_SERVICE_HOST"
_TORCH = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "tune run")
_DYNAMIC = ("c10d", "etcd", "etcd-v2")
_PROGRAMS = (LaunchClass.PYTHON, LaunchClass.ENTRYPOINT, LaunchClass.OWN_LAUNCHER)


@dataclass(frozen=True, slots=True)
class View:
    """One container, before or after: its env and launch, and what is known of its pod.

    `procs` is the declared N of this container (of twins each its share), `contract` the one rankfix gives it here.
    """

    env: Env
    launch: Launch
    node: int | None
    pods: int | None
    procs: int | None
    gpus: int | None
    contract: str = ""


def of(view: View) -> Outlook:
    """What the container's processes will be."""
    return _special(view) or _usual(view)


def _special(view: View) -> Outlook | None:
    launch = view.launch
    if launch.parse_error:
        return told("unknown", "its shell text can't be read")
    if launch.deepspeed and not view.contract:
        return told("alone", "deepspeed without a hostfile: alone in its pod")
    if launch.literal_rank and view.procs != 1:
        return told("unknown", "each of its processes is told one and the same --rank")
    return None


def _usual(view: View) -> Outlook:
    launch = view.launch
    if launch.launchers:
        return _launcher(view, launch.launchers[-1])
    if launch.cls is LaunchClass.LAUNCHER_ENV:
        return _fed(view)
    if view.contract == "node" or (launch.cls is LaunchClass.PYTHON and launch.multiprocessing_distributed):
        return _spawned(view)
    if view.contract != "process" and launch.cls is LaunchClass.PYTHON and launch.node_count_in_sight:
        return _counts_nodes(view)
    if view.contract == "process" or launch.cls in _PROGRAMS:
        return _program(view)
    return told("unknown", "up to its own script")


# -- programs that read the pair themselves


def _program(view: View) -> Outlook:
    env = view.env
    if "RANK" not in env or "WORLD_SIZE" not in env:
        return told("unknown" if view.pods == 1 else "alone", "no RANK: alone in its pod, or an error")
    rank, world = plain(env.text("RANK")), plain(env.text("WORLD_SIZE"))
    if rank is None or world is None:
        return told("unknown", "RANK or WORLD_SIZE isn't known before the pod runs")
    if view.launch.cls is LaunchClass.OWN_LAUNCHER and "NODE_RANK" not in env and (view.pods or 1) > 1:
        return told("fails", "composer stops: no NODE_RANK")
    local = plain(env.text("LOCAL_WORLD_SIZE")) if "LOCAL_WORLD_SIZE" in env else None
    return _ranks(rank, local or view.procs or 1, world)


def _spawned(view: View) -> Outlook:
    """Each pod starts its own processes from a node pair."""
    rank, world = plain(view.env.text("RANK")), plain(view.env.text("WORLD_SIZE"))
    if rank is None or world is None:
        return told("unknown", "RANK or WORLD_SIZE isn't known before the pod runs")
    if view.pods is not None and world != view.pods:
        return _too_many(world, view.pods)
    return _of_nodes(rank, world, view.procs or view.gpus)


def _counts_nodes(view: View) -> Outlook:
    """A program with a node count among its flags, as Lightning: it starts its processes, and wants NODE_RANK."""
    rank = plain(view.env.text("NODE_RANK")) if "NODE_RANK" in view.env else None
    if rank is None or view.pods is None:
        return told("unknown", "counts nodes itself, and has no NODE_RANK")
    return _of_nodes(rank, view.pods, view.procs)


def _fed(view: View) -> Outlook:
    """Names or flags of a program that isn't one of torch's launchers: it counts nodes by WORLD_SIZE."""
    counts = any(fed.what == "node_count" and fed.source == "WORLD_SIZE" for fed in view.launch.fed)
    rank, world = plain(view.env.text("RANK")), plain(view.env.text("WORLD_SIZE"))
    if rank is None or world is None or view.pods is None or not counts:
        return told("unknown", "up to its launcher")
    return _too_many(world, view.pods) if world != view.pods else _of_nodes(rank, world, None)


# -- torch's launchers, and those built on them


def _launcher(view: View, start: LauncherStart) -> Outlook:
    env, torch = view.env, start.program in _TORCH
    if torch and env.text("PET_STANDALONE") == "" and not start.standalone:
        return told("fails", "torchrun stops: PET_STANDALONE is empty")
    if start.standalone or env.text("PET_STANDALONE") == "1":
        return _alone(view, start)
    if start.dynamic or (env.text("PET_RDZV_BACKEND") in _DYNAMIC and "PET_RDZV_BACKEND" in env):
        return _given(view, start)
    nodes = _number(start.node_count, env, "PET_NNODES", 1)
    if nodes is None:
        return told("unknown", "up to its launcher")
    if start.master_addr is not None and start.master_addr.feeds == {API_SERVER}:
        return told("waits", "waits for a master at the API server's address")
    return _static(view, start, nodes)


def _static(view: View, start: LauncherStart, nodes: int) -> Outlook:
    pods, count = view.pods or 1, _count(view, start)
    if nodes == 1 and pods > 1:
        return _alone(view, start)
    if nodes > pods:
        return _too_many(nodes, pods)
    rank = _number(start.node_rank, view.env, "PET_NODE_RANK", 0)
    if rank is None or nodes < pods:
        return told("unknown", "up to its launcher" if nodes == pods else f"expects {nodes} of the {pods} pods")
    meets = start.master_addr is not None or start.rdzv or "PET_MASTER_ADDR" in view.env or nodes == 1
    return _of_nodes(rank, nodes, count) if meets else told("waits", "looks for the master in its own pod")


def _alone(view: View, start: LauncherStart) -> Outlook:
    count = _count(view, start)
    if (view.pods or 1) == 1:
        return _of_nodes(0, 1, count)
    return told("alone", "alone in its pod" if count is None else f"alone in its pod, ranks 0-{count - 1} of {count}")


def _given(view: View, start: LauncherStart) -> Outlook:
    """A rendezvous gives out ranks; how many nodes it waits for is a range."""
    text = view.env.text("PET_NNODES") or ""
    low, _, high = text.partition(":") if start.node_count is None else ("", "", "")
    if high.isdigit() and low == high and view.pods is not None and int(high) < view.pods:
        return told("waits", f"{view.pods} pods come to a rendezvous of {high}: it doesn't end well")
    if high.isdigit() and low.isdigit() and low != high:
        return told("given", f"given out when {low} to {high} nodes have met")
    return told("given", "given out when its nodes have met")


def _count(view: View, start: LauncherStart) -> int | None:
    """The processes that a launcher starts here; None where nobody can tell before it runs."""
    if start.program not in _TORCH:
        return None
    flag = start.nproc
    text = flag.literal if flag is not None else view.env.text("PET_NPROC_PER_NODE")
    if flag is not None and text is None and len(flag.feeds) == 1:
        text = view.env.text(next(iter(flag.feeds)))
    if flag is None and "PET_NPROC_PER_NODE" not in view.env:
        return 1
    return view.gpus if text in ("auto", "gpu") else plain(text)


def _number(flag: FlagValue | None, env: Env, fallback: str, default: int) -> int | None:
    """The number that a flag says, by itself or by an env entry; without the flag torch looks at `fallback`."""
    if flag is None:
        return plain(env.text(fallback)) if fallback in env else default
    if flag.literal is not None:
        return plain(flag.literal)
    return plain(env.text(next(iter(flag.feeds)))) if len(flag.feeds) == 1 else None


# -- words


def _too_many(nodes: int, pods: int) -> Outlook:
    return told("waits", f"waits for {nodes} nodes, and there {'is' if pods == 1 else 'are'} {pods}")


def _of_nodes(rank: int, nodes: int, count: int | None) -> Outlook:
    if count is None:
        return told("nodes", f"node {rank} of {nodes}", (rank, rank, nodes))
    return _ranks(rank * count, count, nodes * count)


def _ranks(first: int, count: int, world: int) -> Outlook:
    last = first + count - 1
    return told("ranks", f"rank{f's {first}-{last}' if count > 1 else f' {first}'} of {world}", (first, last, world))


def told(kind: Kind, text: str, numbers: tuple[int, int, int] | None = None) -> Outlook:
    """An outlook in words, and with first, last and world where they are known."""
    first, last, world = numbers or (None, None, None)
    return {"kind": kind, "text": text, "first": first, "last": last, "world": world}

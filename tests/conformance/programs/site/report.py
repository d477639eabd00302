"""What every training program of the corpus does once it knows its place: join its group, and write down who is in it.

    report.train()                       # the place is in RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
    report.train(rank=3, world=4, url="tcp://job-master-0:23456")
    report.spawn(2, function)            # function(0) and function(1), each in a process of its own

A process writes lines of JSON to `$CONFORMANCE_OUT/POD.PID.jsonl`: `start` before it joins, `joined` with the members
of its group, `done` after the last collective. The conformance runner reads no exit message, only these.
Images have this module in their site-packages; it needs torch and nothing else.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_STEP = 0.5  # seconds of a step, where training goes on until it is told to stop
_NAMES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
)


def gpus() -> int:
    """How many GPUs this container has: what a framework would ask the driver for, and the case's job says."""
    return int(os.environ.get("CONFORMANCE_GPUS", "1"))


def device(index: int) -> None:
    """Take a GPU, which fails as CUDA does where there is no such one.

    Raises:
        RuntimeError: the container has fewer GPUs.
    """
    if index >= gpus():
        message = f"CUDA error: invalid device ordinal (cuda:{index} of {gpus()})"
        raise RuntimeError(message)


def train(
    rank: int | None = None, world: int | None = None, url: str = "env://", shard: tuple[int, int] | None = None
) -> None:
    """Join the group, see who is in it, and end; where the runner says when to end, go on until then.

    `rank` and `world` are what the caller hands to torch; without them torch reads RANK and WORLD_SIZE. `shard` is
    what this process has of the data, (number, of): training fails where the group lacks one.

    Raises:
        Exception: whatever torch raises.
        RuntimeError: the group has not got all shards.
    """
    started()
    import torch.distributed as dist  # noqa: PLC0415 - a second of work, which parents that only spawn are spared

    place = {} if rank is None or world is None else {"rank": rank, "world_size": world}
    dist.init_process_group("gloo", init_method=url, **place)
    joined(shard)


def started() -> None:
    """Say that this process is one that trains, before it looks for others; once is enough."""
    if not _file().exists():
        _write("start", env={name: os.environ[name] for name in _NAMES if name in os.environ})


def joined(shard: tuple[int, int] | None = None) -> None:
    """Say who is in the group that this process is in, train, and end; see `train`."""
    import torch.distributed as dist  # noqa: PLC0415 - see `train`

    mine = (_pod(), os.getpid(), dist.get_rank(), shard)
    everybody: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, mine)
    _write("joined", rank=mine[2], world=len(everybody), members=[member[:3] for member in everybody])
    _complete([member[3] for member in everybody if member[3] is not None])
    _go_on(dist)
    dist.barrier()
    _write("done")
    dist.destroy_process_group()


def alone(shard: tuple[int, int] | None = None) -> None:
    """Train without any group, as a script without torch.distributed does; `shard`, (number, of), is its data."""
    started()
    more = {} if shard is None else {"shard": shard[0], "shards": shard[1]}
    _write("joined", rank=0, world=1, members=[(_pod(), os.getpid(), 0)], **more)
    _write("done")


def spawn(count: int, function: Callable[[int], None]) -> None:
    """Run `function(0)` to `function(count - 1)`, each in a process; the first that fails ends all, as torch's does.

    Raises:
        SystemExit: one of them failed.
    """
    context = multiprocessing.get_context("fork")  # nothing big is loaded yet, and no thread runs
    children = [context.Process(target=function, args=(index,)) for index in range(count)]
    for child in children:
        child.start()
    while any(child.is_alive() for child in children):
        if any(child.exitcode for child in children):
            for child in children:
                child.terminate()
        time.sleep(0.05)
    if failed := [child.exitcode for child in children if child.exitcode]:
        sys.exit(f"a spawned process ended with code {failed[0]}")


def _complete(shards: list[tuple[int, int]]) -> None:
    """Raises RuntimeError where the group lacks a part of the data."""
    count = max((of for _, of in shards), default=0)
    if missing := sorted(set(range(count)) - {number for number, _ in shards}):
        message = f"no process has shard {', '.join(map(str, missing))} of {count}"
        raise RuntimeError(message)


def _go_on(dist: Any) -> None:
    """Take steps together until the runner's file is there; all ranks see it in the same step."""
    name = os.environ.get("CONFORMANCE_STOP")
    while name:
        told: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(told, Path(name).exists())
        if any(told):
            return
        time.sleep(_STEP)


def _pod() -> str:
    return os.environ["HOSTNAME"]


def _file() -> Path:
    return Path(os.environ["CONFORMANCE_OUT"]) / f"{_pod()}.{os.getpid()}.jsonl"


def _write(event: str, **more: Any) -> None:
    line = {"event": event, "pod": _pod(), "pid": os.getpid(), **more}
    with _file().open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")

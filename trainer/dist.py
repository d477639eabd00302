"""The process group: which device and backend, how long to wait, and how ranks agree."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
from torch import Tensor, distributed

from trainer.errors import LaunchError, PeerLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trainer.rollcall import Roll
    from trainer.world import Seat

GO_ON, STOP, REFUSE = 0, 1, 2  # what a rank may want at a step boundary; the highest wish of all ranks counts
# What torch says, in some version or other, when the other end of a collective is gone or silent.
SIGNS = ("gloo", "nccl", "connection", "timed out", "timeout", "broken pipe", "socket", "recvvalue", "store")


@dataclass(frozen=True, slots=True)
class Device:
    """Where this rank computes, and over what it talks."""

    torch: torch.device
    backend: str
    name: str
    unique: str = ""  # of a GPU: the same for every process that sees it

    @property
    def on_gpu(self) -> bool:
        """Whether work is queued rather than done at once."""
        return self.torch.type == "cuda"

    @property
    def steps_between_agreements(self) -> int:
        """A GPU runs ahead of its host by several steps, and is not to be held up at every one."""
        return 10 if self.on_gpu else 1


def choose_device(seat: Seat, wanted: str, backend: str) -> Device:
    """The GPU of this process's local rank where there are GPUs, else the CPU."""
    gpus = torch.cuda.device_count() if wanted != "cpu" else 0
    if wanted == "cuda" and gpus == 0:
        raise LaunchError("--device cuda: no GPU is visible here; check the pod's GPU limit, or pass --device cpu")
    if gpus == 0:
        if backend == "nccl":
            raise LaunchError("--backend nccl needs a GPU, and none is visible here; pass --backend gloo")
        return Device(torch.device("cpu"), "gloo", "cpu")
    if seat.local_rank >= gpus:
        raise LaunchError(
            f"LOCAL_RANK {seat.local_rank} has no GPU: {gpus} visible here for {seat.local_world_size} processes; "
            "raise the pod's GPU limit, or pass --device cpu"
        )
    torch.cuda.set_device(seat.local_rank)
    properties = torch.cuda.get_device_properties(seat.local_rank)
    return Device(
        torch.device("cuda", seat.local_rank),
        "nccl" if backend == "auto" else backend,
        f"cuda:{seat.local_rank} {properties.name}",
        str(getattr(properties, "uuid", "")),
    )


def set_threads(seat: Seat, cpus: int) -> None:
    """Shares the CPUs between the processes of this pod; a user's OMP_NUM_THREADS goes first."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, cpus // seat.local_world_size))


def open_group(seat: Seat, roll: Roll, device: Device, timeout: float) -> None:
    """Joins the ranks of an accepted roll call, over the same store."""
    # A CPU group beside NCCL lets ranks agree without waiting for their GPUs.
    backend = "gloo" if device.backend == "gloo" else "cpu:gloo,cuda:nccl"
    with peers(lambda: "while the process group was formed"):
        distributed.init_process_group(
            backend,
            store=distributed.PrefixStore("group", roll.store),
            rank=seat.rank,
            world_size=seat.world_size,
            timeout=timedelta(seconds=timeout),
            device_id=device.torch if device.backend == "nccl" else None,
        )


def tighten(timeout: float) -> None:
    """From start-up's patience to that of steady work, once all ranks have got as far as this."""
    distributed.all_reduce(torch.zeros(1))  # on the CPU group; a rank still starting may not be timed out by others
    distributed.distributed_c10d._set_pg_timeout(timedelta(seconds=timeout))  # noqa: SLF001  # nothing public sets it


def close_group() -> None:
    """Leaves together. Only for ends that all ranks know of: after a loss this could block for ever."""
    distributed.all_reduce(torch.zeros(1))
    distributed.destroy_process_group()


def agree(wish: int) -> int:
    """The highest wish of all ranks."""
    flag = torch.tensor([wish])
    distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
    return int(flag[0])


def total(values: Tensor) -> list[float]:
    """The sums of `values` over all ranks, as numbers."""
    distributed.all_reduce(values)
    return [float(value) for value in values.reshape(-1).tolist()]


def share_bytes(content: bytes | None) -> bytes | None:
    """What rank 0 holds, on every rank; None where that is None."""
    size = torch.tensor([-1 if content is None else len(content)])
    distributed.broadcast(size, src=0)
    if int(size[0]) < 0:
        return None
    body = bytearray(content or bytes(int(size[0])))
    distributed.broadcast(torch.frombuffer(body, dtype=torch.uint8), src=0)  # the tensor writes through to `body`
    return bytes(body)


@contextmanager
def peers(when: Callable[[], str]) -> Iterator[None]:
    """Turns what torch raises when another process is gone into PeerLost; other errors pass. `when` is for the text."""
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        if not isinstance(error, distributed.DistError) and not any(sign in text.lower() for sign in SIGNS):
            raise
        raise PeerLost(
            f"lost another rank {when()}, whose own log tells why; noticed here as: {_gist(text)}"
        ) from error


def _gist(text: str) -> str:
    """What torch says, without where in its sources it says it and what it thinks the user should do."""
    return re.sub(r"^\[[^\]]*\] *", "", " ".join(text.split())).split(". ")[0][:160]

"""The proof at the end of a run: the ranks were right, and every one of them has the same network."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch
from torch import distributed, nn

from trainer.errors import TargetMissed

if TYPE_CHECKING:
    from trainer.dist import Device
    from trainer.world import Seat


def checksum(network: nn.Module) -> int:
    """A number that differs if any bit of any parameter or buffer does."""
    total = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        total.update(name.encode())
        total.update(bytes(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()))
    return int.from_bytes(total.digest()[:7], "big")


def confirm(network: nn.Module, seat: Seat, device: Device, *, seen: int, test_images: int) -> dict[str, int | str]:
    """The fields of the `verified` line, or TargetMissed with all that is wrong."""
    own = checksum(network)
    low, high, ranks = (torch.tensor([number], device=device.torch) for number in (own, own, seat.rank))
    distributed.all_reduce(low, op=distributed.ReduceOp.MIN)
    distributed.all_reduce(high, op=distributed.ReduceOp.MAX)
    distributed.all_reduce(ranks)
    wrong = []
    if int(low) != int(high):
        wrong.append("the parameters differ between ranks")
    if seen != test_images:
        wrong.append(f"{seen} test images were seen instead of {test_images}")
    if int(ranks) != seat.world_size * (seat.world_size - 1) // 2:
        wrong.append(f"the ranks add up to {int(ranks)}, those of {seat.world_size} would not")
    if wrong:
        raise TargetMissed(f"verification failed: {'; '.join(wrong)}; the result is not to be trusted")
    return {"ranks": seat.world_size, "parameters": "equal", "seen": seen}

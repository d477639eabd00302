"""What is trained when: pure functions of seed, epoch, step and rank. Imports no torch.

All ranks compute the same plan, so nothing about it has to be communicated, and a resumed run
continues exactly where the interrupted one would have gone.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from trainer.errors import LaunchError


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a whole run. The last, incomplete batch of an epoch is left out; the order differs each epoch."""

    images: int
    batch: int
    epochs: int

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps in one epoch."""
        return self.images // self.batch

    @property
    def steps(self) -> int:
        """Optimizer steps in the run."""
        return self.steps_per_epoch * self.epochs

    def epoch_of(self, step: int) -> int:
        """The epoch that `step` belongs to, both counted from 0."""
        return step // self.steps_per_epoch

    def evaluates(self, epoch: int) -> bool:
        """Whether the test set is looked at after `epoch`: some eight times in a run, and always at the end."""
        every = max(1, round(self.epochs / 8))
        return (self.epochs - 1 - epoch) % every == 0

    def batch_of(self, step: int) -> tuple[int, int]:
        """The slice of the epoch's order that `step` trains on, over all ranks."""
        start = step % self.steps_per_epoch * self.batch
        return start, start + self.batch


def make_plan(images: int, batch: int, epochs: int, world_size: int) -> Plan:
    """A plan in which every rank has work at every step, or a LaunchError that says what to change."""
    if batch > images:
        raise LaunchError(f"the global batch of {batch} is larger than the {images} training images; lower --batch")
    if world_size > batch:
        raise LaunchError(f"a global batch of {batch} can't feed {world_size} ranks; raise --batch")
    return Plan(images, batch, epochs)


def share(start: int, stop: int, rank: int, world_size: int) -> tuple[int, int]:
    """Rank's part of [start, stop): the parts of all ranks tile it, in order, and differ by at most one in size."""
    length = stop - start
    return start + length * rank // world_size, start + length * (rank + 1) // world_size


def stream(seed: int, purpose: str, number: int) -> int:
    """A seed of its own for each purpose and number, so that no two random streams of a run overlap."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def one_cycle(step: int, steps: int, peak: float, *, rise: float = 0.25) -> float:
    """Learning rate at `step`: from peak/25 up to peak in the first quarter, then down to almost nothing, by cosine."""
    place = step / max(1, steps - 1)
    if place < rise:
        return _cosine(peak / 25, peak, place / rise)
    return _cosine(peak, peak / 1e4, (place - rise) / (1 - rise))


def default_epochs(images: int) -> int:
    """Enough passes to reach 99 % where the images allow it: a small set needs more of them than the full one."""
    return max(4, min(20, round(150_000 / images)))


def _cosine(start: float, end: float, place: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * place)) / 2

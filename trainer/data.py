"""The data set on the device: whole, as bytes, normalised batch by batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from trainer import plan

if TYPE_CHECKING:
    from trainer.corpus import Corpus, Split

# Mean and deviation of the 60,000 official training images, as everybody uses them.
MEAN, DEVIATION = 0.1307, 0.3081
TURN, ZOOM, SHIFT = math.radians(10), 0.1, 2 / 14  # largest distortion: 10 degrees, 10 %, 2 of 14 half-pixels


@dataclass(frozen=True, slots=True)
class Digits:
    """A split on its device."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass: in which order, and how each image of it is distorted (None: not at all)."""

    order: Tensor
    distortion: Tensor | None


def load(corpus: Corpus, device: torch.device) -> tuple[Digits, Digits]:
    """Moves the training and the test split to the device."""
    return _digits(corpus.train, device), _digits(corpus.test, device)


def draw_epoch(seed: int, epoch: int, images: int, device: torch.device, *, augment: bool) -> Epoch:
    """The order and distortions of `epoch`, for all ranks together: a function of the arguments and nothing else.

    Drawn on the CPU whatever the device, since generators of different devices give different numbers.
    """
    order = torch.randperm(images, generator=_generator(seed, "order", epoch))
    distortion = None
    if augment:
        draws = torch.rand(4, images, generator=_generator(seed, "augment", epoch)) * 2 - 1
        distortion = _affine(draws).to(device)
    return Epoch(order.to(device), distortion)


def take(digits: Digits, epoch: Epoch, start: int, stop: int) -> tuple[Tensor, Tensor]:
    """The normalised images and the labels at places start..stop of the epoch's order."""
    chosen = epoch.order[start:stop]
    images = normalise(digits.images.index_select(0, chosen))
    if epoch.distortion is not None:
        images = distort(images, epoch.distortion[start:stop])
    return images, digits.labels.index_select(0, chosen)


def normalise(images: Tensor) -> Tensor:
    """Bytes to floats around 0, with the channel dimension that convolutions want."""
    return (images.unsqueeze(1).float() / 255 - MEAN) / DEVIATION


def distort(images: Tensor, affine: Tensor) -> Tensor:
    """Each image under its own affine map; what comes in from outside is background."""
    background = -MEAN / DEVIATION
    grid = functional.affine_grid(affine, list(images.shape), align_corners=False)
    return functional.grid_sample(images - background, grid, align_corners=False) + background


def _affine(draws: Tensor) -> Tensor:
    turn, zoom = draws[0] * TURN, 1 + draws[1] * ZOOM
    cos, sin = torch.cos(turn) * zoom, torch.sin(turn) * zoom
    rows = torch.stack([cos, -sin, draws[2] * SHIFT]), torch.stack([sin, cos, draws[3] * SHIFT])
    return torch.stack(rows).permute(2, 0, 1).contiguous()


def _generator(seed: int, purpose: str, number: int) -> torch.Generator:
    return torch.Generator().manual_seed(plan.stream(seed, purpose, number))


def _digits(split: Split, device: torch.device) -> Digits:
    # bytearray, since torch warns about tensors over memory that it may not write to.
    images = torch.frombuffer(bytearray(split.images.data), dtype=torch.uint8).view(split.images.shape)
    labels = torch.frombuffer(bytearray(split.labels.data), dtype=torch.uint8)
    return Digits(images.to(device), labels.to(device, torch.int64))

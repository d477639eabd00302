"""The two networks, and the optimizer that goes with each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainer import plan

if TYPE_CHECKING:
    from collections.abc import Callable


class ConvNet(nn.Module):
    """Two convolutions and two linear layers, 215,000 weights: reaches 99 % in a few epochs.

    It has neither dropout nor batch norm, so that every world size computes the same gradient, and
    pools before each activation, which computes the same as the other order on a quarter of the pixels.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 24, 5)
        self.second = nn.Conv2d(24, 32, 3)
        self.hidden = nn.Linear(32 * 5 * 5, 256)
        self.out = nn.Linear(256, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of normalised [n, 1, 28, 28] images."""
        images = functional.relu(functional.max_pool2d(self.first(images), 2))
        images = functional.relu(functional.max_pool2d(self.second(images), 2))
        logits: Tensor = self.out(functional.relu(self.hidden(images.flatten(1))))
        return logits


class SimpleNet(nn.Module):
    """The one-layer network of the common tutorial: 784 inputs, 10 outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(28 * 28, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of normalised [n, 1, 28, 28] images."""
        logits: Tensor = self.out(images.flatten(1))
        return logits


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one model is trained unless the command line says otherwise."""

    network: Callable[[], nn.Module]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    rate: Callable[[int, int, float], float]
    peak: float


def _adam(network: nn.Module) -> torch.optim.Optimizer:
    # These betas forget quickly: with a few hundred steps in all, the usual 0.999 never settles.
    return torch.optim.Adam(network.parameters(), betas=(0.7, 0.99))


def _sgd(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(network.parameters())


def _constant(_step: int, _steps: int, peak: float) -> float:
    return peak


def recipe_of(model: str) -> Recipe:
    """The recipe of `convnet` or `linear`."""
    if model == "linear":
        return Recipe(SimpleNet, _sgd, _constant, 0.01)
    return Recipe(ConvNet, _adam, plan.one_cycle, 0.01)


def build(recipe: Recipe, seed: int) -> nn.Module:
    """A network whose first weights depend on the seed alone, so that all ranks start equal."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.stream(seed, "weights", 0))
        return recipe.network()

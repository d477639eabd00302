"""Draws the course of a run as SVG. The only importer of matplotlib, which is an extra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def check(path: Path) -> None:
    """Fails before training rather than after it if the plot can't be drawn."""
    if path.suffix != ".svg":
        raise LaunchError(f"--plot {path}: the name must end in .svg")
    try:
        import matplotlib.figure  # noqa: F401, PLC0415  # the extra may be missing, and takes a second to load
    except ImportError as error:
        raise LaunchError("--plot needs matplotlib; install it, or leave --plot out") from error


def draw(path: Path, epochs: Sequence[int], losses: Sequence[float], accuracies: Sequence[float | None]) -> None:
    """Training loss of every epoch, and the accuracy of those that were evaluated."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # see check()
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415  # see check()

    figure = Figure(figsize=(7, 4), layout="constrained")
    left = figure.subplots()
    left.set_xlabel("epoch")
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.set_ylabel("training loss", color="tab:blue")
    left.set_yscale("log")
    left.plot(epochs, losses, color="tab:blue", marker="o", markersize=3)
    right = left.twinx()
    right.set_ylabel("test accuracy", color="tab:orange")
    known = [(epoch, accuracy) for epoch, accuracy in zip(epochs, accuracies, strict=True) if accuracy is not None]
    right.plot(
        [epoch for epoch, _ in known], [value for _, value in known], color="tab:orange", marker="s", markersize=3
    )
    figure.savefig(path, format="svg", metadata={"Date": None})

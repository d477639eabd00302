"""Tells the demo to a person, and keeps book of what it promised."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich import box
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

WIDTH = 100


@dataclass(slots=True)
class Story:
    """What is said, and of each promise whether it was kept."""

    console: Console
    promises: list[tuple[bool, str]] = field(default_factory=list)

    def act(self, title: str) -> None:
        """A new chapter."""
        self.console.print()
        self.console.rule(Text(title, style="bold"), align="left", style="cyan")

    def say(self, text: str, style: str = "") -> None:
        """A sentence."""
        self.console.print(Text(text, style=style))

    def command(self, text: str) -> None:
        """What the pods run."""
        self.console.print(Text.assemble(("\n$ ", "cyan"), (text, "bold")))

    def line(self, pod: str, text: str, style: str = "dim") -> None:
        """A line that a pod wrote."""
        self.console.print(Text.assemble((f"  {pod}: ", "cyan"), (text, style)))

    def promise(self, text: str, *, kept: bool) -> bool:
        """Note a promise, and say how it went."""
        self.promises.append((kept, text))
        mark, style = ("✓", "green") if kept else ("✗ BROKEN:", "bold red")
        self.console.print(Text(f"{mark} {text}", style=style))
        return kept

    @property
    def kept(self) -> bool:
        """Whether all of them were, and there were any."""
        return bool(self.promises) and all(kept for kept, _ in self.promises)

    def table(self, headings: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
        """A table; cells with an arrow have changed."""
        made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in headings:
            made.add_column(heading, overflow="fold")
        for row in rows:
            made.add_row(*(Text(cell, style="green" if "→" in cell else "") for cell in row))
        self.console.print(made)

    @property
    def moves(self) -> bool:
        """Whether something may move on the screen."""
        return self.console.is_terminal and not self.console.record

    def bar(self) -> Progress:
        """A progress bar, for terminals; elsewhere it shows nothing."""
        return Progress(
            TextColumn("  {task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} epochs  {task.fields[told]}"),
            console=self.console,
            transient=True,
            disable=not self.moves,
        )

"""What a run says: one event at a time, as text, as JSON, or around a progress bar. Imports no torch."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

Value = str | int | float | bool | None
MESSAGE_LIMIT = 4000  # Kubernetes cuts a termination message at 4096 bytes


class Report(Protocol):
    """Where events go. A context manager, since a progress bar must leave the terminal tidy."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def event(self, name: str, /, **fields: Value) -> None:
        """Something that happened, once."""

    def progress(self, step: int, steps: int) -> None:
        """How far training is; called at every step."""


class Silent:
    """The report of every rank but 0: one voice a job is enough."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def event(self, name: str, /, **fields: Value) -> None:
        """Nothing."""

    def progress(self, step: int, steps: int) -> None:
        """Nothing."""


class Lines(Silent):
    """A line an event, made by `line`."""

    def __init__(self, out: TextIO, line: Callable[[str, Mapping[str, Value]], str]) -> None:
        self._out, self._line = out, line

    def event(self, name: str, /, **fields: Value) -> None:
        """Writes the line at once: a pod's log is read while it runs."""
        self._out.write(self._line(name, fields) + "\n")
        self._out.flush()


class Bar(Silent):
    """Text lines above a progress bar, on a terminal."""

    def __init__(self, out: TextIO) -> None:
        self._console = Console(file=out, highlight=False, soft_wrap=True)
        columns = (
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task("training", total=None, visible=False)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def event(self, name: str, /, **fields: Value) -> None:
        """Prints above the bar."""
        self._console.print(text(name, fields), markup=False)

    def progress(self, step: int, steps: int) -> None:
        """Moves the bar; drawing it is left to its own thread."""
        self._bar.update(self._task, completed=step, total=steps, visible=step < steps)


def choose(rank: int, *, as_json: bool, out: TextIO | None = None) -> Report:
    """The report of a rank: rank 0 speaks, in JSON if asked, around a bar on a terminal, else in plain lines."""
    out = out or sys.stdout
    if rank != 0:
        return Silent()
    if as_json:
        return Lines(out, json_line)
    return Bar(out) if out.isatty() else Lines(out, text)


def json_line(name: str, fields: Mapping[str, Value]) -> str:
    """The event as one JSON object, with the time of day."""
    return json.dumps({"event": name, "time": round(time.time(), 3), **fields})


def text(name: str, fields: Mapping[str, Value]) -> str:
    """The event as a line for people. Results are bare `name=value`, the way Katib's collector reads them."""
    if "message" in fields:
        return f"{name}: {fields['message']}"
    pairs = " ".join(f"{key}={_short(value)}" for key, value in fields.items() if value is not None)
    return pairs if name == "result" else f"{name} {pairs}"


def leave_message(path: Path, message: str) -> None:
    """Writes the termination message that `kubectl describe pod` shows, where Kubernetes has made a file for it."""
    if path.exists():
        with suppress(OSError):
            path.write_text(message[:MESSAGE_LIMIT] + "\n")


def _short(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 1 else f"{value:.2f}"
    text = str(value)
    return json.dumps(text) if " " in text else text

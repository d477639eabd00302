"""An explanation as people read it: a job's verdict, what its containers start, and a row for each of them.

Plain text and colours come from the same lines; what a terminal underlines, plain text marks in the line below.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from webhook.show_groups import Group, Row, column_names, grouped, rows, settings, words
from webhook.show_words import marked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from webhook.explained import Advice, Job, Report

WIDTH = 100
_INDENT = 10
_FEW = 3  # names of pods in a line
_COLOURS = {"works": "green", "broken": "red", "unknown": "yellow"}


def plain(report: Report) -> str:
    """The text for a pipe or a file."""
    stream = io.StringIO()
    console = Console(file=stream, width=WIDTH, color_system=None, highlight=False, soft_wrap=False)
    show(report, console, underline=False)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def show(report: Report, console: Console, *, underline: bool = True) -> None:
    """Print the jobs of a report, a blank line between two."""
    for number, job in enumerate(report["jobs"]):
        if number:
            console.print()
        for part in _job(job, underline=underline):
            console.print(part, markup=False, highlight=False)


def _job(job: Job, *, underline: bool) -> Iterator[RenderableType]:
    yield _title(job)
    yield from _verdict(job)
    for note in job["notes"]:
        yield _entry("note", Text(note))
    groups = grouped(job)
    for group in groups:
        yield Text()
        yield from _group(group, several=len(groups) > 1, underline=underline)
    yield Text()
    yield Padding(_table(job), (0, 0, 0, 2))
    for setting in settings(job):
        yield _entry("also set", Text(setting))
    for change, pods in words(job):
        yield _entry("words", Text(f"{change}{f' ({pods})' if pods else ''}", style="green"))
    yield from _init(job)
    yield from _warnings(job)
    yield from _advice(job["advice"])


def _title(job: Job) -> Text:
    pods = len(job["pods"])
    told = f"  (training-operator {job['operator']}, {pods} pod{'s' if pods > 1 else ''})"
    colour = _COLOURS[job["verdict"]["after"]]
    return Text.assemble((job["name"], "bold"), ": ", (job["verdict"]["headline"], f"bold {colour}"), (told, "dim"))


def _verdict(job: Job) -> Iterator[RenderableType]:
    verdict = job["verdict"]
    told = (("without", verdict["before"], verdict["without"]), ("with it", verdict["after"], verdict["repaired"]))
    same = told[0][1:] == told[1][1:]
    for label, word, text in [("outcome", *told[1][1:])] if same else told:
        yield _entry(label, Text(text, style=_COLOURS[word]))


def _group(group: Group, *, several: bool, underline: bool) -> Iterator[RenderableType]:
    if several:
        yield Text(f"  {group.label}", style="bold")
    lines = list(marked(group.launch, WIDTH - _INDENT - 2, underline=underline))
    for number, line in enumerate(lines):
        yield _entry("starts" if not number else "", line)
    yield _entry("", Text(f"{group.launch['class']}: {group.launch['means']}", style="dim"))
    yield _entry("known", Text(group.facts))
    for rule, pods in group.rules:
        yield _entry(f"rule {rule['id']}", Text(f"{rule['why']}{f' ({pods})' if pods else ''}"))
    for why, pods in group.why:
        yield _entry("no rule", Text(f"{why}{f' ({pods})' if pods else ''}"))


def _entry(label: str, text: Text) -> Table:
    made = Table.grid(padding=(0, 1))
    made.add_column(width=_INDENT, no_wrap=True)
    made.add_column(overflow="fold")
    made.add_row(Text(f"  {label}", style="cyan"), text)
    return made


def _table(job: Job) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    names = column_names(job)
    for name in ("pod", "k", *names, "its processes"):
        made.add_column(name, overflow="fold", no_wrap=name != "its processes")
    for row in rows(job):
        made.add_row(*_cells(row, names))
    return made


def _cells(row: Row, names: list[str]) -> Iterator[Text]:
    yield Text(row.name)
    yield Text(row.node)
    for name in names:
        before, after = row.env.get(name, (None, None))
        yield Text(after or "", style="dim") if before == after else Text(f"{before or '-'} → {after}", style="green")
    yield Text(row.after, style="bold" if row.after != row.before else "")


def _init(job: Job) -> Iterator[RenderableType]:
    for pod in job["pods"]:
        for init in pod["initContainers"]:
            told = " ".join(f"{change['name']}={change['after']}" for change in init["env"])
            yield _entry("init", Text(f"{pod['name'].removeprefix(job['name'] + '-')}/{init['name']}: {told}"))


def _warnings(job: Job) -> Iterator[RenderableType]:
    told: dict[str, list[str]] = {}
    for pod in job["pods"]:
        for text in (*([pod["message"]] if pod["message"] else []), *pod["warnings"]):
            told.setdefault(text.removeprefix("rankfix: "), []).append(pod["name"].removeprefix(f"{job['name']}-"))
    refused = {pod["message"] for pod in job["pods"]}
    for text, names in told.items():
        if text == next(iter(told)):
            yield Text()
        few = f"{', '.join(names[:_FEW])}{', ...' if len(names) > _FEW else ''}"
        every = "" if len(names) == len(job["pods"]) else f" ({few})"
        yield _entry("refused" if text in refused else "warning", Text(f"{text}{every}", style="yellow"))


def _advice(advice: list[Advice]) -> Iterator[RenderableType]:
    for number, item in enumerate(advice):
        if not number:
            yield Text()
        yield _entry("advice", Text(item["text"]))
        for key, value in item.get("annotations", {}).items():
            yield _entry(
                "", Text(f'    {key}: "{value}"', style="bold").append("  in its templates' annotations", "dim")
            )
        for key, value in item.get("spec", {}).items():
            yield _entry("", Text(f'    {key}: "{value}"', style="bold").append("  in the job's spec", "dim"))

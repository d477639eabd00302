"""What `rankfix explain` does with a file: bytes -> the report on the jobs in it, and what couldn't be explained."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from webhook import documents, explain, jobs, operator_
from webhook.errors import RankfixError
from webhook.explained import VERSION, Job, Report
from webhook.show_job import plain
from webhook.show_markdown import markdown

if TYPE_CHECKING:
    from webhook.operator_ import Generation
    from webhook.policy import Policy


class Form(StrEnum):
    """The forms of the output."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


class UnknownOperator(RankfixError):
    """A version whose pods aren't known."""


@dataclass(slots=True)
class Told:
    """The jobs of a file, and a line for each thing that couldn't be explained; `notes` are about what could."""

    jobs: list[Job] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def refused(self) -> bool:
        """Whether rankfix would deny a pod."""
        return any(not pod["allowed"] for job in self.jobs for pod in job["pods"])


def operator(version: str) -> Generation:
    """The operator's generation.

    Raises:
        UnknownOperator: with the ones that are known.
    """
    found = operator_.generation(version)
    if found is None:
        known = ", ".join(operator_.GENERATIONS)
        raise UnknownOperator(f"--operator {version[:20]!r}: the training-operators whose pods are known are {known}")
    return found


@dataclass(frozen=True, slots=True)
class Source:
    """A file's name, and what its jobs are to be explained with."""

    name: str
    made_by: Generation
    policy: Policy


def explain_file(data: bytes, source: Source) -> Told:
    """The jobs in a file. Other objects in it are passed over, unless there is no job at all."""
    told, found, strangers = Told(), False, []
    for document in documents.parse(data, prefer_yaml=source.name.endswith((".yaml", ".yml"))):
        if isinstance(document, documents.Unreadable):
            told.problems.append(document.at(source.name))
            continue
        inside = jobs.find(document.value)
        found |= bool(inside)
        if not inside:
            strangers.append(documents.Unreadable(jobs.none_in(document.value), document.line).at(source.name))
        for line, column in document.unquoted if inside else ():
            place = f"{source.name}:{line}:{column}"
            told.notes.append(f"{place}: an unquoted value that is no string to Kubernetes: quote it")
        for job in inside:
            _explain(job, document.line, source, told)
    if not found and not told.problems:
        told.problems += strangers or [f"{source.name}: is empty: expected a {jobs.KIND} ({jobs.GROUP}/v1)"]
    return told


def _explain(job: jobs.Found, line: int, source: Source, told: Told) -> None:
    try:
        told.jobs.append(explain.explain(job.job, source.made_by, source.policy, where=job.where, line=line))
    except operator_.BadJob as exc:
        place = f"{source.name}:{line}" + (f": {job.where}" if job.where else "")
        told.problems += [f"{place}: {problem}" for problem in exc.problems]


def render(found: list[Job], form: Form) -> str:
    """The text of a report in one of the forms, without colours; nothing where there is no job."""
    report: Report = {"version": VERSION, "jobs": found}
    if form is Form.JSON:
        return json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    return markdown(report) if form is Form.MARKDOWN else plain(report)

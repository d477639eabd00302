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
    from webhook.yamltext import Document


class Form(StrEnum):
    """The forms of the output."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


class UnknownOperator(RankfixError):  # noqa: N818 - names the operator
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


def explain_file(data: bytes, name: str, made_by: Generation, policy: Policy) -> Told:
    """The jobs in a file. Other objects in it are passed over, unless there is no job at all."""
    told = Told()
    found = False
    strangers = []
    for document in documents.parse(data, prefer_yaml=name.endswith((".yaml", ".yml"))):
        if isinstance(document, documents.Unreadable):
            told.problems.append(document.at(name))
            continue
        inside = jobs.find(document.value)
        if not inside:
            strangers.append(documents.Unreadable(jobs.none_in(document.value), document.line).at(name))
        found |= bool(inside)
        for job in inside:
            _explain(job, document, name, made_by, policy, told)
    if not found and not told.problems:
        told.problems += strangers or [f"{name}: is empty: expected a {jobs.KIND} ({jobs.GROUP}/v1)"]
    return told


def _explain(  # noqa: PLR0913 - a job, where it stands, and what to do with it
    job: jobs.Found, document: Document, name: str, made_by: Generation, policy: Policy, told: Told
) -> None:
    for line, column in document.unquoted if not told.notes else ():
        told.notes.append(f"{name}:{line}:{column}: an unquoted value that is no string to Kubernetes: quote it")
    try:
        told.jobs.append(explain.explain(job.job, made_by, policy, where=job.where, line=document.line))
    except operator_.BadJob as exc:
        place = f"{name}:{document.line}" + (f": {job.where}" if job.where else "")
        told.problems += [f"{place}: {problem}" for problem in exc.problems]


def render(found: list[Job], form: Form) -> str:
    """The text of a report in one of the forms, without colours; nothing where there is no job."""
    report: Report = {"version": VERSION, "jobs": found}
    if form is Form.JSON:
        return json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    if not found:
        return ""
    return markdown(report) if form is Form.MARKDOWN else plain(report)

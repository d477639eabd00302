"""An explanation as Markdown, for an issue or a merge request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.show_groups import Group, column_names, grouped, rows, settings, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.explained import Job, Report


def markdown(report: Report) -> str:
    """The text, a section a job."""
    return "\n\n".join("\n".join(_job(job)) for job in report["jobs"]) + "\n"


def _job(job: Job) -> Iterator[str]:
    verdict = job["verdict"]
    yield f"## {_text(job['name'])}: {verdict['headline']}"
    yield ""
    yield f"Pods of training-operator {job['operator']}. Without rankfix: {_text(verdict['without'])}."
    yield f"With it: {_text(verdict['repaired'])}."
    yield from (f"\n- note: {_text(note)}" for note in job["notes"])
    for group in grouped(job):
        yield ""
        yield from _group(group)
    yield ""
    yield from _table(job)
    told = [
        *(f"also set: {_code(text)}" for text in settings(job)),
        *(f"changed: {_code(text)}" for text, _ in words(job)),
    ]
    messages = dict.fromkeys(text for pod in job["pods"] for text in (pod["message"], *pod["warnings"]) if text)
    told += [f"**warning**: {_text(text)}" for text in messages]
    told += [
        f"**advice**: {_advice(item['text'], {**item.get('annotations', {}), **item.get('spec', {})})}"
        for item in job["advice"]
    ]
    if told:
        yield ""
    yield from (f"- {line}" for line in told)


def _advice(text: str, values: dict[str, str]) -> str:
    return " ".join([_text(text), *(_code(f'{key}: "{value}"') for key, value in values.items())])


def _group(group: Group) -> Iterator[str]:
    launch = group.launch
    words = " ".join((*launch["command"], *launch["args"])) or "(the image's own command)"
    decided = ", ".join(_code(item["text"]) for item in launch["evidence"])
    yield f"- {group.label} starts {_code(words)}"
    yield f"  - class `{launch['class']}`{f', by {decided}' if decided else ''}: {_text(launch['means'])}"
    yield f"  - {_text(group.facts)}"
    yield from (
        f"  - rule **{rule['id']}**: {_text(rule['why'])}{f' ({pods})' if pods else ''}" for rule, pods in group.rules
    )
    yield from (f"  - no rule: {_text(why)}{f' ({pods})' if pods else ''}" for why, pods in group.why)


def _table(job: Job) -> Iterator[str]:
    names = column_names(job)
    yield _row(["pod", "k", *names, "its processes"])
    yield _row(["---"] * (len(names) + 3))
    for row in rows(job):
        values = [row.env.get(name, (None, None)) for name in names]
        cells = [after or "" if before == after else f"{before or '-'} → {after}" for before, after in values]
        yield _row([_text(row.name), row.node, *cells, _text(row.after)])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _text(text: str) -> str:
    """Text in which Markdown finds nothing to interpret."""
    return "".join(f"\\{char}" if char in "\\`*_<>[]#" else char for char in " ".join(text.split()))


def _code(text: str) -> str:
    """Text as code on one line: in as many ticks as it takes."""
    line = " ".join(text.split())
    ticks = "`"
    while ticks in line:
        ticks += "`"
    blank = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{blank}{line}{blank}{ticks}"

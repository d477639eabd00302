"""What `rankfix mutate` prints: an answer and its pod -> text, one form for each `-o`."""

from __future__ import annotations

import difflib
from enum import StrEnum
from typing import TYPE_CHECKING

from rich.text import Text

from webhook import documents, mutate, yamltext

if TYPE_CHECKING:
    from webhook.mutate import Answer

_STYLES = {"+": "green", "-": "red", "@": "cyan", "#": "bold"}


class Output(StrEnum):
    """The forms."""

    REVIEW = "review"
    PATCH = "patch"
    POD = "pod"
    DIFF = "diff"


def render(answer: Answer, pod: object, output: Output, *, name: str) -> str:
    """The text for one answer, ending in a newline unless it's empty; `name` is the file's."""
    if output is Output.REVIEW:
        return answer.body.decode("utf-8", "backslashreplace").rstrip("\n") + "\n"
    if output is Output.PATCH:
        return documents.dump(list(answer.patch or []) if answer.allowed else None).decode() + "\n"
    if output is Output.POD:
        return "---\n" + yamltext.write(_after(answer, pod)) if answer.allowed and pod is not None else ""
    return _diff(answer, pod, name)


def coloured(text: str) -> Text:
    """A diff in the colours people know."""
    made = Text()
    for line in text.splitlines(keepends=True):
        made.append(line, _STYLES.get(line[:1]))
    return made


def summary(answer: Answer) -> str:
    """The verdict on one pod in a few words."""
    if not answer.allowed:
        return "denied"
    words = [f"rules {', '.join(answer.rules)}"] if answer.rules else [f"reason {answer.reason}"]
    return ", ".join([answer.status or "unchanged", *words])


def _after(answer: Answer, pod: object) -> object:
    return mutate.patched(pod, answer.patch) if answer.patch and isinstance(pod, dict) else pod


def _diff(answer: Answer, pod: object, name: str) -> str:
    title = _title(pod, name)
    head = f"# {title}: {summary(answer)}\n"
    if not answer.allowed or not answer.patch:
        return head
    before, after = (yamltext.write(value).splitlines(keepends=True) for value in (pod, _after(answer, pod)))
    return head + "".join(difflib.unified_diff(before, after, title, f"{title} (repaired)"))


def _title(pod: object, name: str) -> str:
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    own = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else None
    return f"{name} {own}" if isinstance(own, str) and own.isprintable() else name

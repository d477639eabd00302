"""What a decision changes, and the JSON Patch that does it: by index, minimal, nothing serialised anew.

Even under failurePolicy Ignore a patch that doesn't apply is an error for the user, so each edit speaks of a place that
was seen in this very pod. Env entries are replaced whole or added at the end, and never moved: kubelet expands a
`$(NAME)` from earlier entries only.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from webhook.jsonpatch import Operation, Patch, add, pointer, remove, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webhook.pod import Container, Pod


class SetEnv(NamedTuple):
    """The entry of `name` that counts becomes `value`; a new one goes to the end of the list."""

    container: Container
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class SetText:
    """Characters `start`..`end` of the string `container[field][index]` become `text` (equal ends: an insertion)."""

    container: Container
    field: str
    index: int
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class AddWords:
    """New items before item `index` of the list `container[field]`."""

    container: Container
    field: str
    index: int
    words: tuple[str, ...]


class SetNote(NamedTuple):
    """An annotation of the pod gets a value, or goes (None)."""

    key: str
    value: str | None


Edit = SetEnv | SetText | AddWords | SetNote
Edits = tuple[Edit, ...]


def env_edits(container: Container, wanted: Iterable[tuple[str, str]]) -> tuple[SetEnv, ...]:
    """What makes the entries that count be the wanted ones; nothing for those that are."""
    return tuple(SetEnv(container, name, value) for name, value in wanted if container.env.text(name) != value)


def to_patch(pod: Pod, edits: Iterable[Edit]) -> Patch:
    """The operations of some edits of one pod: env first, a container's in the order given, then words, then notes."""
    env: dict[tuple[str, int], list[SetEnv]] = {}
    texts, words, notes = [], [], []
    for edit in edits:
        if isinstance(edit, SetEnv):
            env.setdefault((edit.container.field, edit.container.index), []).append(edit)
        elif isinstance(edit, SetNote):
            notes.append(edit)
        elif isinstance(edit, SetText):
            texts.append(edit)
        else:
            words.append(edit)
    patch = [operation for group in env.values() for operation in _env(group)]
    if texts:
        patch += _texts(texts)
    if words:
        patch += _words(words)
    if notes:
        patch += _notes(pod, notes)
    return patch


def _env(edits: list[SetEnv]) -> Iterator[Operation]:
    container = edits[0].container
    path = f"/spec/{container.field}/{container.index}/env"
    if not isinstance(container.raw.get("env"), list):  # absent or null: there is no list to add to
        yield add(path, [{"name": edit.name, "value": edit.value} for edit in edits])
        return
    for edit in edits:
        entry, index = {"name": edit.name, "value": edit.value}, container.env.last.get(edit.name)
        yield add(f"{path}/-", entry) if index is None else replace(f"{path}/{index}", entry)


def _texts(edits: Iterable[SetText]) -> Iterator[Operation]:
    """One operation for each string, so that one edit doesn't shift the place of the next."""

    def place(edit: SetText) -> tuple[str, int, str, int]:
        return edit.container.field, edit.container.index, edit.field, edit.index

    for key, group in groupby(sorted(edits, key=lambda edit: (*place(edit), -edit.start)), key=place):
        same = list(group)
        text = same[0].container.raw[same[0].field][same[0].index]
        free = len(text)  # a flag of two starts (a function called twice) has one place, and is set once
        for edit in same:
            if edit.end <= free:
                text, free = f"{text[: edit.start]}{edit.text}{text[edit.end :]}", edit.start
        yield replace(pointer("spec", *key), text)


def _words(edits: Iterable[AddWords]) -> Iterator[Operation]:
    for edit in edits:
        for offset, word in enumerate(edit.words):
            path = pointer("spec", edit.container.field, edit.container.index, edit.field, edit.index + offset)
            yield add(path, word)


def _notes(pod: Pod, edits: list[SetNote]) -> Iterator[Operation]:
    changed = [edit for edit in edits if edit.value != pod.annotations.get(edit.key)]
    metadata = pod.raw.get("metadata")
    if not changed or not isinstance(metadata, dict):
        return
    if metadata.get("annotations") is None:
        values: dict[str, Any] = {edit.key: edit.value for edit in changed if edit.value is not None}
        yield add("/metadata/annotations", values)
        return
    if not isinstance(metadata["annotations"], dict):
        return
    for edit in changed:
        path = pointer("metadata", "annotations", edit.key)
        if edit.value is None:
            yield remove(path)
        else:
            yield (replace if edit.key in pod.annotations else add)(path, edit.value)

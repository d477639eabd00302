"""JSON Patch and Pointer: what rankfix writes, and what `apply` does with it and refuses."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from webhook.errors import BadPatch
from webhook.jsonpatch import add, apply, pointer, remove, replace

DOCUMENT: dict[str, Any] = {"a": {"b/c~d": [1, 2, 3]}, "e": None, "": 0}


@pytest.mark.parametrize(
    ("tokens", "path"),
    [((), ""), (("a", 0), "/a/0"), (("a/b",), "/a~1b"), (("c~d", "~1", ""), "/c~0d/~01/"), (("é😀",), "/é😀")],
)
def test_pointers_escape_their_tokens(tokens: tuple[str | int, ...], path: str) -> None:
    """`~` becomes `~0` and `/` becomes `~1`, in that order."""
    assert pointer(*tokens) == path


@pytest.mark.parametrize(
    ("operation", "after"),
    [
        (add("/a/b~1c~0d/1", 9), {"a": {"b/c~d": [1, 9, 2, 3]}, "e": None, "": 0}),
        (add("/a/b~1c~0d/-", 9), {"a": {"b/c~d": [1, 2, 3, 9]}, "e": None, "": 0}),
        (add("/a/b~1c~0d/3", 9), {"a": {"b/c~d": [1, 2, 3, 9]}, "e": None, "": 0}),
        (replace("/a/b~1c~0d/0", 9), {"a": {"b/c~d": [9, 2, 3]}, "e": None, "": 0}),
        (remove("/a/b~1c~0d/2"), {"a": {"b/c~d": [1, 2]}, "e": None, "": 0}),
        (add("/f", {}), {**DOCUMENT, "f": {}}),
        (add("/e", 1), {**DOCUMENT, "e": 1}),
        (replace("/e", 1), {**DOCUMENT, "e": 1}),
        (remove("/e"), {"a": DOCUMENT["a"], "": 0}),
        (replace("/", 1), {**DOCUMENT, "": 1}),
        (replace("", 1), 1),
    ],
)
def test_operations_do_what_rfc_6902_says(operation: Any, after: Any) -> None:
    """Each operation changes its place, and the document handed in stays as it was."""
    before = copy.deepcopy(DOCUMENT)
    assert apply(DOCUMENT, [operation]) == after
    assert before == DOCUMENT


@pytest.mark.parametrize(
    "operation",
    [
        replace("/x", 1),
        remove("/x"),
        remove(""),
        add("/x/y", 1),
        add("/e/y", 1),
        add("/a/b~1c~0d/4", 1),
        replace("/a/b~1c~0d/3", 1),
        remove("/a/b~1c~0d/3"),
        replace("/a/b~1c~0d/-", 1),
        add("/a/b~1c~0d/-/x", 1),
        add("/a/b~1c~0d/01", 1),
        add("/a/b~1c~0d/-1", 1),
        add("/a/b~1c~0d/٣", 1),
        add(f"/a/b~1c~0d/{'1' * 5000}", 1),
        add("a", 1),
        {"op": "test", "path": "/e", "value": None},
        {"op": "move", "path": "/e", "from": "/a"},
    ],
)
def test_what_points_at_nothing_is_refused(operation: Any) -> None:
    """A patch that doesn't fit is an error that says where, and never a half-done change."""
    with pytest.raises(BadPatch):
        apply(DOCUMENT, [operation])

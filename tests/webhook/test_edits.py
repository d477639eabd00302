"""From edits to operations: by index, minimal, and in an order that kubelet and RFC 6902 understand."""

from __future__ import annotations

from typing import Any

import pytest

from webhook import pod
from webhook.edits import AddWords, SetEnv, SetNote, SetText, env_edits, to_patch
from webhook.jsonpatch import apply


def view(container: dict[str, Any], metadata: Any = None) -> pod.Pod:
    """A pod with one container."""
    return pod.read({"metadata": metadata, "spec": {"containers": [{}, container]}})


def patch(container: dict[str, Any], *wanted: tuple[str, str]) -> list[Any]:
    """The operations that make a container's env be as wanted."""
    seen = view(container)
    return list(to_patch(seen, env_edits(seen.containers[1], wanted)))


def test_the_entry_that_counts_is_replaced_whole() -> None:
    """The last entry of the name is replaced, with its `valueFrom`; earlier ones stay as they are."""
    env = [{"name": "A", "value": "0"}, {"name": "A", "valueFrom": {"fieldRef": {}}, "new": 1}, {"name": "B"}]
    operations = [{"op": "replace", "path": "/spec/containers/1/env/1", "value": {"name": "A", "value": "1"}}]
    assert patch({"env": env}, ("A", "1")) == operations


def test_a_new_entry_goes_to_the_end() -> None:
    """Entries are never moved: a `$(NAME)` is expanded from earlier entries only."""
    operations = patch({"env": [{"name": "B", "value": "x"}]}, ("A", "1"), ("C", "$(A)"))
    assert [(operation["op"], operation["path"]) for operation in operations] == [
        ("add", "/spec/containers/1/env/-"),
        ("add", "/spec/containers/1/env/-"),
    ]
    assert [operation["value"]["name"] for operation in operations] == ["A", "C"]


@pytest.mark.parametrize("container", [{}, {"env": None}])
def test_a_missing_list_is_made(container: dict[str, Any]) -> None:
    """Where env is absent or null the whole list is added at once."""
    value = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    operations = [{"op": "add", "path": "/spec/containers/1/env", "value": value}]
    assert patch(container, ("A", "1"), ("B", "2")) == operations


def test_an_empty_list_is_added_to() -> None:
    """An empty env is a list all the same."""
    assert patch({"env": []}, ("A", "1"))[0]["path"] == "/spec/containers/1/env/-"


def test_what_is_right_stays() -> None:
    """An entry that has the wanted value isn't touched, even with a field that nobody knows."""
    assert patch({"env": [{"name": "A", "value": "1", "future": True}]}, ("A", "1")) == []


@pytest.mark.parametrize(
    "entry", [{"name": "A"}, {"name": "A", "value": 1}, {"name": "A", "valueFrom": {}, "value": "1"}]
)
def test_what_only_looks_right_is_replaced(entry: dict[str, Any]) -> None:
    """Every value of ours is a string, and stands alone."""
    assert patch({"env": [entry]}, ("A", "1"))[0]["value"] == {"name": "A", "value": "1"}


def test_several_places_in_one_string_are_one_operation() -> None:
    """Edits of one string don't shift each other, and a place that two starts share is edited once."""
    seen = view({"args": ["ab", "0123456789"]})
    container = seen.containers[1]
    edits = [
        SetText(container, "args", 1, 2, 3, "two"),
        SetText(container, "args", 1, 7, 9, ""),
        SetText(container, "args", 1, 2, 3, "two"),
        SetText(container, "args", 1, 0, 0, ">"),
    ]
    assert to_patch(seen, edits) == [{"op": "replace", "path": "/spec/containers/1/args/1", "value": ">01two34569"}]


def test_words_are_added_before_an_item() -> None:
    """New words keep their order, and stand before the item."""
    seen = view({"command": ["python", "train.py"]})
    operations = to_patch(seen, [AddWords(seen.containers[1], "command", 1, ("-m", "x"))])
    assert apply(seen.raw, operations)["spec"]["containers"][1]["command"] == ["python", "-m", "x", "train.py"]


@pytest.mark.parametrize(
    ("annotations", "operations"),
    [
        (None, [("add", "/metadata/annotations")]),
        ({}, [("add", "/metadata/annotations/rankfix~1a")]),
        ({"rankfix/a": "1", "rankfix/b": "x"}, [("remove", "/metadata/annotations/rankfix~1b")]),
        ({"rankfix/a": "0"}, [("replace", "/metadata/annotations/rankfix~1a")]),
        ({"rankfix/a": None}, [("replace", "/metadata/annotations/rankfix~1a")]),
        ([], []),
        ("text", []),
    ],
)
def test_annotations_are_set_one_by_one(annotations: Any, operations: list[tuple[str, str]]) -> None:
    """Annotations are made, set, replaced or taken away, each by its own operation; odd ones are left alone."""
    seen = view({}, {"annotations": annotations})
    found = to_patch(seen, [SetNote("rankfix/a", "1"), SetNote("rankfix/b", None)])
    assert [(operation["op"], operation["path"]) for operation in found] == operations


@pytest.mark.parametrize("metadata", [None, [], "text"])
def test_a_pod_without_metadata_gets_no_annotations(metadata: Any) -> None:
    """There is no place to put them."""
    seen = view({}, metadata)
    assert to_patch(seen, [SetNote("rankfix/a", "1")]) == []


def test_absent_annotations_are_made_at_once() -> None:
    """All of them in one operation, without those that are to go."""
    seen = view({}, {})
    (operation,) = to_patch(seen, [SetNote("a", "1"), SetNote("b", None), SetNote("c", "3")])
    assert operation["value"] == {"a": "1", "c": "3"}


def test_containers_are_edited_apart() -> None:
    """Each container's entries go to its own list, init containers' too."""
    seen = pod.read({"spec": {"containers": [{"env": []}], "initContainers": [{"env": None}]}})
    (main,), (init,) = seen.containers, seen.init_containers
    paths = [
        op["path"] for op in to_patch(seen, [SetEnv(main, "A", "1"), SetEnv(init, "A", "1"), SetEnv(main, "B", "2")])
    ]
    assert paths == ["/spec/containers/0/env/-", "/spec/containers/0/env/-", "/spec/initContainers/0/env"]

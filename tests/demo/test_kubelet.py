"""Local pods are started as kubelet would: expansion, order of entries, downward API, command lines."""

from __future__ import annotations

from typing import Any

import pytest

from demo import kubelet

VALUES = {"RANK": "1", "EMPTY": "", "NESTED": "$(RANK)"}
POD: dict[str, Any] = {
    "metadata": {"name": "j-worker-0", "namespace": "n", "labels": {"a/b": "c"}, "annotations": None, "uid": "u"}
}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("--rank=$(RANK)", "--rank=1"),
        ("$(RANK)$(RANK)", "11"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(RANK)", "$(RANK)"),
        ("$$$(RANK)", "$1"),
        ("\\$(RANK)", "\\1"),
        ("$RANK ${RANK}", "$RANK ${RANK}"),
        ("$(RANK", "$(RANK"),
        ("$", "$"),
        ("$(EMPTY)x", "x"),
        ("$(NESTED)", "$(RANK)"),
        ("$(hostname -i)", "$(hostname -i)"),
    ],
)
def test_expand(text: str, expanded: str) -> None:
    """`$(NAME)` of a known name is its value, once; `$$` is a dollar; all else stays."""
    assert kubelet.expand(text, VALUES) == expanded


def env(*entries: dict[str, Any], **container: Any) -> dict[str, str]:
    made = kubelet.environment({"name": "c", "env": list(entries), **container}, POD, "10.0.0.9")
    return {name: value for name, value in made.items() if not name.startswith("KUBERNETES_")}


def entry(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "value": value}


def field(path: str) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def test_order_counts() -> None:
    """The last of several entries counts, and an entry sees only those before it."""
    assert env(entry("A", "1"), entry("B", "$(A)$(C)"), entry("C", "3"), entry("A", "2")) == {
        "A": "2",
        "B": "1$(C)",
        "C": "3",
    }
    assert env({"name": "A"}, {"name": "B", "value": None}) == {"A": "", "B": ""}
    assert env() == {}


def test_the_api_server_is_named_and_isn_t_there() -> None:
    """As in every container of a cluster."""
    made = kubelet.environment({"name": "c"}, POD, "")
    assert made["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "j-worker-0"),
        ("metadata.namespace", "n"),
        ("metadata.uid", "u"),
        ("metadata.labels['a/b']", "c"),
        ("metadata.labels['x']", ""),
        ("metadata.annotations['x']", ""),
        ("status.podIP", "10.0.0.9"),
    ],
)
def test_downward_api(path: str, value: str) -> None:
    """What a pod may know of itself."""
    assert env(field(path)) == {"X": value}


def test_resources() -> None:
    """Limits as they are written."""
    source = {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}
    assert env(source, resources={"limits": {"cpu": 2}}) == {"X": "2"}
    assert env(source) == {"X": "1"}


@pytest.mark.parametrize("kind", ["secretKeyRef", "configMapKeyRef"])
def test_what_needs_a_cluster(kind: str) -> None:
    """Is refused by name, unless it is optional."""
    assert env({"name": "X", "valueFrom": {kind: {"key": "k", "optional": True}}}) == {}
    with pytest.raises(kubelet.Unsupported, match=r"container c: X from a .* needs a cluster"):
        env({"name": "X", "valueFrom": {kind: {"key": "k"}}})
    with pytest.raises(kubelet.Unsupported, match="envFrom a configMap needs a cluster"):
        env(envFrom=[{"configMapRef": {"name": "m"}}])
    assert env(envFrom=[{"configMapRef": {"name": "m", "optional": True}}]) == {}
    with pytest.raises(kubelet.Unsupported, match=r"spec\.priority needs a cluster"):
        env(field("spec.priority"))


@pytest.mark.parametrize(
    ("container", "entrypoint", "words"),
    [
        ({"command": ["a", "$(RANK)"], "args": ["b"]}, None, ["a", "1", "b"]),
        ({"args": ["$(RANK)"]}, ["entry", "-x"], ["entry", "-x", "1"]),
        ({"command": ["a"]}, ["entry"], ["a"]),
    ],
)
def test_command_line(container: dict[str, Any], entrypoint: list[str] | None, words: list[str]) -> None:
    """A command replaces the entrypoint; args follow either."""
    assert kubelet.command_line(container, VALUES, entrypoint) == words


def test_an_image_that_isn_t_here() -> None:
    """Without a command there is nothing to start."""
    with pytest.raises(kubelet.Unsupported, match="container c has no command, and its image isn't here"):
        kubelet.command_line({"name": "c", "args": ["x"]}, {}, None)


@pytest.mark.parametrize(
    ("text", "here"),
    [
        ("--checkpoint-dir=/data", "--checkpoint-dir=/mine/v"),
        ("/data/train /data", "/mine/v/train /mine/v"),
        ("/data2 /mnt/data a/data /data.old", "/data2 /mnt/data a/data /data.old"),
    ],
)
def test_paths_in_a_volume(text: str, here: str) -> None:
    """Whole paths move, and nothing that only looks like one."""
    assert kubelet.moved(text, {"/data": "/mine/v"}) == here

"""`webhook.documents`: what may be handed in, and how the rest is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support_edges import CANARY, body, pod, review
from webhook import documents, mutate
from webhook.documents import Review, Unreadable

POD = json.dumps(pod())
LONE = '{"kind": "Pod", "x": "a\\ud800b", "n": 18446744073709551615, "f": 1.10, "e": 1E5, "\\u0000": "\\u0000"}'


def read(data: str | bytes, **options: Any) -> list[Review | Unreadable]:
    return list(documents.read(data.encode() if isinstance(data, str) else data, wrap=mutate.review_of, **options))


def reviews(data: str | bytes) -> list[Review]:
    found = read(data)
    assert all(isinstance(item, Review) for item in found), found
    return [item for item in found if isinstance(item, Review)]


def test_a_review_goes_on_as_it_is() -> None:
    """Byte for byte what the server would see: numbers, escapes and spaces included."""
    text = '{ "kind":"AdmissionReview", "request":{"object":' + LONE + ', "uid":"1"} }'
    (found,) = reviews("\n " + text + "\n")
    assert found.body.decode() == text
    assert found.pod == json.loads(LONE)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (POD, 1),
        (f"\ufeff{POD}", 1),
        (f"{POD}\n{POD}", 2),
        (POD + POD, 2),
        (f"---\n{POD}\n---\n{POD}\n", 2),
        (json.dumps({"kind": "List", "items": [pod(), pod()]}), 2),
        (json.dumps({"kind": "PodList", "items": [{"metadata": {}}, pod()]}), 2),
        ("kind: Pod\nmetadata: {name: a}\n---\nkind: Pod\n", 2),
        ("kind: PodList\nitems:\n- {kind: Pod}\n- metadata: {}\n", 2),
        (body().decode(), 1),
        ("# a comment first\n" + POD, 1),
    ],
)
def test_forms(text: str, count: int) -> None:
    """Reviews, pods and lists of pods, in JSON and YAML, one or several to a file."""
    found = reviews(text)
    assert len(found) == count
    for item in found:
        assert json.loads(item.body)["kind"] == "AdmissionReview"
        assert isinstance(item.pod, dict)


def test_a_pod_keeps_what_json_can_say() -> None:
    """Lone surrogates, 64-bit numbers, floats and NUL arrive unharmed in the review around the pod."""
    (found,) = reviews(LONE)
    assert json.loads(found.body)["request"]["object"] == json.loads(LONE)


def test_a_review_in_yaml() -> None:
    """Kubectl users write YAML; the same review as in JSON."""
    (found,) = reviews(
        "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest: {uid: a, object: {kind: Pod}}\n"
    )
    assert json.loads(found.body)["request"] == {"uid": "a", "object": {"kind": "Pod"}}


@pytest.mark.parametrize("request_", [None, [], "x", {"object": None}, {}])
def test_a_review_without_a_pod(request_: object) -> None:
    """It's for the core to say what's wrong with it."""
    (found,) = reviews(json.dumps({"kind": "AdmissionReview", "request": request_}))
    assert found.pod is None


@pytest.mark.parametrize(
    ("data", "place", "said"),
    [
        ("", "f", "is empty"),
        ("\n---\n", "f", "is empty"),
        (b"\x7fELF\xff", "f:1:5", "is binary"),
        (b"a\nb\xfe", "f:2:2", "is binary"),
        ('{"a": 1;}', "f:1:8", "bad JSON"),
        ('{\n "a": x}', "f:2:7", "bad JSON: expecting value"),
        ('{"a": "\n"}', "f:1:8", "bad JSON: invalid control character"),
        ('{"a": NaN}', "f:1", "bad JSON: a number"),
        ('{"a": 1e999}', "f:1", "bad JSON: a number"),
        ('{"a": ' + "1" * 5000 + "}", "f:1", "bad JSON: a number"),
        ('{"a":' * 200_000, "f:1", "bad JSON: nested too deeply"),
        ("a: b: c", "f:1:5", "bad YAML"),
        ("[1, 2]", "f:1", "isn't a Kubernetes object"),
        ("- a\n", "f:1", "isn't a Kubernetes object"),
        ("just words", "f:1", "isn't a Kubernetes object"),
        ("kind: 3\n", "f:1", "isn't a Kubernetes object"),
        ("---\n\nkind: ConfigMap\n", "f:3", "kind ConfigMap isn't a Pod"),
        ("kind: PyTorchJob\n", "f:1", "kind PyTorchJob isn't a Pod"),
        ('{"kind": "List", "items": [{"kind": "Service"}]}', "f:1", "items[0]: kind Service isn't a Pod"),
        ('{"kind": "List", "items": [3]}', "f:1", "items[0]: isn't a Kubernetes object"),
        ('{"kind": "List", "items": [{}]}', "f:1", "items[0]: isn't a Kubernetes object"),
    ],
)
def test_what_cannot_be_read(data: str | bytes, place: str, said: str) -> None:
    """File, line, column, and what to hand in instead."""
    (found,) = read(data)
    assert isinstance(found, Unreadable)
    line = found.at("f")
    assert line.startswith(f"{place}: ")
    assert said in line
    assert "\n" not in line


@pytest.mark.parametrize("depth", [150, 300, 900, 950, 980, 985, 990, 995, 1000, 3000])
def test_deep_nesting(depth: int) -> None:
    """At no depth is there more to say than that it's too deep."""
    for text in (
        '{"kind": "Pod", "x": ' + "[" * depth + "]" * depth + "}",
        "kind: Pod\nx: " + "[" * depth + "]" * depth,
    ):
        (found,) = read(text)
        assert isinstance(found, Review) or "nest" in found.at("f")


def test_an_empty_list_is_an_answer() -> None:
    """What `kubectl get pods -o json` prints of an empty namespace is nothing to complain about."""
    assert read('{"kind": "List", "items": []}') == []
    assert read('{"kind": "List", "items": null}') == []


def test_the_good_ones_go_on() -> None:
    """One document that can't be read doesn't take its neighbours along."""
    found = read(f"kind: Secret\n---\n{POD}\n---\na: b: c\n")
    assert [type(item) for item in found] == [Unreadable, Review, Unreadable]
    found = read(POD + "\n{]")
    assert [type(item) for item in found] == [Review, Unreadable]
    assert isinstance(found[1], Unreadable)
    assert (found[1].line, found[1].column) == (2, 2)


def test_json_or_yaml_by_name() -> None:
    """A flow mapping is YAML where the file says so, and broken JSON elsewhere."""
    text = "{kind: Pod}"
    (found,) = read(text, prefer_yaml=True)
    assert isinstance(found, Review)
    (found,) = read(text)
    assert isinstance(found, Unreadable)
    (found,) = read(POD, prefer_yaml=True)
    assert isinstance(found, Review)


def test_unquoted_values_are_noted_once() -> None:
    """Where a value stands that Kubernetes would refuse."""
    text = "kind: List\nitems:\n- kind: Pod\n  env:\n  - {name: A, value: 1}\n- kind: Pod\n"
    first, second = reviews(text)
    assert [note.split(": ")[0] for note in first.notes] == ["5:22"]
    assert second.notes == ()


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "' + CANARY,
        '{"a": ' + CANARY + "}",
        f"a: {CANARY}: {CANARY}\n",
        f"kind: {CANARY}\n",
        f"kind: Secret\ndata: {{a: {CANARY}}}\n",
        f'{{"kind": "List", "items": [{{"kind": "{CANARY} x"}}]}}',
    ],
)
def test_errors_quote_nothing(text: str) -> None:
    """Bug 47: the file may hold a secret."""
    for item in read(text):
        assert isinstance(item, Unreadable)
        assert CANARY not in item.at("f")


@given(st.binary(max_size=200))
@settings(deadline=None)  # a loaded machine is no fault
def test_any_bytes(data: bytes) -> None:
    """Reviews or places, never a crash."""
    for item in read(data):
        assert isinstance(item, Review) or "\n" not in item.at("f")


@given(st.text(max_size=60))
@settings(deadline=None)  # a loaded machine is no fault
def test_any_text(text: str) -> None:
    """The same for what decodes."""
    for start in ("", "{", "kind: Pod\na: "):
        for item in read((start + text).encode(errors="replace"), prefer_yaml=True):
            assert isinstance(item, Review) or "\n" not in item.at("f")


def test_dump_is_ascii() -> None:
    """So that any text survives any encoding."""
    assert documents.dump({"a": "é\ud800"}) == b'{"a":"\\u00e9\\ud800"}'
    assert review()["kind"] == "AdmissionReview"

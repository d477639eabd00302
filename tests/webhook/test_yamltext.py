"""`webhook.yamltext`: scalars as kubectl reads them, strings that every reader takes for the same, quiet errors."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support_edges import CANARY
from webhook import yamltext


def one(text: str) -> yamltext.Document:
    (document,) = yamltext.read(text)
    return document


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("yes", True), ("No", False), ("ON", True), ("off", False), ("y", True), ("n", False), ("TRUE", True),
        ("yEs", "yEs"), ("yess", "yess"),
        ("~", None), ("null", None), ("", None), ("nUll", "nUll"),
        ("1", 1), ("-7", -7), ("+7", 7), ("0", 0), ("010", 8), ("0644", 420), ("09", 9.0), ("0o17", 15), ("0x1F", 31),
        ("-0b11", -3), ("1_000", 1000), ("9223372036854775807", 2**63 - 1), ("18446744073709551615", 2**64 - 1),
        ("1.5", 1.5), ("1e3", 1000.0), ("-.5", -0.5), ("1.", 1.0), ("1e999", "1e999"),
        (".inf", ".inf"), (".nan", ".nan"), ("1.2.3", "1.2.3"), ("0o8", "0o8"), ("0x", "0x"), ("1e", "1e"), ("+", "+"),
        (".", "."), ("_1", "_1"),
        ("2026-01-01", "2026-01-01"), ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"), ("12:30:45", "12:30:45"),
        ("=", "="), ("<<", "<<"), ("6" * 500, "6" * 500), ("100m", "100m"), ("1Gi", "1Gi"),
        ("'1'", "1"), ('"yes"', "yes"), ("!!str 1", "1"), ("!!str yes", "yes"), ("|\n  1\n", "1\n"),
    ],
)  # fmt: skip
def test_scalars_as_kubectl_reads_them(scalar: str, value: object) -> None:
    """go-yaml v2: octal by a leading zero, underscores in numbers, YAML 1.1's booleans, dates as text."""
    got = one(f"x: {scalar}\n").value["x"]
    assert (type(got), got) == (type(value), value)


ENTRY = "spec:\n  containers:\n  - command: [{0}]\n    env:\n    - {{name: A, value: {0}}}\n"


@pytest.mark.parametrize("scalar", ["on", "yes", "n", "1_000", "0o7", "010", "1e3", "1", "1.50", "true"])
def test_where_a_pod_wants_text(scalar: str) -> None:
    """An unquoted value of an env entry, a command or a label keeps its letters, and its place is told."""
    document = one(f"metadata:\n  labels:\n    a: {scalar}\n  annotations: {{b: {scalar}}}\n" + ENTRY.format(scalar))
    container = document.value["spec"]["containers"][0]
    texts = [container["command"][0], container["env"][0]["value"], *document.value["metadata"]["labels"].values()]
    assert texts == [scalar] * 3
    assert document.value["metadata"]["annotations"] == {"b": scalar}
    assert document.unquoted[0] == (3, 8)
    assert len(document.unquoted) == 4


@pytest.mark.parametrize("scalar", ["2026-01-01", "abc", "'on'", '"1"', "1.2.3", "''"])
def test_text_is_text_anywhere(scalar: str) -> None:
    """What go-yaml takes for a string anyway needs no quotes and gets no note."""
    assert one(ENTRY.format(scalar)).unquoted == []


def test_null_stays_null() -> None:
    """`value:` without anything is an empty value to Kubernetes, which knows it as null."""
    assert one("env:\n- name: A\n  value:\n- name: B\n  value: ~\n").value["env"][0]["value"] is None


def test_other_fields_keep_their_types() -> None:
    """Ports, modes and switches are no strings."""
    value = one("spec: {hostNetwork: yes, defaultMode: 0400, terminationGracePeriodSeconds: 1_0}\n").value
    assert value == {"spec": {"hostNetwork": True, "defaultMode": 256, "terminationGracePeriodSeconds": 10}}


def test_several_documents_and_their_lines() -> None:
    """Empty ones are left out; each says where it begins."""
    documents = list(yamltext.read("---\na: 1\n---\n---\n# nothing\n---\n\nb: 2\n...\n"))
    assert [(document.value, document.line) for document in documents] == [({"a": 1}, 2), ({"b": 2}, 8)]


def test_anchors_and_merge_keys() -> None:
    """As go-yaml: own keys win, of several sources the first one."""
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {<<: [*a, *b], z: 3}\nd: {<<: *a, x: 9}\ne: *a\n"
    value = one(text).value
    assert value["c"] == {"x": 1, "y": 1, "z": 3}
    assert value["d"] == {"x": 9, "y": 1}
    assert value["e"] == {"x": 1, "y": 1}


def bomb() -> str:
    """Nine lines that ask for a thousand million nodes."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: b: c\n", 1, "mapping values are not allowed"),
        ("a: [1\nb: 2\n", 2, ""),
        ("a:\n\t- b\n", 2, "cannot start any token"),
        ("a: *nowhere\n", 1, "found undefined alias"),
        ("a: &x [*x]\n", 1, "without end"),
        ("? [a]\n: b\n", 1, "as a key"),
        ("a: {<<: 3}\n", 1, "merge key"),
        ("a: b\nc: \x01\n", 2, "doesn't allow"),
        ("[" * 5000, 1, "nesting"),
        ("[" * 5000 + "]" * 5000, 1, "nest"),
        ("a: %\n", 1, "cannot start any token"),
        ("a: 'x\n", 2, "end of stream"),
        (bomb(), 0, "without end"),
    ],
)
def test_bad_text(monkeypatch: pytest.MonkeyPatch, text: str, line: int, problem: str) -> None:
    """Line, column and kind of fault."""
    monkeypatch.setattr(yamltext, "MAX_NODES", 10_000)
    with pytest.raises(yamltext.NotYaml) as caught:
        list(yamltext.read(text))
    assert problem in caught.value.problem
    if line:
        assert caught.value.line == line
        assert caught.value.column > 0


@pytest.mark.parametrize(
    "text", [f"a: *{CANARY}\n", f"a: !<{CANARY}\n", f"a: '{CANARY}\n", f"{CANARY}: {CANARY}: x\n", f"%{CANARY}\na: 1\n"]
)
def test_errors_quote_nothing(text: str) -> None:
    """Bug 47: a parser's message often holds the words it fell over."""
    with pytest.raises(yamltext.NotYaml) as caught:
        list(yamltext.read(text))
    assert CANARY not in f"{caught.value}{caught.value.problem}{caught.value!r}"


STRINGS = st.text(st.characters(exclude_categories=[]), max_size=30)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | STRINGS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=10,
)


@given(VALUES)
@settings(deadline=None)  # a loaded machine is no fault
def test_what_is_written_is_read_back(value: object) -> None:
    """By PyYAML, strings with any character in them included."""
    assert yaml.load(yamltext.write(value), yaml.SafeLoader) == value


@given(STRINGS.filter(lambda text: not any(0xD800 <= ord(char) <= 0xDFFF for char in text)))
@settings(deadline=None)  # a loaded machine is no fault
def test_strings_are_read_back_as_kubectl_does(text: str) -> None:
    """By our reading of go-yaml: no string becomes a number, a boolean or null on the way through a file."""
    assert one(yamltext.write({"x": text})).value == {"x": text}


@pytest.mark.parametrize(
    "text",
    ["y", "on", "1e3", "0o7", "1_0", "010", "~", "null", "", "2026-01-01", "0x1", ".5", "=", "<<", "- a", "a: b"],
)
def test_strings_that_look_like_something_else_are_quoted(text: str) -> None:
    """PyYAML alone would write 1e3, 0o7 and y without quotes, and kubectl would read numbers and a boolean."""
    assert yamltext.write([text]).strip() in (f"- '{text}'", f'- "{text}"')


def test_scripts_stay_readable() -> None:
    """A text of several lines is written as a block."""
    assert yamltext.write({"args": ["set -e\ntorchrun train.py\n"]}) == "args:\n- |\n  set -e\n  torchrun train.py\n"


def test_lone_surrogates_are_written_as_escapes() -> None:
    """What JSON can hold and UTF-8 can't."""
    assert yamltext.write(["a\ud800"]) == '- "a\\uD800"\n'


def test_nothing_is_an_alias() -> None:
    """The same list twice is written twice: people and kubectl diff read it."""
    shared = [1]
    assert yamltext.write({"a": shared, "b": shared}) == "a:\n- 1\nb:\n- 1\n"

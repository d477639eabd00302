"""YAML as kubectl reads it, and YAML that every reader takes for the same strings.

kubectl reads by go-yaml v2: `010` is 8, `0o7` is 7, `1_000` is 1000, `on` is true, a date is text. Where a pod wants a
string (env values, commands, arguments, labels, annotations) an unquoted scalar that isn't text to go-yaml keeps its
letters here, and `Document.unquoted` says where it stood: the API server would refuse such a pod.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NODES = 2_000_000  # after aliases are followed: a few lines of them can ask for more than any machine has

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a yaml without libyaml is slower, not different
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_BOOL = {**dict.fromkeys(("y", "yes", "on", "true"), True), **dict.fromkeys(("n", "no", "off", "false"), False)}
_NUMBER_START = re.compile(r"[-+.0-9]")
_INT = re.compile(r"[-+]?(?:0b[01]+|0o[0-7]+|0x[0-9a-fA-F]+|[0-9]+)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_PLAIN = re.compile(r"[A-Za-z/$][^\s]*(?: [^\s#]+)*\Z")
_STRINGS = {"command", "args", "labels", "annotations"}  # keys of a pod that hold lists or mappings of strings
_MERGE = "tag:yaml.org,2002:merge"
_STR = "tag:yaml.org,2002:str"


class NotYaml(Exception):
    """The text can't be read; `line` and `column` count from 1 (0: unknown), `problem` quotes nothing of the text."""

    def __init__(self, line: int, column: int, problem: str) -> None:
        super().__init__(problem)
        self.line, self.column, self.problem = line, column, problem


@dataclass
class Document:
    """One document: its value, the line it begins on, and (line, column) of each unquoted scalar that should be text.

    `raw` is its own text where that is JSON.
    """

    value: Any
    line: int
    unquoted: list[tuple[int, int]] = field(default_factory=list)
    raw: str | None = None


def read(text: str) -> Iterator[Document]:
    """The documents of `text`, empty ones left out. Raises `NotYaml`."""
    try:
        for node in yaml.compose_all(text, Loader=_Loader):
            document = _Builder(text).document(node)
            if document.value is not None:
                yield document
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise NotYaml(*_position(mark), _quiet(exc.problem or "not YAML")) from None
    except yaml.reader.ReaderError:
        raise NotYaml(*_forbidden(text), "a character that YAML doesn't allow") from None
    except RecursionError:
        raise NotYaml(0, 0, "nested too deeply") from None


def write(value: object) -> str:
    """`value` as one YAML document that YAML 1.1, 1.2 and go-yaml read back alike."""
    try:
        return _dump(value, _Dumper)
    except UnicodeEncodeError:  # libyaml takes no lone surrogates; the slow writer escapes them
        return _dump(value, yaml.SafeDumper)


def _dump(value: object, base: type[yaml.SafeDumper]) -> str:
    class Dumper(base):  # type: ignore[misc, valid-type] # one of two classes, known when it runs
        def ignore_aliases(self, data: object) -> bool:
            del data
            return True

    Dumper.add_representer(str, _represent)
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=2**30)
    return text


def _represent(_dumper: object, text: str) -> yaml.ScalarNode:
    style = None if _PLAIN.match(text) and _scalar(text) is text else "'"
    if "\n" in text.rstrip("\n") and not re.search(r"[^\S\n]\n|\A\s|[^\n\x20-\x7e]", text):
        style = "|"
    return yaml.ScalarNode(_STR, text, style=style)


def _scalar(text: str) -> object:
    """What go-yaml v2 makes of an unquoted scalar; `text` itself if it's a string."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    lower = text.lower()
    if lower in _BOOL and text in (lower, lower.upper(), lower.capitalize()):
        return _BOOL[lower]
    if not _NUMBER_START.match(text) or len(text) > 400:  # noqa: PLR2004 - no number is meant, and int() would be slow
        return text
    digits = text.replace("_", "")
    number = _integer(digits) if _INT.match(digits) else _float(digits)
    return text if number is None else number


def _integer(digits: str) -> float | None:
    sign, size = (-1, digits[1:]) if digits[0] == "-" else (1, digits.lstrip("+"))
    if size[:2] in ("0x", "0b", "0o"):
        return sign * int(size, 0)
    if size[0] == "0" and set(size) <= set("01234567"):
        return sign * int(size, 8)
    return sign * int(size) if size[0] != "0" else _float(digits)  # like 09


def _float(digits: str) -> float | None:
    value = float(digits) if _FLOAT.match(digits) else math.inf
    return value if math.isfinite(value) else None


class _Builder:
    """Turns one document's nodes into values."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = MAX_NODES
        self._open: set[int] = set()
        self._unquoted: list[tuple[int, int]] = []

    def document(self, root: yaml.Node) -> Document:
        value = self._value(root, wants_text=False)
        return Document(value, root.start_mark.line + 1, self._unquoted)

    def _value(self, node: yaml.Node, *, wants_text: bool) -> object:
        self._left -= 1
        if self._left < 0 or id(node) in self._open:
            raise NotYaml(*_position(node.start_mark), "aliases that grow without end")
        if isinstance(node, yaml.ScalarNode):
            return self._leaf(node, wants_text=wants_text)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self._value(item, wants_text=wants_text) for item in node.value]
            return self._mapping(node, wants_text=wants_text)
        finally:
            self._open.discard(id(node))

    def _leaf(self, node: yaml.ScalarNode, *, wants_text: bool) -> object:
        tagged = node.tag == _STR and "!" in self._text[node.start_mark.index : node.end_mark.index]
        value = node.value if node.style or tagged else _scalar(node.value)
        if not wants_text or value is None or value is node.value:
            return value
        self._unquoted.append(_position(node.start_mark))
        return node.value

    def _mapping(self, node: yaml.Node, *, wants_text: bool) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        keys = {key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
        entry = {"name", "value"} <= keys  # of an env list, or of HTTP headers
        for key, child in node.value:
            if key.tag == _MERGE:
                merged.update(self._merge(child))
            elif isinstance(key, yaml.ScalarNode):
                text = wants_text or key.value in _STRINGS or (entry and key.value in ("name", "value"))
                own[key.value] = self._value(child, wants_text=text)
            else:
                raise NotYaml(*_position(key.start_mark), "a mapping or list as a key")
        return {**merged, **own}

    def _merge(self, node: yaml.Node) -> dict[str, Any]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found: dict[str, Any] = {}
        for source in reversed(sources):  # of several the first one counts
            value = self._value(source, wants_text=False)
            if not isinstance(value, dict):
                raise NotYaml(*_position(source.start_mark), "a merge key (<<) that has no mapping")
            found.update(value)
        return found


def _position(mark: yaml.Mark | None) -> tuple[int, int]:
    return (mark.line + 1, mark.column + 1) if mark else (0, 0)


def _forbidden(text: str) -> tuple[int, int]:
    found = yaml.reader.Reader.NON_PRINTABLE.search(text)
    before = text[: found.start()] if found else text
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _quiet(problem: str) -> str:
    # PyYAML quotes names of anchors and tags in its messages; single characters are its own business
    return re.sub(r"""(['"]).{2,}""", "...", problem)

"""What a person hands to `rankfix mutate`: bytes of JSON or YAML -> the AdmissionReviews and pods in them.

Errors say where (line and column) and which kind of fault; they never quote the text, which may hold a secret.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from webhook import yamltext
from webhook.errors import RankfixError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SPACE = re.compile(r"\s*")
_UNICODE_START = "\ufeff"


class Unreadable(RankfixError):
    """A document that is no AdmissionReview and no pod; `line` and `column` count from 1, 0 means unknown."""

    def __init__(self, problem: str, line: int = 0, column: int = 0) -> None:
        super().__init__(problem)
        self.line, self.column = line, column

    def at(self, name: str) -> str:
        """One line for a person: where in the file called `name`, and what."""
        place = "".join(f":{number}" for number in (self.line, self.column) if number)
        return f"{name}{place}: {self}"


@dataclass(frozen=True, slots=True)
class Review:
    """An AdmissionReview as bytes, the pod in it (None: none), its line, and notes for whoever wrote the file."""

    body: bytes
    pod: Any
    line: int
    notes: tuple[str, ...] = ()


def read(data: bytes, *, wrap: Callable[[Any], Any], prefer_yaml: bool = False) -> Iterator[Review | Unreadable]:
    """The reviews in `data`, in order; what can't be read comes as `Unreadable` in its place.

    A pod becomes a review by `wrap`. `prefer_yaml` says what to call a text that begins like JSON and isn't.
    """
    try:
        text = data.decode("utf-8").removeprefix(_UNICODE_START)
    except UnicodeDecodeError as exc:
        yield _not_text(data, exc.start)
        return
    found = False
    for document in _documents(text, prefer_yaml=prefer_yaml):
        found = True
        if isinstance(document, Unreadable):
            yield document
        else:
            yield from _guarded(document, wrap)
    if not found:
        yield Unreadable("is empty: give an AdmissionReview or a Pod")


def _guarded(document: yamltext.Document, wrap: Callable[[Any], Any]) -> Iterator[Review | Unreadable]:
    try:
        yield from _reviews(document, wrap)
    except RecursionError:  # what could just be read may be too deep to be written
        yield Unreadable("is nested too deeply", document.line)


def _documents(text: str, *, prefer_yaml: bool) -> Iterator[yamltext.Document | Unreadable]:
    if not text.lstrip().startswith(("{", "[")):
        yield from _yaml(text)
        return
    parsed = list(_json(text))
    if prefer_yaml and any(isinstance(document, Unreadable) for document in parsed):
        yield from _yaml(text)
    else:
        yield from parsed


def _yaml(text: str) -> Iterator[yamltext.Document | Unreadable]:
    try:
        yield from yamltext.read(text)
    except yamltext.NotYaml as exc:
        yield Unreadable(f"bad YAML: {exc.problem}", exc.line, exc.column)


def _json(text: str) -> Iterator[yamltext.Document | Unreadable]:
    decoder = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
    position = _SPACE.match(text).end()  # type: ignore[union-attr] # matches anywhere
    line = 1 + text.count("\n", 0, position)
    while position < len(text):
        try:
            value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError as exc:
            yield Unreadable(f"bad JSON: {exc.msg.partition(':')[0].lower()}", exc.lineno, exc.colno)
            return
        except (ValueError, RecursionError) as exc:
            what = "nested too deeply" if isinstance(exc, RecursionError) else "a number that JSON or Python can't hold"
            yield Unreadable(f"bad JSON: {what}", line)
            return
        yield yamltext.Document(value, line, raw=text[position:end])
        after = _SPACE.match(text, end).end()  # type: ignore[union-attr] # matches anywhere
        line += text.count("\n", position, after)
        position = after


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity, which Python's reader would take


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("too large")
    return value


def _reviews(document: yamltext.Document, wrap: Callable[[Any], Any]) -> Iterator[Review | Unreadable]:
    value, line = document.value, document.line
    notes = tuple(
        f"{at[0]}:{at[1]}: an unquoted value that is no string to Kubernetes: quote it, or the API server refuses it"
        for at in document.unquoted
    )
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "AdmissionReview":
        request = value.get("request")
        body = document.raw.encode() if document.raw else dump(value)  # the server would see these very bytes
        yield Review(body, request.get("object") if isinstance(request, dict) else None, line, notes)
    elif kind == "Pod":
        yield Review(dump(wrap(value)), value, line, notes)
    elif kind in ("List", "PodList"):
        yield from _items(value, line, wrap, notes)
    else:
        yield Unreadable(f"{_named(kind)}: give an AdmissionReview, a Pod or a List of pods", line)


def _items(
    value: dict[str, Any], line: int, wrap: Callable[[Any], Any], notes: tuple[str, ...]
) -> Iterator[Review | Unreadable]:
    items = value.get("items")
    for index, item in enumerate(items if isinstance(items, list) else []):
        # Inside a PodList the API server leaves kind and apiVersion out
        kind = item.get("kind", "Pod" if value["kind"] == "PodList" else None) if isinstance(item, dict) else None
        if kind == "Pod":
            yield Review(dump(wrap(item)), item, line, notes)
            notes = ()
        else:
            yield Unreadable(f"items[{index}]: {_named(kind)}: only pods are repaired", line)


def _named(kind: object) -> str:
    # Kinds are words of an API; anything else might be a value that stands in the wrong place
    if isinstance(kind, str) and re.fullmatch(r"[A-Z][A-Za-z]{1,62}", kind):
        return f"kind {kind} isn't a Pod"
    return "isn't a Kubernetes object with a kind"


def _not_text(data: bytes, position: int) -> Unreadable:
    before = data[:position]
    column = position - (before.rfind(b"\n") + 1) + 1
    return Unreadable("is binary: neither JSON nor YAML in UTF-8", before.count(b"\n") + 1, column)


def dump(value: object) -> bytes:
    """`value` as compact JSON; a lone surrogate stays the escape that it was."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")

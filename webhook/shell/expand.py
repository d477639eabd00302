"""What kubelet does to command, args and env before anything runs: `$(VAR)` of names it knows, in one pass.

Source: kubernetes `third_party/forked/golang/expansion` (`$$` is an escaped dollar, unknown names stay as they are) and
kubelet's makeEnvironmentVariables (the last entry of a name counts; an env value sees only the entries before it).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from webhook.shell.values import PAIR, Literal, Opaque, Part, Ref, Span, Text, known, opaque, text_of

# Kubelet adds these of every cluster; people write $(KUBERNETES_SERVICE_HOST) for a master that can't be one.
SERVICE_NAMES = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")


class Environment(Mapping[str, Text]):
    """A container's environment by name, as its processes see it: RANK and WORLD_SIZE as references, the rest as known.

    Values are worked out when they are asked for: most of a long env list never is.
    """

    def __init__(self, env: object) -> None:
        entries = env if isinstance(env, list) else []
        self._entries = [e for e in entries if isinstance(e, Mapping) and isinstance(e.get("name"), str)]
        self._last = {entry["name"]: at for at, entry in enumerate(self._entries)}
        self._places: dict[str, list[int]] | None = None
        self._found: dict[str, Text] = {name: Text((Ref(name, None, None),)) for name in SERVICE_NAMES}

    def __getitem__(self, name: str) -> Text:
        at = self._last.get(name)
        if at is None:
            return self._found[name]
        if name not in self._found or name in SERVICE_NAMES:
            self._found[name] = self._value(at)
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._last or name in SERVICE_NAMES

    def __iter__(self) -> Iterator[str]:
        return iter({**self._last, **dict.fromkeys(SERVICE_NAMES)})

    def __len__(self) -> int:
        return len(set(self._last) | set(SERVICE_NAMES))

    def _value(self, at: int) -> Text:
        entry = self._entries[at]
        name, value = entry["name"], entry.get("value")
        if entry.get("valueFrom") is not None:
            return opaque()
        if name in PAIR and at == self._last[name]:
            return Text((Ref(name, None, None),))
        if not isinstance(value, str) or not value:
            return known("")
        text = expand(value, _Before(self, at), None) if "$" in value else known(value)
        plain = text.literal
        return Text((Ref(name, plain, None),)) if plain else text

    def before(self, name: str, at: int) -> Text | None:
        """What `$(name)` is to entry `at`: only earlier entries count."""
        if self._places is None:
            self._places = {}
            for place, entry in enumerate(self._entries):
                self._places.setdefault(entry["name"], []).append(place)
        places = self._places.get(name, [])
        found = bisect_left(places, at) - 1
        if found >= 0:
            return self[name] if places[found] == self._last[name] else self._value(places[found])
        return self._found.get(name) if name in SERVICE_NAMES else None


class _Before:
    """The environment as one of its own entries sees it."""

    def __init__(self, env: Environment, at: int) -> None:
        self._env, self._at = env, at

    def get(self, name: str) -> Text | None:
        return self._env.before(name, self._at)


class Known(Protocol):
    """Where names are looked up."""

    def get(self, name: str, /) -> Text | None:
        """The value of a name; None where it isn't known."""


def expand(string: str, env: Known, place: Span | None) -> Text:
    """One string of command, args or an env value after kubelet's pass, `place` being where it stands (all of it)."""
    parts: list[Part] = []
    at = start = 0
    while (at := string.find("$", at)) >= 0 and at + 1 < len(string):
        following = string[at + 1]
        if following == "$":
            parts.append(_literal(string, start, at + 1, place))
            at = start = at + 2
        elif following == "(" and (close := string.find(")", at)) >= 0:
            held = env.get(string[at + 2 : close])
            if held is not None:
                parts.append(_literal(string, start, at, place))
                parts += _placed(held, None if place is None else place._replace(start=at, end=close + 1))
                start = close + 1
            at = close + 1
        else:
            at += 1
    parts.append(_literal(string, start, len(string), place))
    return text_of(parts, span=place)


def _literal(string: str, start: int, end: int, place: Span | None) -> Literal:
    return Literal(string[start:end], None if place is None else place._replace(start=start, end=end))


def _placed(held: Text, span: Span | None) -> list[Part]:
    """The parts of an env value where `$(NAME)` puts it."""
    parts = [part if isinstance(part, Opaque) else part._replace(span=None) for part in held.parts]
    if len(parts) == 1 and isinstance(part := parts[0], Ref):
        return [part._replace(span=span)]
    return list(parts)


def words(container: Mapping[str, Any], field: str, env: Mapping[str, Text]) -> list[Text]:
    """`command` or `args` of a container after kubelet's pass; what isn't a string is a word nobody knows."""
    listed = container.get(field)
    return [
        expand(word, env, Span(field, index, 0, len(word))) if isinstance(word, str) else opaque()
        for index, word in enumerate(listed if isinstance(listed, list) else [])
    ]

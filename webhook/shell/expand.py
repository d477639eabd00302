"""What kubelet does to command, args and env before anything runs: `$(VAR)` of names it knows, in one pass.

Source: kubernetes `third_party/forked/golang/expansion` (`$$` is an escaped dollar, unknown names stay as they are) and
kubelet's makeEnvironmentVariables (the last entry of a name counts; an env value sees only the entries before it).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Protocol

from webhook.shell.values import PAIR, Literal, Opaque, Part, Ref, Span, Text, known, opaque, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Kubelet adds these of every cluster; people write $(KUBERNETES_SERVICE_HOST) for a master that can't be one.
SERVICE_NAMES = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")


# What differs between the pods of one job. A job's pods must be judged alike, so nothing may depend on these values.
_VARYING = PAIR | {"PET_NODE_RANK", "MASTER_ADDR", "PET_MASTER_ADDR"}
# What rankfix itself may add: a pod that comes back must be judged as it was without them.
_OURS = frozenset({"NODE_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "PYTORCH_DIST_INIT_METHOD"})


class Environment:
    """A container's environment by name, as its processes see it.

    Values are worked out when they are asked for: most of a long env list never is. `seen` holds what was asked for.
    """

    def __init__(self, env: object) -> None:
        self._entries = env if isinstance(env, list) else []
        self._last = {name: at for at, name in self._named()}
        self._places: dict[str, list[int]] | None = None
        self.seen: dict[str, Text | None] = {}

    def _named(self) -> Iterator[tuple[int, str]]:
        """Where the entries are that have a name."""
        for at, entry in enumerate(self._entries):
            if isinstance(entry, dict) and isinstance(name := entry.get("name"), str):
                yield at, name

    def get(self, name: str, /) -> Text | None:
        """The value of a name as far as it can be relied on; None where the container doesn't set it."""
        if name not in self.seen:
            self.seen[name] = None if name in _OURS else self.given(name)
        return self.seen[name]

    def given(self, name: str) -> Text | None:
        """The value of a name as the container sets it."""
        at = self._last.get(name)
        if at is not None:
            return self._value(at)
        return Text((Ref(name, None, None),)) if name in SERVICE_NAMES else None

    def among(self, names: frozenset[str]) -> frozenset[str]:
        """Those of the names that the container sets."""
        return names & self._last.keys()

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
        if plain is None or plain == "":
            return text
        return Text((Ref(name, None if name in _VARYING else plain, None),))

    def before(self, name: str, at: int) -> Text | None:
        """What `$(name)` is to entry `at`: only earlier entries count."""
        if self._places is None:
            self._places = {}
            for place, given in self._named():
                self._places.setdefault(given, []).append(place)
        places = self._places.get(name, [])
        found = bisect_left(places, at) - 1
        if found >= 0:
            return self._value(places[found])
        return Text((Ref(name, None, None),)) if name in SERVICE_NAMES else None


class _Before:
    """The environment as one of its own entries sees it."""

    def __init__(self, env: Environment, at: int) -> None:
        self._env, self._at = env, at

    def get(self, name: str, /) -> Text | None:
        """The value of a name that an earlier entry sets."""
        return self._env.before(name, self._at)


class Known(Protocol):
    """Where names are looked up."""

    def get(self, name: str, /) -> Text | None:
        """The value of a name; None where it isn't known."""


def expand(string: str, env: Known, place: Span | None) -> Text:
    """One string of command, args or an env value after kubelet's pass, `place` being where it stands (all of it)."""
    if "$" not in string:
        return Text((Literal(string, place),) if string else (), span=place)
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
    return Literal(string[start:end], None if place is None else Span(place.field, place.index, start, end))


def _placed(held: Text, span: Span | None) -> list[Part]:
    """The parts of an env value where `$(NAME)` puts it."""
    parts = [part if isinstance(part, Opaque) else part._replace(span=None) for part in held.parts]
    if len(parts) == 1 and isinstance(part := parts[0], Ref):
        return [part._replace(span=span)]
    return list(parts)


def words(container: Mapping[str, Any], field: str, env: Known) -> list[Text]:
    """`command` or `args` of a container after kubelet's pass; what isn't a string is a word nobody knows."""
    listed = container.get(field)
    return [
        expand(word, env, Span(field, index, 0, len(word))) if isinstance(word, str) else opaque()
        for index, word in enumerate(listed if isinstance(listed, list) else [])
    ]

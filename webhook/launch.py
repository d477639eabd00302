"""How a container starts its processes: command + args -> `Launch` (rank contract, section 4)."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any

from webhook.judge import Judge
from webhook.launched import Fed, FlagValue, Insertion, Launch, LaunchClass, LauncherStart
from webhook.programs import TEMPLATE_NAMES
from webhook.shell.command import GivenUp
from webhook.shell.expand import Environment, words
from webhook.shell.grammar import bash_parser
from webhook.shell.run import Runner
from webhook.shell.state import State
from webhook.shell.syntax import parse
from webhook.shell.values import Span, Text

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Classifier",
    "Fed",
    "FlagValue",
    "Insertion",
    "Launch",
    "LaunchClass",
    "LauncherStart",
    "Span",
    "classify",
]

_LONGEST = 64 * 1024  # characters; a longer text is judged anew each time
_FORMS = 4  # judgements of one text that differ by the env


def classify(container: Mapping[str, Any]) -> Launch:
    """Judge one container (raw `command`, `args`, `env`) by what it starts. Never raises on any JSON."""
    return _classified(container, Environment(container.get("env")))


class Classifier:
    """`classify` that remembers: the pods of a job, and most jobs of a team, share their command text.

    What it remembers of a text holds for an env in which every name that was asked for has the same value; values that
    differ between the pods of a job are never asked for. At most `most` texts are kept; the longest unused goes first.
    """

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._kept: OrderedDict[object, list[tuple[dict[str, Text | None], Launch]]] = OrderedDict()
        self.hits = 0
        self.misses = 0

    def __call__(self, container: Mapping[str, Any]) -> Launch:
        """The same judgement as `classify`'s."""
        env = Environment(container.get("env"))
        command, args = _strings(container, "command"), _strings(container, "args")
        if env.among(TEMPLATE_NAMES) or sum(map(len, command)) + sum(map(len, args)) > _LONGEST:
            return _classified(container, env)
        kept = self._kept.setdefault((command, args), [])
        self._kept.move_to_end((command, args))
        for seen, launch in kept:
            if all(env.get(name) == text for name, text in seen.items()):
                self.hits += 1
                return launch
        self.misses += 1
        fresh = Environment(container.get("env"))
        launch = _classified(container, fresh)
        kept.append((fresh.seen, launch))
        del kept[:-_FORMS]
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return launch


def _strings(container: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """The strings of command or args; one that isn't a string (no API server lets it through) is no string at all."""
    listed = container.get(field)
    return tuple(w if isinstance(w, str) else "\0" for w in listed) if isinstance(listed, list) else ()


def _classified(container: Mapping[str, Any], env: Environment) -> Launch:
    command = words(container, "command", env)
    args = words(container, "args", env)
    if command:
        return _judged([*command, *args], env)
    if not args:
        return Launch(LaunchClass.ENTRYPOINT)
    found = _judged(args, env)
    if found.cls in (LaunchClass.LAUNCHER_ENV, LaunchClass.READS_RANK) or found.parse_error:
        return found
    return Launch(LaunchClass.ENTRYPOINT, unsets=found.unsets)


def _judged(argv: list[Text], env: Environment) -> Launch:
    """The judgement of a whole command line."""
    judge = Judge(env)
    runner = Runner(partial(parse, parser=bash_parser()), judge)
    state = State(env)
    try:
        runner.start(argv, state)
    except (RecursionError, GivenUp):  # deeper or longer than anything people write
        return Launch(LaunchClass.HIDDEN, parse_error=True)
    return judge.launch(unread=(*state.unread, *runner.ended), broken=runner.broken)

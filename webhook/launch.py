"""How a container starts its processes: command + args -> `Launch` (rank contract, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from webhook.judge import Judge
from webhook.launched import Fed, FlagValue, Insertion, Launch, LaunchClass, LauncherStart
from webhook.shell.expand import Environment, words
from webhook.shell.run import Runner
from webhook.shell.state import State
from webhook.shell.syntax import bash_parser, parse
from webhook.shell.values import Span, Text

__all__ = ["Fed", "FlagValue", "Insertion", "Launch", "LaunchClass", "LauncherStart", "Span", "classify"]


def classify(container: Mapping[str, Any]) -> Launch:
    """Judge one container (raw `command`, `args`, `env`) by what it starts. Never raises on any JSON."""
    env = Environment(container.get("env"))
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
    except RecursionError:  # a text nested deeper than anything people write
        runner.exhausted = True
    if runner.exhausted:
        return Launch(LaunchClass.HIDDEN, parse_error=True)
    return judge.launch(unread=(*state.unread, *runner.ended), broken=runner.broken)

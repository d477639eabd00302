"""Writes docs/contract.md from the rules themselves: their titles, their docstrings, and what they do to recorded pods.

`make docs` runs it; a test holds the page equal to what it would write.
"""

from __future__ import annotations

import inspect
import json
import re
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.layers import ROOT
from webhook import jsonpatch
from webhook.mutate import respond
from webhook.policy import Mode, Policy, Status
from webhook.rules import ALL_RULES, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PAGE = ROOT / "docs" / "contract.md"
REVIEWS = ROOT / "tests" / "data" / "reviews"
PAIR = ("RANK", "WORLD_SIZE")
TYPICAL = ("bare-n4", "torchrun-shell-n8", "lightning-n4")  # jobs that people know; the smallest pod serves otherwise

HEAD = """\
<!-- Made by `make docs` from webhook/rules and the recorded pods in tests/data/reviews. Don't edit. -->
# The contract

What rankfix changes, rule by rule. [Concepts](concepts.md) explains the words. In each rule `k` is the number of the
pod (the Master is 0), `P` the number of pods, `N` the declared processes per pod, and "the pair" is `RANK` and
`WORLD_SIZE`. For each name the last entry of the env counts, as kubelet reads it; earlier ones stay. What no rule
speaks of stays as it is.
"""

RECORDED = """\
## Recorded jobs

What mode `auto` does to jobs whose pods a real training-operator made, by operator version. `-` is a pod that stays as
it is but for annotations, `would:` what mode `audit` says and doesn't do; the empty cells are jobs that the operator of
that version doesn't take. Where Master and workers differ, the Master comes first.
"""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded pod, and what rankfix makes of it."""

    version: str
    name: str
    before: dict[str, Any]
    after: dict[str, Any]
    rules: tuple[str, ...]
    allowed: bool
    only_said: bool

    @property
    def job(self) -> str:
        """The pod's name without role and number."""
        return re.sub(r"-(master|worker)-\d+$", "", self.name)

    @property
    def role(self) -> str:
        """Whether it is a master or a worker."""
        return self.name.removeprefix(self.job + "-").split("-")[0]


def load(path: Path) -> Recording:
    """The recording at `path`, answered as the server would."""
    body = path.read_bytes()
    before = json.loads(body)["request"]["object"]
    answer = respond(body, Policy())
    after = jsonpatch.apply(before, answer.patch) if answer.patch else before
    return Recording(
        path.parent.name,
        path.stem,
        before,
        after,
        tuple(answer.rules),
        answer.allowed,
        answer.status == Status.WOULD_CHANGE,
    )


def recordings() -> list[Recording]:
    """All recorded pods, the newest operator first."""
    return [load(path) for version in versions() for path in sorted((REVIEWS / version).glob("*.json"))]


def versions() -> list[str]:
    """The operator versions there are recordings of, newest first."""
    names = (path.name for path in REVIEWS.iterdir() if path.is_dir())
    return sorted(names, key=lambda name: [int(part) for part in name[1:].split(".")], reverse=True)


def render() -> str:
    """The whole page."""
    found = recordings()
    sections = [HEAD, _overview(), *(_rule(rule, found) for rule in ALL_RULES), RECORDED, _jobs(found)]
    return "\n".join(section.rstrip("\n") + "\n" for section in sections)


def _overview() -> str:
    rows = [[f"[{rule.id}](#{_anchor(rule)})", rule.title, _modes(rule)] for rule in ALL_RULES]
    firsts = ", ".join(rule.id for rule in ALL_RULES if rule.group)
    note = f"\nOf {firsts} a container gets the first that applies, in this order; each of the others has its own say."
    return _table(["rule", "what for", "modes"], rows) + note


def _modes(rule: Rule) -> str:
    return ", ".join(mode.value for mode in Mode if mode in rule.modes)


def _anchor(rule: Rule) -> str:
    return re.sub(r"[^\w -]", "", f"{rule.id} {rule.title}").lower().replace(" ", "-")


def _rule(rule: Rule, found: list[Recording]) -> str:
    summary, _, rest = inspect.cleandoc(rule.apply.__doc__ or "").partition("\n\n")
    facts = [f"- **{label}.** {' '.join(text.split())}" for label, text in _labelled(rest)]
    return "\n".join([f"## {rule.id}: {rule.title}", "", _join(summary), "", *facts, "", _example(rule, found)])


def _labelled(text: str) -> Iterator[tuple[str, str]]:
    parts = re.split(r"^(When|What|Source): ", text, flags=re.MULTILINE)
    return zip(parts[1::2], parts[2::2], strict=True)


def _join(text: str) -> str:
    return " ".join(text.split())


def _example(rule: Rule, found: list[Recording]) -> str:
    fitting = [one for one in found if rule.id in one.rules and not one.only_said]
    if not fitting:
        return "No recorded job needs it.\n"
    one = min(fitting, key=lambda one: (one.job not in TYPICAL, len(one.rules), one.role == "master", found.index(one)))
    others = [name for name in one.rules if name != rule.id]
    beside = f", together with {' and '.join(others)}" if others else ""
    head = f"Example: pod `{one.name}` of training-operator {one.version[1:]}{beside}.\n"
    return "\n".join([head, _table(["", "before", "after"], list(_changes(one)))])


def _changes(one: Recording) -> Iterator[list[str]]:
    for kind in ("initContainers", "containers"):
        old, new = one.before["spec"].get(kind, []), one.after["spec"].get(kind, [])
        named = kind == "initContainers" or len(old) > 1
        for before, after in zip(old, new, strict=True):
            prefix = f"{after['name']}: " if named else ""
            yield from ([prefix + name, *values] for name, *values in _container(before, after))


def _container(before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    old, new = _command(before), _command(after)
    if old != new:
        yield "command", old, new
    elif before.get("env") != after.get("env") and old:
        yield "command", old, "the same"
    old_env, new_env = _env(before), _env(after)
    for name, value in new_env.items():
        if old_env.get(name) != value or (name in PAIR and before.get("env") != after.get("env")):
            yield f"`{name}`", _code(old_env.get(name)), _code(value)


def _command(container: dict[str, Any]) -> str:
    words = [*container.get("command", []), *container.get("args", [])]
    return _code(" ".join(word if re.fullmatch(r"[\w$(){}=./:,-]+", word) else shlex.quote(word) for word in words))


def _env(container: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in container.get("env", []) if "valueFrom" not in entry}


def _code(text: str | None) -> str:
    if text is None:
        return "absent"
    return "`" + text.replace("|", "\\|").replace("\n", " ") + "`" if text else "empty"


def _jobs(found: list[Recording]) -> str:
    names = versions()
    rows = []
    for job in sorted({one.job for one in found}):
        by_version = ([one for one in found if (one.job, one.version) == (job, name)] for name in names)
        rows.append([f"`{job}`", *map(_verdict, by_version)])
    return _table(["job", *(name[1:] for name in names)], rows)


def _verdict(pods: Iterable[Recording]) -> str:
    said = {one.role: _said(one) for one in sorted(pods, key=lambda one: one.role)}
    return " / ".join(dict.fromkeys(said.values()))


def _said(one: Recording) -> str:
    if not one.allowed:
        return "refused"
    return ("would: " if one.only_said else "") + (" ".join(one.rules) or "-")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> int:
    """Write the page."""
    PAGE.write_text(render(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Judges what a command line does: collects starts, topology fed by the pair, and whatever else reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook import launchers, programs
from webhook.flags import topology, topology_flags
from webhook.launched import Fed, Insertion, Launch, LaunchClass, LauncherStart
from webhook.shell.command import Command, Effect, Where
from webhook.shell.run import named_pair
from webhook.shell.values import NOTHING, PAIR, Span, Text
from webhook.starts import Kind, Start, is_endless, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from webhook.flags import LauncherFlags
    from webhook.shell.expand import Environment

_KNOWN = (Kind.LAUNCHER, Kind.OWN_LAUNCHER, Kind.PYTHON)
_CLASSES = {
    Kind.LAUNCHER: LaunchClass.LAUNCHER,
    Kind.OWN_LAUNCHER: LaunchClass.OWN_LAUNCHER,
    Kind.PYTHON: LaunchClass.PYTHON,
}


class Judge:
    """The observer of one container's evaluation."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._fed: dict[Fed, None] = {}
        self._reads: dict[Span | None, None] = {}
        self._starts: list[tuple[Start, Command]] = []
        self._launchers: dict[object, LauncherStart] = {}
        self._chosen: list[Span | None] = []  # words of set-up that chose what later starts find
        self._opaque = False
        self._unsets = False
        self._counted = False  # some flag or name gives a node count
        for name in sorted(env.among(programs.TEMPLATE_NAMES)):
            value = env.given(name)
            self.assigned(name, (value,) if value is not None else ())

    # -- what the evaluator tells

    def assigned(self, name: str, values: tuple[Text, ...]) -> None:
        """A name of the shell or of a command's environment is given values."""
        kind = _name_kind(name)
        if not kind:
            return
        self._counted |= kind == "node_count"
        for value in values:
            self._feeds(kind, name, value)

    def unset(self, name: str) -> None:
        """A name is taken out of the environment."""
        self._unsets |= name in PAIR

    def wrote(self) -> None:
        """A value of the pair goes into a file, which a start may read."""
        self._reads[None] = None

    def chose(self, deps: frozenset[str]) -> None:
        """Set-up chose a folder by the pair: what starts there is chosen by it."""
        if deps:
            self._chosen.append(None)

    def command(self, command: Command) -> Effect:
        """A command runs."""
        start = read(command.argv, has_input=command.piped)
        if start.kind is Kind.SETUP:
            return self._set_up(start, command)
        if command.where is Where.CONDITION and start.kind is not Kind.LAUNCHER:
            return Effect(deps=command.deps)
        self._reads.update(dict.fromkeys(self._chosen))
        self._chosen.clear()
        self._environment(start, command)
        self._words(command)
        self._starts.append((start, command))
        if start.flags is not None:
            self._launcher(start.name, start.flags, command)
        self._opaque |= start.kind is Kind.OPAQUE
        return Effect(starts=start.kind in _KNOWN, unread=start.kind is Kind.UNKNOWN)

    # -- set-up

    def _set_up(self, start: Start, command: Command) -> Effect:
        """Set-up changes nothing, unless it puts a value of the pair into a file or fetches by it."""
        if is_endless(command.argv):
            return Effect(ends=True)
        deps = command.deps
        if start.name in programs.NEUTRAL:
            if start.name == "tee" and command.stdin_deps:
                self.wrote()
            return Effect(prints=command.stdin_deps)
        deps |= _shown(start, command)
        if deps and _in_place(start):
            self.wrote()
        if start.name in programs.FETCHING:
            self._chosen += [text.span for text in command.argv if text.deps]
        return Effect(prints=deps if start.name in programs.PRINTING else NOTHING, deps=deps)

    # -- starts

    def _feeds(self, kind: str, name: str, value: Text) -> bool:
        """Note a topology flag or name whose value is the pair's, unchanged."""
        ref = value.ref
        if ref is None or ref.name not in PAIR:
            return False
        self._fed[Fed(kind, name, ref.name, ref.span)] = None
        return True

    def _words(self, command: Command) -> None:
        """Topology flags fed by the pair, and words that read it in any other way."""
        taken: set[int] = set()
        for flag in topology_flags(command.argv):
            kind = topology(flag.name)
            self._counted |= kind == "node_count"
            if flag.value is not None and self._feeds(kind, flag.name, flag.value):
                taken |= {flag.first, flag.last}
        self._mark(text for at, text in enumerate(command.argv) if at not in taken and text.deps)

    def _environment(self, start: Start, command: Command) -> None:
        """What a start gets beside its words: what decided on it, its input and its variables."""
        if command.because or command.stdin_deps:
            self._reads[command.argv[0].span] = None
        for name, values in command.assigns:
            self._variable(name, values)
        for name, variable in command.exports:
            self._variable(name, (*variable.values, *(text for array in variable.arrays for text in array)))
        if start.kind is Kind.PYTHON and len(command.hidden_pair) == 1:
            self._reads[None] = None  # the script gets one of the pair from the text, the other from the operator

    def _variable(self, name: str, values: Iterable[Text]) -> None:
        topological = bool(_name_kind(name))
        for value in values:
            own = value.ref is not None and (value.ref.name == name or (topological and value.ref.name in PAIR))
            if value.deps and not (own and not value.because):
                self._mark([value])

    def _mark(self, texts: Iterable[Text]) -> None:
        for text in texts:
            self._reads[text.span] = None

    def _launcher(self, name: str, flags: LauncherFlags, command: Command) -> None:
        found = launchers.launcher_start(name, flags, self._env.get("PET_RDZV_BACKEND"))
        site = command.argv[0].span or name
        old = self._launchers.get(site)
        self._launchers[site] = found if old is None else launchers.merged(old, found)

    # -- the judgement

    def launch(self, *, unread: Sequence[object], broken: bool) -> Launch:
        """All that was found, as one judgement."""
        found = tuple(self._launchers.values())
        kinds = [start.kind for start, _ in self._starts]
        cls = self._cls(found, kinds, bool(unread))
        weak = cls not in (LaunchClass.LAUNCHER_ENV, LaunchClass.READS_RANK)
        return Launch(
            cls,
            fed=tuple(self._fed),
            launchers=found,
            only_launchers=bool(kinds) and all(kind is Kind.LAUNCHER for kind in kinds),
            wrap=self._wrap(),
            multiprocessing_distributed=any(
                text.literal == "--multiprocessing-distributed" for _, command in self._starts for text in command.argv
            ),
            unread_file=bool(unread),
            node_count_in_sight=self._counted,
            deepspeed=any(start.name == "deepspeed" and not launchers.has_hostfile(start) for start, _ in self._starts),
            literal_rank=any(launchers.literal_rank(start) for start, _ in self._starts),
            parse_error=broken,
            unsets=self._unsets and weak,
            evidence=self._evidence(cls),
        )

    def _cls(self, found: Sequence[LauncherStart], kinds: Sequence[Kind], unread: bool) -> LaunchClass:
        if self._fed:
            return LaunchClass.LAUNCHER_ENV
        if self._reads:
            return LaunchClass.READS_RANK
        known = [_CLASSES[kind] for kind in kinds if kind in _CLASSES]
        if unread or self._opaque or not known:
            return LaunchClass.HIDDEN
        if any(launchers.is_number(launcher.node_rank) for launcher in found):
            return LaunchClass.LAUNCHER_FIXED
        return min(known, key=list(LaunchClass).index)

    def _wrap(self) -> Insertion | None:
        """Where a launcher goes before the last thing that an interpreter runs."""
        for start, command in reversed(self._starts):
            if start.kind is not Kind.PYTHON:
                continue
            span = command.argv[start.target].span if start.target > 0 else None
            if span is None or command.alternatives > 1:
                return None
            return Insertion(span.field, span.index, None if self._is_whole(command, start.target) else span.start)
        return None

    def _is_whole(self, command: Command, at: int) -> bool:
        """Whether a word is a whole item of command or args: then the program is one too."""
        spans = [text.span for text in command.argv[:at]]
        target = command.argv[at].span
        return all(
            s is not None and target is not None and (s.field, s.index) != (target.field, target.index) for s in spans
        )

    def _evidence(self, cls: LaunchClass) -> tuple[Span, ...]:
        if cls is LaunchClass.LAUNCHER_ENV:
            spans: Iterable[Span | None] = (fed.span for fed in self._fed)
        elif cls is LaunchClass.READS_RANK:
            spans = self._reads
        else:
            spans = (command.argv[0].span for _, command in self._starts[-1:])
        return tuple(dict.fromkeys(span for span in spans if span is not None))


def _name_kind(name: str) -> str:
    """`node_rank` or `node_count` for the name of a topology variable, else empty."""
    key = name.lower()
    return "node_rank" if key in programs.NODE_RANK_NAMES else "node_count" if key in programs.NODE_COUNT_NAMES else ""


def _shown(start: Start, command: Command) -> frozenset[str]:
    """The names of the pair that set-up looks up by itself: `envsubst`, `printenv RANK`, `env | grep RANK`.

    A dump of the whole environment isn't read for two names in it.
    """
    words = command.argv[1:]
    if start.name == "envsubst":
        return named_pair(words) if any("$" in (text.literal or "") for text in words) else PAIR
    if start.name == "printenv" or (command.piped and start.name in programs.PRINTING):
        return named_pair(words)
    return NOTHING


def _in_place(start: Start) -> bool:
    """Whether set-up changes the file it reads: `sed -i`, `yq -i`."""
    if start.name not in ("sed", "yq", "awk", "gawk", "perl"):
        return False
    return any((text.literal or "").startswith(("-i", "--in-place", "--inplace")) for text in start.words)

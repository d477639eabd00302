"""A launch case: a PyTorchJob, what its image holds, the truth about it, and what is expected of each arm.

Cases are data, in YAML files with a list each. Nothing is started here. An error names the file, the case, the key,
and what may stand there.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

from conformance.words import COVERED, FREE, NOT_OURS, REASONS, RULE_IDS, STATUSES, WARNING, Arm, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
CASES = ROOT / "tests" / "conformance" / "cases"
PROGRAMS = ROOT / "tests" / "conformance" / "programs"
PROGRAM = "program:"
LEGACY = "legacy"  # pytorch-operator, before the training-operator
OPERATORS = ("1.9", "1.8", "1.7", "1.6", "1.5", "1.3", LEGACY)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is ten times as fast
CHANGES = ("katib", "katib-late", "istio", "istio-late")

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9.]+)*$")]
Sentence = Annotated[str, StringConstraints(min_length=8, strip_whitespace=True)]


class BadCase(Exception):
    """Cases that can't be used; `problems` has a line for each fault."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Truth(BaseModel):
    """What is right for a job, whatever anybody makes of it.

    `world`: so many processes in one group, ranks 0..world-1, of `pods` pods (None: of all). Without it: `word`, either
    `alone` (each pod by itself) or `unknowable` (the author's wish isn't in the job).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    world: Annotated[int, Field(ge=1, le=64)] | None = None
    pods: Annotated[int, Field(ge=1)] | None = None
    word: Literal["world", "alone", "unknowable"] = "world"

    @property
    def right(self) -> Outcome | None:
        """The outcome that is right; None: nobody can say."""
        return {"world": Outcome.TOGETHER, "alone": Outcome.ALONE}.get(self.word)


class Case(BaseModel):
    """One launch case. `path` is its file; the other fields are its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, protected_namespaces=())

    name: Name = Field(alias="case")
    about: Sentence
    source: Literal["code", "thread", "doc", "made"]
    after: str
    covers: tuple[str, ...]
    operator: Literal["1.9", "1.8", "1.7", "1.6", "1.5", "1.3", "legacy"]
    job: dict[str, Any]
    files: dict[str, str] = {}
    truth: Truth
    expect: dict[Arm, tuple[Outcome, ...]]
    status: tuple[str, ...]
    change: Literal["katib", "katib-late", "istio", "istio-late"] | None = None
    annotate: dict[str, str] = {}
    known: Sentence | None = None  # why rankfix breaks what worked: a regression that the contract itself declares
    remedy: Sentence | None = None  # what the user can do where rankfix and its annotations don't help
    entrypoint: tuple[str, ...] = ()
    recreate: str | None = None
    scale: tuple[Annotated[int, Field(ge=1, le=8)], ...] = ()
    quiet: Annotated[float, Field(gt=0, le=120)] | None = None
    limit: Annotated[float, Field(gt=0, le=600)] | None = None
    fast: bool = False
    path: Path

    @property
    def family(self) -> str:
        """Its file's name."""
        return self.path.stem

    @field_validator("truth", mode="before")
    @classmethod
    def _truth(cls, value: object) -> object:
        return {"word": value} if isinstance(value, str) else value

    @field_validator("expect", mode="before")
    @classmethod
    def _expect(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {arm: (given,) if isinstance(given, str) else given for arm, given in value.items()}

    @field_validator("status", mode="before")
    @classmethod
    def _status(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        words = value.replace("+", " ").replace(",", " ").split()
        known = {*RULE_IDS, *STATUSES, *REASONS, *NOT_OURS, WARNING}
        for word in words:
            if word not in known:
                raise ValueError(f"{word!r} is no rule, status or reason of rankfix{_near(word, known)}")
        return words

    @field_validator("covers")
    @classmethod
    def _covers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            kind, _, name = entry.partition(":")
            if not name or (kind not in FREE and kind not in COVERED):
                raise ValueError(
                    f"{entry!r}: write KIND:NAME, with a kind of {', '.join(sorted(COVERED | FREE_KINDS))}"
                )
            if kind in COVERED and name not in COVERED[kind]:
                raise ValueError(f"{entry!r}: no such {kind}{_near(name, COVERED[kind])}")
        return value

    @field_validator("files")
    @classmethod
    def _files(cls, value: dict[str, str]) -> dict[str, str]:
        for path, text in value.items():
            if ".." in Path(path).parts:
                raise ValueError(f"{path!r} leaves its folder: write it without '..'")
            if text.startswith(PROGRAM) and not program(text).is_file():
                known = {path.stem for path in PROGRAMS.glob("*.py")}
                name = text.removeprefix(PROGRAM)
                raise ValueError(f"{path!r}: there is no {program(text).relative_to(ROOT)}{_near(name, known)}")
        return value

    @model_validator(mode="after")
    def _agrees(self) -> Case:
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        if (Arm.ANNOTATED in self.expect) != bool(self.annotate):
            yield "expect.annotated and annotate belong together: write both or neither"
        if Arm.RANKFIX not in self.expect:
            yield "expect.rankfix is missing: what rankfix comes to must be said beforehand"
        if any(not key.startswith("rankfix/") for key in self.annotate):
            yield "annotate holds annotations of rankfix only: rankfix/mode, rankfix/nproc-per-node, ..."
        if any(len(given) != 1 for arm, given in self.expect.items() if arm in (Arm.RANKFIX, Arm.ANNOTATED)):
            yield "expect.rankfix and expect.annotated take one outcome, not several"
        if self.scale and "elasticPolicy" not in (self.job.get("spec") or {}):
            yield "scale needs a job with an elasticPolicy: only such jobs are scaled"
        if self.known and not self.annotate:
            yield "known needs annotate: who declares what rankfix breaks says how to keep it, too"
        wanted = self.truth.right
        if wanted and not self.annotate and not self.remedy and self.expect[Arm.RANKFIX] != (wanted,):
            yield "remedy is missing: rankfix isn't expected to help, and there is no annotation; what can the user do?"
        if self.scale and self.recreate:
            yield "scale and recreate can't both be tried in one case: make two"


FREE_KINDS = dict.fromkeys(FREE, frozenset[str]())


def program(text: str) -> Path:
    """The file that `program:NAME` means."""
    return PROGRAMS / f"{text.removeprefix(PROGRAM)}.py"


def load(paths: Iterable[Path] = (CASES,)) -> list[Case]:
    """The cases in some files and folders (*.yaml), in order.

    Raises:
        BadCase: with a line for each fault of each file.
    """
    cases: list[Case] = []
    problems: list[str] = []
    for file in _files(paths, problems):
        try:
            cases += read(file)
        except BadCase as bad:
            problems += bad.problems
    problems += _twice(cases)
    if problems:
        raise BadCase(problems)
    return cases


def _files(paths: Iterable[Path], problems: list[str]) -> Iterator[Path]:
    for path in paths:
        found = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        if not found or not found[0].is_file():
            problems.append(f"{path}: there are no cases: name a .yaml file, or a folder that holds some")
        else:
            yield from found


def read(file: Path) -> list[Case]:
    """The cases of one file.

    Raises:
        BadCase: with a line for each fault.
    """
    try:
        raw = yaml.load(file.read_text(encoding="utf-8"), _LOADER)  # noqa: S506 - a safe one
    except (OSError, ValueError, yaml.YAMLError) as exc:
        raise BadCase([f"{_shown(file)}: can't be read as YAML: {' '.join(str(exc).split())}"]) from None
    if not isinstance(raw, list) or not all(isinstance(entry, dict) for entry in raw):
        raise BadCase([f"{_shown(file)}: a list of cases was expected, each beginning with '- case: NAME'"])
    cases, problems = [], []
    for number, entry in enumerate(raw, 1):
        try:
            cases.append(Case.model_validate({**entry, "path": _shown(file)}))
        except ValidationError as bad:
            name = entry.get("case") or f"number {number}"
            problems += [f"{_shown(file)}: case {name}: {line}" for line in _lines(bad)]
    if problems:
        raise BadCase(problems)
    return cases


def _shown(file: Path) -> Path:
    return file.resolve().relative_to(ROOT) if file.resolve().is_relative_to(ROOT) else file


def _lines(bad: ValidationError) -> Iterator[str]:
    keys = {field.alias or name for name, field in Case.model_fields.items()} - {"path"}
    for error in bad.errors(include_url=False):
        place = ".".join(str(part) for part in error["loc"])
        match error["type"]:
            case "extra_forbidden" if len(error["loc"]) == 1:
                yield f"{place}: no such key{_near(place, keys)}"
            case "missing":
                yield f"{place}: missing: each case needs it"
            case _:
                said = error["msg"].removeprefix("Value error, ") + _quotes(error["input"])
                yield ": ".join(filter(None, [place, said]))


def _quotes(given: object) -> str:
    """YAML reads off and no as false, and 2 as a number, where a word is meant."""
    return "; put it in quotes, else YAML reads no word" if isinstance(given, bool | int | float) else ""


def _near(word: str, known: Iterable[str]) -> str:
    """What somebody may have meant, or else all there is."""
    close = difflib.get_close_matches(word, list(known), 1)
    return f": did you mean {close[0]!r}?" if close else f"; known: {', '.join(sorted(known)) or 'none'}"


def _twice(cases: Iterable[Case]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for case in cases:
        if case.name in seen:
            yield f"{case.family}.yaml: case {case.name}: {seen[case.name]}.yaml has one of this name: choose another"
        seen.setdefault(case.name, case.family)


def selected(cases: Iterable[Case], *, names: Iterable[str] = (), only: str = "", fast: bool = False) -> list[Case]:
    """The cases with one of these names (all, if none is given), with a word in name, family or covers, and fast ones.

    Raises:
        BadCase: a name that no case has, or a choice that nothing is left of.
    """
    cases, wanted = list(cases), list(names)
    known = {case.name for case in cases}
    if missing := [name for name in wanted if name not in known]:
        raise BadCase(f"--case {name}: no such case{_near(name, known)}" for name in missing)
    left = [
        case
        for case in cases
        if (not wanted or case.name in wanted)
        and (not fast or case.fast)
        and only in " ".join((case.name, case.family, *case.covers))
    ]
    if not left:
        raise BadCase([f"no case is left: --only {only!r} and the other choices match none of {len(cases)}"])
    return left

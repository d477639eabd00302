"""Writes docs/conformance.md, its chart, and the README's figure, from the cases and the results of their last run.

python -m conformance.page
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from conformance import cases, chart, figures, outcomes
from conformance.cases import ROOT
from conformance.words import Arm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from conformance.figures import Row

_FIGURE = re.compile(r"(?m)^Of \d+ ways to launch .*$")
_CELLS = (Arm.OPERATOR, Arm.NAIVE, Arm.POLICY, Arm.RANKFIX, Arm.ANNOTATED)

HEAD = """\
<!-- Made by `python -m conformance.page` from tests/conformance. Don't edit. -->
# Conformance

What becomes of jobs as people publish them: as the training-operator makes their pods, and with rankfix. Each case is a
PyTorchJob from a public repository, a thread or a manual, cut down to its launch, and really run: pods as processes,
each with an address and a host name of its own, shells and launchers as they are, ranks that meet over gloo. What its
author wants (one group of so many processes, or each pod for itself) is written down beside it.
"""

HOW = """\
## How it is judged

| outcome | what it means |
|---|---|
| together | every process is in one group of the size that the author wants, every pod takes part, each rank once |
| alone | each pod trained, but none with another; right only where that is what the author wants |
| duplicate, partial | all ended without an error, and a rank or a share of the data was there twice, or not at all |
| hang | processes wait for others that will never come |
| crash | a container ended with an error by itself |
| denied | rankfix refuses the pod: an annotation of its own that can't be obeyed |

The arms, on the same pods and in the same runner:

- **operator**: the pods as the training-operator of the case's version makes them.
- **rankfix**: the same pods, each sent to rankfix as an AdmissionReview, its patch applied. No annotation is added.
- **annotated**: the same with the `rankfix/` annotation that the case names, where it names one.
- **naive**: what is often proposed instead: `RANK=k*N` and `WORLD_SIZE=P*N` in every container that has the operator's
  pair, `N` from the GPU limits where `nprocPerNode` isn't a number.
- **policy**: the MutatingAdmissionPolicy of the [policy profile](policy.md), evaluated by a real API server.

What isn't real: there are no GPUs, images or nodes. `torchrun`, `torch.distributed.run` and `.launch`, and `accelerate`
are the real programs; composer, detectron2, YOLOX, deepspeed, Lightning, flyte, swift, LLaMA-Factory, fairseq and
mmengine are stand-ins with the same arithmetic, written for this corpus. Arms whose pods are the same are run once, and
also where they differ only in a variable of rankfix's that nothing in the case reads (`--no-sharing` runs them all).
"""

TRY = """\
## Run it

```sh
make conformance                                        # all cases; minutes
make conformance-fast                                   # a part that has each class and rule
make conformance ARGS="--only twins -v"                 # some of them, with the env, the ranks and the logs
make conformance CASES=my-cases/ ARGS="--case my-job"   # your own, in the same form
```

It fails if a case comes out otherwise than it says, or if something that worked without rankfix doesn't work with it. A
case of your own is an entry of a YAML list; copy one from `tests/conformance/cases`. Its training program is a text in
`files`, or one of `tests/conformance/programs`; it says whom it met by `import report; report.train()`.
`make conformance CASES=my-cases/ ARGS=--check` says what is wrong with a case before anything runs.
"""


def render(rows: Sequence[Row]) -> str:
    """The page."""
    sections = (_headline, _families, _broken, _left, _told)
    told = ("\n".join(section(rows)) for section in sections)
    return "\n".join([HEAD, *told, HOW, TRY, *_each(rows), ""])


def figure(rows: Sequence[Row]) -> str:
    """The one sentence, about what others wrote."""
    published = [row for row in rows if row.published]
    bars = {bar.name: bar for bar in figures.bars(published)}
    before, after, both = (bars[name] for name in (Arm.OPERATOR, Arm.RANKFIX, figures.BOTH))
    broken = sum(row.broken(Arm.RANKFIX) for row in published)
    return (
        f"Of {before.total} ways to launch a PyTorchJob, from public code, threads and manuals, {before.right} work as "
        f"the operator makes their pods, {after.right} with rankfix, and {both.right} with rankfix and one annotation "
        f"where a job needs it; {broken or 'none'} that worked {'is' if broken <= 1 else 'are'} broken"
    )


def _headline(rows: Sequence[Row]) -> Iterator[str]:
    published = [row for row in rows if row.published]
    sources = Counter(row.case.source for row in rows)
    yield f"**{figure(rows)}.** Real processes, [judged](#how-it-is-judged) by the groups that they form."
    yield ""
    yield "![What each arm comes to, in numbers of cases](conformance.svg)"
    yield ""
    yield from _table(published)
    yield f"{sources['code']} of these cases are modelled after public code, {sources['thread']} after threads in which"
    yield f"people ask for help, {sources['doc']} after manuals. {sources['made']} more are made up, to reach a rule, a"
    yield "wrapper or a mistake that the others don't; so their number says nothing about how often it happens. All:"
    yield ""
    yield from _table(rows)
    if unknowable := sum(not row.known for row in rows):
        yield f"Cases that aren't counted, since what their authors want isn't in the job: {unknowable}."
        yield ""


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield "| | right | waits for ever | ends with an error | wrong, without a word |"
    yield "|---|---|---|---|---|"
    for bar in figures.bars(rows):
        yield f"| {bar.name} | {bar.right} of {bar.total} | {bar.hang} | {bar.crash} | {bar.silent} |"
    yield ""


def _told(rows: Sequence[Row]) -> Iterator[str]:
    failing = [row for row in rows if row.known and row.published and Arm.OPERATOR not in row.right]
    texts = Counter(figures.error(row, Arm.OPERATOR) for row in failing)
    silent = texts.pop("", 0)
    yield "## What people see without rankfix"
    yield ""
    yield f"{silent} of {len(failing)} published jobs that fail say nothing: they wait, or train in parts. The others:"
    yield ""
    yield "| error | jobs |"
    yield "|---|---|"
    for text, count in sorted(texts.items(), key=lambda pair: (-pair[1], pair[0])):
        yield f"| `{text.replace('|', '/')}` | {count} |"
    yield ""


def _families(rows: Sequence[Row]) -> Iterator[str]:
    yield "## By family"
    yield ""
    yield "Cases that are right, of those whose truth is known. A family is a file of `tests/conformance/cases`."
    yield ""
    yield "| family | cases | operator | naive | policy | rankfix | rankfix and its annotations |"
    yield "|---|---|---|---|---|---|---|"
    known = [row for row in rows if row.known]
    for family, found in groupby(known, key=lambda row: row.case.family):
        group = list(found)
        counts = " | ".join(str(bar.right) for bar in figures.bars(group))
        yield f"| {family} | {len(group)} | {counts} |"
    yield ""


def _broken(rows: Sequence[Row]) -> Iterator[str]:
    yield "## What was right before"
    yield ""
    declared = [row for row in rows if row.broken(Arm.RANKFIX)]
    published = sum(row.published for row in declared)
    naive = [row for row in rows if row.broken(Arm.NAIVE)]
    policy = [row for row in rows if row.broken(Arm.POLICY)]
    told = f"none but these, which look like jobs that need it ({published} of them published)"
    others = told if declared else "none"
    yield f"Of the jobs that work without it, rankfix breaks {others}."
    yield ""
    if declared:
        yield "| case | why it can't be known | what keeps it as it was |"
        yield "|---|---|---|"
        yield from (f"| {row.case.name} | {row.case.known} | {_annotations(row)} |" for row in declared)
        yield ""
    yield f"The naive patch breaks {len(naive)} jobs that work{_listed(naive)}."
    yield f"The policy breaks {len(policy)}{_listed(policy)}."
    yield ""


def _listed(rows: Sequence[Row]) -> str:
    return ": " + ", ".join(f"`{row.case.name}`" for row in rows) if rows else ""


def _left(rows: Sequence[Row]) -> Iterator[str]:
    failing = [row for row in rows if row.known and Arm.RANKFIX not in row.right and not row.broken(Arm.RANKFIX)]
    yield "## What still fails with rankfix alone"
    yield ""
    yield "rankfix leaves alone what it can't know, and says so on the pod. [Limits](limits.md) has the reasons."
    yield ""
    yield "| case | what it is | comes to | warned | what to do |"
    yield "|---|---|---|---|---|"
    for row in failing:
        cure = _annotations(row) or row.case.remedy
        warned = "yes" if {"warning", "denied"} & set(row.case.status) else "no"
        yield f"| {row.case.name} | {row.case.about} | {row.outcomes[Arm.RANKFIX]} | {warned} | {cure} |"
    yield ""


def _annotations(row: Row) -> str:
    if Arm.ANNOTATED not in row.right:
        return ""
    return ", ".join(f"`{key}: {value}`" for key, value in row.case.annotate.items())


def _each(rows: Sequence[Row]) -> Iterator[str]:
    yield "## Each case"
    yield ""
    yield "An outcome that is right is **bold**. `-`: the case has no such arm, or it couldn't be shown."
    yield ""
    yield f"| family | case | wanted | {' | '.join(_CELLS)} | rankfix says |"
    yield "|" + "---|" * (4 + len(_CELLS))
    for row in rows:
        cells = " | ".join(_cell(row, arm) for arm in _CELLS)
        truth = row.case.truth
        wanted = f"world of {truth.world}" if truth.world else truth.word
        said = " + ".join(row.case.status)
        yield f"| {row.case.family} | {row.case.name} | {wanted} | {cells} | {said} |"


def _cell(row: Row, arm: Arm) -> str:
    outcome = row.outcomes.get(arm)
    if outcome is None:
        return "-"
    return f"**{outcome}**" if arm in row.right else outcome.value


@dataclass(frozen=True, slots=True)
class Places:
    """What is read, and what is written."""

    cases: Path = cases.CASES
    results: Path = outcomes.FILE
    page: Path = ROOT / "docs" / "conformance.md"
    chart: Path = ROOT / "docs" / "conformance.svg"
    readme: Path = ROOT / "README.md"

    def rows(self) -> list[Row]:
        """The cases with their results.

        Raises:
            BadCase, Missing, OSError: with what to do.
        """
        return figures.rows(cases.load([self.cases]), outcomes.load(self.results))


def main(places: Places | None = None) -> int:
    """Write all; an exit code."""
    places = places or Places()
    try:
        found = places.rows()
    except (cases.BadCase, figures.Missing, OSError) as exc:
        print(f"conformance.page: {exc}", file=sys.stderr)
        return 1
    places.page.write_text(render(found), encoding="utf-8")
    places.chart.write_text(chart.svg(figures.bars([row for row in found if row.published])), encoding="utf-8")
    told = f"{figure(found)} ([measured with real processes](docs/conformance.md))."
    text = places.readme.read_text(encoding="utf-8")
    places.readme.write_text(_FIGURE.sub(lambda _: told, text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

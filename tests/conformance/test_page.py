"""The page, its chart and the README's figure say what the last run came to."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from conformance import chart, figures, outcomes, page
from conformance.compare import Result
from conformance.figures import Bar, Missing
from conformance.page import Places
from conformance.run import Ran
from conformance.words import Arm, Outcome
from tests.support_conformance import case

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.cases import Case
    from conformance.figures import Row

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(name="found", scope="module")
def _found() -> list[Row]:
    return Places().rows()


def test_the_page_is_what_the_last_run_came_to(found: list[Row]) -> None:
    """docs/conformance.md and its chart are made, not written."""
    assert Places().page.read_text(encoding="utf-8") == page.render(found)
    assert Places().chart.read_text(encoding="utf-8") == chart.svg(
        figures.bars([row for row in found if row.published])
    )


def test_the_readme_has_the_figure(found: list[Row]) -> None:
    """The headline is the page's."""
    assert f"{page.figure(found)} (" in Places().readme.read_text(encoding="utf-8")


def test_nothing_that_worked_is_broken_undeclared(found: list[Row]) -> None:
    """The project's promise, on the record of the last run."""
    assert [row.case.name for row in found if row.broken(Arm.RANKFIX) and row.case.known is None] == []
    assert [row.case.name for row in found if row.broken(Arm.ANNOTATED)] == []


def test_what_an_annotation_should_cure_it_cures(found: list[Row]) -> None:
    """Each case with a truth is right with rankfix, with its annotation, or has a remedy for its user."""
    assert [row.case.name for row in found if row.known and not row.helped and not row.case.remedy] == []


def test_the_runner_could_have_failed(found: list[Row]) -> None:
    """The naive patch breaks jobs that work, and the same runner saw it."""
    assert sum(row.broken(Arm.NAIVE) for row in found) >= 5


def noted(folder: Path, made: Case, **arms: Outcome) -> Path:
    file = folder / "results.json"
    ran = {name: Ran(outcome, "still after 7 s at 10.77.0.2:4711 in /tmp/a/b/c") for name, outcome in arms.items()}
    outcomes.note([Result(made, Arm(name), one) for name, one in ran.items()], file)
    return file


def test_results_are_noted_beside_others(tmp_path: Path) -> None:
    """One case run again changes its own lines; what another run would have otherwise isn't noted."""
    first, second = case(tmp_path), case(tmp_path, case="b-case")
    noted(tmp_path, second, operator=Outcome.HANG, rankfix=Outcome.TOGETHER)
    file = noted(tmp_path, first, rankfix=Outcome.HANG)
    noted(tmp_path, first, operator=Outcome.TOGETHER)
    outcomes.note([Result(first, Arm.POLICY, None, skipped="no API server")], file)
    found = outcomes.load(file)
    assert list(found) == ["a-case", "b-case"]
    assert list(found["a-case"]) == ["operator", "rankfix", "policy"]
    assert found["a-case"]["rankfix"] == {"outcome": "hang", "right": False, "why": "still at ADDRESS in .../c"}
    assert found["a-case"]["policy"] == {"skipped": "no API server"}


def test_figures_are_counted(tmp_path: Path) -> None:
    """Right, waiting, crashed, silently wrong; with an annotation where that is what helps."""
    made = case(tmp_path)
    arms = {"operator": Outcome.ALONE, "naive": Outcome.HANG, "rankfix": Outcome.CRASH, "annotated": Outcome.TOGETHER}
    found = figures.rows([made], outcomes.load(noted(tmp_path, made, **arms)))
    assert figures.bars(found) == [
        Bar("operator", 0, 0, 0, 1),
        Bar("naive", 0, 1, 0, 0),
        Bar("policy", 0, 0, 0, 0),
        Bar("rankfix", 0, 0, 1, 0),
        Bar(figures.BOTH, 1, 0, 0, 0),
    ]
    assert not found[0].broken(Arm.RANKFIX)
    text = page.render(found)
    assert "breaks none." in text
    assert "| a-case | A case of the tests. | crash | no |" in text


def test_errors_are_counted_by_their_text(tmp_path: Path) -> None:
    """Without the pod that said them, and without its numbers; what hangs has none."""
    crashed = {"outcome": "crash", "right": False, "why": "job-worker-1: RuntimeError: mpi4py, rank 5 of 4"}
    waits = {"outcome": "hang", "right": False, "why": "nothing moves any more: 0 of 2 processes had joined a group"}
    made = case(tmp_path, source="thread"), case(tmp_path, case="b-case", source="doc")
    found = figures.rows(
        made,
        {name: dict.fromkeys(("operator", "rankfix"), told) for name, told in (("a-case", crashed), ("b-case", waits))},
    )
    assert [figures.error(row, Arm.OPERATOR) for row in found] == ["RuntimeError: mpi4py, rank N of N", ""]
    assert "1 of 2 published jobs that fail say nothing" in page.render(found)


def test_a_case_without_a_result_is_told_with_the_command(tmp_path: Path) -> None:
    """Who adds a case runs it."""
    with pytest.raises(Missing, match="1 cases have no results: make conformance ARGS='--results --case a-case'"):
        figures.rows([case(tmp_path)], {})


def test_all_is_written_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`make docs`: page, chart, and the one sentence in the README; nothing, where a case has no result."""
    names = {"results": "results.json", "page": "page.md", "chart": "chart.svg", "readme": "README.md"}
    places = Places(cases=tmp_path / "made.yaml", **{key: tmp_path / name for key, name in names.items()})
    made = case(tmp_path, source="code")
    places.readme.write_text("# x\n\nOf 3 ways to launch a PyTorchJob ...\n\nmore\n", encoding="utf-8")
    assert page.main(places) == 1
    assert "have no results" in capsys.readouterr().err
    noted(tmp_path, made, operator=Outcome.HANG, rankfix=Outcome.TOGETHER)
    assert page.main(places) == 0
    told = places.readme.read_text(encoding="utf-8").splitlines()
    assert told[2].startswith("Of 1 ways to launch a PyTorchJob, from public code, threads and manuals, 0 work as ")
    assert "1 with rankfix, and 1 with rankfix and one annotation where a job needs it; none that worked is" in told[2]
    assert told[4:] == ["more"]
    assert places.page.exists()
    assert places.chart.exists()


def test_a_declared_regression_is_on_the_page(tmp_path: Path) -> None:
    """With what keeps the job as it was."""
    keys = {
        "known": "It looks like others.",
        "annotate": {"rankfix/mode": "off"},
        "expect": {"rankfix": "hang", "annotated": "together"},
    }
    made = case(tmp_path, **keys)
    together = dict.fromkeys(("operator", "annotated"), Outcome.TOGETHER)
    found = figures.rows([made], outcomes.load(noted(tmp_path, made, rankfix=Outcome.HANG, **together)))
    assert "| a-case | It looks like others. | `rankfix/mode: off` |" in page.render(found)


def test_the_chart_is_svg_that_names_its_numbers() -> None:
    """Each part as wide as its share; who doesn't see it hears the title."""
    bar = Bar("a < b", 3, 1, 0, 96)
    root = ET.fromstring(chart.svg([bar]))  # noqa: S314 - our own text
    assert root.findtext(f"{SVG}title") == "a < b: right in 3 of 100"
    widths = [float(rect.get("width", "")) for rect in root.iter(f"{SVG}rect") if rect.get("height") == "30"]
    assert widths == [18, 6, 576]
    assert [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "number"] == ["96"]


def test_bars_add_up() -> None:
    """The parts are the whole."""
    assert dataclasses.replace(Bar("x", 1, 2, 3, 4)).total == 10

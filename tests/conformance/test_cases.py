"""Cases as data: what may stand in one, what is said of a bad one, and which are run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.cases import BadCase, Truth, load, read, selected
from conformance.words import Arm, Outcome
from tests.support_conformance import case, job, raw, written

if TYPE_CHECKING:
    from pathlib import Path


def test_a_case_is_read(tmp_path: Path) -> None:
    """One word stands for a list of one, and the file is the family."""
    found = case(
        tmp_path, truth="alone", status="C1 + process, warning", expect={"rankfix": "alone", "naive": ["hang"]}
    )
    assert (found.name, found.family) == ("a-case", "made")
    assert found.truth.right is Outcome.ALONE
    assert found.status == ("C1", "process", "warning")
    assert found.expect == {Arm.RANKFIX: (Outcome.ALONE,), Arm.NAIVE: (Outcome.HANG,)}


@pytest.mark.parametrize(
    ("word", "right"), [("unknowable", None), ("alone", Outcome.ALONE), ("world", Outcome.TOGETHER)]
)
def test_what_is_right(word: Any, right: Outcome | None) -> None:
    """A truth that nobody can know makes no outcome right."""
    assert Truth(word=word).right is right


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"expects": {}}, "expects: no such key: did you mean 'expect'?"),
    "no key of this kind": ({"zzz": 1}, "zzz: no such key; known: about, after"),
    "unknown arm": ({"expect": {"rankfix": "together", "rival": "hang"}}, "expect.rival"),
    "unknown outcome": ({"expect": {"rankfix": "fine"}}, "'denied', 'crash', 'hang'"),
    "no expectation": ({"expect": {"naive": "hang"}}, "expect.rankfix is missing"),
    "several of ours": ({"expect": {"rankfix": ["hang", "crash"]}}, "take one outcome"),
    "unknown status": ({"status": "C9"}, "'C9' is no rule, status or reason"),
    "status read as false": ({"status": False}, "status: Input should be a valid tuple; put it in quotes"),
    "operator read as a number": ({"operator": 1.9}, "operator: "),
    "annotation read as a number": (
        {"annotate": {"rankfix/nproc-per-node": 2}, "expect": {"rankfix": "together", "annotated": "together"}},
        "annotate.rankfix/nproc-per-node: Input should be a valid string; put it in quotes",
    ),
    "unknown class": ({"covers": ["class:pyton"]}, "'class:pyton': no such class: did you mean 'python'?"),
    "unknown kind": ({"covers": ["python"]}, "write KIND:NAME"),
    "unknown operator": ({"operator": "2.0"}, "operator"),
    "unknown change": ({"change": "linkerd"}, "change"),
    "unknown program": (
        {"files": {"train.py": "program:envv"}},
        "tests/conformance/programs/envv.py: did you mean 'env'?",
    ),
    "file outside": ({"files": {"../x": ""}}, "leaves its folder"),
    "name": ({"case": "A Case"}, "case"),
    "annotate without arm": ({"annotate": {"rankfix/mode": "off"}}, "write both or neither"),
    "not ours": (
        {"annotate": {"other/mode": "off"}, "expect": {"rankfix": "together", "annotated": "together"}},
        "annotations of rankfix only",
    ),
    "declared without a cure": ({"known": "It can't be known."}, "known needs annotate"),
    "no remedy": ({"expect": {"rankfix": "hang"}}, "remedy is missing"),
    "scale without elasticPolicy": ({"scale": [1, 2]}, "scale needs a job with an elasticPolicy"),
    "both stages": ({"scale": [1, 2], "recreate": "worker-0", "job": job(elasticPolicy={})}, "make two"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_case_is_named_with_its_key_and_the_remedy(fault: str, tmp_path: Path) -> None:
    """Nobody has to read the loader to mend a case."""
    keys, words = BAD[fault]
    with pytest.raises(BadCase) as bad:
        read(written(tmp_path, raw(**keys)))
    (problem, *_) = bad.value.problems
    assert "made.yaml: case " in problem
    assert words in problem


def test_a_missing_key_and_a_case_without_a_name(tmp_path: Path) -> None:
    """A case is then told by its number."""
    entry = raw()
    del entry["case"], entry["job"]
    with pytest.raises(BadCase) as bad:
        read(written(tmp_path, entry))
    assert [problem.partition("case number 1: ")[2] for problem in bad.value.problems] == [
        "case: missing: each case needs it",
        "job: missing: each case needs it",
    ]


@pytest.mark.parametrize(
    ("text", "words"), [("case: x", "a list of cases was expected"), ("[", "can't be read as YAML")]
)
def test_a_file_that_holds_no_cases(text: str, words: str, tmp_path: Path) -> None:
    """It is the file that is named then."""
    file = tmp_path / "x.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadCase, match=words):
        read(file)


def test_all_faults_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    """Also a folder without cases, and a name that is there twice."""
    written(tmp_path, raw(), name="one")
    written(tmp_path, raw(), raw(status="C9"), name="two")
    written(tmp_path, raw(), name="three")
    with pytest.raises(BadCase) as bad:
        load([tmp_path, tmp_path / "nowhere"])
    assert len(bad.value.problems) == 3
    assert "there are no cases" in bad.value.problems[1]
    assert "three.yaml has one of this name" in str(bad.value) or "one.yaml has one of this name" in str(bad.value)


def test_the_cases_that_are_chosen(tmp_path: Path) -> None:
    """By name, by a word in name, family or covers, and the fast ones."""
    written(tmp_path, raw(case="one", fast=True), raw(case="two", covers=["class:hidden"]))
    cases = load([tmp_path])
    assert [one.name for one in selected(cases)] == ["one", "two"]
    assert [one.name for one in selected(cases, names=["two"])] == ["two"]
    assert [one.name for one in selected(cases, only="hidden")] == ["two"]
    assert [one.name for one in selected(cases, fast=True)] == ["one"]
    with pytest.raises(BadCase, match="--case tow: no such case: did you mean 'two'"):
        selected(cases, names=["tow"])
    with pytest.raises(BadCase, match="no case is left"):
        selected(cases, only="nothing")

"""The scripts that people and CI rely on do what they say, and fail when they should."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench import __main__ as bench
from bench import cases, chart, core, load
from bench import page as bench_page
from tools import coverage_gate, layers
from webhook.mutate import respond
from webhook.policy import Policy

ROOT = Path(__file__).resolve().parent.parent
CORE = {Path("webhook/decide.py")}


def report(*files: tuple[str, int, int]) -> dict[str, object]:
    """What `coverage json` writes of files with so many of 10 statements and of 10 branches covered."""
    return {
        "files": {
            name: {
                "summary": {
                    "covered_lines": lines,
                    "covered_branches": branches,
                    "num_statements": 10,
                    "num_branches": 10,
                },
                "missing_lines": list(range(10 - lines)),
                "missing_branches": [[13, -1]] * (10 - branches),
            }
            for name, lines, branches in files
        }
    }


@pytest.mark.parametrize(
    ("files", "ok"),
    [
        ([("webhook/decide.py", 10, 10), ("webhook/app.py", 9, 9)], True),
        ([("webhook/decide.py", 10, 9), ("webhook/app.py", 10, 10)], False),
        ([("webhook/decide.py", 10, 10), ("webhook/app.py", 9, 8)], False),
        ([("webhook/decide.py", 10, 10), ("webhook/app.py", 8, 8), ("webhook/cli.py", 10, 10)], True),
        ([("trainer/train.py", 0, 0)], True),
    ],
)
def test_the_coverage_gate_judges(files: list[tuple[str, int, int]], *, ok: bool) -> None:
    """The core must be whole, the rest of a package 90 % together, and what is skipped isn't judged."""
    verdicts = coverage_gate.judge(coverage_gate.read(report(*files)), CORE, skip=frozenset({"trainer"}))
    assert all(verdict.ok for verdict in verdicts) is ok


def test_the_coverage_gate_names_the_gap() -> None:
    """A person is told the file, and the branch that no test takes."""
    (verdict,) = coverage_gate.judge(coverage_gate.read(report(("webhook/decide.py", 10, 9))), CORE)
    assert "webhook/decide.py" in verdict.text
    assert "13->exit" in verdict.text


def test_the_coverage_gate_is_brief() -> None:
    """Lines in a row are one range, and a branch is named only where its lines are covered."""
    data = report(("webhook/decide.py", 5, 9))
    (file,) = coverage_gate.read(data)
    assert file.missing == ("0-4", "13->exit")


def test_the_core_is_read_from_the_contract(tmp_path: Path) -> None:
    """A package stands for all its files, a module for its own."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.py").touch()
    (tmp_path / ".importlinter").write_text("[importlinter:contract:core]\nsource_modules =\n    a.b\n    a.d\n")
    assert layers.core_files(tmp_path) == {Path("a/b/c.py"), Path("a/d.py")}


def test_the_bench_measures_each_case(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It runs, whatever it measures: no figure is judged here. What was measured before stays in the file."""
    monkeypatch.setattr(core, "pin", lambda: "not pinned: other tests run in this process")
    monkeypatch.setattr(core, "unpin", lambda: None)
    results = tmp_path / "results.json"
    results.write_text('{"soak": 1}', encoding="utf-8")
    arguments = ["--part", "core", "--calls", "3", "--results", str(results), "--chart", str(tmp_path / "chart.svg")]
    assert bench.main(arguments) == 0
    shown = capsys.readouterr().out
    assert "shell form, each text" in shown
    assert "times what 1,000 cost" in shown
    figures = json.loads(results.read_text(encoding="utf-8"))
    assert (figures["soak"], len(figures["core"]["as the server answers"])) == (1, 8)


def test_the_bench_has_pods_of_the_size_it_says() -> None:
    """The small ones are about 6 KiB, the large ones have as many variables as they say."""
    exec_form, shell_form, new_pod, new_text, *_ = cases.all_cases(3)
    assert all(4_900 < len(case.bodies[0]) < 8_000 for case in (exec_form, shell_form))
    assert len(set(new_text.bodies)) == len(set(new_pod.bodies)) == 3
    assert cases.with_env(1_000).count(b'"name":"SETTING_') == 1_000


def test_the_bench_sends_pods_that_are_all_new() -> None:
    """The pieces make a review that a server takes for a worker of a large job; job, rank, names and uid vary."""
    new = load.new_pods("new", cases.SHELL_FORM)
    given = respond(new.sample, Policy())
    assert given.rules
    assert given.reason == "patched"
    assert {part for part in new.changing if not part.startswith("[")} == {"N", "J", "K", "K+1"}
    assert "os.exit" not in new.script(5)
    assert "N = 5" in new.script(5)


def test_the_bench_draws_what_it_measured() -> None:
    """A bar for each server, with its figure, in an SVG that is XML."""
    one = {"rps": {"median": 1234.0, "least": 1000.0, "greatest": 1300.0}}
    drawn = chart.svg({"same": {"16": {"rankfix": one, "a<b": one}}, "new": {"4": {}}}, {"same": "A pod"})
    root = ET.fromstring(drawn)  # noqa: S314 - what we have just written
    assert [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")][:5] == [
        "A pod", "rankfix", "1,234", "a<b", "1,234",
    ]  # fmt: skip


def test_the_bench_without_wrk(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It says what to install, and is no failure."""
    monkeypatch.setattr(load, "can", lambda: False)
    assert bench.main(["--part", "load", "--results", str(tmp_path / "r"), "--chart", str(tmp_path / "c")]) == 0
    assert "apt-get install wrk" in capsys.readouterr().out


@pytest.mark.parametrize("version", ["2.7", "3.10", "3.14"])
def test_setup_refuses_a_python_that_is_not_supported(tmp_path: Path, version: str) -> None:
    """Before anything is installed, and with a word on what to do."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
    python.chmod(0o755)
    done = setup(str(python), tmp_path / "venv")
    assert done.returncode == 1
    assert f"is Python {version}" in done.stderr
    assert "PYTHON=" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_setup_says_when_there_is_no_python(tmp_path: Path) -> None:
    """Rather than a shell's `not found`."""
    done = setup(str(tmp_path / "nowhere"), tmp_path / "venv")
    assert done.returncode == 1
    assert "can't run" in done.stderr


def setup(python: str, venv: Path) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(ROOT / "tools" / "setup.sh"), python, str(venv)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_torch_is_left_out_where_nobody_asks_for_it() -> None:
    """`make test TORCH=no` installs nothing, and a word that isn't known is refused."""
    script = str(ROOT / "tools" / "torch.sh")
    assert subprocess.run(["sh", script, sys.executable, "no"], check=False).returncode == 0
    assert subprocess.run(["sh", script, sys.executable, "maybe"], check=False, capture_output=True).returncode == 2


def test_the_page_has_the_figures_that_were_measured() -> None:
    """docs/performance.md and bench/results.json are of the same runs: `make docs` brings them together."""
    results = json.loads(bench_page.RESULTS.read_text(encoding="utf-8"))
    text = bench_page.PAGE.read_text(encoding="utf-8")
    assert bench_page.page(text, results) == text

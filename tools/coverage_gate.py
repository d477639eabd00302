"""Judge the coverage that the last test run left in `.coverage`: all of the core, most of the rest.

The core (see `tools.layers`) must have each line and branch covered; the rest of each package 90 % of them together.
The trainer is left out where torch isn't installed, since its tests are skipped there.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.layers import core_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

REST_MINIMUM = 90.0


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """What of a file was seen: lines and branches counted together, and where something is missing."""

    path: Path
    covered: int
    total: int
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A line for people, and whether it is good enough."""

    ok: bool
    text: str


def read(report: Mapping[str, Any]) -> list[FileCoverage]:
    """The files of a `coverage json` report with branches."""
    return [_file(Path(name), data) for name, data in report["files"].items()]


def _file(path: Path, data: Mapping[str, Any]) -> FileCoverage:
    counts = data["summary"]
    missed = set(data["missing_lines"])
    # a branch from or to a line that isn't covered says nothing new
    branches = [(start, end) for start, end in data["missing_branches"] if not {start, end} & missed]
    return FileCoverage(
        path,
        covered=counts["covered_lines"] + counts["covered_branches"],
        total=counts["num_statements"] + counts["num_branches"],
        missing=(*_ranges(sorted(missed)), *(f"{start}->{'exit' if end < 0 else end}" for start, end in branches)),
    )


def _ranges(lines: list[int]) -> list[str]:
    runs: list[list[int]] = []
    for line in lines:
        if runs and line == runs[-1][-1] + 1:
            runs[-1].append(line)
        else:
            runs.append([line])
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


def judge(files: Iterable[FileCoverage], core: set[Path], *, skip: frozenset[str] = frozenset()) -> list[Verdict]:
    """A verdict for each gap in the core, and one for the rest of each package that isn't in `skip`."""
    rest: dict[str, list[FileCoverage]] = {}
    verdicts = []
    for file in files:
        package = file.path.parts[0]
        if file.path not in core:
            rest.setdefault(package, []).append(file)
        elif file.missing and package not in skip:
            verdicts.append(
                Verdict(ok=False, text=f"{file.path}: not covered, and it is core: {', '.join(file.missing)}")
            )
    verdicts += [_rest(package, found) for package, found in sorted(rest.items()) if package not in skip]
    return verdicts


def _rest(package: str, files: list[FileCoverage]) -> Verdict:
    total = sum(file.total for file in files)
    percent = 100 * sum(file.covered for file in files) / total if total else 100.0
    text = f"{package}, outside the core: {percent:.1f} % of lines and branches (at least {REST_MINIMUM:g})"
    if percent >= REST_MINIMUM:
        return Verdict(ok=True, text=text)
    worst = [f"  {file.path}: {', '.join(file.missing)}" for file in files if file.missing]
    return Verdict(ok=False, text="\n".join([text, *worst]))


def main() -> int:
    """Read `.coverage`, print the verdicts, return an exit code."""
    skip = frozenset[str]() if importlib.util.find_spec("torch") else frozenset({"trainer"})
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        done = subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", str(report)], check=False)
        if done.returncode:
            print("coverage gate: no coverage data: run `make coverage`", file=sys.stderr)
            return 1
        files = read(json.loads(report.read_text(encoding="utf-8")))
    core = core_files()
    verdicts = judge(files, core, skip=skip)
    for verdict in verdicts:
        print(("ok    " if verdict.ok else "FAIL  ") + verdict.text)
    for package in sorted(skip):
        print(f"skip  {package}: its tests need torch, which isn't installed")
    seen = core & {file.path for file in files}
    print(f"core: {len(seen)} files")
    return 0 if all(verdict.ok for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Dependencies are bounded, locked and explained; the commands are the same for people and for CI."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
EVERYDAY = [Requirement(text) for text in [*PROJECT["dependencies"], *EXTRAS["dev"]]]
TRAINER = [Requirement(text) for text in [*EXTRAS["trainer"], *EXTRAS["plot"]]]
CONFORMANCE = [Requirement(text) for text in EXTRAS["conformance"]]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(package): version for package, version in pairs}


@pytest.mark.parametrize("requirement", EVERYDAY + TRAINER + CONFORMANCE, ids=str)
def test_a_dependency_is_bounded_on_both_sides(requirement: Requirement) -> None:
    """No release that nobody has seen gets in, and none that is too old to work."""
    assert {specifier.operator for specifier in requirement.specifier} == {">=", "<"}


@pytest.mark.parametrize("requirement", EVERYDAY, ids=str)
def test_a_fresh_machine_gets_what_was_tested(requirement: Requirement) -> None:
    """The lock has one version of each dependency, within its bounds."""
    version = pins("constraints.txt")[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version, prereleases=True)


@pytest.mark.parametrize("requirement", TRAINER, ids=str)
def test_the_trainers_libraries_are_locked_apart(requirement: Requirement) -> None:
    """Torch installs on few machines, so the common lock doesn't name it."""
    assert canonicalize_name(requirement.name) not in pins("constraints.txt")
    version = pins("constraints-trainer.txt")[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version)


@pytest.mark.parametrize("requirement", CONFORMANCE, ids=str)
def test_what_the_launch_cases_run_is_locked_apart(requirement: Requirement) -> None:
    """It comes on top of torch, and brings none of its own."""
    locked = pins("constraints-conformance.txt")
    assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)])
    assert not locked.keys() & {*pins("constraints.txt"), *pins("constraints-trainer.txt")}


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-trainer.txt", "constraints-conformance.txt"])
def test_a_lock_is_names_and_versions_only(name: str) -> None:
    """No address, no local build: it must mean the same wherever packages come from."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line)] == []


def test_each_dependency_is_explained() -> None:
    """docs/dependencies.md has a row for each dependency, and for nothing else."""
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| ([A-Za-z][\w-]*) \|", page, re.MULTILINE)) - {"library"}
    assert rows == {requirement.name for requirement in EVERYDAY + TRAINER + CONFORMANCE}


def test_each_target_has_a_line_of_help() -> None:
    """`make help` is the list of commands."""
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    helped = set(re.findall(r"^([a-z][a-z-]*):.*## ", MAKEFILE, re.MULTILINE))
    assert set(phony[1].split()) == TARGETS == helped


@pytest.mark.parametrize("name", [".ci/run", "README.md", "CONTRIBUTING.md", ".pre-commit-config.yaml"])
def test_the_targets_that_are_named_exist(name: str) -> None:
    """Nobody is sent to a command that isn't there."""
    text = (ROOT / name).read_text(encoding="utf-8")
    commands = re.findall(
        r"(?:`|step [a-z]+ |entry: |&& |^)make ((?:[a-z][a-z-]*(?: (?=[a-z])|\b))+)", text, re.MULTILINE
    )
    assert commands
    assert {target for command in commands for target in command.split()} <= TARGETS


def test_ci_knows_no_step_of_its_own() -> None:
    """Each step of CI after the machine's own packages is a make target."""
    steps = re.findall(r"^ *step (\S+) (\S+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert {command for name, command in steps if name != "packages"} == {"make"}

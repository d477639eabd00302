"""Prints requirements: the oldest versions that `pyproject.toml` allows to run on, and the locked tools that test them.

`make test-lowest` installs them in an environment of their own: a lower bound that nobody has tried is a guess.
"""

from __future__ import annotations

import sys
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.layers import ROOT

# Not needed to run the tests, and they have bounds of their own on libraries that we run on.
LINTERS = {"import-linter", "mypy", "pre-commit", "ruff", "types-pyyaml"}


def lines() -> list[str]:
    """`name==version` for each library that rankfix runs on, the oldest, and for each that tests it, the locked one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    runs = [Requirement(text) for text in project["dependencies"]]
    develops = {canonicalize_name(Requirement(text).name) for text in project["optional-dependencies"]["dev"]}
    locked = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    tests = [line for line in locked if canonicalize_name(line.partition("==")[0]) in develops - LINTERS]
    return [*(f"{runtime.name}=={_oldest(runtime)}" for runtime in runs), *tests]


def _oldest(requirement: Requirement) -> str:
    return next(bound.version for bound in requirement.specifier if bound.operator == ">=")


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")

"""Prints constraints for the oldest versions that `pyproject.toml` allows to run on, with the locked tools to test them.

`make test-lowest` installs them in an environment of their own: a lower bound that nobody has tried is a guess.
"""

from __future__ import annotations

import sys
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.layers import ROOT


def lines() -> list[str]:
    """`name==version` for each library that rankfix runs on, the oldest, and for each that develops it, the locked."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    runs = [Requirement(text) for text in project["dependencies"]]
    locked = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    develops = {canonicalize_name(Requirement(text).name) for text in project["optional-dependencies"]["dev"]}
    tools = [line for line in locked if canonicalize_name(line.partition("==")[0]) in develops]
    return [*(f"{runtime.name}=={_oldest(runtime)}" for runtime in runs), *tools]


def _oldest(requirement: Requirement) -> str:
    return next(bound.version for bound in requirement.specifier if bound.operator == ">=")


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")

"""Which modules are the core: read from `.importlinter`, the one place that says so."""

from __future__ import annotations

import configparser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE_CONTRACT = "importlinter:contract:core"


def core_modules(root: Path = ROOT) -> list[str]:
    """The dotted names of the core's modules and packages, as the contract `core` lists them."""
    config = configparser.ConfigParser()
    config.read(root / ".importlinter", encoding="utf-8")
    return config[CORE_CONTRACT]["source_modules"].split()


def core_files(root: Path = ROOT) -> set[Path]:
    """The files of the core, relative to `root`; a package stands for all that is in it."""
    files: set[Path] = set()
    for module in core_modules(root):
        path = root.joinpath(*module.split("."))
        found = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
        files.update(file.relative_to(root) for file in found)
    return files

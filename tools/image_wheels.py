"""The packages that go into an image, fetched by this machine's pip for its Python: a build needs no network."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
_ASK = """
import importlib.util, json, platform, sys
version, torch = "%d.%d" % sys.version_info[:2], importlib.util.find_spec("torch") is not None
print(json.dumps([version, platform.machine(), platform.libc_ver()[1], torch]))
"""


class ImageError(Exception):
    """No image can be made; the text is one line that says why and what to do."""


@dataclass(frozen=True, slots=True)
class Python:
    """What a base runs: the version of its Python, its machine, its C library, and whether torch is there."""

    version: str
    machine: str
    glibc: str
    torch: bool

    @property
    def platforms(self) -> list[str]:
        """The names of the wheels that run there, the newest first."""
        newest = int(self.glibc.partition(".")[2])
        modern = [f"manylinux_2_{minor}_{self.machine}" for minor in range(newest, 4, -1)]
        return [*modern, *(f"{name}_{self.machine}" for name in ("manylinux2014", "manylinux2010", "manylinux1"))]


def python_of(base: str) -> Python:
    """Ask a base. Raises `ImageError` if it can't say."""
    words = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "python3", base, "-c", _ASK]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise ImageError(f"base {base}: python3 doesn't run in it: {ran.stderr.strip()[-300:]}")
    found = Python(*json.loads(ran.stdout))
    if not found.glibc:
        raise ImageError(f"base {base}: its C library isn't glibc; take a base of Debian, Ubuntu or Red Hat")
    return found


def needed(image: str, python: Python) -> list[str]:
    """What is installed in an image, as pyproject.toml says it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    libraries: list[str] = project["project"]["dependencies"]
    if image == "webhook":
        return [*libraries, *project["build-system"]["requires"]]
    trainer: list[str] = project["project"]["optional-dependencies"]["trainer"]
    rich = [name for name in libraries if name.startswith("rich")]
    return [name for name in [*trainer, *rich] if not (python.torch and name.startswith("torch"))]


def cache() -> Path:
    """Where what was fetched is kept: RANKFIX_CACHE, else a folder of the user's cache."""
    below = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("RANKFIX_CACHE") or Path(below, "rankfix"))


def fetch(image: str, python: Python, folder: Path) -> Path:
    """A folder below `folder` that has all wheels of an image. Raises `ImageError` where pip finds none."""
    constraints = [ROOT / "constraints.txt", *([ROOT / "constraints-trainer.txt"] if image == "trainer" else [])]
    requirements = needed(image, python)
    text = repr((requirements, python, [path.read_text(encoding="utf-8") for path in constraints]))
    kept = folder / f"wheels-{image}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if not kept.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"wheels-{image}-*"):
            shutil.rmtree(old)
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            _download(image, requirements, constraints, python, Path(fresh, "wheels"))
            Path(fresh, "wheels").rename(kept)
    return kept


def _download(
    image: str, requirements: Sequence[str], constraints: Sequence[Path], python: Python, target: Path
) -> None:
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    words += [f"--python-version={python.version}", "--implementation=cp", f"--dest={target}"]
    words += [f"--platform={name}" for name in python.platforms]
    words += [f"--constraint={path}" for path in constraints]
    ran = subprocess.run([*words, *requirements], capture_output=True, text=True, check=False)
    if ran.returncode:
        errors = [line for line in ran.stderr.splitlines() if line.startswith("ERROR")]
        why = " ".join(errors)[-300:] or "no reason given"
        raise ImageError(f"pip has no wheels of the {image}'s libraries for Python {python.version}: {why}")

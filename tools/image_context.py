"""What a Dockerfile of this repository is given to build from: a tar that is the same for the same files everywhere.

What it copies is read from the Dockerfile itself, so nothing else is sent: no key, no test, no history.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
_DATE = 315532800  # 1980-01-01, as the Dockerfiles give it to what they install


def copied(dockerfile: str) -> set[str]:
    """The files and folders that a Dockerfile copies from its context, less those that may be missing: `wheel[s]`."""
    joined = dockerfile.replace("\\\n", " ")
    words = [line.split()[1:-1] for line in joined.splitlines() if re.match(r"COPY (?!--from)", line)]
    return {word for line in words for word in line if "[" not in word}


def context(dockerfile: Path, folders: Mapping[str, Path]) -> dict[str, Path]:
    """Each file of the context by its name in there; `folders` are some that the Dockerfile takes if they are there."""
    tops = {name: ROOT / name for name in copied(dockerfile.read_text(encoding="utf-8"))}
    files = {"Dockerfile": dockerfile}
    for name, path in {**tops, **folders}.items():
        files |= {name: path} if path.is_file() else dict(_below(name, path))
    return dict(sorted(files.items()))


def _below(name: str, folder: Path) -> Iterator[tuple[str, Path]]:
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"{name}/{path.relative_to(folder).as_posix()}", path


def digest(files: Mapping[str, Path], *more: str) -> str:
    """SHA-256 over names and contents, and what else decides about the image."""
    whole = hashlib.sha256(repr(more).encode())
    for name, path in files.items():
        with path.open("rb") as file:
            whole.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def write(files: Mapping[str, Path], sink: BinaryIO) -> None:
    """The tar: no owner, one date, and no modes but these two, whatever the checkout has."""
    with tarfile.open(fileobj=sink, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        made: set[str] = set()
        for name, path in files.items():
            for parent in reversed(Path(name).parents[:-1]):
                if parent.as_posix() not in made:
                    made.add(parent.as_posix())
                    tar.addfile(_entry(parent.as_posix(), tarfile.DIRTYPE, 0o755))
            with path.open("rb") as file:
                entry = _entry(name, tarfile.REGTYPE, 0o644)
                entry.size = path.stat().st_size
                tar.addfile(entry, file)


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime = kind, mode, _DATE
    return entry

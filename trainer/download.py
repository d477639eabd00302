"""Fetches the official files, on request only: one process a node, checked, and never half there. Imports no torch."""

from __future__ import annotations

import fcntl
import os
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from trainer import corpus, idx
from trainer.corpus import OFFICIAL, TEST, TRAIN, digest
from trainer.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
TIMEOUT = 30


def fetch_missing(
    folder: Path, mirrors: Sequence[str] = MIRRORS, known: Mapping[str, str] = MappingProxyType(OFFICIAL)
) -> None:
    """Makes sure that the folder holds the four files; the other processes of this node wait meanwhile."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / ".download.lock"):
            for name in TRAIN + TEST:
                if not (folder / f"{name}.gz").exists() and not (folder / name).exists():
                    _fetch(folder / f"{name}.gz", known[name], mirrors)
    except OSError as error:
        raise DataError(f"can't write to {folder}: {error.strerror or error}; check the volume") from error


def _fetch(target: Path, expected: str, mirrors: Sequence[str]) -> None:
    reasons = []
    for mirror in mirrors:
        url = f"{mirror.rstrip('/')}/{target.name}"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:  # noqa: S310  # a file:// mirror is welcome
                raw = answer.read()
            found = digest(idx.unzip(raw, target.name))
        except (OSError, DataError) as error:  # URLError is an OSError
            reasons.append(f"{url}: {error}")
            continue
        if found != expected:
            reasons.append(f"{url}: md5 {found} instead of {expected}")
            continue
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        temporary.write_bytes(raw)
        temporary.replace(target)
        return
    raise DataError(f"no mirror has {target.name} ({'; '.join(reasons)}); put the file into {target.parent} yourself")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released by the kernel even if this process is killed
        yield


if __name__ == "__main__":  # for image builds: fetch, verify, and fail the build otherwise
    try:
        fetch_missing(Path(sys.argv[1]))
        corpus.load(Path(sys.argv[1]))
    except DataError as error:
        raise SystemExit(f"rankfix-train: {error}") from error

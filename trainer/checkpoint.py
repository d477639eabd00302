"""Checkpoints that are either whole or not there: a temporary file, fsync, rename; the one before is kept.

A file is what torch.save writes, with its SHA-256 as the comment of the zip archive. torch.load reads it as
ever, and nothing is unpickled before the checksum has been found right.
"""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from trainer.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT = 1
KEPT = 2
MARK = b"sha256:"
COMMENT = len(MARK) + 64
END_RECORD = b"PK\x05\x06"  # of a zip archive, 22 bytes long; the last two are the length of the comment after it


@dataclass(frozen=True, slots=True)
class Found:
    """The newest checkpoint that is whole, and what was wrong with newer ones."""

    content: bytes | None
    path: Path | None
    damaged: tuple[str, ...] = ()


def encode(state: Mapping[str, Any]) -> bytes:
    """The state as the content of a checkpoint file."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **state}, buffer)
    content = buffer.getvalue()
    if content[-22:-18] != END_RECORD:
        raise RuntimeError("torch.save no longer ends in a plain zip record; the checksum has no place")
    body = content[:-2] + COMMENT.to_bytes(2, "little")
    return body + MARK + hashlib.sha256(body).hexdigest().encode()


def check(content: bytes) -> bool:
    """Whether the content is just as it was written."""
    body, comment = content[:-COMMENT], content[-COMMENT:]
    return comment == MARK + hashlib.sha256(body).hexdigest().encode()


def decode(content: bytes) -> dict[str, Any]:
    """The state in a checked content."""
    state: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    if state.get("format") != FORMAT:
        raise DataError(f"the checkpoint has format {state.get('format')}, this version reads {FORMAT}; start afresh")
    return state


def save(folder: Path, step: int, state: Mapping[str, Any]) -> Path:
    """Writes the checkpoint of `step`. Killed at any moment, it leaves the folder with a whole one.

    Afterwards two are kept, and what an interrupted save may have left is gone.
    """
    target = folder / f"checkpoint-{step:08d}.pt"
    temporary = folder / f".{target.name}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(encode(state))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        _sync_folder(folder)
        for old in [*_newest_first(folder)[KEPT:], *folder.glob(".checkpoint-*.pt.*")]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"can't save to {folder}: {error.strerror or error}; check the volume") from error
    return target


def find(folder: Path) -> Found:
    """Looks for the newest whole checkpoint, without changing anything."""
    damaged: list[str] = []
    for path in _newest_first(folder):
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue  # another process has just replaced it
        except OSError as error:
            raise DataError(f"can't read {path}: {error.strerror or error}; check the volume") from error
        if check(content):
            return Found(content, path, tuple(damaged))
        damaged.append(f"{path} is damaged: its checksum is wrong")
    return Found(None, None, tuple(damaged))


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.pt"), reverse=True)


def _sync_folder(folder: Path) -> None:
    """A rename is only safe against power loss once the folder itself is on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""The IDX format of the MNIST files: bytes in, checked bytes out. Imports no torch."""

from __future__ import annotations

import gzip
import struct
import zlib
from dataclasses import dataclass
from math import prod

from trainer.errors import DataError

UNSIGNED_BYTE = 0x08
GZIP_MAGIC = b"\x1f\x8b"
MAGIC = 4  # bytes: two zeros, the type of the elements, the number of dimensions


@dataclass(frozen=True, slots=True)
class Idx:
    """An array of unsigned bytes: its shape, and its elements in row-major order."""

    shape: tuple[int, ...]
    data: bytes


def unzip(raw: bytes, name: str) -> bytes:
    """The content of a file that may or may not be gzipped; `name` is for the error only."""
    if not raw.startswith(GZIP_MAGIC):
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{name} is not a complete gzip file ({error}); fetch it again") from error


def parse(content: bytes, name: str) -> Idx:
    """Reads an IDX array of unsigned bytes, refusing any other type, a short file and trailing bytes."""
    if len(content) < MAGIC or content[:2] != b"\0\0":
        raise DataError(f"{name} does not start like an IDX file; is it a web page that was saved under this name?")
    kind, dimensions = content[2], content[3]
    if kind != UNSIGNED_BYTE:
        raise DataError(f"{name} holds IDX elements of type 0x{kind:02x}; MNIST has unsigned bytes (0x08)")
    start = MAGIC + 4 * dimensions
    if dimensions == 0 or len(content) < start:
        raise DataError(f"{name} ends inside its IDX header")
    shape = struct.unpack(f">{dimensions}I", content[MAGIC:start])
    expected, found = prod(shape), len(content) - start
    if expected != found:
        raise DataError(f"{name} announces {expected} bytes of shape {shape} but holds {found}; the copy is incomplete")
    return Idx(shape, content[start:])


def write(array: Idx) -> bytes:
    """The inverse of `parse`."""
    if prod(array.shape) != len(array.data):
        raise ValueError(f"shape {array.shape} does not hold {len(array.data)} bytes")
    header = struct.pack(f">BBBB{len(array.shape)}I", 0, 0, UNSIGNED_BYTE, len(array.shape), *array.shape)
    return header + array.data

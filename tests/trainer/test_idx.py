"""`trainer.idx`: the file format, and every way a file can be damaged."""

from __future__ import annotations

import contextlib
import gzip
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer import idx
from trainer.errors import DataError

SHAPES = st.lists(st.integers(0, 6), min_size=1, max_size=4).map(tuple)
LABELS = idx.write(idx.Idx((3,), b"\1\2\3"))


@given(SHAPES, st.data(), st.booleans())
def test_parse_is_the_inverse_of_write(shape: tuple[int, ...], data: st.DataObject, zipped: bool) -> None:
    """Any array survives, gzipped or not."""
    array = idx.Idx(shape, data.draw(st.binary(min_size=prod(shape), max_size=prod(shape))))
    content = idx.write(array)
    raw = gzip.compress(content) if zipped and content else content
    assert idx.parse(idx.unzip(raw, "x"), "x") == array


@given(st.binary(max_size=64))
def test_any_bytes_are_an_array_or_a_data_error(content: bytes) -> None:
    """Nothing else comes out of a damaged file."""
    with contextlib.suppress(DataError):
        assert idx.write(idx.parse(content, "x")) == content


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "does not start like an IDX file"),
        (b"<html>", "web page"),
        (b"\0\0\x0d\1\0\0\0\0", "type 0x0d"),
        (b"\0\0\x08\2\0\0\0\1", "ends inside its IDX header"),
        (b"\0\0\x08\0", "ends inside its IDX header"),
        (LABELS[:-1], "announces 3 bytes of shape (3,) but holds 2"),
        (LABELS + b"\4", "announces 3 bytes of shape (3,) but holds 4"),
    ],
)
def test_damage_is_named(content: bytes, words: str) -> None:
    """The error says what is wrong with which file."""
    with pytest.raises(DataError) as caught:
        idx.parse(content, "train-labels")
    assert "train-labels" in str(caught.value)
    assert words in str(caught.value)


def test_broken_gzip_is_a_data_error() -> None:
    """A download that stopped half-way."""
    with pytest.raises(DataError, match="x is not a complete gzip file"):
        idx.unzip(gzip.compress(LABELS)[:-9], "x")
    with pytest.raises(DataError, match="x is not a complete gzip file"):
        idx.unzip(b"\x1f\x8bnonsense", "x")


def test_write_refuses_a_wrong_shape() -> None:
    """A file that `parse` would refuse is never written."""
    with pytest.raises(ValueError, match="does not hold"):
        idx.write(idx.Idx((4,), b"\1"))

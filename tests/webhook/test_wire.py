"""Bytes to JSON and back: nothing legal is refused, and everything written is valid JSON in UTF-8."""

from __future__ import annotations

import json
from typing import Any

import pytest

from webhook.errors import BadReview
from webhook.wire import decode, encode


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b'"\\u0000"', "\x00"),
        (b'"\\ud800"', "\ud800"),
        (b'["\\udfff", "\\ud83d\\ude00"]', ["\udfff", "😀"]),
        (b"9223372036854775807", 2**63 - 1),
        (b'["\\ud800", 123456789012345678901234567890]', ["\ud800", 123456789012345678901234567890]),
        (b"[" + b"1" * 5000 + b"]", [float("inf")]),
        (b"1e400", float("inf")),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b"[-0.1, 1.5e3]", [-0.1, 1500.0]),
    ],
)
def test_legal_json_is_read(body: bytes, value: Any) -> None:
    """What orjson refuses goes to the standard library: lone surrogates, big numbers, a byte order mark."""
    assert decode(body) == value


@pytest.mark.parametrize(
    "body", [b"", b" ", b"{", b"\xff\xfe\x00", b"\x00", b"nope", b"{'a': 1}", b'"\x01"', b"<html>", b"\x80abc"]
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    """The error is one line which says that JSON was expected, and has nothing of the body in it."""
    with pytest.raises(BadReview, match=r"^the body is not JSON .*; an AdmissionReview was expected$"):
        decode(body)


@pytest.mark.parametrize(
    "body", [b"[" * 3000 + b"]" * 3000, b'{"a":' * 100_000, b"[" * 1_000_000, b"[NaN, " + b"[" * 200_000]
)
def test_deep_nesting_is_refused(body: bytes) -> None:
    """Nesting beyond any pod's is no crash."""
    with pytest.raises(BadReview):
        decode(body)


@pytest.mark.parametrize("value", ["é😀", "\ud800", ["\x00", {"\udc00": "a"}], {"a": [1, None, True]}])
def test_answers_are_valid_utf8(value: Any) -> None:
    """What is written reads back as it was, and lone surrogates are escaped, never raw bytes."""
    written = encode(value)
    assert json.loads(written.decode("utf-8", "strict")) == value
    assert b" " not in written

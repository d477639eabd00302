"""JSON as it comes and goes: orjson for nearly all of it, the standard library for the legal rest.

Measured on a recorded 8 KB review (CPython 3.11): orjson decodes in 33 us, msgspec in 49 us, json in 92 us. orjson
refuses lone surrogates, numbers beyond a double and NaN, all of which a body may hold where nobody reads it.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from webhook.errors import BadReview

Json = Any
"""A JSON value. Whoever reads one checks its shape."""

_TOO_DEEP = "the body is nested too deeply; an AdmissionReview was expected"
_DIGITS = 400  # an integer of more is beyond any double, and quadratic to convert


def decode(body: bytes) -> Json:
    """The JSON value of some bytes.

    Raises:
        BadReview: they are no JSON, or nested too deeply for anybody's pod.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        return _decode_slowly(body, problem)


def _decode_slowly(body: bytes, problem: orjson.JSONDecodeError) -> Json:
    if "depth limit" in problem.msg:  # 1024; how deep the standard library goes depends on Python's version
        raise BadReview(_TOO_DEEP)
    try:
        return json.loads(body, parse_int=_integer)
    except RecursionError:
        raise BadReview(_TOO_DEEP) from None
    except json.JSONDecodeError as later:
        raise BadReview(
            f"the body is not JSON (line {later.lineno} column {later.colno}); an AdmissionReview was expected"
        ) from None
    except ValueError:
        raise BadReview(
            f"the body is not JSON ({problem.msg.split(':')[0]}); an AdmissionReview was expected"
        ) from None


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _DIGITS else float("inf")


def encode(value: Json) -> bytes:
    """Compact JSON in UTF-8. What UTF-8 can't write (a lone surrogate) is escaped, as Go's decoder expects it."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")

"""Writes docs/explain.schema.json from the types in webhook/explained.py.

`make docs` runs it; a test holds the file equal to what it would write.
"""

from __future__ import annotations

import json
import sys
import types
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints

from tools.layers import ROOT
from webhook import explained

PAGE = ROOT / "docs" / "explain.schema.json"
Hint = Any  # what typing makes of an annotation has no type of its own
_PLAIN: dict[object, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}


def schema() -> dict[str, Any]:
    """The JSON Schema of `rankfix explain -o json`."""
    definitions: dict[str, Any] = {}
    top = _of(explained.Report, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What `rankfix explain -o json` prints",
        **top,
        "$defs": dict(sorted(definitions.items())),
    }


def _of(hint: Hint, definitions: dict[str, Any]) -> dict[str, Any]:
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    origin: object = get_origin(hint)
    args = get_args(hint)
    if origin is NotRequired:
        return _of(args[0], definitions)
    if origin is Literal:
        return {"enum": list(args)}
    if origin is list:
        return {"type": "array", "items": _of(args[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(args[1], definitions)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(arg, definitions) for arg in args]}
    return _object(hint, definitions)


def _object(hint: Hint, definitions: dict[str, Any]) -> dict[str, Any]:
    if hint.__name__ not in definitions:
        definitions[hint.__name__] = {}  # stands for itself while its fields are read
        fields = get_type_hints(hint, include_extras=True)
        optional = {name for name, field in fields.items() if get_origin(field) is NotRequired}
        description = {} if hint.__doc__ is None else {"description": " ".join(hint.__doc__.split())}
        definitions[hint.__name__] = {
            **description,
            "type": "object",
            "properties": {name: _of(field, definitions) for name, field in fields.items()},
            "required": [name for name in fields if name not in optional],
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{hint.__name__}"}


def text() -> str:
    """The file's text."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the file."""
    PAGE.write_text(text(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

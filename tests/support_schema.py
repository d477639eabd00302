"""Checks a value against what of JSON Schema docs/explain.schema.json uses."""

from __future__ import annotations

from typing import Any

from tools import explain_schema

SCHEMA = explain_schema.schema()


def fits(value: object, schema: dict[str, Any], where: str = "$") -> None:
    """What of JSON Schema the documented schema uses."""
    if "$ref" in schema:
        return fits(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], where)
    if "anyOf" in schema:
        kinds: dict[str, type] = {"null": type(None), "string": str, "integer": int}
        options = [s for s in schema["anyOf"] if "$ref" in s or isinstance(value, kinds[s["type"]])]
        assert options, where
        if value is None:
            return None
        return fits(value, options[0], where)
    if "enum" in schema:
        assert value in schema["enum"], where
        return None
    match schema["type"]:
        case "object":
            assert isinstance(value, dict), where
            known = schema.get("properties", {})
            assert set(schema.get("required", [])) <= value.keys(), where
            for key, inner in value.items():
                extra = schema["additionalProperties"]
                assert key in known or extra, f"{where}.{key}"
                fits(inner, known.get(key, extra), f"{where}.{key}")
        case "array":
            assert isinstance(value, list), where
            for index, inner in enumerate(value):
                fits(inner, schema["items"], f"{where}[{index}]")
        case kind:
            types = {"string": str, "integer": int, "boolean": bool}
            assert type(value) is types[kind], where
    return None

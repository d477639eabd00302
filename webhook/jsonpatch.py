"""JSON Patch (RFC 6902) and JSON Pointer (RFC 6901): the part of them that rankfix writes, and what applies it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from webhook.errors import BadPatch

if TYPE_CHECKING:
    from webhook.wire import Json

Patch = list["Operation"]

_END = "-"
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")


class Operation(TypedDict):
    """One operation; `value` is missing for `remove` only."""

    op: Literal["add", "replace", "remove"]
    path: str
    value: NotRequired[Json]


def pointer(*tokens: str | int) -> str:
    """The JSON Pointer of a path of keys and indices: `pointer("a/b", 0)` is `/a~1b/0`."""
    return "".join(
        f"/{token.replace('~', '~0').replace('/', '~1') if isinstance(token, str) else token}" for token in tokens
    )


def add(path: str, value: Json) -> Operation:
    """Set a key, or put an item before an index (`-` is the end of the list)."""
    return {"op": "add", "path": path, "value": value}


def replace(path: str, value: Json) -> Operation:
    """Put a value in the place of one that is there."""
    return {"op": "replace", "path": path, "value": value}


def remove(path: str) -> Operation:
    """Take a key or an item away."""
    return {"op": "remove", "path": path}


def apply(document: Json, patch: Patch) -> Json:
    """A document with a patch applied; the one handed in stays as it is, and the two share what the patch leaves alone.

    Raises:
        BadPatch: an operation points at nothing, or isn't one of `add`, `replace` and `remove`.
    """
    for operation in patch:
        if operation["op"] not in ("add", "replace", "remove"):
            raise BadPatch(f"no operation of ours: {operation['op']}")
        document = _at(document, _tokens(operation["path"]), operation)
    return document


def _tokens(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise BadPatch(f"no JSON Pointer: {path}")
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def _at(node: Json, tokens: list[str], operation: Operation) -> Json:
    """A copy of `node` with the operation done below it; containers off the path are shared."""
    if not tokens:
        return _whole(operation)
    if isinstance(node, dict):
        return _in_object(node, tokens, operation)
    if isinstance(node, list):
        return _in_list(node, tokens, operation)
    raise BadPatch(f"nothing at {operation['path']}")


def _whole(operation: Operation) -> Json:
    if operation["op"] == "remove":
        raise BadPatch("the whole document can't be removed")
    return operation["value"]


def _in_object(node: dict[str, Json], tokens: list[str], operation: Operation) -> dict[str, Json]:
    key, *rest = tokens
    if key not in node and (rest or operation["op"] != "add"):
        raise BadPatch(f"nothing at {operation['path']}")
    if operation["op"] == "remove" and not rest:
        return {name: value for name, value in node.items() if name != key}
    return {**node, key: _at(node.get(key), rest, operation)}


def _in_list(node: list[Json], tokens: list[str], operation: Operation) -> list[Json]:
    token, *rest = tokens
    adds = operation["op"] == "add" and not rest
    index = len(node) if adds and token == _END else _index(token, operation)
    if index >= len(node) + adds:
        raise BadPatch(f"nothing at {operation['path']}")
    if adds:
        return [*node[:index], operation["value"], *node[index:]]
    if operation["op"] == "remove" and not rest:
        return [*node[:index], *node[index + 1 :]]
    return [*node[:index], _at(node[index], rest, operation), *node[index + 1 :]]


def _index(token: str, operation: Operation) -> int:
    """The number of a list item, which `int` would read in more spellings than RFC 6901 has."""
    if not _INDEX.fullmatch(token):
        raise BadPatch(f"no index of a list: {token} in {operation['path']}")
    return int(token)

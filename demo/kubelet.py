"""What kubelet makes of a container before it starts it: its environment and its command line. Pure functions.

Written from the documentation of Kubernetes, and on purpose without the webhook's own reading of the same rules.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# kubelet tells every container where the API server is; from a local pod nobody answers there.
API_SERVER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class Unsupported(Exception):
    """A container asks for something that only a cluster has; the text is one line for a person."""


def expand(text: str, values: Mapping[str, str]) -> str:
    """`$(NAME)` becomes its value, if there is one, and else stays; `$$` is a dollar that starts no reference."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        return "$" if name is None else values.get(name, found[0])

    return _REFERENCE.sub(value, text)


def environment(container: Mapping[str, Any], pod: Mapping[str, Any], address: str) -> dict[str, str]:
    """The container's env: entries in order, of one name the last; an entry sees only those before it.

    Raises:
        Unsupported: a value comes from a Secret or a ConfigMap that isn't optional.
    """
    for source in container.get("envFrom") or ():
        kind = next((key for key in source if key.endswith("Ref")), "envFrom")
        if not source.get(kind, {}).get("optional"):
            raise Unsupported(f"container {container['name']}: envFrom a {kind.removesuffix('Ref')} needs a cluster")
    values: dict[str, str] = dict(API_SERVER)
    for entry in container.get("env") or ():
        value = _value(entry, container, pod, address)
        if value is not None:
            values[entry["name"]] = expand(value, values)
    return values


def _value(entry: Mapping[str, Any], container: Mapping[str, Any], pod: Mapping[str, Any], address: str) -> str | None:
    source = entry.get("valueFrom")
    if source is None:
        return entry.get("value") or ""
    if "fieldRef" in source:
        return _field(source["fieldRef"]["fieldPath"], pod, address)
    if "resourceFieldRef" in source:
        section, _, name = source["resourceFieldRef"]["resource"].partition(".")
        return str(container.get("resources", {}).get(section, {}).get(name, "1"))
    kind = next(iter(source))
    if source[kind].get("optional"):
        return None
    raise Unsupported(
        f"container {container['name']}: {entry['name']} from a {kind.removesuffix('KeyRef')} needs a cluster"
    )


def _field(path: str, pod: Mapping[str, Any], address: str) -> str:
    """The downward API."""
    metadata = pod["metadata"]
    if found := _SUBSCRIPT.fullmatch(path):
        return str((metadata.get(found[1]) or {}).get(found[2], ""))
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata.get("namespace", "default"),
        "metadata.uid": metadata.get("uid", ""),
        "status.podIP": address,
        "status.hostIP": address,
        "spec.nodeName": "local",
    }
    if path not in known:
        raise Unsupported(f"the downward API's {path} needs a cluster")
    return str(known[path])


def moved(text: str, mounts: Mapping[str, str]) -> str:
    """A text in which paths below a mount are where that is on this machine."""
    for mount, here in mounts.items():
        text = re.sub(rf"(?<![\w./-]){re.escape(mount)}(?![\w.-])", here.replace("\\", "\\\\"), text)
    return text


def command_line(
    container: Mapping[str, Any], values: Mapping[str, str], entrypoint: Sequence[str] | None
) -> list[str]:
    """Command and args, expanded; without a command the image's entrypoint, which the caller must know.

    Raises:
        Unsupported: nobody knows it.
    """
    command = container.get("command") or entrypoint
    if not command:
        raise Unsupported(f"container {container['name']} has no command, and its image isn't here")
    return [expand(word, values) for word in (*command, *(container.get("args") or ()))]

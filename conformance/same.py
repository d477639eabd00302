"""Which pods are the same for whoever runs in them: arms that come to the same pods are run once.

Annotations and uids reach no process. Three variables that rankfix adds reach one, and count only where something in
the case could read them: they are left out where no word, no value and no file of the case names them, and no program
is started that does (torch and torchrun read none of the three; accelerate reads two).
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from conformance.cases import PROGRAM, program

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from conformance.cases import Case
    from conformance.jobs import Pod

ADDED = ("NODE_RANK", "LOCAL_WORLD_SIZE", "PYTORCH_DIST_INIT_METHOD")
_READERS = re.compile(r"\b(accelerate|xeon|environ\.(copy|items)|dict\(os\.environ)\b")


def digest(pods: Iterable[Pod], ignored: Iterable[str] = ()) -> str:
    """Equal for pods in which the same happens, if nobody reads the variables in `ignored`."""
    dropped = frozenset(ignored)
    kept = [_kept(pod, dropped) for pod in pods]
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def _kept(pod: Pod, ignored: frozenset[str]) -> dict[str, Any]:
    spec = dict(pod["spec"])
    for key in ("containers", "initContainers"):
        if key in spec:
            spec[key] = [_without(container, ignored) for container in spec[key]]
    return {"name": pod["metadata"]["name"], "labels": pod["metadata"].get("labels"), "spec": spec}


def _without(container: Mapping[str, Any], ignored: frozenset[str]) -> dict[str, Any]:
    env = [entry for entry in container.get("env") or () if entry["name"] not in ignored]
    return {**container, "env": env}


def unread(case: Case) -> tuple[str, ...]:
    """The added variables that nothing in a case reads."""
    text = "\n".join((json.dumps(case.job), *case.entrypoint, *map(_text, case.files.values())))
    if _READERS.search(text):
        return ()
    return tuple(name for name in ADDED if re.search(rf"(?<![A-Z_]){name}(?![A-Z_])", text) is None)


def _text(file: str) -> str:
    return program(file).read_text(encoding="utf-8") if file.startswith(PROGRAM) else file

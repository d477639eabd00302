"""What is wrong with a PyTorchJob, in the API server's form of messages: the field's path, the fault, what is allowed.

Faults are what the CRD or the operator's validation refuses, and values that no operator can mean. No message quotes
the value of an env entry.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from webhook import say
from webhook.operator_job import DEFAULT_CONTAINER, MASTER, REPLICAS_FIELD, TYPES, WORKER, Generation, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MOST_PODS = 4096
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_MOST_LETTERS = 63
_COUNT = re.compile(r"0*[1-9][0-9]{0,8}")
_WORDS = ("auto", "cpu", "gpu")
_NPROC = '"auto", "cpu", "gpu" or a whole number in quotes, such as "4"'
_RESTARTS = ("Always", "OnFailure", "Never", "ExitCode")
_SPEC = ("nprocPerNode", REPLICAS_FIELD, "elasticPolicy", "runPolicy")
_REPLICA = ("replicas", "restartPolicy", "template")
_INTEGERS = ("minReplicas", "maxReplicas", "maxRestarts", "nProcPerNode", "rdzvPort")
_STRINGS = ("rdzvBackend", "rdzvHost", "rdzvId")
_ELASTIC = (*_INTEGERS, *_STRINGS, "rdzvConf", "standalone", "metrics")
_MOST_QUOTED = 60


def problems(job: Mapping[str, Any], operator: Generation) -> Iterator[str]:
    """One line for each fault, in the order of the fields."""
    yield from _name(job.get("metadata"))
    spec = job.get("spec")
    if not isinstance(spec, dict):
        yield _wrong("spec", spec, f"an object with the field {REPLICAS_FIELD}")
        return
    yield from _replicas(spec.get(REPLICAS_FIELD), operator)
    if operator.nproc:
        yield from _nproc(spec.get("nprocPerNode"))
    if operator.elastic and spec.get("elasticPolicy") is not None:
        yield from _elastic(spec, operator)


def notes(job: Mapping[str, Any], operator: Generation) -> Iterator[str]:
    """What a job that makes pods should be told: ignored fields, spellings that other operators refuse, no pods yet."""
    spec = job["spec"]
    yield from _unknown("spec", spec, _SPEC)
    policy = spec.get("runPolicy")
    if isinstance(policy, dict) and policy.get("suspend") is True:
        yield "spec.runPolicy.suspend is true: there are no pods until it is set to false"
    for key, replicas in spec[REPLICAS_FIELD].items():
        yield from _unknown(f"spec.{REPLICAS_FIELD}.{key}", replicas, _REPLICA)
        if key not in TYPES:
            yield f"spec.{REPLICAS_FIELD}.{key}: operators from 1.8 on refuse this spelling; write {typed(key)}"
    for field, known in (("nprocPerNode", operator.nproc), ("elasticPolicy", operator.elastic)):
        if spec.get(field) is not None and not known:
            yield f"spec.{field}: training-operator {operator.version} doesn't know this field, and ignores it"
    if operator.elastic and isinstance(spec.get("elasticPolicy"), dict):
        yield from _unknown("spec.elasticPolicy", spec["elasticPolicy"], _ELASTIC)


def _name(metadata: object) -> Iterator[str]:
    found = metadata if isinstance(metadata, dict) else {}
    name = found.get("name") or found.get("generateName")
    if name is None:
        yield "metadata.name: required"
    elif not isinstance(name, str) or not _NAME.fullmatch(name.rstrip("-") if not found.get("name") else name):
        yield _wrong("metadata.name", name, "lower-case letters, digits and '-', beginning with a letter")
    elif len(name) + len("-worker-0") > _MOST_LETTERS:
        yield f"metadata.name: has {len(name)} letters; with the pods' endings a name may have {_MOST_LETTERS} in all"


def _replicas(specs: object, operator: Generation) -> Iterator[str]:
    path = f"spec.{REPLICAS_FIELD}"
    if not isinstance(specs, dict) or not specs:
        yield _wrong(path, specs, f"an object with {' and/or '.join(TYPES)}")
        return
    for key, spec in specs.items():
        if not isinstance(key, str) or typed(key) is None:
            yield f"{path}: unknown replica type {say.quoted(key)}; allowed: {', '.join(TYPES)}"
        elif not isinstance(spec, dict):
            yield _wrong(f"{path}.{key}", spec, "an object with replicas, restartPolicy and template")
        else:
            yield from _replica(f"{path}.{key}", typed(key) == MASTER, spec)
    kinds = [typed(key) for key in specs if isinstance(key, str)]
    if len(set(kinds)) < len(kinds):
        yield f"{path}: one replica type is there twice, in two spellings"
    if not operator.elastic and MASTER not in kinds:
        yield f"{path}.{MASTER}: required: training-operator {operator.version} makes no pods of a job without a Master"


def _replica(path: str, master: bool, spec: Mapping[str, Any]) -> Iterator[str]:
    count = spec.get("replicas")
    if count is not None and (type(count) is not int or count < 1 or (master and count != 1)):
        yield _wrong(f"{path}.replicas", count, "1" if master else "a whole number from 1")
    elif count is not None and count > MOST_PODS:
        yield f"{path}.replicas: {count} pods; rankfix explains jobs of at most {MOST_PODS}"
    restart = spec.get("restartPolicy")
    if restart not in (None, *_RESTARTS):
        yield _wrong(f"{path}.restartPolicy", restart, ", ".join(_RESTARTS))
    yield from _template(f"{path}.template", spec.get("template"))


def _template(path: str, template: object) -> Iterator[str]:
    spec = template.get("spec") if isinstance(template, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(containers, list) or not containers:
        yield _wrong(f"{path}.spec.containers", containers, f'a list with a container named "{DEFAULT_CONTAINER}"')
        return
    for index, container in enumerate(containers):
        place = f"{path}.spec.containers[{index}]"
        yield from (
            _container(place, container) if isinstance(container, dict) else [_wrong(place, container, "an object")]
        )
    names = [container.get("name") for container in containers if isinstance(container, dict)]
    if DEFAULT_CONTAINER not in names:
        yield f'{path}.spec.containers: none is named "{DEFAULT_CONTAINER}", which the operator asks for'
    if len({str(name) for name in names}) < len(names):
        yield f"{path}.spec.containers: two have the same name"
    yield from _metadata(f"{path}.metadata", template)


def _metadata(path: str, template: object) -> Iterator[str]:
    metadata = template.get("metadata") if isinstance(template, dict) else None
    if metadata is not None and not isinstance(metadata, dict):
        yield _wrong(path, metadata, "an object")
        return
    for field in ("labels", "annotations"):
        values = (metadata or {}).get(field)
        if values is not None and not _all_strings(values):
            yield f"{path}.{field}: allowed: strings only (quote numbers and true/false)"


def _all_strings(values: object) -> bool:
    return isinstance(values, dict) and all(isinstance(value, str) for value in values.values())


def _container(path: str, container: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(container.get("name"), str) or not container["name"]:
        yield _wrong(f"{path}.name", container.get("name"), "a name")
    if not isinstance(container.get("image"), str) or not container["image"]:
        yield _wrong(f"{path}.image", container.get("image"), "an image, which the operator asks for")
    for field in ("command", "args"):
        words = container.get(field)
        if words is not None and not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
            yield f"{path}.{field}: allowed: a list of strings (quote numbers)"
    ports = container.get("ports")
    if ports is not None and not (isinstance(ports, list) and all(map(_is_port, ports))):
        yield f"{path}.ports: allowed: a list of objects with containerPort, a whole number"
    yield from _env(f"{path}.env", container.get("env"))


def _is_port(port: object) -> bool:
    return isinstance(port, dict) and type(port.get("containerPort")) is int


def _env(path: str, entries: object) -> Iterator[str]:
    if entries is None:
        return
    if not isinstance(entries, list):
        yield f"{path}: allowed: a list of objects with name, and value or valueFrom"
        return
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"]:
            yield f"{path}[{index}]: allowed: an object with a name, and value or valueFrom"
        elif not isinstance(entry.get("value", ""), str | None):
            yield f"{path}[{index}].value ({say.line(entry['name'], 40)}): allowed: a string (quote numbers)"


def _nproc(value: object) -> Iterator[str]:
    if value is None or (isinstance(value, str) and (value in _WORDS or _COUNT.fullmatch(value))):
        return
    yield _wrong("spec.nprocPerNode", value, _NPROC)


def _elastic(spec: Mapping[str, Any], operator: Generation) -> Iterator[str]:
    policy, path = spec["elasticPolicy"], "spec.elasticPolicy"
    if not isinstance(policy, dict):
        yield _wrong(path, policy, "an object")
        return
    replicas = spec.get(REPLICAS_FIELD)
    kinds = [typed(str(key)) for key in replicas] if isinstance(replicas, dict) else []
    if WORKER not in kinds:
        yield f"spec.{REPLICAS_FIELD}.{WORKER}: required beside elasticPolicy"
    yield from _fields(policy, path)
    yield from _nproc_twice(spec, policy, operator, master=MASTER in kinds)


def _fields(policy: Mapping[str, Any], path: str) -> Iterator[str]:
    checks: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
        (_INTEGERS, lambda value: type(value) is int and value >= 0, "a whole number"),
        (_STRINGS, lambda value: isinstance(value, str), "a string"),
        (("standalone",), lambda value: isinstance(value, bool), "true or false"),
        (("rdzvConf",), _is_conf, "a list of objects with key and value"),
    )
    for fields, fits, what in checks:
        for field in fields:
            if policy.get(field) is not None and not fits(policy[field]):
                yield _wrong(f"{path}.{field}", policy[field], what)
    low, high = policy.get("minReplicas"), policy.get("maxReplicas")
    if type(low) is int and type(high) is int and low > high:
        yield f"{path}.maxReplicas: {high}; allowed: at least minReplicas, which is {low}"


def _is_conf(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _nproc_twice(
    spec: Mapping[str, Any], policy: Mapping[str, Any], operator: Generation, *, master: bool
) -> Iterator[str]:
    """The deprecated field: from 1.7 on never beside the new one, and 1.7 itself falls over it."""
    field = "spec.elasticPolicy.nProcPerNode"
    if policy.get("nProcPerNode") is None or not operator.nproc:
        return
    if spec.get("nprocPerNode") is not None:
        yield f"{field}: not allowed beside spec.nprocPerNode, which replaces it"
    elif master and not operator.nproc_always:
        yield f"{field}: training-operator 1.7 crashes on it in a job with a Master; use spec.nprocPerNode"


def _unknown(path: str, value: Mapping[str, Any], known: tuple[str, ...]) -> Iterator[str]:
    for key in value:
        if key not in known:
            like = next((name for name in known if name.lower() == str(key).lower()), None)
            hint = f"; do you mean {like}?" if like else ""
            yield f"{path}.{say.line(str(key), 40)}: unknown field, ignored (kubectl refuses it){hint}"


def _wrong(path: str, value: object, allowed: str) -> str:
    if value is None:
        return f"{path}: required: {allowed}"
    return f"{path}: {_shown(value)}; allowed: {allowed}"


def _shown(value: object) -> str:
    if isinstance(value, str):
        return say.quoted(value)
    if isinstance(value, bool):
        return f"the unquoted {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the unquoted number {say.line(str(value), _MOST_QUOTED)}"
    return "a list" if isinstance(value, list) else "an object"

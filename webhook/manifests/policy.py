"""rankfix without a server, for Kubernetes 1.36 and later: rules C1 and A1 as far as the API server's CEL reaches.

JSONPatch form, since the other one (ApplyConfiguration) merges and reorders env. A policy can't parse a command: it
takes literal N only, and only commands that a regular expression can tell to be safe. docs/policy.md lists the limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.manifests.admission import binding
from webhook.manifests.ours import RULE, conditions

if TYPE_CHECKING:
    from webhook.manifests.place import Object, Place

_ADMISSION = "admissionregistration.k8s.io/v1"
_WISHES = '["rankfix/mode", "rankfix/nproc-per-node", "rankfix/containers", "rankfix/init-containers"]'
_NO_WISHES = f"!has(object.metadata.annotations) || !{_WISHES}.exists(w, w in object.metadata.annotations)"
_OFF = """\
has(object.metadata.annotations) && "rankfix/mode" in object.metadata.annotations
  && object.metadata.annotations["rankfix/mode"] == "off"
"""

# Whatever speaks of ranks, nodes or other files is for a parser; what is left is one program and its plain words.
_SPEAKS = (
    r"(?i)RANK|WORLD_SIZE|nnodes?\\b|NODE_COUNT|num[-_](machines|nodes)|--multiprocessing-distributed|rdzv|standalone"
)
_PROGRAM = r"^(/[^ \\n]*/)?(python[0-9.]*|torchrun|composer)(\\n|$)"
_SHELL = (
    r"^(/[^ \\n]*/)?(ba)?sh\\n-[a-z]*c\\n(python -m )?(pip install [\\w ./=<-]+ && )?"
    r"(exec )?(python[0-9.]*|torchrun) [^&;|<>`$()\\n'\\\"\\\\]*$"
)
_NUMBER = "^(0|[1-9][0-9]{0,5})$"


def _last(name: str) -> str:
    return f'variables.names[i].lastIndexOf("{name}")'


def _number(name: str) -> str:
    return f"int(variables.env[i][{_last(name)}].value)"


_PLAIN = """\
variables.names.transformList(i, names, {needed}.all(n, names.lastIndexOf(n) >= 0
    && has(variables.env[i][names.lastIndexOf(n)].value)
    && variables.env[i][names.lastIndexOf(n)].value.matches("{number}")), i)
"""
_BASIC = _PLAIN.format(needed='["PET_NNODES", "PET_NODE_RANK", "RANK", "WORLD_SIZE"]', number=_NUMBER)
_KNOWN = f"""\
variables.basic.filter(i, {_number("PET_NODE_RANK")} < {_number("PET_NNODES")}
  && variables.k == {_number("PET_NODE_RANK")}
  && variables.managed.filter(j, variables.text[j] == variables.text[i]).size() == 1)
"""
_LABEL_K = """\
!has(object.metadata.labels) || !("training.kubeflow.org/replica-index" in object.metadata.labels)
|| !("training.kubeflow.org/replica-type" in object.metadata.labels)
|| !object.metadata.labels["training.kubeflow.org/replica-index"].matches("^[0-9]{1,9}$") ? -1
: object.metadata.labels["training.kubeflow.org/replica-type"].lowerAscii() == "master" ? 0
: int(object.metadata.labels["training.kubeflow.org/replica-index"])
  + (variables.names.exists(n, "MASTER_ADDR" in n) ? 1 : 0)
"""
_MANAGED = 'variables.names.transformList(i, names, "RANK" in names || "PET_NNODES" in names, i)'
_WHOLE = f"""\
variables.known.filter(i, {_last("PET_NPROC_PER_NODE")} >= 0
  && has(variables.env[i][{_last("PET_NPROC_PER_NODE")}].value)
  && variables.env[i][{_last("PET_NPROC_PER_NODE")}].value.matches("^[1-9][0-9]{{0,3}}$")
  && !variables.text[i].matches("{_SPEAKS}")
  && (!has(object.spec.containers[i].command)
    || variables.text[i].matches("{_PROGRAM}") || variables.text[i].matches("{_SHELL}")))
"""
_NODE_ONLY = f"""\
variables.known.filter(i, !(i in variables.whole) && {_number("PET_NNODES")} > 1 && {_last("NODE_RANK")} < 0)
"""

VARIABLES = {
    "env": "object.spec.containers.map(c, has(c.env) ? c.env : [])",
    "names": "variables.env.map(env, env.map(e, e.name))",
    "text": """\
object.spec.containers.map(c,
  ((has(c.command) ? c.command : []) + (has(c.args) ? c.args : [])).join("\\n"))
""",
    "managed": _MANAGED,
    "k": _LABEL_K,
    "basic": _BASIC,
    "known": _KNOWN,
    "whole": _WHOLE,
    "nodeOnly": _NODE_ONLY,
}


def _path(tail: str) -> str:
    return f'"/spec/containers/" + string(i) + "/env/" + {tail}'


def _entry(name: str, value: str) -> str:
    return f'Object.spec.containers.env{{name: "{name}", value: {value}}}'


def _set(name: str, value: str) -> str:
    """One operation for each container of C1 that sets a name: in place of its last entry, else at the end."""
    place = f'{_last(name)} >= 0 ? string({_last(name)}) : "-"'
    kind = f'{_last(name)} >= 0 ? "replace" : "add"'
    return f"variables.whole.map(i, JSONPatch{{op: {kind}, path: {_path(f'({place})')}, value: {_entry(name, value)}}})"


_N, _K, _P = _number("PET_NPROC_PER_NODE"), _number("PET_NODE_RANK"), _number("PET_NNODES")
_INIT = """\
variables.whole.filter(i, !("PYTORCH_DIST_INIT_METHOD" in variables.names[i]) && "MASTER_ADDR" in variables.names[i])
  .map(i, JSONPatch{{op: "add", path: {path}, value: {entry}}})"""
_STATUS = 'variables.whole.size() > 0 ? "process" : "environment"'
_RULES = '(variables.whole.size() > 0 ? ["C1"] : []) + (variables.nodeOnly.size() > 0 ? ["A1"] : [])'


def _patch() -> str:
    end = _path('"-"')
    method = _entry("PYTORCH_DIST_INIT_METHOD", '"tcp://$(MASTER_ADDR):$(MASTER_PORT)"')
    node = _entry("NODE_RANK", f"string({_K})")
    steps = [
        _set("RANK", f"string({_K} * {_N})"),
        _set("WORLD_SIZE", f"string({_P} * {_N})"),
        _set("LOCAL_WORLD_SIZE", f"string({_N})"),
        _set("NODE_RANK", f"string({_K})"),
        _INIT.format(path=end, entry=method),
        f'variables.nodeOnly.map(i, JSONPatch{{op: "add", path: {end}, value: {node}}})',
        _annotate(),
    ]
    return "\n+ ".join(steps)


def _annotate() -> str:
    # Once: when the API server calls again, nothing is left to do, and the first word stands
    changed = "!(has(object.metadata.annotations) && 'rankfix/status' in object.metadata.annotations)"
    changed += " && variables.whole.size() + variables.nodeOnly.size() > 0"
    return (
        f"({changed} ? (has(object.metadata.annotations) ? [] : "
        '[JSONPatch{op: "add", path: "/metadata/annotations", value: {}}]) + '
        f'[JSONPatch{{op: "add", path: "/metadata/annotations/rankfix~1status", value: {_STATUS}}}, '
        f'JSONPatch{{op: "add", path: "/metadata/annotations/rankfix~1rules", value: ({_RULES}).join(",")}}] : [])'
    )


def _variables(*names: str) -> list[Object]:
    return [{"name": name, "expression": VARIABLES[name]} for name in names]


def objects(place: Place) -> list[Object]:
    """The mutating policy, the validating one that says what it did, and their bindings."""
    return [_mutating(place), binding(place, "policy"), _visible(place), binding(place, "seen", ["Warn", "Audit"])]


def _mutating(place: Place) -> Object:
    spec = {"failurePolicy": place.values.failure_policy, **mutating_spec()}
    return place.make(_ADMISSION, "MutatingAdmissionPolicy", "policy", wide=True, spec=spec)


def mutating_spec() -> Object:
    """What the mutating policy does, but for what happens when it can't."""
    return {
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"resourceRules": [RULE]},
        "matchConditions": [*conditions(), {"name": "no-wishes", "expression": _NO_WISHES}],
        "variables": _variables(*VARIABLES),
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": _patch()}}],
    }


_HALF = """\
variables.names.transformList(i, names, !("LOCAL_WORLD_SIZE" in names)
  && ["PET_NNODES", "PET_NPROC_PER_NODE", "RANK"].all(n, names.lastIndexOf(n) >= 0
    && has(variables.env[i][names.lastIndexOf(n)].value))
  && ["PET_NNODES", "PET_NPROC_PER_NODE"].all(n,
    variables.env[i][names.lastIndexOf(n)].value.matches("^([2-9]|[1-9][0-9]{1,5})$")), i)
"""
_LEFT = (
    "rankfix (policy): RANK and WORLD_SIZE of this pod are as the operator wrote them, half node and half process: a \
policy can't read its command, the rankfix webhook can"
)
_UNHEARD = (
    "rankfix (policy): the rankfix/ annotations of this pod need the rankfix webhook; the policy left the pod alone"
)


def _visible(place: Place) -> Object:
    return place.make(_ADMISSION, "ValidatingAdmissionPolicy", "seen", suffix="-seen", wide=True, spec=seen_spec())


def seen_spec() -> Object:
    """What the validating policy tells: the status for the audit log, a warning where the pod's owner should act."""
    return {
        "failurePolicy": "Ignore",
        "matchConstraints": {"resourceRules": [RULE]},
        "matchConditions": conditions(),
        "variables": [*_variables("env", "names"), {"name": "half", "expression": _HALF}],
        "validations": [
            {"expression": f"variables.half.size() == 0 || !({_NO_WISHES})", "message": _LEFT},
            {"expression": f"({_NO_WISHES}) || ({_OFF.strip()})", "message": _UNHEARD},
        ],
        "auditAnnotations": [_said("status", '"unchanged"'), _said("rules", '""')],
    }


def _said(key: str, otherwise: str) -> Object:
    there = f'has(object.metadata.annotations) && "rankfix/{key}" in object.metadata.annotations'
    return {
        "key": key,
        "valueExpression": f'{there} ? string(object.metadata.annotations["rankfix/{key}"]) : {otherwise}',
    }

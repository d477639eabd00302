"""What a MutatingAdmissionPolicy makes of pods: asked of a real API server, or read from what one answered before.

The record is a file of changes by pod (its digest): {digest: {container: {variable: value}}}. With a control plane
each pod is created there as a dry run, and the record must agree.
"""

from __future__ import annotations

import contextlib
import copy
import http.client
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from conformance import arms, same
from conformance.cases import ROOT
from demo import controlplane
from demo.server import DemoError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conformance.jobs import Pod
    from demo.controlplane import Api

RECORD = ROOT / "tests" / "conformance" / "policy.json"
POLICY = ROOT / "deploy" / "overlays" / "policy" / "policy.yaml"
NAMESPACE = "conformance"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"
_GROUP = "/apis/admissionregistration.k8s.io/v1"
_KINDS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
_PATIENCE = 60.0
_PROBE = ("PET_NNODES", "2"), ("PET_NODE_RANK", "1"), ("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "a")

Changes = dict[str, dict[str, str]]  # by container: variables that the policy sets


@dataclass(slots=True)
class Recorded:
    """Answers that a control plane gave before."""

    changes: dict[str, Changes]

    def __call__(self, pod: Pod) -> Pod:
        """The pod as the policy would leave it.

        Raises:
            Skipped: nobody has asked about this pod yet.
        """
        found = self.changes.get(same.digest([pod]))
        if found is None:
            raise arms.Skipped("no API server was asked about these pods yet: make conformance ARGS=--record")
        return _with(pod, found)


@dataclass(slots=True)
class Live:
    """A control plane that has the policy; what it answers is noted."""

    api: Api
    changes: dict[str, Changes] = field(default_factory=dict)

    def __call__(self, pod: Pod) -> Pod:
        """The pod as the policy leaves it.

        Raises:
            DemoError: the API server refuses the pod.
        """
        changes = _difference(pod, self.api.create(_PODS, _fit(pod)))
        self.changes[same.digest([pod])] = changes
        return _with(pod, changes)


def recorded(file: Path = RECORD) -> Recorded:
    """The record."""
    return Recorded(json.loads(file.read_text(encoding="utf-8")) if file.exists() else {})


def record(changes: dict[str, Changes], file: Path = RECORD) -> None:
    """Write it."""
    lines = (f"{json.dumps(key)}: {json.dumps(changes[key], sort_keys=True)}" for key in sorted(changes))
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


@contextlib.contextmanager
def live(folder: Path, programs: Path) -> Iterator[Live]:
    """A control plane of this machine's own, with the policy of `deploy/overlays/policy` in force.

    Raises:
        DemoError: it doesn't come up, or refuses the policy.
    """
    with controlplane.running(folder, programs) as api:
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for manifest in yaml.safe_load_all(POLICY.read_text(encoding="utf-8")):
            if manifest["kind"] in _KINDS:
                api.create(f"{_GROUP}/{_KINDS[manifest['kind']]}", manifest)
        _in_force(api)
        yield Live(api)


def _in_force(api: Api) -> None:
    """The API server learns of a policy some time after it has it."""
    deadline = time.monotonic() + _PATIENCE
    while not _difference(_probe(), api.create(_PODS, _probe())):
        if time.monotonic() > deadline:
            raise DemoError(f"the policy isn't in force after {_PATIENCE:g} s")
        time.sleep(0.3)


def _probe() -> Pod:
    prefix = "training.kubeflow.org"
    labels = {f"{prefix}/operator-name": "pytorchjob-controller", f"{prefix}/replica-type": "worker"}
    env = [{"name": name, "value": value} for name, value in _PROBE]
    container = {"name": "pytorch", "image": "probe", "command": ["bash", "x.sh"], "env": env}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "labels": {**labels, f"{prefix}/replica-index": "0"}},
        "spec": {"containers": [container]},
    }


def _fit(pod: Pod) -> Pod:
    """A pod that can be created where there is no Secret, no volume claim and no other namespace."""
    fit = copy.deepcopy(pod)
    fit["metadata"]["namespace"] = NAMESPACE
    return fit


def _difference(before: Pod, after: Pod) -> Changes:
    changes = {}
    for old, new in zip(before["spec"]["containers"], after["spec"]["containers"], strict=True):
        had, has = _values(old), _values(new)
        changes[old["name"]] = {name: value for name, value in has.items() if had.get(name) != value}
    return {name: values for name, values in changes.items() if values}


def _values(container: dict[str, Any]) -> dict[str, str]:
    """Of each name the last entry; one from elsewhere has no value that anybody could change."""
    return {entry["name"]: entry.get("value", "") for entry in container.get("env") or ()}


def _with(pod: Pod, changes: Changes) -> Pod:
    changed = copy.deepcopy(pod)
    for container in changed["spec"]["containers"]:
        arms.replaced(container, changes.get(container["name"], {}))
    return changed


def programs() -> Path | None:
    """Where a control plane's programs are; None: not on this machine."""
    return controlplane.assets()


REFUSED = (DemoError, http.client.HTTPException)

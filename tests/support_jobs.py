"""What the tests about whole jobs share: the recorded jobs, and jobs built from a few words."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parent / "data"
JOBS = DATA / "jobs"
REVIEWS = DATA / "reviews"
NAMES = sorted(path.stem for path in JOBS.glob("*.yaml"))
CANARY = "canary-55e0-never-to-be-seen"


@cache
def _text_of(name: str) -> str:
    return json.dumps(yaml.load((JOBS / f"{name}.yaml").read_bytes(), Loader=yaml.CSafeLoader))


def recorded_job(name: str) -> dict[str, Any]:
    """A recorded job; a fresh copy."""
    job: dict[str, Any] = json.loads(_text_of(name))
    return job


def recorded_pods(version: str, job: str) -> dict[str, dict[str, Any]]:
    """The pods that an operator made of a recorded job, by name."""
    found = (json.loads(path.read_bytes())["request"]["object"] for path in (REVIEWS / version).glob(f"{job}-*.json"))
    return {pod["metadata"]["name"]: pod for pod in found if pod["metadata"]["ownerReferences"][0]["name"] == job}


def container(name: str = "pytorch", **fields: object) -> dict[str, Any]:
    """A container."""
    return {"name": name, "image": "registry.example.com/train:1", **fields}


def replicas(*containers: dict[str, Any], count: int | None = 1, **template: Any) -> dict[str, Any]:
    """The replica spec of some containers."""
    made: dict[str, Any] = {"template": {"spec": {"containers": list(containers)}, **template}}
    return made if count is None else {"replicas": count, **made}


def job(
    command: list[str] | None = None, *, workers: int = 1, master: bool = True, annotations: Any = None, **spec: Any
) -> dict[str, Any]:
    """A job whose pods all run one command; `gpus` in `spec` is their limit."""
    limits = spec.pop("gpus", None)
    fields: dict[str, Any] = {} if command is None else {"command": command}
    if limits is not None:
        fields["resources"] = {"limits": {"nvidia.com/gpu": limits}}
    meta: dict[str, Any] = {"metadata": {"annotations": annotations}} if annotations is not None else {}
    specs = {"Master": replicas(container(**fields), **meta)} if master else {}
    if workers:
        specs["Worker"] = replicas(container(**fields), count=workers, **meta)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "job"},
        "spec": {"pytorchReplicaSpecs": specs, **spec},
    }

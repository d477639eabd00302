"""What the tests of the launch cases share: a case in a few words, and programs for it that need no torch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from conformance.cases import ROOT, Case, read

__all__ = ["MEET", "ROOT", "SHARE", "case", "container", "job", "raw", "written"]

if TYPE_CHECKING:
    from pathlib import Path

# Each pod takes a share of the data by its RANK, as a download step does, and joins nobody.
SHARE = """\
import json, os
place = {"pod": os.environ["HOSTNAME"], "pid": os.getpid()}
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
with open(f"{os.environ['CONFORMANCE_OUT']}/{place['pod']}.{place['pid']}.jsonl", "w") as out:
    for more in ({"event": "start", "env": {"RANK": str(rank), "WORLD_SIZE": str(world)}},
                 {"event": "joined", "rank": 0, "world": 1, "members": [], "shard": rank, "shards": world},
                 {"event": "done"}):
        more = {**place, **more}
        if "members" in more:
            more["members"] = [[place["pod"], place["pid"], 0]]
        out.write(json.dumps(more) + "\\n")
"""
# A group without torch: each writes a file, waits until there are WORLD_SIZE of them, and goes on until it is told.
MEET = """\
import glob, json, os, time
out, stop = os.environ["CONFORMANCE_OUT"], os.environ.get("CONFORMANCE_STOP")
pod, pid, rank, world = os.environ["HOSTNAME"], os.getpid(), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

def say(event, **more):
    with open(f"{out}/{pod}.{pid}.jsonl", "a") as file:
        file.write(json.dumps({"event": event, "pod": pod, "pid": pid, **more}) + "\\n")

def there():
    found = [json.load(open(path)) for path in glob.glob(f"{out}/here-*")]
    return sorted(one for one in found if os.path.exists(f"/proc/{one[1]}"))

say("start", env={"RANK": str(rank), "WORLD_SIZE": str(world)})
with open(f"{out}/.here-{pid}", "w") as file:
    json.dump([pod, pid, rank], file)
os.rename(f"{out}/.here-{pid}", f"{out}/here-{pid}")
mine = []
while len(mine) < world or there() != mine:  # a peer that is about to leave isn't one
    mine = there()
    time.sleep(0.3)
say("joined", rank=rank, world=world, members=mine)
while stop and not os.path.exists(stop):
    if there() != mine:
        raise SystemExit("ConnectionError: a peer has gone")
    time.sleep(0.1)
say("done")
"""


def container(*command: str, **fields: Any) -> dict[str, Any]:
    """A container of a job."""
    return {"name": "pytorch", "image": "registry.example.com/train:1", "command": list(command), **fields}


def job(*containers: dict[str, Any], nproc: str | None = None, workers: int = 1, **spec: Any) -> dict[str, Any]:
    """A job with a Master and Workers of the same containers."""
    template = {"spec": {"containers": list(containers)}}
    declared = {} if nproc is None else {"nprocPerNode": nproc}
    replicas = {"Master": {"replicas": 1, "template": template}}
    if workers:
        replicas["Worker"] = {"replicas": workers, "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "job"},
        "spec": {"pytorchReplicaSpecs": replicas, **declared, **spec},
    }


def raw(**keys: Any) -> dict[str, Any]:
    """A case that is right, with other keys."""
    return {
        "case": "a-case",
        "about": "A case of the tests.",
        "source": "made",
        "after": "nothing",
        "covers": ["class:python"],
        "operator": "1.9",
        "job": job(container("python", "train.py")),
        "files": {"train.py": SHARE},
        "truth": {"world": 2},
        "expect": {"rankfix": "together"},
        "status": "A1",
        **keys,
    }


def written(folder: Path, *entries: dict[str, Any], name: str = "made") -> Path:
    """A file of cases."""
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(json.loads(json.dumps(entries))), encoding="utf-8")
    return file


def case(folder: Path, **keys: Any) -> Case:
    """A case."""
    (found,) = read(written(folder, raw(**keys)))
    return found

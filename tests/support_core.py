"""What the tests of the core share: pods as each operator generation makes them, and readers of answers."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from webhook import decide, mutate, pod
from webhook.launch import FlagValue, Launch, LaunchClass, LauncherStart, Span
from webhook.policy import Policy
from webhook.review import review_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Json = dict[str, Any]

INIT_METHOD = "tcp://$(MASTER_ADDR):$(MASTER_PORT)"
SECRET = "canary-7c1f-never-to-be-seen"


@dataclass(frozen=True)
class Job:
    """A PyTorchJob, as far as its pods show it. `elastic` is the value of PET_NNODES under an elasticPolicy."""

    pods: int = 2
    nproc: str | None = "auto"
    operator: str = "1.9"
    master: bool = True
    elastic: str | None = None
    name: str = "job"
    command: tuple[str, ...] | None = ("python", "train.py")
    args: tuple[str, ...] | None = None
    gpus: int | None = None
    names: tuple[str, ...] = ("pytorch",)
    env: tuple[Json, ...] = ()
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def modern(self) -> bool:
        return self.operator >= "1.7"

    def operator_env(self, k: int) -> dict[str, str]:
        """What the operator appends to every container of node k, by its generation."""
        env = {"PYTHONUNBUFFERED": "1"}
        if self.master:
            n = int(self.nproc) if self.modern and self.nproc and self.nproc.isdigit() else 1
            address = {"MASTER_PORT": "23456", "MASTER_ADDR": f"{self.name}-master-0"}
            env |= address | {"WORLD_SIZE": str(self.pods * n), "RANK": str(k)}
        if self.modern:
            env |= {f"PET_{name}": value for name, value in env.items() if name.startswith("MASTER_")}
            env |= {"PET_NODE_RANK": str(k)} if self.master else {}
            env |= {"PET_NPROC_PER_NODE": self.nproc} if self.nproc is not None else {}
        if self.elastic is not None:
            env |= {"PET_RDZV_ENDPOINT": f"{self.name}-worker-0:23456", "PET_RDZV_BACKEND": "c10d"}
        if self.modern or self.elastic is not None:
            env |= {"PET_NNODES": self.elastic or str(self.pods)}
        return env

    def labels(self, k: int) -> dict[str, str]:
        """The labels of node k, by the operator's generation."""
        first = self.master and k == 0
        pair = {"replica-type": "master" if first else "worker", "replica-index": str(k - (self.master and not first))}
        bare = {"job-name": self.name, **pair}
        full = {"training.kubeflow.org/operator-name": "pytorchjob-controller"}
        full |= {f"training.kubeflow.org/{key}": value for key, value in bare.items()}
        if self.operator == "0.7":
            return {f"pytorch-{key}": value for key, value in bare.items()}
        return bare if self.operator == "1.3" else bare | full if self.operator == "1.5" else full

    def container(self, k: int, name: str) -> Json:
        out: Json = {"name": name, "image": "registry.example.com/team/train:1.0"}
        out |= {"command": list(self.command)} if self.command is not None else {}
        out |= {"args": list(self.args)} if self.args is not None else {}
        out["env"] = [*self.env, *entries(self.operator_env(k))]
        out["resources"] = {"limits": {"nvidia.com/gpu": str(self.gpus)}} if self.gpus is not None else {}
        return out

    def pod(self, k: int = 1) -> Json:
        """The pod of node k, as the API server hands it to a webhook."""
        owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": self.name, "uid": "1"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{self.name}-{k}",
                "labels": self.labels(k),
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
                **({"annotations": dict(self.annotations)} if self.annotations else {}),
            },
            "spec": {"containers": [self.container(k, name) for name in self.names]},
        }

    def all_pods(self) -> list[Json]:
        return [self.pod(k) for k in range(self.pods)]

    def but(self, **changes: Any) -> Job:
        """The same job with some things different; `ask` are annotations without their prefix."""
        if "ask" in changes:
            asked = changes.pop("ask")
            changes["annotations"] = {f"rankfix/{key.replace('_', '-')}": value for key, value in asked.items()}
        return replace(self, **changes)


MODERN = Job(nproc="4")
OLD = Job(operator="1.3")


def entries(env: Mapping[str, str]) -> list[Json]:
    """Env entries of names and values."""
    return [{"name": name, "value": value} for name, value in env.items()]


def deciding(launch: Launch | None) -> Callable[[pod.Pod, Policy], decide.Decision]:
    """`decide` with every container judged as given; None judges the command itself."""
    if launch is None:
        return decide.decide
    return lambda view, policy: decide.decide(view, policy, classify=lambda _: launch)


def answer(raw: Mapping[str, Any], policy: Policy | None = None, launch: Launch | None = None) -> mutate.Answer:
    """The answer to the creation of a pod, which must not be a fault of ours."""
    given = mutate.respond(json.dumps(review_of(raw)).encode(), policy or Policy(), decide=deciding(launch))
    if given.bug is not None:
        raise given.bug
    return given


def after(raw: Mapping[str, Any], policy: Policy | None = None, launch: Launch | None = None) -> Json:
    """The pod once the answer is applied."""
    return mutate.patched(raw, answer(raw, policy, launch).patch)


KATIB_LOG = "1>/var/log/katib/metrics.log 2>&1 && echo completed > /var/log/katib/$$$$.pid"


def katib(raw: Mapping[str, Any]) -> Json:
    """The pod once Katib's webhook has wrapped its main command in a shell, and put its own container beside it."""
    wrapped: Json = copy.deepcopy(dict(raw))
    main = wrapped["spec"]["containers"][0]
    words = [*main.pop("command", []), *main.pop("args", [])]
    in_shell = words[:1] in (["sh"], ["bash"]) and words[1:2] == ["-c"]
    main["command"], text = (words[:2], words[2]) if in_shell else (["sh", "-c"], " ".join(words))
    main["args"] = [f"{text} {KATIB_LOG}"]
    main["env"].append({"name": "KATIB_TRIAL_NAME", "value": "t"})
    wrapped["spec"]["containers"].append({"name": "metrics-logger-and-collector", "env": entries({"A": "b"})})
    wrapped["spec"]["shareProcessNamespace"] = True
    return wrapped


def env_of(raw: Mapping[str, Any], name: str = "pytorch", kind: str = "containers") -> dict[str, Any]:
    """The env of a container as kubelet reads it: the last entry of a name counts."""
    (found,) = (item for item in raw["spec"][kind] if item["name"] == name)
    return {entry["name"]: entry.get("valueFrom") or entry.get("value", "") for entry in found.get("env") or []}


def changes(raw: Mapping[str, Any], result: Mapping[str, Any], name: str = "pytorch") -> dict[str, Any]:
    """What of a container's env differs."""
    old, new = env_of(raw, name), env_of(result, name)
    return {key: value for key, value in new.items() if old.get(key) != value}


def notes_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The pod's annotations of ours, without their prefix."""
    notes = raw["metadata"].get("annotations") or {}
    return {key.removeprefix("rankfix/"): value for key, value in notes.items() if key.startswith("rankfix/")}


def launched(cls: str, *starts: LauncherStart, **details: Any) -> Launch:
    """A launch of some class; with starts, they are all that it starts."""
    details = {"only_launchers": bool(starts), **details}
    return Launch(LaunchClass(cls), launchers=starts, **details)


def flag(value: str | None = None, span: Span | None = None, feeds: Iterable[str] = ()) -> FlagValue:
    """A flag's value: literal, or fed by names."""
    return FlagValue(value, frozenset(feeds), span)


def start(**flags: Any) -> LauncherStart:
    """One start of torchrun with the flags that rules look at."""
    given: Json = dict.fromkeys(("node_count", "node_rank", "nproc", "master_addr"))
    given |= dict.fromkeys(("dynamic", "rdzv", "standalone"), False)
    return LauncherStart("torchrun", **{**given, **flags})


def word(raw: Mapping[str, Any], text: str, value: str, name: str = "pytorch") -> Span:
    """Where `value` stands at the end of the word `text` of a container's command or args."""
    (found,) = (item for item in raw["spec"]["containers"] if item["name"] == name)
    for key in ("command", "args"):
        if text in found.get(key, []):
            index = found[key].index(text)
            return Span(key, index, len(text) - len(value), len(text))
    raise LookupError(text)

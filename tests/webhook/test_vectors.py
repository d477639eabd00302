"""The recorded pods of six operator versions, against the outcomes that the rank contract gives each job.

`tests/data/vectors.yaml` says which rules fire; this file says, apart from the product, what each rule makes of a pod.
"""

from __future__ import annotations

import base64
import copy
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
import yaml

from webhook.mutate import respond
from webhook.policy import Policy

DATA = Path(__file__).parents[1] / "data"
REVIEWS = sorted((DATA / "reviews").glob("v*/*.json"))
VECTORS: dict[str, Any] = yaml.safe_load((DATA / "vectors.yaml").read_text(encoding="utf-8"))
OURS = ("rankfix/status", "rankfix/rules", "rankfix/ranks", "rankfix/reason")


@dataclass(frozen=True)
class Recorded:
    """A recorded review, what is expected of it, and what was answered."""

    pod: dict[str, Any]
    want: dict[str, Any]
    response: dict[str, Any]

    @property
    def labels(self) -> dict[str, str]:
        """The pod's labels without their prefixes, the newest generation last."""
        found = self.pod["metadata"]["labels"].items()
        return {key.rpartition("/")[2].removeprefix("pytorch-"): value for key, value in sorted(found, key=len_of_key)}

    @property
    def rules(self) -> list[str]:
        """The rules that fire on this pod."""
        default = self.want.get("rules", [])
        rules: list[str] = self.want.get("worker", default) if self.labels["replica-type"] == "worker" else default
        return rules

    @property
    def patched(self) -> dict[str, Any]:
        """The pod once the answer's patch is applied, by a library that isn't ours."""
        patch = json.loads(base64.b64decode(self.response.get("patch", "W10=")))
        after: dict[str, Any] = jsonpatch.JsonPatch(patch).apply(copy.deepcopy(self.pod))
        return after


def len_of_key(item: tuple[str, str]) -> int:
    """Longer keys are of newer generations."""
    return len(item[0])


@pytest.fixture(params=REVIEWS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def recorded(request: pytest.FixtureRequest) -> Recorded:
    """Each recorded review."""
    body = request.param.read_bytes()
    pod = json.loads(body)["request"]["object"]
    row = VECTORS[pod["metadata"]["ownerReferences"][0]["name"]]
    version = request.param.parent.name
    modern = [int(part) for part in version[1:].split(".")] >= [1, 7]
    return Recorded(
        pod, row.get(version, row["modern" if modern else "old"]), json.loads(respond(body, Policy()).body)["response"]
    )


def env_of(container: dict[str, Any]) -> dict[str, Any]:
    """What kubelet would make of an env list: the last entry of a name."""
    return {entry["name"]: entry.get("valueFrom", entry.get("value", "")) for entry in container.get("env") or []}


def has_operators_env(container: dict[str, Any]) -> bool:
    """Whether the operator gave it its env."""
    return bool({"RANK", "PET_NNODES", "PET_NPROC_PER_NODE"} & env_of(container).keys())


def node_of(pod: dict[str, Any], container: dict[str, Any]) -> tuple[int, int]:
    """Node rank and number of pods, from the recorded name of the pod and the operator's own count."""
    env = env_of(container)
    _, kind, index = pod["metadata"]["name"].rsplit("-", 2)
    low, _, high = env.get("PET_NNODES", env.get("WORLD_SIZE", "0")).partition(":")
    with_master = "MASTER_ADDR" in env
    pods = int(low) + (1 if high and with_master else 0)
    return (int(index) + with_master if kind == "worker" else 0), pods


def expected_pair(
    want: dict[str, Any], rules: list[str], node: tuple[int, int], twin: tuple[int, int]
) -> dict[str, int]:
    """The numbers of the contract that `rules` name, for container `twin[0]` of `twin[1]`."""
    k, pods = node
    if "C2" in rules:
        return {"RANK": k, "WORLD_SIZE": pods, "NODE_RANK": k}
    if not {"C1", "T1"} & set(rules):
        return {"NODE_RANK": k} if "A1" in rules else {}
    n = want["n"]
    each = [n[0]] + [n[1]] * (pods - 1) if isinstance(n, list) else [n] * pods
    local = each[k] // twin[1]
    pair = {"RANK": sum(each[:k]) + twin[0] * local, "WORLD_SIZE": sum(each), "LOCAL_WORLD_SIZE": local}
    pair["NODE_RANK"] = k * twin[1] + twin[0]
    if "local_rank" in want or (twin[1] > 1 and local == 1):
        pair["LOCAL_RANK"] = 0
    return pair


def expected_env(seen: Recorded, container: dict[str, Any]) -> dict[str, Any]:
    """The env that one managed container must have afterwards."""
    env, rules, node = env_of(container), list(seen.rules), node_of(seen.pod, container)
    managed = [one["name"] for one in seen.pod["spec"]["containers"] if has_operators_env(one)]
    if container["name"] not in seen.want.get("c1", managed):
        rules.remove("C1")
    twin = (managed.index(container["name"]), len(managed)) if "T1" in rules else (0, 1)
    pair = expected_pair(seen.want, rules, node, twin)
    new = {name: str(value) for name, value in pair.items() if name != "NODE_RANK" or len(pair) > 1 or name not in env}
    if seen.want.get("master"):
        new |= {"MASTER_ADDR": f"{seen.labels['job-name']}-worker-0", "MASTER_PORT": "23456"}
    if {"C1", "C2", "T1"} & set(rules):
        new |= {"PYTORCH_DIST_INIT_METHOD": env.get("PYTORCH_DIST_INIT_METHOD", "tcp://$(MASTER_ADDR):$(MASTER_PORT)")}
    if "A2" in rules:
        new |= {"PET_NNODES": str(node[1]), "PET_NODE_RANK": str(node[0])}
        new |= {f"PET_{name}": f"$({name})" for name in ("MASTER_ADDR", "MASTER_PORT")}
    new |= {"PET_STANDALONE": "1"} if "E1" in rules else {}
    new |= {"PET_NNODES": f"{node[1]}:{node[1]}"} if "E2" in rules else {}
    return env | new


def expected_words(seen: Recorded, container: dict[str, Any]) -> list[str]:
    """The words that one managed container must run afterwards (the recorded jobs of these rules have exec form)."""
    words = [*container.get("command", []), *container.get("args", [])]
    k, pods = node_of(seen.pod, container)
    if "W1" in seen.rules:
        flags = f"--nnodes={pods} --node_rank={k} --nproc_per_node={seen.want['n']}"
        address = "--master_addr=$(MASTER_ADDR) --master_port=$(MASTER_PORT)"
        return [words[0], "-m", "torch.distributed.run", *flags.split(), *address.split(), *words[1:]]
    text = "\0".join(words)
    if "F2" in seen.rules:
        text = text.replace("$(KUBERNETES_SERVICE_HOST)", "$(MASTER_ADDR)")
        text = text.replace("--nnodes=1", f"--nnodes={pods}")
    if "F1" in seen.rules:
        text = re.sub(r"(--node[_-]rank[=\0])\d+", rf"\g<1>{k}", text, count=1)
    return text.split("\0") if words else []


def rest_of(pod: dict[str, Any]) -> dict[str, Any]:
    """All of a pod that no rule may change."""
    rest = copy.deepcopy(pod)
    notes = rest["metadata"].pop("annotations", {})
    rest["metadata"]["annotations"] = {key: value for key, value in notes.items() if key not in OURS}
    for container in [*rest["spec"]["containers"], *rest["spec"].get("initContainers", [])]:
        for key in ("env", "command", "args"):
            container.pop(key, None)
    return rest


def test_every_recorded_pod_is_decided_as_the_contract_says(recorded: Recorded) -> None:
    """Allowed or denied, patched or not, warned or not, and the annotations, as the vector says."""
    want, response = recorded.want, recorded.response
    assert response["allowed"] is not want.get("deny", False)
    assert ("patch" in response) is ("patchType" in response)
    if want.get("deny"):
        assert "rankfix/" in response["status"]["message"]
    if want.get("deny") or want.get("untouched"):
        assert "patch" not in response
    if want.get("warn") or want.get("audit"):
        assert response["warnings"]
    notes = recorded.patched["metadata"].get("annotations", {})
    if want.get("audit"):
        assert notes["rankfix/status"] == "would-change"
    elif recorded.rules:
        assert set(notes["rankfix/rules"].split(",")) == set(recorded.rules)


def test_every_container_of_a_recorded_pod_is_as_the_contract_says(recorded: Recorded) -> None:
    """Env and words of each container are what the rules make of them, and nothing else of the pod differs."""
    after = recorded.patched
    for old, new in zip(recorded.pod["spec"]["containers"], after["spec"]["containers"], strict=True):
        meant = has_operators_env(old) and old["name"] in recorded.want.get("only", [old["name"]])
        assert env_of(new) == (expected_env(recorded, old) if meant and recorded.rules else env_of(old))
        words = [*new.get("command", []), *new.get("args", [])]
        assert words == (expected_words(recorded, old) if meant else [*old.get("command", []), *old.get("args", [])])
        assert new["env"][: len(old["env"])] == [
            entry if entry == same else {"name": entry["name"], "value": same["value"]}
            for entry, same in zip(old["env"], new["env"], strict=False)
        ]
    assert rest_of(after) == rest_of(recorded.pod)


def test_every_init_container_of_a_recorded_pod_is_as_the_contract_says(recorded: Recorded) -> None:
    """I1 gives the node pair and the master's address; without it, init containers stay."""
    main = recorded.pod["spec"]["containers"][0]
    k, pods = node_of(recorded.pod, main)
    new = {"RANK": str(k), "WORLD_SIZE": str(pods), "NODE_RANK": str(k)}
    new |= {name: str(env_of(main).get(name)) for name in ("MASTER_ADDR", "MASTER_PORT")}
    before = recorded.pod["spec"].get("initContainers", [])
    for old, now in zip(before, recorded.patched["spec"].get("initContainers", []), strict=True):
        assert env_of(now) == env_of(old) | (new if "I1" in recorded.rules else {})


def test_every_vector_has_its_recordings() -> None:
    """All 674 recorded pods are here, of each job that the vectors speak of."""
    jobs = {re.sub(r"-(master|worker)-\d+$", "", path.stem) for path in REVIEWS}
    assert (len(REVIEWS), jobs) == (674, set(VECTORS))

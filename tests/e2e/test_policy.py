"""The serverless profile on a real API server, held against the webhook's answers and the contract's vectors.

A policy knows less, and must do nothing where it doesn't know: each name it sets has the webhook's value, RANK and
WORLD_SIZE change both or not at all, and a half-and-half pair that stays is warned of. docs/policy.md names the same
jobs as here.
"""

from __future__ import annotations

import copy
import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.e2e.installation import REVIEWS, fresh, recorded, stream, until
from tests.support_deploy import ROOT, Object, profile
from tests.support_edges import patch_of
from webhook import jsonpatch, mutate
from webhook.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.controlplane import ControlPlane, Reply

pytestmark = pytest.mark.e2e

PAGE = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
PODS = "/api/v1/namespaces/team-a/pods?dryRun=All"
PAIR = ("RANK", "WORLD_SIZE")
# Jobs that get their process ranks from the policy too ...
REPAIRED = {
    "bare-n2-w3", "bare-n4", "big-env", "composer-n2", "entrypoint-only", "no-command", "odd-values", "run-module",
    "sidecar", "torchrun-plain", "user-env-dup", "user-env-valuefrom",
}  # fmt: skip
# ... and those whose pair only the webhook repairs
BEYOND = {
    "accelerate-machine-n8", "ask-containers", "ask-gpu", "ask-init", "ask-mixed", "ask-n4", "ask-node", "ask-process",
    "ask-torchrun", "ask-workers-only", "elastic-master", "torchrun-kubelet-n8", "torchrun-pet", "torchrun-shell-n8",
    "twins",
}  # fmt: skip


@pytest.fixture(scope="module", name="policy")
def _policy(plane: ControlPlane) -> Iterator[ControlPlane]:
    plane.namespace("team-a")
    objects = profile("policy")
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=stream(objects))
    until(lambda: "rankfix/status" in notes(create(plane, recorded("v1.9.0", "bare-n4-worker-0"))), "no policy yet")
    yield plane
    plane.kubectl("delete", "-f", "-", stdin=stream(objects))
    until(lambda: not notes(create(plane, recorded("v1.9.0", "bare-n4-worker-0"))), "the policy stays")


def create(plane: ControlPlane, pod: Object) -> Reply:
    return plane.request("POST", PODS, pod)


def notes(reply: Reply) -> dict[str, str]:
    """The annotations of a pod that was created."""
    assert reply.status == 201, reply.body
    found: dict[str, str] = reply.body["metadata"].get("annotations", {})
    return found


def env(pod: Any) -> list[dict[str, Any]]:
    """For each container, each name's last entry."""
    entries = [container.get("env") or [] for container in pod["spec"]["containers"]]
    return [{e["name"]: "elsewhere" if "valueFrom" in e else e.get("value", "") for e in found} for found in entries]


def pair(found: dict[str, Any]) -> tuple[Any, ...]:
    """RANK and WORLD_SIZE."""
    return tuple(found.get(key) for key in PAIR)


def by_webhook(review: Object) -> Any:
    """The pod as the webhook would leave it."""
    answer = json.loads(mutate.respond(json.dumps(review).encode(), Policy()).body)
    return jsonpatch.apply(review["request"]["object"], cast("Any", patch_of(answer)))


@pytest.mark.parametrize("version", ["v1.7.0", "v1.8.1", "v1.9.0", "v1.6.0"])
def test_the_policy_is_never_wrong(policy: ControlPlane, version: str) -> None:
    """No recorded pod gets a value that the webhook wouldn't give, nor half of a pair."""
    reviews = [json.loads(path.read_bytes()) for path in sorted((REVIEWS / version).glob("*.json"))]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda review: create(policy, fresh(review["request"]["object"])), reviews))
    wrong = [fault for pair in zip(reviews, made, strict=True) for fault in _faults(*pair)]
    assert wrong == []


def _faults(review: Object, reply: Reply) -> Iterator[str]:
    pod = review["request"]["object"]
    name = pod["metadata"]["name"]
    if reply.status != 201:
        yield f"{name}: {reply.body}"
        return
    before, after, webhook = env(pod), env(reply.body), env(by_webhook(review))
    for old, new, theirs in zip(before, after, webhook, strict=True):
        if any(new[key] not in {old.get(key), theirs.get(key)} for key in new):
            yield f"{name}: {new}"
        if PAIR[0] in new and pair(new) not in (pair(old), pair(theirs)):
            yield f"{name}: half a pair"


def test_what_it_repairs_and_what_it_leaves(policy: ControlPlane) -> None:
    """The two lists above, and those of docs/policy.md, are exactly so for pods of operator 1.9."""
    repaired, beyond = set(), set()
    for path in sorted((REVIEWS / "v1.9.0").glob("*.json")):
        review = json.loads(path.read_bytes())
        job = re.sub(r"-(master|worker)-[0-9]+$", "", path.stem)
        theirs, ours = env(by_webhook(review)), env(create(policy, fresh(review["request"]["object"])).body)
        if "LOCAL_WORLD_SIZE" in ours[0]:
            repaired.add(job)
        elif any(t.get(key) != o.get(key) for t, o in zip(theirs, ours, strict=True) for key in PAIR):
            beyond.add(job)
    assert repaired == REPAIRED
    assert beyond == BEYOND
    assert set(re.findall(r"`([a-z0-9-]+)`", PAGE.partition("## The recorded jobs")[2])) >= REPAIRED | BEYOND


def test_what_it_leaves_is_warned_of(policy: ControlPlane) -> None:
    """A pair that stays half and half, and annotations that nobody obeys, are named to whoever creates the pod."""
    for name, words in (
        ("torchrun-shell-n8-worker-0", "half node and half process"),
        ("ask-n4-worker-0", "need the rankfix webhook"),
    ):
        text = json.dumps({**recorded("v1.9.0", name), "apiVersion": "v1", "kind": "Pod"})
        ran = policy.try_kubectl("create", "-n", "team-a", "--dry-run=server", "-f", "-", stdin=text)
        assert ran.returncode == 0
        assert words in ran.stderr


def test_who_wants_nothing_gets_nothing(policy: ControlPlane) -> None:
    """Mode `off`: no change, no warning."""
    text = json.dumps({**recorded("v1.9.0", "ask-off-worker-0"), "apiVersion": "v1", "kind": "Pod"})
    ran = policy.try_kubectl("create", "-n", "team-a", "--dry-run=server", "-f", "-", stdin=text)
    assert (ran.returncode, ran.stderr) == (0, "")


ODD = {
    "PET_NPROC_PER_NODE": ["auto", "gpu", "0", "-2", "08", "+8", " 8", "8.0", "9" * 20, "", "４"],
    "PET_NNODES": ["1:4", "2:2", "0", "1", "x"],
    "PET_NODE_RANK": ["2", "7", "-1", ""],
    "RANK": ["", "x"],
    "WORLD_SIZE": ["", "x"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in ODD.items() for value in values])
def test_odd_values_are_no_error(policy: ControlPlane, name: str, value: str) -> None:
    """An expression that fails would refuse the pod: whatever stands there, the pair stays as it was."""
    pod = recorded("v1.9.0", "bare-n4-worker-0")
    for entry in pod["spec"]["containers"][0]["env"]:
        if entry["name"] == name:
            entry["value"] = value
    reply = create(policy, pod)
    before = env(pod)[0]
    assert pair(env(reply.body)[0]) == pair(before)


SHAPES: dict[str, Any] = {
    "no env": lambda pod: pod["spec"]["containers"][0].pop("env"),
    "null env": lambda pod: pod["spec"]["containers"][0].update(env=None),
    "no labels": lambda pod: pod["metadata"].pop("labels"),
    "odd label": lambda pod: pod["metadata"]["labels"].update({"training.kubeflow.org/replica-index": "x"}),
    "label of another pod": lambda pod: pod["metadata"]["labels"].update({"training.kubeflow.org/replica-index": "5"}),
    "rank from elsewhere": lambda pod: pod["spec"]["containers"][0]["env"].append(
        {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_odd_pods_are_left_alone(policy: ControlPlane, shape: str) -> None:
    """Bugs 19 to 21: lists and labels that aren't there, and values from elsewhere."""
    pod = copy.deepcopy(recorded("v1.9.0", "bare-n4-worker-0"))
    SHAPES[shape](pod)
    reply = create(policy, pod)
    assert "rankfix/status" not in notes(reply)


def test_its_own_output_is_left_alone(policy: ControlPlane) -> None:
    """Bug 17: twice is once."""
    once = create(policy, recorded("v1.9.0", "bare-n4-worker-0")).body
    twice = create(policy, fresh(once)).body
    assert (env(twice), twice["spec"]["containers"]) == (env(once), once["spec"]["containers"])

"""The pods of each arm: what the operator's, another webhook's, the naive patch's and rankfix's hand does to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance import arms, check, jobs, policies, same
from conformance.cases import BadCase
from conformance.words import Arm
from tests.support_conformance import case, container, job

if TYPE_CHECKING:
    from pathlib import Path

BARE = ("python", "train.py")


def env(pod: dict[str, Any], name: str = "pytorch") -> dict[str, str]:
    found = next(item for item in pod["spec"]["containers"] if item["name"] == name)
    return {entry["name"]: entry.get("value", "") for entry in found.get("env") or ()}


def pairs(made: arms.Made) -> list[str]:
    return [f"{env(pod)['RANK']}/{env(pod)['WORLD_SIZE']}" for pod in made.pods]


@pytest.mark.parametrize(
    ("nproc", "gpus", "expected"),
    [
        ("2", None, {Arm.OPERATOR: ["0/4", "1/4"], Arm.NAIVE: ["0/4", "2/4"], Arm.RANKFIX: ["0/4", "2/4"]}),
        (None, 8, {Arm.OPERATOR: ["0/2", "1/2"], Arm.NAIVE: ["0/16", "8/16"], Arm.RANKFIX: ["0/2", "1/2"]}),
        (None, None, {Arm.OPERATOR: ["0/2", "1/2"], Arm.NAIVE: ["0/2", "1/2"], Arm.RANKFIX: ["0/2", "1/2"]}),
        ("auto", 2, {Arm.OPERATOR: ["0/2", "1/2"], Arm.NAIVE: ["0/4", "2/4"], Arm.RANKFIX: ["0/2", "1/2"]}),
    ],
)
def test_the_pair_of_each_arm(
    nproc: str | None, gpus: int | None, expected: dict[Arm, list[str]], tmp_path: Path
) -> None:
    """The naive patch multiplies by what is declared, or by the GPUs, where rankfix guesses nothing."""
    limits = {"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {}
    found = case(tmp_path, job=job(container(*BARE, **limits), nproc=nproc))
    assert {arm: pairs(arms.made(found, arm, arms.left)) for arm in expected} == expected


def test_the_naive_patch_on_old_operators_and_on_what_has_no_pair(tmp_path: Path) -> None:
    """Before 1.7 WORLD_SIZE is the number of pods; a container without the pair stays as it is."""
    limits = {"resources": {"limits": {"amd.com/gpu": "4"}}}
    old = case(tmp_path, operator="legacy", job=job(container(*BARE, **limits)))
    assert pairs(arms.made(old, Arm.NAIVE, arms.left)) == ["0/8", "4/8"]
    bare = {"metadata": {}, "spec": {"containers": [{"name": "sidecar"}]}}
    assert arms.naive(bare) == bare


def test_the_annotated_arm_annotates_the_template(tmp_path: Path) -> None:
    """What rankfix then says is another thing; a wish that it can't obey is a denial."""
    keys = {"expect": {"rankfix": "together", "annotated": "together"}, "annotate": {"rankfix/nproc-per-node": "2"}}
    found = case(tmp_path, job=job(container(*BARE)), **keys)
    assert pairs(arms.made(found, Arm.ANNOTATED, arms.left)) == ["0/4", "2/4"]
    bad = case(tmp_path, **{**keys, "annotate": {"rankfix/mode": "all"}})
    made = arms.made(bad, Arm.ANNOTATED, arms.left)
    assert made.pods == []
    assert "rankfix/mode" in str(made.denied)


def test_legacy_labels(tmp_path: Path) -> None:
    """pytorch-operator's own, and none of a later generation."""
    (master, worker) = jobs.pods(case(tmp_path, operator="legacy"))
    labels = worker["metadata"]["labels"]
    assert (labels["pytorch-replica-type"], labels["pytorch-replica-index"]) == ("worker", "0")
    assert not [key for key in labels if key.startswith(("training.", "replica-"))]
    assert env(master)["MASTER_ADDR"] == "localhost"


def test_workers_may_be_more(tmp_path: Path) -> None:
    """An elastic job is scaled by its operator."""
    assert len(jobs.pods(case(tmp_path), workers=3)) == 4


def test_a_job_that_is_none_is_told_with_its_field(tmp_path: Path) -> None:
    """In the API server's words."""
    found = case(tmp_path, job={"metadata": {"name": "x"}, "spec": {}})
    with pytest.raises(BadCase, match=r"made\.yaml: case a-case: job: spec\.pytorchReplicaSpecs"):
        jobs.pods(found)
    assert "spec.pytorchReplicaSpecs" in check.problems(found)[0]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("command", [("python", "train.py"), ("sh", "-c", "python train.py")])
def test_katib_wraps_the_master_alone(command: tuple[str, ...], tmp_path: Path, *, late: bool) -> None:
    """Before rankfix sees the pod or after it, the ranks are the same: the API server asks again."""
    found = case(tmp_path, job=job(container(*command), nproc="2"), change="katib-late" if late else "katib")
    made = arms.made(found, Arm.RANKFIX, arms.left)
    assert pairs(made) == ["0/4", "2/4"]
    assert made.said is not None
    assert made.said.rules == {"C1"}
    main = made.pods[0]["spec"]["containers"][0]
    assert main["command"] == ["sh", "-c"]
    assert main["args"] == [
        "python train.py 1>/var/log/katib/metrics.log 2>&1 && echo completed > /var/log/katib/$$$$.pid"
    ]
    assert made.pods[1]["spec"]["containers"][0]["command"] == list(command)


def test_a_mesh_s_sidecar_comes_first_and_has_no_pair(tmp_path: Path) -> None:
    """The index of the container that is repaired is another one then."""
    found = case(tmp_path, job=job(container(*BARE), nproc="2"), change="istio-late")
    made = arms.made(found, Arm.RANKFIX, arms.left)
    assert [item["name"] for item in made.pods[1]["spec"]["containers"]] == ["istio-proxy", "pytorch"]
    assert pairs(made) == ["0/4", "2/4"]
    assert jobs.starters(made.pods[1]) == ["pytorch"]


def test_twins_end_a_pod_together(tmp_path: Path) -> None:
    """A sidecar's end says nothing about its pod."""
    twin, sidecar = {**container(*BARE), "name": "two"}, {**container("sleep", "1"), "name": "three"}
    (pod, _) = jobs.pods(case(tmp_path, job=job(container(*BARE), twin, sidecar)))
    assert jobs.starters(pod) == ["pytorch", "two"]


SAID = [
    ("C1", {}, []),
    ("C1 + warning", {}, ["warned of: nothing"]),
    ("C2", {}, ["the rules are C1"]),
    ("C1 + node", {}, ["rankfix/status of the pods is process"]),
    ("C1 + elastic", {}, ["the reasons are patched"]),
    ("unchanged", {}, ["the rules are C1", "rankfix/status of the pods is process"]),
    ("A1", {"command": ["python", "train.py", "--shard", "$(RANK)"]}, ["warned of: "]),
]


@pytest.mark.parametrize(("status", "keys", "faults"), SAID)
def test_a_status_that_is_not_so_is_told(status: str, keys: dict[str, Any], faults: list[str], tmp_path: Path) -> None:
    """Rules, statuses, reasons and the warning are each held to the case."""
    found = case(tmp_path, job=job({**container(*BARE), **keys}, nproc="2"), status=status)
    told = check.problems(found)
    assert len(told) == len(faults)
    assert all(fault in line for fault, line in zip(faults, told, strict=True))


def test_what_only_a_cluster_has_is_told_beforehand(tmp_path: Path) -> None:
    """A case that can't be started here says why before anything runs; a pod that isn't there is no pod to recreate."""
    lost = case(tmp_path, job=job({"name": "pytorch", "image": "i"}), recreate="worker-7")
    told = "\n".join(check.problems(lost))
    assert "write entrypoint: [WORDS]" in told
    assert "recreate 'worker-7': no pod's name ends so; the pods: job-master-0, job-worker-0" in told


def test_pods_are_the_same_where_nobody_reads_the_difference(tmp_path: Path) -> None:
    """NODE_RANK alone makes no other run, unless a file, a word or accelerate might read it."""
    plain = case(tmp_path)
    made = [arms.made(plain, arm, arms.left).pods for arm in (Arm.OPERATOR, Arm.RANKFIX)]
    assert len({same.digest(pods) for pods in made}) == 2
    assert len({same.digest(pods, same.unread(plain)) for pods in made}) == 1
    for keys in ({"files": {"train.py": "os.environ['NODE_RANK']"}}, {"files": {"train.py": "program:lightning"}}):
        assert "NODE_RANK" not in same.unread(case(tmp_path, **keys))
    assert same.unread(case(tmp_path, job=job(container("accelerate", "launch", "train.py")))) == ()


def test_a_recorded_policy_changes_what_a_real_one_changed(tmp_path: Path) -> None:
    """By the pod's digest; a pod that nobody asked about is skipped, with the remedy."""
    found = case(tmp_path, job=job(container(*BARE), nproc="2"))
    before = jobs.pods(found)
    changes = {same.digest([pod]): {"pytorch": {"RANK": str(2 * k)}} for k, pod in enumerate(before)}
    policies.record(changes, tmp_path / "policy.json")
    recorded = policies.recorded(tmp_path / "policy.json")
    assert pairs(arms.made(found, Arm.POLICY, recorded)) == ["0/4", "2/4"]
    skipped = arms.made(case(tmp_path), Arm.POLICY, recorded)
    assert "--record" in str(skipped.skipped)
    assert policies.recorded(tmp_path / "nowhere").changes == {}

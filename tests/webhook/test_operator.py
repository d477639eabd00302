"""The pods of each operator generation: equal to what the real operators made, and the rest by their source."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support_jobs import JOBS, NAMES, REVIEWS, container, job, recorded_job, recorded_pods, replicas
from webhook import operator_
from webhook.operator_job import GENERATIONS, Generation

VERSIONS = sorted(path.name for path in REVIEWS.iterdir() if path.is_dir())
PODS = [(version, name) for version in VERSIONS for name in NAMES if recorded_pods(version, name)]
SERVER_S = {"protocol": "TCP"}  # what the API server adds to a port
ADDED = {"terminationMessagePath", "terminationMessagePolicy"}


def made(raw: dict[str, Any], version: str = "1.9") -> list[dict[str, Any]]:
    return operator_.pods(raw, GENERATIONS[version])


def env_of(pod: dict[str, Any], at: int = 0) -> dict[str, str | None]:
    return {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][at]["env"]}


def init_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Init containers without what the API server fills in."""
    bare = [{k: v for k, v in c.items() if k not in ADDED} for c in pod["spec"].get("initContainers", [])]
    return [{"imagePullPolicy": "IfNotPresent", "resources": {}, **c} for c in bare]


def test_every_recording_is_covered() -> None:
    """Each recorded pod belongs to a job that is here: six generations, 674 pods."""
    assert len(VERSIONS) == 6
    recorded = sum(len(list((REVIEWS / version).glob("*.json"))) for version in VERSIONS)
    assert recorded == sum(len(recorded_pods(version, name)) for version, name in PODS) == 674


@pytest.mark.parametrize(("version", "name"), PODS)
def test_pods_are_those_the_operator_made(version: str, name: str) -> None:
    """Names, labels, annotations, owner, env (in order), ports, init containers and restart policy are equal."""
    generation = operator_.generation(version)
    assert generation is not None
    simulated = {pod["metadata"]["name"]: pod for pod in operator_.pods(recorded_job(name), generation)}
    recorded = recorded_pods(version, name)
    assert simulated.keys() == recorded.keys()
    for pod_name, real in recorded.items():
        ours = simulated[pod_name]
        for field in ("labels", "annotations"):
            assert ours["metadata"].get(field) == real["metadata"].get(field)
        owner = {**real["metadata"]["ownerReferences"][0], "uid": ours["metadata"]["ownerReferences"][0]["uid"]}
        assert ours["metadata"]["ownerReferences"] == [owner]
        assert ours["spec"]["restartPolicy"] == real["spec"]["restartPolicy"]
        assert init_of(ours) == init_of(real)
        for mine, its in zip(ours["spec"]["containers"], real["spec"]["containers"], strict=True):
            assert mine["env"] == its["env"]
            assert [{**port, **SERVER_S} for port in mine.get("ports", [])] == its.get("ports", [])
            assert [mine.get(key) for key in ("name", "image", "command", "args")] == [
                its.get(key) for key in ("name", "image", "command", "args")
            ]


def test_the_job_stays_as_it_is() -> None:
    """Nothing in the job that is handed in changes."""
    raw = recorded_job("big-env")
    before = copy.deepcopy(raw)
    made(raw)
    assert raw == before


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("1.9", "1.9"),
        ("v1.9.0", "1.9"),
        ("1.8.1", "1.8"),
        ("1.4", None),
        ("1.10", None),
        ("1", None),
        ("", None),
        ("1.9.x", None),
        ("1.9.0.1", None),
    ],
)
def test_versions(text: str, known: str | None) -> None:
    """A version is known by its first two numbers."""
    found = operator_.generation(text)
    assert (found.version if found else None) == known


def test_defaults_are_those_of_the_controller() -> None:
    """Without replicas, restartPolicy, ports and nprocPerNode: one pod, OnFailure, 23456, auto. Types in any case."""
    specs = {"MASTER": replicas(container(), count=None), "worker": replicas(container(), count=None)}
    raw = {**job(), "spec": {"pytorchReplicaSpecs": specs}}
    master, worker = made(raw)
    assert [pod["metadata"]["name"] for pod in (master, worker)] == ["job-master-0", "job-worker-0"]
    assert worker["spec"]["restartPolicy"] == "OnFailure"
    assert worker["spec"]["containers"][0]["ports"] == [{"name": "pytorchjob-port", "containerPort": 23456}]
    assert env_of(worker)["PET_NPROC_PER_NODE"] == "auto"
    assert env_of(worker)["WORLD_SIZE"] == "2"


def test_a_port_of_the_job_s_own() -> None:
    """MASTER_PORT is the port with the operator's name on the container `pytorch`, wherever that stands."""
    ports = [{"name": "web", "containerPort": 80}, {"name": "pytorchjob-port", "containerPort": 29500}]
    specs = {"Master": replicas(container("side"), container(ports=ports))}
    (pod,) = made({**job(), "spec": {"pytorchReplicaSpecs": specs}})
    assert env_of(pod)["MASTER_PORT"] == env_of(pod, 1)["MASTER_PORT"] == "29500"
    assert pod["spec"]["containers"][1]["ports"] == ports
    assert "ports" not in pod["spec"]["containers"][0]


@pytest.mark.parametrize(("policy", "restarts"), [("ExitCode", "Never"), ("Always", "Always"), ("Never", "Never")])
def test_restart_policy(policy: str, restarts: str) -> None:
    """ExitCode is the operator's own: kubelet hears Never."""
    raw = job(workers=0)
    raw["spec"]["pytorchReplicaSpecs"]["Master"]["restartPolicy"] = policy
    assert made(raw)[0]["spec"]["restartPolicy"] == restarts


ELASTIC: list[tuple[dict[str, Any], dict[str, str | None]]] = [
    ({"minReplicas": 2}, {"PET_NNODES": "2:2"}),
    ({"maxReplicas": 4}, {"PET_NNODES": "4:4"}),
    ({"minReplicas": 1, "maxReplicas": 4}, {"PET_NNODES": "1:4"}),
    ({}, {"PET_NNODES": "3:3", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "job-worker-0:23456"}),
    ({"rdzvHost": "etcd", "rdzvPort": 2379, "rdzvBackend": "etcd-v2"}, {"PET_RDZV_ENDPOINT": "etcd:2379"}),
    ({"rdzvId": "7", "maxRestarts": 3}, {"PET_RDZV_ID": "7", "PET_MAX_RESTARTS": "3"}),
    ({"rdzvConf": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]}, {"PET_RDZV_CONF": "a=1,b=2"}),
    ({"nProcPerNode": 4}, {"PET_NPROC_PER_NODE": "4"}),
    ({"standalone": True}, {"PET_STANDALONE": None}),
]


@pytest.mark.parametrize(("policy", "env"), ELASTIC)
def test_elastic_policy(policy: dict[str, Any], env: dict[str, str | None]) -> None:
    """Each field of elasticPolicy shows where torchrun looks; Workers only are counted."""
    pods = made(job(master=False, workers=3, elasticPolicy=policy))
    assert len(pods) == 3
    assert env.items() <= env_of(pods[0]).items()


def test_no_standalone_unless_it_is_asked_for() -> None:
    """`standalone: false` is no PET_STANDALONE, and an empty rdzvConf no PET_RDZV_CONF."""
    (pod,) = made(job(master=False, elasticPolicy={"standalone": False, "rdzvConf": []}))
    assert not {"PET_STANDALONE", "PET_RDZV_CONF"} & env_of(pod).keys()


def test_the_deprecated_field_counts_no_processes() -> None:
    """elasticPolicy.nProcPerNode reaches torchrun, but WORLD_SIZE counts pods; nprocPerNode isn't filled in then."""
    pods = made(job(workers=2, elasticPolicy={"nProcPerNode": 4}))
    assert (env_of(pods[0])["WORLD_SIZE"], env_of(pods[0])["PET_NPROC_PER_NODE"]) == ("3", "4")
    assert [entry["name"] for entry in pods[0]["spec"]["containers"][0]["env"]].count("PET_NPROC_PER_NODE") == 1


@pytest.mark.parametrize(("version", "role"), [("1.6", None), ("1.7", None), ("1.8", "master"), ("1.9", "master")])
def test_the_first_worker_without_a_master(version: str, role: str | None) -> None:
    """From 1.8 on it has the Master's role label; nobody gets a RANK, or an init container that waits."""
    pods = made(job(master=False, workers=2), version)
    assert pods[0]["metadata"]["labels"].get("training.kubeflow.org/job-role") == role
    assert "training.kubeflow.org/job-role" not in pods[1]["metadata"]["labels"]
    assert "RANK" not in env_of(pods[0])
    assert "initContainers" not in pods[0]["spec"]


def test_metadata_of_the_template() -> None:
    """Its labels and annotations come along, the operator's labels win, and a generated name gets an ending."""
    meta: dict[str, Any] = {
        "metadata": {"labels": {"team": "a", "training.kubeflow.org/job-name": "x"}, "annotations": {"a": "b"}}
    }
    raw = job()
    raw["spec"]["pytorchReplicaSpecs"] = {"Master": replicas(container(), **meta)}
    raw["metadata"] = {"generateName": "run-", "namespace": "ns"}
    (pod,) = made(raw)
    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["metadata"]["labels"]["training.kubeflow.org/job-name"] == "run-xxxxx"
    assert pod["metadata"]["annotations"] == {"a": "b"}
    assert (pod["metadata"]["name"], pod["metadata"]["namespace"]) == ("run-xxxxx-master-0", "ns")


def test_jobs_are_there_byte_for_byte() -> None:
    """All fifty-two jobs lie beside their recordings."""
    assert len(list(JOBS.glob("*.yaml"))) == 52


def test_generations_are_in_order() -> None:
    """The newest is the last, and the default."""
    assert list(GENERATIONS) == ["1.3", "1.5", "1.6", "1.7", "1.8", "1.9"]
    assert operator_.NEWEST == "1.9"
    assert all(isinstance(generation, Generation) for generation in GENERATIONS.values())

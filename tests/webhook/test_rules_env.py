"""A1, A2, E1, E2, I1: what the operator leaves out or gets wrong beside the pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support_core import MODERN, OLD, Job, after, answer, changes, entries, env_of, flag, launched, start

if TYPE_CHECKING:
    from webhook.launch import Launch

CLASSES = ("launcher-env", "reads-rank", "hidden", "launcher-fixed", "launcher", "own-launcher", "python", "entrypoint")


@pytest.mark.parametrize("cls", CLASSES)
def test_node_rank_is_added_whatever_the_class(cls: str) -> None:
    """A1: in a job of several pods each managed container learns its node."""
    raw = Job().pod()
    assert changes(raw, after(raw, launch=launched(cls))) == {"NODE_RANK": "1"}


@pytest.mark.parametrize(
    "raw",
    [
        Job(pods=1).pod(0),
        Job(env=({"name": "NODE_RANK", "value": "5"},)).pod(),
        Job(env=({"name": "NODE_RANK", "valueFrom": {"fieldRef": {}}},)).pod(),
        Job(env=({"name": "NODE_RANK"},)).pod(),
    ],
)
def test_node_rank_stays_out_where_it_isnt_needed(raw: dict[str, Any]) -> None:
    """A1 says nothing in a job of one pod, and never replaces a NODE_RANK that is there by name."""
    given = answer(raw)
    assert (given.rules, given.reason, given.status) == ((), "already-right", "unchanged")


def test_node_rank_is_for_every_managed_container() -> None:
    """A sidecar with the operator's env gets it; one without is another webhook's."""
    raw = Job(names=("pytorch", "tensorboard")).pod()
    raw["spec"]["containers"][1]["command"] = ["tensorboard"]
    raw["spec"]["containers"].append({"name": "istio-proxy", "env": entries({"POD_NAME": "x"})})
    result = after(raw)
    assert changes(raw, result, "tensorboard") == {"NODE_RANK": "1"}
    assert changes(raw, result, "istio-proxy") == {}


PET = {
    "PET_NNODES": "2",
    "PET_NODE_RANK": "1",
    "PET_MASTER_ADDR": "$(MASTER_ADDR)",
    "PET_MASTER_PORT": "$(MASTER_PORT)",
}


@pytest.mark.parametrize(
    ("launch", "fires"),
    [
        (launched("launcher", start()), True),
        (launched("launcher", start(nproc=flag("4"))), True),
        (launched("launcher", start(node_count=flag("2"))), True),
        (launched("launcher", start(node_count=flag("02"))), True),
        (launched("launcher-fixed", start(node_rank=flag("0"))), True),
        (launched("launcher", start(), only_launchers=False), True),
        (launched("launcher", start(), start(node_count=flag("2"))), True),
        (launched("launcher", start(), start(standalone=True)), False),
        (launched("launcher", start(node_count=flag("1"))), False),
        (launched("launcher", start(node_count=flag("1:2"), dynamic=True)), False),
        (launched("launcher", start(node_count=flag(feeds=["PET_NNODES"]))), False),
        (launched("launcher", start(master_addr=flag(feeds=["MASTER_ADDR"]))), False),
        (launched("launcher", start(rdzv=True)), False),
        (launched("launcher", start(dynamic=True)), False),
        (launched("launcher", start(standalone=True)), False),
        (launched("launcher"), False),
        (launched("launcher-env", start()), False),
        (launched("reads-rank", start()), False),
        (launched("python"), False),
        (launched("launcher", start(), parse_error=True), False),
    ],
)
def test_torchrun_joins_under_an_old_operator(launch: Launch, *, fires: bool) -> None:
    """A2: a launcher that would train alone gets what 1.7 writes, unless its flags say how it meets the others."""
    raw = OLD.pod()
    found = {name: value for name, value in changes(raw, after(raw, launch=launch)).items() if name.startswith("PET_")}
    assert found == (PET if fires else {})


@pytest.mark.parametrize(
    "raw",
    [
        OLD.but(pods=1).pod(0),
        Job().pod(),
        OLD.but(env=({"name": "PET_MAX_RESTARTS", "value": "3"},)).pod(),
        Job(operator="1.6", elastic="1:2", pods=3).pod(),
    ],
)
def test_a2_is_for_pods_without_pet_names_only(raw: dict[str, Any]) -> None:
    """One PET_* of anybody, or a job of one pod, and A2 stays out."""
    assert "A2" not in answer(raw, launch=launched("launcher", start())).rules


@pytest.mark.parametrize("missing", ["MASTER_ADDR", "MASTER_PORT"])
def test_a2_refers_to_what_is_there(missing: str) -> None:
    """`$(MASTER_ADDR)` is written only where kubelet can expand it."""
    raw = OLD.pod()
    env = raw["spec"]["containers"][0]["env"]
    raw["spec"]["containers"][0]["env"] = [entry for entry in env if entry["name"] != missing]
    assert "A2" not in answer(raw, launch=launched("launcher", start())).rules


@pytest.mark.parametrize(
    ("entry", "fires"),
    [
        ({"name": "PET_STANDALONE"}, True),
        ({"name": "PET_STANDALONE", "value": ""}, True),
        ({"name": "PET_STANDALONE", "value": "1"}, False),
        ({"name": "PET_STANDALONE", "value": "0"}, False),
        ({"name": "PET_STANDALONE", "valueFrom": {"fieldRef": {}}}, False),
    ],
)
@pytest.mark.parametrize("job", [Job(pods=1, master=False, elastic="1:1"), Job(master=False), Job()])
def test_standalone_becomes_a_number(entry: dict[str, Any], job: Job, *, fires: bool) -> None:
    """E1: an empty PET_STANDALONE kills torchrun; it becomes "1", in elastic jobs and without a pair, too."""
    raw = job.pod(0)
    raw["spec"]["containers"][0]["env"].append(entry)
    assert ("E1" in answer(raw).rules) is fires
    assert (env_of(after(raw))["PET_STANDALONE"] == "1") is (fires or entry.get("value") == "1")


@pytest.mark.parametrize(
    ("job", "nodes"),
    [
        (Job(pods=3, elastic="2:2"), "3:3"),
        (Job(pods=3, elastic="2:2", operator="1.6"), "3:3"),
        (Job(pods=3, elastic="2:2", nproc="2"), "3:3"),
        (Job(pods=3, elastic="1:2"), "1:2"),
        (Job(pods=2, elastic="2:2", master=False), "2:2"),
        (Job(pods=2, elastic="1:3", master=False), "1:3"),
        (Job(), "2"),
    ],
)
@pytest.mark.parametrize("launch", [launched("launcher", start()), launched("reads-rank"), launched("python")])
def test_elastic_masters_are_counted(job: Job, nodes: str, launch: Launch) -> None:
    """E2: a:a with a Master becomes P:P; every other PET_NNODES stays."""
    raw = job.pod()
    assert env_of(after(raw, launch=launch))["PET_NNODES"] == nodes


@pytest.mark.parametrize("mode", ["process", "node"])
def test_e_rules_hold_in_the_modes_that_ask(mode: str) -> None:
    """A wrong PET_NNODES is wrong whichever contract the job asks for."""
    raw = Job(pods=3, elastic="2:2").but(ask={"mode": mode}).pod()
    assert env_of(after(raw))["PET_NNODES"] == "3:3"


def with_init(job: Job, *inits: Any, k: int = 1) -> dict[str, Any]:
    """A pod that also has init containers, and asks for their env."""
    raw = job.but(annotations={**job.annotations, "rankfix/init-containers": "true"}).pod(k)
    raw["spec"]["initContainers"] = list(inits)
    return raw


@pytest.mark.parametrize("env", [{}, {"env": None}, {"env": []}, {"env": entries({"A": "1"})}])
@pytest.mark.parametrize("job", [MODERN, OLD, MODERN.but(command=("bash", "run.sh"))])
def test_init_containers_learn_their_pod(job: Job, env: dict[str, Any]) -> None:
    """I1: the node pair and the master's address, whatever the main container's contract and however env is absent."""
    raw = with_init(job, {"name": "fetch", **env})
    result = after(raw)
    (init,) = result["spec"]["initContainers"]
    found = {entry["name"]: entry["value"] for entry in init["env"] if entry["name"] != "A"}
    assert found == {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "NODE_RANK": "1",
        "MASTER_ADDR": "job-master-0",
        "MASTER_PORT": "23456",
    }
    assert "I1" in answer(raw).rules


def test_init_containers_get_nothing_unasked() -> None:
    """Without the annotation, or with "false", they stay as they are."""
    for asked in ({}, {"rankfix/init-containers": "false"}):
        raw = MODERN.but(annotations=asked).pod()
        raw["spec"]["initContainers"] = [{"name": "fetch"}]
        assert after(raw)["spec"]["initContainers"] == [{"name": "fetch"}]


@pytest.mark.parametrize("value", [{"valueFrom": {"secretKeyRef": {}}}, {"value": "$(HOST)"}, {"value": ""}])
def test_init_containers_get_only_text_that_means_the_same(value: dict[str, Any]) -> None:
    """An address from elsewhere, or one that refers to other names, isn't copied."""
    raw = with_init(MODERN, {"name": "fetch"})
    raw["spec"]["containers"][0]["env"].append({"name": "MASTER_ADDR", **value})
    assert "MASTER_ADDR" not in env_of(after(raw), "fetch", "initContainers")


def test_init_containers_of_workers_only_jobs() -> None:
    """Under mode `process` they get the address that the containers get."""
    raw = with_init(Job(master=False).but(ask={"mode": "process"}), {"name": "fetch"})
    env = env_of(after(raw), "fetch", "initContainers")
    assert (env["RANK"], env["MASTER_ADDR"], env["MASTER_PORT"]) == ("1", "job-worker-0", "23456")


def test_init_containers_of_others_stay_out() -> None:
    """An init container that another webhook adds after our first call isn't the job's; a second call leaves it."""
    raw = after(with_init(MODERN, {"name": "fetch"}))
    raw["spec"]["initContainers"].insert(0, {"name": "istio-init"})
    assert answer(raw).patch == []


def test_init_containers_that_come_first_after_us_stay_out() -> None:
    """Nor is one served that appears in a pod which had none, and needed nothing else, at our first call."""
    raw = after(with_init(Job(pods=1), k=0))
    raw["spec"]["initContainers"] = [{"name": "istio-init"}]
    assert answer(raw).patch == []


def test_copied_annotations_dont_keep_init_containers_out() -> None:
    """Results in a template, which the env doesn't show, are no sign of an earlier call."""
    raw = with_init(MODERN, {"name": "fetch"})
    copied = {"rankfix/rules": "I1", "rankfix/status": "process", "rankfix/ranks": "k=1 P=2 N=4 ranks=4-7/8"}
    raw["metadata"]["annotations"] |= copied
    assert env_of(after(raw), "fetch", "initContainers")["RANK"] == "1"


def test_init_containers_of_elastic_jobs_cant_be_served() -> None:
    """Where ranks aren't known the user hears that the annotation has no effect."""
    given = answer(with_init(Job(pods=2, elastic="1:3", master=False), {"name": "fetch"}))
    assert (given.env, given.reason) == ((), "elastic")
    assert "rankfix/init-containers has no effect" in given.warnings[0]


def test_init_containers_asked_for_and_not_there() -> None:
    """The annotation is no fault in a pod without init containers."""
    assert "I1" not in answer(with_init(MODERN)).rules

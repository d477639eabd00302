"""C2, T1, C1: which contract a container's pair gets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support_core import INIT_METHOD, MODERN, OLD, Job, after, answer, changes, env_of, katib, launched, start
from webhook.launch import Fed, Launch
from webhook.policy import Mode, Policy

COUNTS = (Fed("node_count", "nnodes", "WORLD_SIZE", None),)
RANKS = (Fed("node_rank", "node_rank", "RANK", None),)
PROCESS = {"RANK": "4", "LOCAL_WORLD_SIZE": "4", "NODE_RANK": "1", "PYTORCH_DIST_INIT_METHOD": INIT_METHOD}
NODE = {"WORLD_SIZE": "2", "NODE_RANK": "1", "PYTORCH_DIST_INIT_METHOD": INIT_METHOD}
A1 = {"NODE_RANK": "1"}
TORCHRUN = launched("launcher", start())


@pytest.mark.parametrize(
    ("launch", "rules", "env"),
    [
        (launched("python"), ("C1",), PROCESS),
        (launched("entrypoint"), ("C1",), PROCESS),
        (launched("own-launcher"), ("C1",), PROCESS),
        (TORCHRUN, ("C1",), PROCESS),
        (launched("launcher-fixed", start()), ("C1",), PROCESS),
        (launched("launcher", start(), only_launchers=False), ("A1",), A1),
        (launched("launcher-fixed", start(), only_launchers=False), ("A1",), A1),
        (launched("reads-rank"), ("A1",), A1),
        (launched("reads-rank", start()), ("A1",), A1),
        (launched("hidden"), ("A1",), A1),
        (launched("launcher-env", fed=COUNTS), ("C2",), NODE),
        (launched("launcher-env", fed=COUNTS + RANKS), ("C2",), NODE),
        (launched("launcher-env", fed=RANKS), ("A1",), A1),
        (launched("reads-rank", fed=COUNTS), ("A1",), A1),
        (launched("python", multiprocessing_distributed=True), ("C2",), NODE),
        (launched("launcher", start(), multiprocessing_distributed=True), ("C1",), PROCESS),
        (launched("launcher-env", fed=COUNTS, parse_error=True), ("C2",), NODE),
        (launched("hidden", parse_error=True), (), {}),
        (launched("python", parse_error=True), (), {}),
        (launched("python", unsets=True), (), {}),
        (launched("launcher-env", fed=COUNTS, unsets=True), (), {}),
    ],
)
def test_the_contract_of_each_class_where_n_is_declared(launch: Launch, rules: tuple[str, ...], env: Any) -> None:
    """With N declared by nprocPerNode each class gets its contract, or keeps its pair."""
    raw = MODERN.pod()
    assert answer(raw, launch=launch).rules == rules
    assert changes(raw, after(raw, launch=launch)) == env


@pytest.mark.parametrize("cls", ["python", "entrypoint", "own-launcher", "launcher", "hidden", "reads-rank"])
@pytest.mark.parametrize("job", [Job(), Job(gpus=8), OLD, OLD.but(gpus=8)])
def test_n_undeclared_leaves_the_pair(cls: str, job: Job) -> None:
    """Nobody guesses N from GPU limits: only NODE_RANK is added."""
    raw = job.pod()
    assert changes(raw, after(raw, launch=launched(cls))) == A1


def test_a_node_count_that_is_right_already_stays() -> None:
    """Where WORLD_SIZE is the number of pods, a launcher that reads it as such is served."""
    raw = Job().pod()
    assert answer(raw, launch=launched("launcher-env", fed=COUNTS)).rules == ("A1",)


@pytest.mark.parametrize(
    ("cls", "policy", "rules"),
    [
        ("hidden", Policy(), ("A1",)),
        ("hidden", Policy(hidden="process"), ("C1",)),
        ("entrypoint", Policy(), ("C1",)),
        ("entrypoint", Policy(entrypoint="leave"), ("A1",)),
        ("reads-rank", Policy(hidden="process"), ("A1",)),
        ("python", Policy(entrypoint="leave"), ("C1",)),
    ],
)
def test_the_server_decides_what_it_cant_see(cls: str, policy: Policy, rules: tuple[str, ...]) -> None:
    """`hidden` and `entrypoint` turn the defaults for those two classes only."""
    assert answer(MODERN.pod(), policy, launched(cls)).rules == rules


def test_the_contract_is_complete() -> None:
    """All names of the process contract are as the first table of the contract says, on each node."""
    found = [env_of(after(raw)) for raw in Job(pods=3, nproc="4").all_pods()]
    names = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK")
    assert [tuple(env[name] for name in names) for env in found] == [
        ("0", "12", "4", "0"),
        ("4", "12", "4", "1"),
        ("8", "12", "4", "2"),
    ]
    assert all("LOCAL_RANK" not in env for env in found)


def test_unequal_nodes_get_the_sum_of_the_lower_ones() -> None:
    """`master=1,worker=2` places each node after all lower ones, whatever the operator's version."""
    for job in (Job(pods=3), OLD.but(pods=3)):
        pods = job.but(ask={"nproc_per_node": "master=1,worker=2"}).all_pods()
        found = [env_of(after(raw)) for raw in pods]
        assert [(env["RANK"], env["LOCAL_WORLD_SIZE"]) for env in found] == [("0", "1"), ("1", "2"), ("3", "2")]
        assert {env["WORLD_SIZE"] for env in found} == {"5"}


@pytest.mark.parametrize("missing", ["MASTER_ADDR", "MASTER_PORT"])
def test_the_init_method_needs_what_it_refers_to(missing: str) -> None:
    """PYTORCH_DIST_INIT_METHOD isn't set where its `$(...)` couldn't be expanded."""
    raw = MODERN.pod()
    env = raw["spec"]["containers"][0]["env"]
    raw["spec"]["containers"][0]["env"] = [entry for entry in env if entry["name"] != missing]
    raw["metadata"]["labels"] = {}
    assert "PYTORCH_DIST_INIT_METHOD" not in env_of(after(raw))


def test_the_init_method_of_the_template_stays() -> None:
    """A name that the user set isn't ours to replace."""
    raw = MODERN.but(env=({"name": "PYTORCH_DIST_INIT_METHOD", "value": "file:///x"},)).pod()
    assert env_of(after(raw))["PYTORCH_DIST_INIT_METHOD"] == "file:///x"


def test_a_contract_replaces_the_templates_node_rank() -> None:
    """Under a contract our NODE_RANK is the last; outside one, the template's stays."""
    job = MODERN.but(env=({"name": "NODE_RANK", "value": "9"},))
    assert env_of(after(job.pod()))["NODE_RANK"] == "1"
    assert env_of(after(job.pod(), launch=launched("hidden")))["NODE_RANK"] == "9"


TWINS = Job(names=("pytorch", "pytorch-1"))


@pytest.mark.parametrize(
    ("job", "ranks"),
    [
        (TWINS, [("2", "4", "1", "2", "0"), ("3", "4", "1", "3", "0")]),
        (TWINS.but(operator="1.3"), [("2", "4", "1", "2", "0"), ("3", "4", "1", "3", "0")]),
        (TWINS.but(nproc="4"), [("4", "8", "2", "2", None), ("6", "8", "2", "3", None)]),
        (TWINS.but(nproc="2"), [("2", "4", "1", "2", "0"), ("3", "4", "1", "3", "0")]),
        (TWINS.but(gpus=2, ask={"nproc_per_node": "gpu"}), [("4", "8", "2", "2", None), ("6", "8", "2", "3", None)]),
        (
            TWINS.but(ask={"nproc_per_node": "master=2,worker=4"}),
            [("2", "6", "2", "2", None), ("4", "6", "2", "3", None)],
        ),
        (TWINS.but(ask={"mode": "process"}), [("2", "4", "1", "2", "0"), ("3", "4", "1", "3", "0")]),
    ],
)
def test_twins_share_the_pods_processes(job: Job, ranks: list[tuple[str | None, ...]]) -> None:
    """Each twin has its part of the pod's ranks, and is a node of its own; LOCAL_RANK only for one process."""
    raw = job.pod()
    names = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "LOCAL_RANK")
    result = after(raw)
    assert [tuple(env_of(result, twin).get(name) for name in names) for twin in job.names] == ranks
    assert answer(raw).rules == ("T1",)


def test_twins_that_dont_divide_are_inconsistent() -> None:
    """Three processes in two equal containers change nothing, and the user hears of it."""
    given = answer(TWINS.but(nproc="3").pod())
    assert (given.rules, given.reason, given.env) == ((), "inconsistent", ())
    assert "3 processes per node in 2 equal containers" in given.warnings[0]


@pytest.mark.parametrize("cls", ["launcher", "launcher-env", "reads-rank", "hidden", "own-launcher"])
def test_twins_of_other_classes_are_no_twins(cls: str) -> None:
    """What starts its own processes, or reads RANK, keeps the operator's pair."""
    assert answer(TWINS.pod(), launch=launched(cls)).rules == ("A1",)


@pytest.mark.parametrize("field", ["image", "command", "args", "resources"])
def test_twins_are_equal_in_what_they_run(field: str) -> None:
    """A container with another image, command, args or resources is no twin."""
    raw = TWINS.pod()
    raw["spec"]["containers"][1][field] = ["other"]
    assert answer(raw).rules == ("A1",)


@pytest.mark.parametrize(
    "command", [("python", "train.py", "--lr", "1"), ("sh", "-c", "python train.py"), ("bash", "-c", "python a.py")]
)
def test_twins_stay_twins_when_katib_wraps_one(command: tuple[str, ...]) -> None:
    """Katib wraps the master's main container before our first call; master and workers must agree all the same."""
    raw = katib(TWINS.but(command=command).pod())
    assert answer(raw).rules == ("T1",)
    raw["spec"]["containers"][1]["command"] = ["python", "other.py"]
    assert answer(raw).rules == ("A1",)
    raw["spec"]["containers"][1]["command"] = None
    assert answer(raw).rules == ("A1",)


def test_one_of_the_twins_is_pytorch() -> None:
    """Equal containers of other names are left alone."""
    assert answer(Job(names=("a", "b")).pod()).rules == ("A1",)
    assert answer(Job(names=("a", "b", "pytorch")).pod()).rules == ("T1",)


def test_twins_that_spawn_from_a_node_pair_keep_it() -> None:
    """The ImageNet family multiplies by itself, in twins too."""
    assert answer(TWINS.pod(), launch=launched("python", multiprocessing_distributed=True)).rules == ("C2",)


@pytest.mark.parametrize(
    ("job", "ask", "local_rank"),
    [
        (OLD, {"mode": "process"}, "0"),
        (Job(nproc="1"), {"mode": "process"}, "0"),
        (MODERN, {"mode": "process"}, None),
        (Job(nproc="1"), {}, None),
        (Job(), {"nproc_per_node": "1"}, None),
        (Job(nproc="1"), {"mode": "node"}, None),
    ],
)
def test_local_rank_is_for_those_who_ask(job: Job, ask: dict[str, str], local_rank: str | None) -> None:
    """LOCAL_RANK tells Lightning that somebody has spawned already, so only mode `process` with N = 1 sets it."""
    assert env_of(after(job.but(ask=ask).pod())).get("LOCAL_RANK") == local_rank


def test_a_server_default_sets_no_local_rank() -> None:
    """A default speaks for jobs that never asked."""
    env = env_of(after(OLD.pod(), Policy(default_mode=Mode.PROCESS)))
    assert "LOCAL_RANK" not in env


@pytest.mark.parametrize("cls", ["python", "hidden", "reads-rank", "launcher-env", "launcher", "entrypoint"])
def test_modes_process_and_node_dont_look_at_the_command(cls: str) -> None:
    """Whatever the command, and whether or not it parses."""
    for details in ({}, {"parse_error": True}, {"unsets": True}):
        launch = launched(cls, **details)
        raw = MODERN.but(ask={"mode": "process"}).pod()
        assert changes(raw, after(raw, launch=launch)) == PROCESS
        raw = MODERN.but(ask={"mode": "node"}).pod()
        assert changes(raw, after(raw, launch=launch)) == NODE


def test_modes_process_and_node_override_values_from_elsewhere() -> None:
    """The job asks by name, so a RANK from elsewhere is replaced whole."""
    raw = MODERN.but(ask={"mode": "process"}).pod()
    raw["spec"]["containers"][0]["env"].append({"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "x"}}})
    assert env_of(after(raw))["RANK"] == "4"


WORKERS = Job(master=False, pods=3)


@pytest.mark.parametrize(
    ("ask", "pair"),
    [
        ({"mode": "process"}, ("2", "3", "1")),
        ({"mode": "process", "nproc_per_node": "2"}, ("4", "6", "2")),
        ({"mode": "node"}, ("2", "3", None)),
    ],
)
def test_a_job_of_workers_gets_a_master_address(ask: dict[str, str], pair: tuple[str | None, ...]) -> None:
    """Where the operator gives none, a mode that asks for a contract names the first worker as master."""
    raw = WORKERS.but(ask=ask).pod(2)
    raw["spec"]["containers"][0]["ports"] = [
        None,
        {"name": "x", "containerPort": 1},
        {"name": "pytorchjob-port", "containerPort": 7},
    ]
    env = env_of(after(raw))
    assert tuple(env.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")) == pair
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("job-worker-0", "7")
    assert env["PYTORCH_DIST_INIT_METHOD"] == INIT_METHOD


@pytest.mark.parametrize("ports", [None, [], [{"name": "pytorchjob-port", "containerPort": "7"}], {}])
def test_the_default_port_is_the_operators(ports: Any) -> None:
    """Without a container port of that name it is 23456."""
    raw = WORKERS.but(ask={"mode": "process"}).pod()
    raw["spec"]["containers"][0]["ports"] = ports
    assert env_of(after(raw))["MASTER_PORT"] == "23456"


def test_a_job_without_a_name_gets_no_master_address() -> None:
    """An address that names nobody is no address."""
    raw = WORKERS.but(ask={"mode": "process"}).pod()
    raw["metadata"]["ownerReferences"][0]["name"] = ""
    env = env_of(after(raw))
    assert "MASTER_ADDR" not in env
    assert "PYTORCH_DIST_INIT_METHOD" not in env


def test_auto_gives_no_master_address() -> None:
    """Without being asked, nothing is changed in a job of workers."""
    assert answer(WORKERS.pod()).env == ()

"""What is wrong with a job: a line for each fault, with its path and what is allowed; never the value of an env."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support_jobs import CANARY, NAMES, container, job, recorded_job, replicas
from webhook import operator_
from webhook.operator_job import GENERATIONS

NINE = GENERATIONS["1.9"]
ROOT = "spec.pytorchReplicaSpecs"


def put(raw: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """The job with one field changed; None takes it out."""
    made = copy.deepcopy(raw)
    *steps, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    place: Any = made
    for step in steps:
        place = place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return made


def problems(raw: dict[str, Any], version: str = "1.9") -> tuple[str, ...]:
    with pytest.raises(operator_.BadJob) as caught:
        operator_.pods(raw, GENERATIONS[version])
    assert str(caught.value) == "; ".join(caught.value.problems)
    return caught.value.problems


MASTER = "spec/pytorchReplicaSpecs/Master"
FIRST = f"{MASTER}/template/spec/containers/0"
FAULTS: list[tuple[str, object, str]] = [
    ("metadata", None, "metadata.name: required"),
    ("metadata/name", "Bad_Name", 'metadata.name: "Bad_Name"; allowed: lower-case letters'),
    ("metadata/name", 7, "metadata.name: the unquoted number 7"),
    ("metadata/name", "x" * 60, "metadata.name: has 60 letters"),
    ("spec", None, "spec: required"),
    ("spec", [], "spec: a list; allowed: an object"),
    ("spec/pytorchReplicaSpecs", None, f"{ROOT}: required: an object with Master and/or Worker"),
    ("spec/pytorchReplicaSpecs", {}, f"{ROOT}: an object; allowed"),
    ("spec/pytorchReplicaSpecs/Chief", {}, f'{ROOT}: unknown replica type "Chief"; allowed: Master, Worker'),
    ("spec/pytorchReplicaSpecs/master", replicas(container()), "is there twice, in two spellings"),
    (MASTER, [], f"{ROOT}.Master: a list; allowed: an object with replicas, restartPolicy and template"),
    (f"{MASTER}/replicas", 2, f"{ROOT}.Master.replicas: the unquoted number 2; allowed: 1"),
    ("spec/pytorchReplicaSpecs/Worker/replicas", 0, f"{ROOT}.Worker.replicas: the unquoted number 0; allowed: a whole"),
    ("spec/pytorchReplicaSpecs/Worker/replicas", "2", f'{ROOT}.Worker.replicas: "2"; allowed: a whole number from 1'),
    ("spec/pytorchReplicaSpecs/Worker/replicas", True, f"{ROOT}.Worker.replicas: the unquoted true; allowed"),
    ("spec/pytorchReplicaSpecs/Worker/replicas", 5000, f"{ROOT}.Worker.replicas: 5000 pods; rankfix explains jobs"),
    (f"{MASTER}/restartPolicy", "Sometimes", 'restartPolicy: "Sometimes"; allowed: Always, OnFailure, Never, ExitCode'),
    (
        f"{MASTER}/template",
        None,
        f'{ROOT}.Master.template.spec.containers: required: a list with a container named "py',
    ),
    (f"{MASTER}/template/spec/containers", [], "containers: a list; allowed: a list with a container"),
    (f"{MASTER}/template/spec/containers/0", 3, "containers[0]: the unquoted number 3; allowed: an object"),
    (f"{FIRST}/name", None, "containers[0].name: required: a name"),
    (f"{FIRST}/name", "main", 'containers: none is named "pytorch"'),
    (f"{FIRST}/image", None, "containers[0].image: required: an image"),
    (f"{FIRST}/command", "python train.py", "containers[0].command: allowed: a list of strings"),
    (f"{FIRST}/args", ["--epochs", 1], "containers[0].args: allowed: a list of strings (quote numbers)"),
    (f"{FIRST}/ports", [{"name": "x"}], "containers[0].ports: allowed: a list of objects with containerPort"),
    (f"{FIRST}/env", {"A": "b"}, "containers[0].env: allowed: a list of objects with name"),
    (f"{FIRST}/env", ["A"], "containers[0].env[0]: allowed: an object with a name"),
    (f"{FIRST}/env", [{"name": "A", "value": 1}], "containers[0].env[0].value (A): allowed: a string (quote numbers)"),
    (f"{MASTER}/template/metadata", [], "template.metadata: a list; allowed: an object"),
    (f"{MASTER}/template/metadata", {"annotations": {"a": 1}}, "template.metadata.annotations: allowed: strings only"),
    (
        "spec/nprocPerNode",
        "four",
        'spec.nprocPerNode: "four"; allowed: "auto", "cpu", "gpu" or a whole number in quotes',
    ),
    ("spec/nprocPerNode", 4, "spec.nprocPerNode: the unquoted number 4; allowed"),
    ("spec/nprocPerNode", "0", 'spec.nprocPerNode: "0"; allowed'),
    ("spec/nprocPerNode", "٤", "spec.nprocPerNode: "),
    ("spec/nprocPerNode", {}, "spec.nprocPerNode: an object; allowed"),
    ("spec/elasticPolicy", "c10d", 'spec.elasticPolicy: "c10d"; allowed: an object'),
    ("spec/elasticPolicy", {"maxReplicas": "3"}, 'spec.elasticPolicy.maxReplicas: "3"; allowed: a whole number'),
    ("spec/elasticPolicy", {"rdzvId": 7}, "spec.elasticPolicy.rdzvId: the unquoted number 7; allowed: a string"),
    ("spec/elasticPolicy", {"standalone": "yes"}, 'spec.elasticPolicy.standalone: "yes"; allowed: true or false'),
    ("spec/elasticPolicy", {"rdzvConf": "a=1"}, 'spec.elasticPolicy.rdzvConf: "a=1"; allowed: a list of objects'),
    (
        "spec/elasticPolicy",
        {"minReplicas": 3, "maxReplicas": 2},
        "maxReplicas: 2; allowed: at least minReplicas, which is 3",
    ),
]


@pytest.mark.parametrize(("path", "value", "said"), FAULTS)
def test_fault(path: str, value: object, said: str) -> None:
    """One fault makes one line that names the field and what is allowed."""
    found = problems(put(job(), path, value))
    assert [line for line in found if said in line], found
    assert all(line.isprintable() for line in found)


def test_all_faults_are_told_at_once() -> None:
    """Nobody has to send a job five times."""
    raw = put(put(job(), "spec/nprocPerNode", 4), f"{FIRST}/image", None)
    assert [line.partition(":")[0] for line in problems(raw)] == [
        f"{ROOT}.Master.template.spec.containers[0].image",
        "spec.nprocPerNode",
    ]


def test_two_containers_of_one_name() -> None:
    """The API server refuses them."""
    raw = put(job(), f"{MASTER}/template/spec/containers", [container(), container()])
    assert problems(raw) == (f"{ROOT}.Master.template.spec.containers: two have the same name",)


@pytest.mark.parametrize(
    ("raw", "version", "said"),
    [
        (
            job(master=False),
            "1.3",
            f"{ROOT}.Master: required: training-operator 1.3 makes no pods of a job without a Master",
        ),
        (job(workers=0, elasticPolicy={}), "1.9", f"{ROOT}.Worker: required beside elasticPolicy"),
        (job(nprocPerNode="2", elasticPolicy={"nProcPerNode": 2}), "1.9", "not allowed beside spec.nprocPerNode"),
        (job(elasticPolicy={"nProcPerNode": 2}), "1.7", "training-operator 1.7 crashes on it in a job with a Master"),
        ({**job(), "spec": {"pytorchReplicaSpecs": [], "elasticPolicy": {}}}, "1.9", f"{ROOT}.Worker: required beside"),
    ],
)
def test_faults_of_a_version(raw: dict[str, Any], version: str, said: str) -> None:
    """What one operator refuses, or dies of."""
    assert [line for line in problems(raw, version) if said in line]


@pytest.mark.parametrize(("version", "master"), [("1.7", False), ("1.8", True), ("1.6", True)])
def test_the_deprecated_field_where_it_does_no_harm(version: str, master: bool) -> None:
    """Only 1.7 falls over it, and only with a Master."""
    assert operator_.pods(job(master=master, elasticPolicy={"nProcPerNode": 2}), GENERATIONS[version])


def test_fields_that_an_operator_doesn_t_know_aren_t_checked() -> None:
    """Before 1.7 nprocPerNode is dropped, before 1.5 elasticPolicy: the note says so."""
    raw = job(nprocPerNode=4, elasticPolicy="x")
    assert operator_.pods(raw, GENERATIONS["1.3"])
    assert operator_.notes(raw, GENERATIONS["1.3"]) == [
        "spec.nprocPerNode: training-operator 1.3 doesn't know this field, and ignores it",
        "spec.elasticPolicy: training-operator 1.3 doesn't know this field, and ignores it",
    ]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (
            put(job(), "spec/nProcPerNode", "4"),
            "spec.nProcPerNode: unknown field, ignored (kubectl refuses it); do you mean nprocP",
        ),
        (put(job(), "spec/cleanPodPolicy", "All"), "spec.cleanPodPolicy: unknown field, ignored (kubectl refuses it)"),
        (put(job(), f"{MASTER}/replica", 1), f"{ROOT}.Master.replica: unknown field"),
        (
            job(elasticPolicy={"nprocPerNode": 1}),
            "spec.elasticPolicy.nprocPerNode: unknown field, ignored (kubectl refuses it); do",
        ),
        (put(job(), "spec/runPolicy", {"suspend": True}), "spec.runPolicy.suspend is true: there are no pods until"),
        (
            {**job(), "spec": {"pytorchReplicaSpecs": {"worker": replicas(container())}}},
            f"{ROOT}.worker: operators from 1.8 on refuse this spelling; write Worker",
        ),
    ],
)
def test_notes(raw: dict[str, Any], said: str) -> None:
    """What is odd, though there are pods."""
    assert operator_.pods(raw, NINE)
    (note,) = operator_.notes(raw, NINE)
    assert note.startswith(said)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wrong_with_jobs_that_ran(name: str) -> None:
    """No recorded job has a fault or an oddity under the newest operator."""
    assert operator_.pods(recorded_job(name), NINE)
    assert operator_.notes(recorded_job(name), NINE) == []


def test_no_env_value_in_a_message() -> None:
    """Faults of env entries name the entry, never its value."""
    entries = [{"name": "TOKEN", "value": [CANARY]}, {"value": CANARY}, CANARY, {"name": [CANARY]}]
    assert CANARY not in str(problems(put(job(), f"{FIRST}/env", entries)))


def test_fields_that_are_null() -> None:
    """A null is no field: YAML people write `env:` and nothing after it."""
    raw = put(job(), FIRST, container(env=[{"name": "A", "value": None}], ports=None, command=None))
    raw["spec"] |= {"nprocPerNode": None, "elasticPolicy": None, "runPolicy": None}
    (entry,) = (e for e in operator_.pods(raw, NINE)[0]["spec"]["containers"][0]["env"] if e["name"] == "A")
    assert entry == {"name": "A"}

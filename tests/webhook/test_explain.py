"""What is said of a job: the verdict on the recorded ones, and on each way to start, as a user would read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.support_jobs import CANARY, DATA, NAMES, container, job, recorded_job, replicas
from webhook import explain, operator_, verdict
from webhook.operator_job import GENERATIONS
from webhook.outlook import told
from webhook.policy import Mode, Policy

if TYPE_CHECKING:
    from webhook.explained import Job, Outlook

# Read and found right by a person, job by job; what changes here is to be read again.
VERDICTS = yaml.safe_load((DATA / "explained.yaml").read_text(encoding="utf-8"))
ROWS = [(version, name, *row) for version, rows in VERDICTS.items() for name, row in rows.items()]


def explained(raw: dict[str, Any], version: str = "1.9", policy: Policy | None = None) -> Job:
    return explain.explain(raw, GENERATIONS[version], policy or Policy())


def said(raw: dict[str, Any], version: str = "1.9") -> tuple[str, str, str]:
    """Headline, without and with rankfix."""
    found = explained(raw, version)["verdict"]
    return found["headline"], found["without"], found["repaired"]


def shell(text: str) -> list[str]:
    return ["sh", "-c", text]


@pytest.mark.parametrize(("version", "name", "headline", "without", "repaired"), ROWS)
def test_verdict_on_a_recorded_job(version: str, name: str, headline: str, without: str, repaired: str) -> None:
    """Each recorded job has the verdict that was found right for it."""
    assert said(recorded_job(name), version) == (headline, without, repaired)


def test_every_recorded_job_has_a_verdict() -> None:
    """None is left out, and each of three generations has been looked at."""
    assert set(VERDICTS) == {"1.3", "1.5", "1.9"}
    assert set(VERDICTS["1.9"]) == set(NAMES)


STUCK, FINE, OWN = (
    "broken, and rankfix can't repair it by itself",
    "works without rankfix, too",
    "left to its own reading",
)
N4: dict[str, Any] = {"nprocPerNode": "4"}
RUN = "torchrun --nproc_per_node=2"
CASES: list[tuple[dict[str, Any], str, str, str]] = [
    # what a launcher's own flags say
    (job([*RUN.split(), "--nnodes=1", "t.py"]), STUCK, "both pods train alone", "="),
    (job(["torchrun", "--nnodes=1", "t.py"], gpus=4), STUCK, "both pods train alone", "="),
    (job(["torchrun", "--nnodes=3", "t.py"]), STUCK, "waits for 3 nodes, and there are 2", "="),
    (job(["torchrun", "--nnodes=3", "t.py"], workers=0), STUCK, "waits for 3 nodes, and there is 1", "="),
    (job(["torchrun", "--nnodes=2", "t.py"], workers=2), OWN, "expects 2 of the 3 pods", "="),
    (job(["torchrun", "t.py"]), FINE, "nodes 0-1 of 2, each once", "="),
    (job(["torchrun", "t.py"], gpus="2"), FINE, "ranks 0-3 of 4, each once", "="),
    (job(["torchrun", "--nproc_per_node=gpu", "t.py"], gpus=3), FINE, "ranks 0-5 of 6, each once", "="),
    (job(["torchrun", "--nproc_per_node=$(PET_NPROC_PER_NODE)", "t.py"], **N4), FINE, "ranks 0-7 of 8, each once", "="),
    (job(["torchrun", "--nproc_per_node=$(SOME)", "t.py"]), FINE, "nodes 0-1 of 2, each once", "="),
    (job(["torchrun", "--standalone", *RUN.split()[1:], "t.py"]), STUCK, "both pods train alone", "="),
    (job(["torchrun", "--standalone", "t.py"], workers=0), "right as it is", "node 0 of 1", "="),
    (job(["torchrun", "--rdzv_backend=c10d", "t.py"]), FINE, "ranks are given out when its nodes have met", "="),
    (job(shell("torchrun --nnodes=$UNSET t.py")), OWN, "up to its launcher", "="),
    (job(shell("torchrun --nnodes=2 --node_rank=$((RANK+0)) t.py")), OWN, "up to its launcher", "="),
    (
        job([*RUN.split(), "--nnodes=2", "--node_rank=0", "t.py"]),
        "repaired",
        "of ranks 0-3, 0-1 come more than once and 2-3 never",
        "ranks 0-3 of 4, each once",
    ),
    (job(["python", "-m", "torch.distributed.launch", "--use_env", "t.py"]), FINE, "nodes 0-1 of 2, each once", "="),
    # programs
    (job(["python", "t.py"], workers=0), "right as it is", "rank 0 of 1", "="),
    (
        job(["python", "t.py", "--multiprocessing-distributed"], **N4),
        "repaired",
        "waits for 8 nodes, and there are 2",
        "ranks 0-7 of 8, each once",
    ),
    (job(["python", "t.py", "--multiprocessing-distributed"]), FINE, "nodes 0-1 of 2, each once", "="),
    (
        job(["python", "t.py", "--num_nodes=2"], **N4),
        "repaired",
        "counts nodes itself, and has no NODE_RANK",
        "ranks 0-7 of 8, each once",
    ),
    (job(["composer", "t.py"], workers=0, **N4), FINE, "ranks 0-3 of 4, each once", "="),
    (
        job(["deepspeed", "t.py"], annotations={"rankfix/mode": "process"}, **N4),
        "repaired",
        "both pods train alone",
        "ranks 0-7 of 8, each once",
    ),
    (job(shell("python t.py --shard $RANK"), **N4), "unclear, and needs a word from you", "up to its own script", "="),
    (job(shell("python t.py --shard $RANK")), OWN, "up to its own script", "="),
    (job(shell("python t.py ((")), OWN, "its shell text can't be read", "="),
    (
        job(shell("cd x && NNODES=$WORLD_SIZE swift sft"), **N4),
        "repaired",
        "waits for 8 nodes, and there are 2",
        "nodes 0-1 of 2, each once",
    ),
    (job(shell("NODE_RANK=$RANK swift sft")), OWN, "up to its launcher", "="),
    # asked for
    (
        job(["bash", "r.sh"], annotations={"rankfix/mode": "node"}, **N4),
        "repaired",
        "up to its own script",
        "ranks 0-7 of 8, each once",
    ),
    (job(["python", "t.py"], annotations={"rankfix/mode": "audit"}), "only audited", "ranks 0-1 of 2, each once", "="),
    (
        job(["python", "t.py"], annotations={"rankfix/mode": "audit"}, **N4),
        "only audited: would be repaired",
        "of ranks 0-7, 1-3 come more than once and 5-7 never",
        "ranks 0-7 of 8, each once",
    ),
    # no ranks
    (job(["torchrun", "t.py"], master=False, workers=2), STUCK, "looks for the master in its own pod", "="),
    (job(["python", "t.py"], master=False), OWN, "no RANK: alone in its pod, or an error", "="),
    (job(["swift", "sft", "--nnodes=$(WORLD_SIZE)"], master=False, workers=2), OWN, "up to its own script", "="),
    (
        job(["torchrun", "t.py"], workers=2, elasticPolicy={"minReplicas": 1, "maxReplicas": 3}),
        "right as it is",
        "ranks are given out when 1 to 3 nodes have met",
        "=",
    ),
]


@pytest.mark.parametrize(("raw", "headline", "without", "repaired"), CASES)
def test_verdict(raw: dict[str, Any], headline: str, without: str, repaired: str) -> None:
    """Each way to start has the verdict that its user would find right ("=": the same with rankfix)."""
    assert said(raw) == (headline, without, without if repaired == "=" else repaired)


OWN_RANKS = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": "x"}}} for name in ("RANK", "WORLD_SIZE")]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["python", "t.py"], "RANK or WORLD_SIZE isn't known before the pod runs"),
        (["python", "t.py", "--multiprocessing-distributed"], "RANK or WORLD_SIZE isn't known before the pod runs"),
        (["x", "--nnodes=$(WORLD_SIZE)"], "up to its own script"),
    ],
)
def test_ranks_from_elsewhere(command: list[str], text: str) -> None:
    """Where only the running pod knows, nothing is claimed."""
    raw = job(master=False)
    raw["spec"]["pytorchReplicaSpecs"]["Worker"] = replicas(container(command=command, env=OWN_RANKS))
    assert said(raw) == (OWN, text, text)
    (pod,) = explained(raw)["pods"]
    assert pod["reason"] == "value-from"
    assert pod["containers"][0]["env"][0] == {"name": "RANK", "before": None, "after": None}


def test_pods_that_start_in_different_ways() -> None:
    """A Master that trains by itself beside Workers that join is told as what it is."""
    raw = job(["python", "t.py"])
    raw["spec"]["pytorchReplicaSpecs"]["Master"] = replicas(container(command=["torchrun", "--nnodes=1", "t.py"]))
    assert said(raw)[1] == "its pods are started in different ways"


def test_twins_that_don_t_divide() -> None:
    """The trouble's own words say why nothing is done."""
    twin = [container("pytorch", command=["python", "t.py"]), container("b", command=["python", "t.py"])]
    raw = job(nprocPerNode="3")
    raw["spec"]["pytorchReplicaSpecs"] = {"Master": replicas(*twin), "Worker": replicas(*twin)}
    found = explained(raw)["pods"][0]["containers"][0]
    assert (found["reason"], found["why"]) == ("inconsistent", "3 processes per node in 2 equal containers")


def test_launcher_under_an_old_operator() -> None:
    """Without PET_* torchrun starts one process in each pod, by itself; rule A2 brings them together."""
    assert said(job(["torchrun", "t.py"]), "1.5") == ("repaired", "both pods train alone", "ranks 0-1 of 2, each once")


def test_other_env_values_stay_unsaid() -> None:
    """Of a user's variables neither name nor value is told, unless it is one of the rank's."""
    raw = job()
    raw["spec"]["pytorchReplicaSpecs"]["Master"] = replicas(container(env=[{"name": "TOKEN", "value": CANARY}]))
    assert CANARY not in str(explained(raw))
    assert "TOKEN" not in str(explained(raw))


def test_evidence_is_the_words_that_decided() -> None:
    """Its spans are those of the words, and a script that a shell runs is marked with it."""
    found = explained(job(["bash", "-x", "/opt/run.sh"]))["pods"][0]["containers"][0]["launch"]
    assert [(e["field"], e["index"], e["text"]) for e in found["evidence"]] == [
        ("command", 0, "bash"),
        ("command", 1, "-x"),
    ]
    found = explained(job(shell("torchrun --nnodes=$WORLD_SIZE t.py")))["pods"][0]["containers"][0]["launch"]
    assert [e["text"] for e in found["evidence"]] == ["$WORLD_SIZE"]
    found = explained(job(["python", "t.py", "--multiprocessing-distributed"]))["pods"][0]["containers"][0]["launch"]
    assert [e["text"] for e in found["evidence"]] == ["--multiprocessing-distributed", "python"]


def test_changed_words() -> None:
    """A word that changes has its place, what it was and what it is; new words have no before."""
    raw = job(["torchrun", "--nnodes=2", "--node_rank=0", "t.py"])
    master, worker = explained(raw)["pods"]
    assert master["containers"][0]["words"] == []
    change = {"field": "command", "index": 2, "before": "--node_rank=0", "after": "--node_rank=1"}
    assert worker["containers"][0]["words"] == [change]
    raw = job(["python", "t.py"], annotations={"rankfix/mode": "torchrun"})
    words = explained(raw)["pods"][0]["containers"][0]["words"]
    assert {word["before"] for word in words} == {None}
    assert [word["after"] for word in words][:2] == ["-m", "torch.distributed.run"]


@pytest.mark.parametrize("entrypoint", ["process", "leave"])
def test_settings_of_the_server_count(entrypoint: Any) -> None:
    """A server that leaves entrypoints alone is asked for in the same way."""
    found = explained(job(nprocPerNode="2"), policy=Policy(entrypoint=entrypoint))["verdict"]
    assert found["after"] == {"process": "works", "leave": "broken"}[entrypoint]


def outlook(first: int, last: int, world: int) -> Outlook:
    return told("ranks", "", (first, last, world))


@pytest.mark.parametrize(
    ("outlooks", "word", "text"),
    [
        ([], "unknown", "nothing in it trains"),
        ([outlook(0, 0, 2), outlook(1, 1, 3)], "broken", "its pods disagree on how many ranks there are"),
        ([outlook(0, 0, 2_000_000)], "unknown", "more ranks than are looked at"),
        ([outlook(0, 0, 2)], "broken", "of ranks 0-1, 1 never"),
        ([outlook(0, 0, 3), outlook(0, 0, 3)], "broken", "of ranks 0-2, 0 comes more than once and 1-2 never"),
        ([outlook(0, 1, 2), outlook(1, 1, 2)], "broken", "rank 1 comes more than once"),
        ([outlook(0, 2, 2)], "broken", "ranks up to 2 in a world of 2"),
        ([outlook(k * 2, k * 2, 12) for k in range(6)], "broken", "of ranks 0-11, 1, 3, 5, 7, ... never"),
        ([told("alone", "x")] * 3, "broken", "all 3 pods train alone"),
    ],
)
def test_together(outlooks: list[Outlook], word: str, text: str) -> None:
    """Ranks are counted: each once, or which of them aren't."""
    assert verdict.together(outlooks) == (word, text)


def test_a_job_that_the_operator_refuses() -> None:
    """It has no pods, so nothing is explained."""
    with pytest.raises(operator_.BadJob, match="a whole number in quotes"):
        explained(job(nprocPerNode="four"))


def test_off_and_left_out() -> None:
    """Neither has a rule; each says which annotation did it."""
    found = explained(job(["python", "t.py"], annotations={"rankfix/mode": "off"}))
    assert found["verdict"]["headline"] == "left alone, as it asks"
    assert found["pods"][0]["containers"][0]["why"] == "rankfix/mode: off asks to leave it alone"
    left = explained(recorded_job("ask-containers"))["pods"][0]["containers"][1]
    assert (left["managed"], left["why"]) == (False, "the annotation rankfix/containers leaves it out")
    assert left["processes"]["before"]["text"] == "left out"


def test_a_server_that_only_audits_says_what_it_would_refuse() -> None:
    """Default mode audit denies nothing."""
    found = explained(recorded_job("ask-bad-n"), policy=Policy(default_mode=Mode.AUDIT))
    assert found["pods"][0]["allowed"]
    assert found["pods"][0]["containers"][0]["why"] == "left as it is"

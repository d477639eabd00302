"""F1, F2, W1: one word of a command, or a launcher in front of it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support_core import MODERN, OLD, Job, after, answer, env_of, flag, launched, start, word
from webhook.launch import Insertion, Launch, Span
from webhook.policy import Mode, Policy

WORDS = ("-m", "torch.distributed.launch", "--nnodes=2", "--node_rank=0", "--master_addr=$(MASTER_ADDR)", "t.py")
FIXED = Job(command=("python",), args=WORDS)


def args_after(raw: dict[str, Any], launch: Launch) -> Any:
    """The args once an answer is applied."""
    return after(raw, launch=launch)["spec"]["containers"][0]["args"]


def fixed(raw: dict[str, Any], cls: str = "launcher-fixed", **flags: Any) -> Launch:
    """The launch of `FIXED`'s command, with other flags."""
    given = {
        "node_count": flag("2", word(raw, "--nnodes=2", "2")),
        "node_rank": flag("0", word(raw, "--node_rank=0", "0")),
        "master_addr": flag(None, word(raw, "--master_addr=$(MASTER_ADDR)", "$(MASTER_ADDR)"), ["MASTER_ADDR"]),
    }
    return launched(cls, start(**(given | flags)))


@pytest.mark.parametrize("k", [0, 1])
def test_a_fixed_rank_becomes_the_pods(k: int) -> None:
    """F1: one template for all pods; each gets its own rank, and the one that is right stays."""
    raw = FIXED.pod(k)
    assert args_after(raw, fixed(raw))[3] == f"--node_rank={k}"
    assert ("F1" in answer(raw, launch=fixed(raw)).rules) is (k == 1)


@pytest.mark.parametrize(
    "flags",
    [
        {"node_count": flag("3")},
        {"node_count": flag("1")},
        {"node_count": None},
        {"node_count": flag(feeds=["PET_NNODES"])},
        {"node_rank": None},
        {"node_rank": flag(feeds=["OTHER"])},
        {"node_rank": flag("zero")},
        {"node_rank": flag("0", None)},
        {"node_rank": flag("0", Span("args", 99, 0, 1))},
        {"node_rank": flag("0", Span("args", 3, 12, 99))},
        {"node_rank": flag("0", Span("command", 0, 3, 2))},
        {"node_rank": flag("0", Span("lifecycle", 0, 0, 1))},
        {"dynamic": True},
        {"master_addr": flag("10.0.0.1")},
        {"master_addr": flag(feeds=["OTHER"])},
        {"master_addr": flag(feeds=["MASTER_ADDR", "OTHER"])},
        {"master_addr": flag(feeds=["KUBERNETES_SERVICE_HOST"])},
    ],
)
def test_a_rank_that_isnt_certain_stays(flags: dict[str, Any]) -> None:
    """F1 wants a literal count that is P, a literal rank, a static rendezvous, and the job's own master."""
    raw = FIXED.pod()
    given = answer(raw, launch=fixed(raw, **flags))
    assert "F1" not in given.rules
    assert not any("/args" in operation["path"] for operation in given.patch)


def test_no_master_address_is_the_jobs() -> None:
    """Without `--master_addr` the launcher finds PET_MASTER_ADDR, so F1 holds."""
    raw = FIXED.pod()
    assert "F1" in answer(raw, launch=fixed(raw, master_addr=None)).rules


@pytest.mark.parametrize("cls", ["launcher", "launcher-env", "reads-rank", "hidden"])
def test_f1_is_for_fixed_launchers(cls: str) -> None:
    """Other classes keep their words."""
    raw = FIXED.pod()
    assert "F1" not in answer(raw, launch=fixed(raw, cls)).rules


@pytest.mark.parametrize(("backend", "fires"), [("c10d", False), ("etcd", False), ("static", True), ("", True)])
def test_a_dynamic_rendezvous_gives_out_ranks(backend: str, *, fires: bool) -> None:
    """F1 stays out where PET_RDZV_BACKEND makes the flag mean nothing."""
    raw = FIXED.but(env=({"name": "PET_RDZV_BACKEND", "value": backend},)).pod()
    assert ("F1" in answer(raw, launch=fixed(raw)).rules) is fires


def test_one_pod_keeps_its_rank() -> None:
    """A job of one pod has no ranks to give out."""
    raw = FIXED.but(pods=1).pod(0)
    assert "F1" not in answer(raw, launch=fixed(raw, node_rank=flag("3", Span("args", 3, 12, 13)))).rules


def test_a_shared_place_is_edited_once() -> None:
    """A function that is called twice has its flag in one place."""
    raw = FIXED.pod()
    (one,) = fixed(raw).launchers
    assert args_after(raw, launched("launcher-fixed", one, one))[3] == "--node_rank=1"


API = "--master_addr=$(KUBERNETES_SERVICE_HOST)"


def wrong(nnodes: str, pods: int = 2, **changes: Any) -> tuple[dict[str, Any], Launch]:
    """A pod whose launcher waits at the API server, and its launch."""
    args = ("-m", "torch.distributed.launch", f"--nnodes={nnodes}", "--node_rank=0", API, "t.py")
    raw = Job(command=("python",), args=args, pods=pods, **changes).pod(pods - 1)
    address = flag(None, word(raw, API, "$(KUBERNETES_SERVICE_HOST)"), ["KUBERNETES_SERVICE_HOST"])
    count, rank = flag(nnodes, word(raw, f"--nnodes={nnodes}", nnodes)), flag("0", word(raw, "--node_rank=0", "0"))
    return raw, launched("launcher-fixed", start(node_count=count, node_rank=rank, master_addr=address))


@pytest.mark.parametrize(
    ("nnodes", "pods", "words", "rules"),
    [
        ("1", 1, ["--nnodes=1", "--node_rank=0"], ("F2",)),
        ("1", 2, ["--nnodes=2", "--node_rank=1"], ("A1", "F1", "F2")),
        ("2", 2, ["--nnodes=2", "--node_rank=1"], ("A1", "F1", "F2")),
        ("4", 2, ["--nnodes=4", "--node_rank=0"], ("A1", "F2")),
    ],
)
@pytest.mark.parametrize("operator", ["1.3", "1.9"])
def test_the_api_server_is_no_master(
    nnodes: str, pods: int, words: list[str], rules: tuple[str, ...], operator: str
) -> None:
    """F2: the address becomes the job's, `--nnodes=1` in a job of several pods becomes P, and F1 follows."""
    raw, launch = wrong(nnodes, pods, operator=operator)
    assert args_after(raw, launch)[2:5] == [*words, "--master_addr=$(MASTER_ADDR)"]
    assert answer(raw, launch=launch).rules == rules


def test_f2_in_a_shell_text() -> None:
    """The value in a shell's text becomes kubelet's `$(MASTER_ADDR)`, and everything around it stays."""
    text = 'torchrun --master_addr="$KUBERNETES_SERVICE_HOST" t.py # é'
    raw = Job(command=("bash", "-c"), args=(text,)).pod()
    at = text.index("$KUBE")
    span = Span("args", 0, at, at + len("$KUBERNETES_SERVICE_HOST"))
    launch = launched("launcher", start(master_addr=flag(None, span, ["KUBERNETES_SERVICE_HOST"])))
    assert args_after(raw, launch) == ['torchrun --master_addr="$(MASTER_ADDR)" t.py # é']


@pytest.mark.parametrize("drop", ["MASTER_ADDR", None])
def test_f2_needs_a_master_and_a_place(drop: str | None) -> None:
    """Without MASTER_ADDR in the env, or where the value's place isn't certain, nothing changes."""
    raw, launch = wrong("1", 1)
    container = raw["spec"]["containers"][0]
    if drop is None:
        address = flag(None, None, ["KUBERNETES_SERVICE_HOST"])
        launch = launched("launcher-fixed", start(master_addr=address))
    container["env"] = [entry for entry in container["env"] if entry["name"] != drop]
    assert "F2" not in answer(raw, launch=launch).rules


TORCHRUN = {"mode": "torchrun"}
FLAGS = "--nnodes=2 --node_rank=1 --nproc_per_node={} --master_addr=$(MASTER_ADDR) --master_port=$(MASTER_PORT)"


def wrapped_words(job: Job, policy: Policy | None = None) -> str:
    """Command and args of a pod once it is mutated, as one text."""
    container = after(job.pod(), policy)["spec"]["containers"][0]
    return " ".join([*container.get("command", []), *container.get("args", [])])


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (MODERN, "python -m torch.distributed.run {4} train.py"),
        (OLD, "python -m torch.distributed.run {1} train.py"),
        (OLD.but(gpus=8), "python -m torch.distributed.run {auto} train.py"),
        (MODERN.but(gpus=8), "python -m torch.distributed.run {4} train.py"),
        (
            MODERN.but(command=("python3", "-u", "-m", "pkg.train", "-m", "x")),
            "python3 -u -m torch.distributed.run {4} -m pkg.train -m x",
        ),
        (MODERN.but(command=("python",), args=("t.py", "--lr=1")), "python -m torch.distributed.run {4} t.py --lr=1"),
        (
            MODERN.but(command=("bash", "-c", "pip install x && python -u train.py --lr 1")),
            "bash -c pip install x && python -u -m torch.distributed.run {4} train.py --lr 1",
        ),
    ],
)
def test_torchrun_goes_before_the_script(job: Job, words: str) -> None:
    """W1: the launcher's module and its flags go between python and its script, in exec form and in a shell's text."""
    expected = re.sub(r"\{(\w+)\}", lambda match: FLAGS.format(match[1]), words)
    assert wrapped_words(job.but(ask=TORCHRUN)) == expected


@pytest.mark.parametrize(
    ("job", "rules", "status"),
    [
        (MODERN, ("C1", "W1"), "process"),
        (OLD, ("C1", "W1"), "process"),
        (OLD.but(gpus=8), ("W1",), "arguments"),
    ],
)
def test_torchrun_gets_the_process_contract(job: Job, rules: tuple[str, ...], status: str) -> None:
    """The env gets the process contract, except where the launcher is left to count the GPUs."""
    given = answer(job.but(ask=TORCHRUN).pod())
    assert (given.rules, given.status) == (rules, status)


@pytest.mark.parametrize("job", [MODERN, OLD, OLD.but(gpus=8), Job(master=False), Job(names=("pytorch", "pytorch-1"))])
def test_a_wrapped_command_stays(job: Job) -> None:
    """A second call sees its own work, also once Katib has put it into a shell."""
    result = after(job.but(ask=TORCHRUN).pod())
    assert answer(result).patch == []
    container = result["spec"]["containers"][0]
    text = " ".join([*container.pop("command"), *container.pop("args", [])])
    log = "1>/var/log/katib/metrics.log 2>&1 && echo completed > /var/log/katib/$$$$.pid"
    container["command"], container["args"] = ["sh", "-c"], [f"{text} {log}"]
    assert answer(result).patch == []


def test_twins_are_nodes_of_torchruns_own() -> None:
    """Each twin is told its own node of P * t."""
    raw = Job(names=("pytorch", "pytorch-1")).but(ask=TORCHRUN).pod()
    words = [container["command"] for container in after(raw)["spec"]["containers"]]
    assert [word_[3:6] for word_ in words] == [
        ["--nnodes=4", "--node_rank=2", "--nproc_per_node=1"],
        ["--nnodes=4", "--node_rank=3", "--nproc_per_node=1"],
    ]


@pytest.mark.parametrize(
    "command",
    [
        ("bash", "run.sh"),
        ("torchrun", "train.py"),
        ("python", "-c", "print()"),
        ("bash", "-c", "torchrun --node_rank=$RANK --nnodes=$WORLD_SIZE train.py"),
        ("deepspeed", "train.py"),
        None,
    ],
)
def test_torchrun_needs_a_python_script(command: tuple[str, ...] | None) -> None:
    """Elsewhere, and where python runs text, it can't be obeyed; a server's default falls to auto."""
    given = answer(MODERN.but(command=command, ask=TORCHRUN).pod())
    assert (given.allowed, given.reason) == (False, "denied")
    assert 'annotation rankfix/mode is "torchrun"' in str(given.message)
    by_default = answer(MODERN.but(command=command).pod(), Policy(default_mode=Mode.TORCHRUN))
    assert by_default.patch == answer(MODERN.but(command=command).pod()).patch


def test_torchrun_as_a_default_wraps_what_it_fits() -> None:
    """A server's default of `torchrun` is obeyed where the command is a python script."""
    assert answer(MODERN.pod(), Policy(default_mode=Mode.TORCHRUN)).rules == ("C1", "W1")


def test_torchrun_leaves_other_containers_alone() -> None:
    """It means the main container and its twins, or those that `rankfix/containers` names."""
    job = MODERN.but(names=("pytorch", "evaluator"), ask=TORCHRUN)
    raw = job.pod()
    raw["spec"]["containers"][1]["command"] = ["python", "evaluate.py"]
    result = after(raw)
    assert result["spec"]["containers"][1] == raw["spec"]["containers"][1]
    raw["metadata"]["annotations"]["rankfix/containers"] = "pytorch,evaluator"
    assert after(raw)["spec"]["containers"][1]["command"][1] == "-m"
    raw["spec"]["containers"][1]["command"] = ["bash", "run.sh"]
    assert answer(raw).allowed is False


def test_torchrun_needs_a_master() -> None:
    """A job of workers gets its first worker as master; one without a name can't have any."""
    raw = Job(master=False).but(ask=TORCHRUN).pod()
    assert env_of(after(raw))["MASTER_ADDR"] == "job-worker-0"
    raw["metadata"]["ownerReferences"][0]["name"] = ""
    assert answer(raw).allowed is False


def test_an_insertion_is_where_the_launch_says() -> None:
    """The place is the classifier's; the words are ours."""
    raw = MODERN.but(command=("x", "y", "z"), ask=TORCHRUN).pod()
    launch = launched("python", wrap=Insertion("command", 2, None))
    assert after(raw, launch=launch)["spec"]["containers"][0]["command"][:4] == [
        "x",
        "y",
        "-m",
        "torch.distributed.run",
    ]

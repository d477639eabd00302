"""The decision on a pod: modes, denials, reasons, result annotations, and what a second call sees."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support_core import MODERN, OLD, Job, after, answer, entries, env_of, katib, launched, notes_of, start
from webhook import pod
from webhook.decide import decide
from webhook.launch import Fed
from webhook.mutate import patched
from webhook.policy import Mode, Policy, Reason

RESULTS = ("status", "rules", "ranks", "reason")
COUNTS = (Fed("node_count", "nnodes", "WORLD_SIZE", None),)


def results(raw: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """The result annotations once an answer is applied."""
    return {key: value for key, value in notes_of(after(raw, **kwargs)).items() if key in RESULTS}


@pytest.mark.parametrize(
    ("job", "launch", "written"),
    [
        (MODERN, launched("python"), {"status": "process", "rules": "C1", "ranks": "k=1 P=2 N=4 ranks=4-7/8"}),
        (OLD, launched("python"), {"status": "environment", "rules": "A1", "ranks": "k=1 P=2 ranks=1-1/2"}),
        (
            MODERN,
            launched("launcher-env", fed=COUNTS),
            {"status": "node", "rules": "C2", "ranks": "k=1 P=2 N=4 ranks=1-1/2"},
        ),
        (
            MODERN,
            launched("hidden"),
            {"status": "environment", "rules": "A1", "ranks": "k=1 P=2 N=4 ranks=1-1/8", "reason": "unclear-launch"},
        ),
        (
            OLD,
            launched("launcher", start()),
            {"status": "environment", "rules": "A1,A2", "ranks": "k=1 P=2 ranks=1-1/2"},
        ),
        (Job(pods=1), launched("python"), {"status": "unchanged", "reason": "already-right"}),
        (Job(master=False), launched("python"), {"status": "unchanged", "reason": "no-rank-env"}),
        (Job(master=False, elastic="1:3"), launched("launcher"), {"status": "unchanged", "reason": "elastic"}),
        (
            Job(names=("pytorch", "pytorch-1")),
            launched("python"),
            {"status": "process", "rules": "T1", "ranks": "k=1 P=2 N=2 ranks=2-3/4"},
        ),
        (
            OLD.but(ask={"mode": "process"}),
            launched("hidden"),
            {"status": "process", "rules": "C1", "ranks": "k=1 P=2 N=1 ranks=1-1/2"},
        ),
        (OLD.but(ask={"mode": "off"}), launched("python"), {}),
        (
            MODERN.but(ask={"mode": "audit"}),
            launched("python"),
            {"status": "would-change", "rules": "C1", "ranks": "k=1 P=2 N=4 ranks=4-7/8", "reason": "audit"},
        ),
        (
            Job(pods=1).but(ask={"mode": "audit"}),
            launched("python"),
            {"status": "unchanged", "reason": "already-right"},
        ),
    ],
)
def test_the_result_is_written_on_the_pod(job: Job, launch: Any, written: dict[str, str]) -> None:
    """What the job's owner sees without asking: status, rules, ranks, and the reason where it isn't `patched`."""
    raw = job.pod(job.pods - 1)
    assert results(raw, launch=launch) == written


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ({**MODERN.pod(), "metadata": {}}, Reason.NOT_OURS),
        (MODERN.but(ask={"mode": "off"}).pod(), Reason.OFF),
        (MODERN.but(ask={"mode": "off", "nproc_per_node": "many", "typo": "x"}).pod(), Reason.OFF),
        (MODERN.but(ask={"mode": "audit"}).pod(), Reason.AUDIT),
        (Job(master=False, elastic="1:3").pod(), Reason.ELASTIC),
        (Job(master=False).pod(), Reason.NO_RANK_ENV),
        (MODERN.pod(), Reason.PATCHED),
        (Job(pods=1).pod(0), Reason.ALREADY_RIGHT),
        (MODERN.but(command=("bash", "run.sh")).pod(), Reason.UNCLEAR_LAUNCH),
        (MODERN.but(ask={"mode": "x"}).pod(), Reason.DENIED),
        ({**MODERN.pod(), "spec": None}, Reason.NO_RANK_ENV),
        ({**MODERN.pod(), "spec": {"containers": []}}, Reason.NO_RANK_ENV),
    ],
)
def test_reasons(raw: dict[str, Any], reason: Reason) -> None:
    """Each outcome has its reason from the closed set."""
    assert answer(raw).reason is reason


@pytest.mark.parametrize(
    "ask",
    [
        {"mode": "proces"},
        {"nproc_per_node": "many"},
        {"nproc_per_node": "gpu"},
        {"containers": "nobody"},
        {"init_containers": "yes"},
        {"nprocs": "2"},
        {"mode": "torchrun", "nproc_per_node": "0"},
    ],
)
def test_a_typo_is_denied(ask: dict[str, str]) -> None:
    """The denial names the annotation, its value, what is allowed, and the job; the pod gets no patch."""
    given = answer(MODERN.but(ask=ask).pod())
    key, value = list(ask.items())[-1]
    assert (given.allowed, given.reason, given.patch) == (False, Reason.DENIED, [])
    for part in (f"rankfix/{key.replace('_', '-')}", value, "allowed", "PyTorchJob job"):
        assert part in str(given.message)


@pytest.mark.parametrize(
    ("job", "mode"),
    [
        *((Job(master=False, elastic="1:3"), mode) for mode in ("process", "node", "torchrun")),
        *((Job(master=False, operator="1.6"), mode) for mode in ("process", "node", "torchrun")),
        (Job(pods=3, elastic="1:2"), "process"),
    ],
)
def test_a_contract_without_known_ranks_is_denied(job: Job, mode: str) -> None:
    """Where nobody knows the ranks before the pods run, a job that asks for them can't be served."""
    given = answer(job.but(ask={"mode": mode}).pod())
    assert (given.allowed, given.reason) == (False, Reason.DENIED)
    assert f'rankfix/mode is "{mode}"' in str(given.message)
    by_default = answer(job.pod(), Policy(default_mode=Mode(mode)))
    assert (by_default.allowed, by_default.env) == (True, ())
    assert by_default.reason in {Reason.ELASTIC, Reason.NO_RANK_ENV}


@pytest.mark.parametrize("ask", [{"mode": "x"}, {"nproc_per_node": "x"}, {"x": "y"}])
def test_a_server_that_audits_denies_nothing(ask: dict[str, str]) -> None:
    """It says what it would have denied, on the pod and in a warning."""
    given = answer(MODERN.but(ask=ask).pod(), Policy(default_mode=Mode.AUDIT))
    assert (given.allowed, given.reason, given.status, given.env) == (True, Reason.AUDIT, "unchanged", ())
    assert "would deny this pod: annotation rankfix/" in given.warnings[0]


def test_a_job_that_asks_is_denied_under_an_auditing_server_too() -> None:
    """Who sets a mode by name wants its annotations obeyed."""
    policy = Policy(default_mode=Mode.AUDIT)
    assert answer(MODERN.but(ask={"mode": "auto", "nproc_per_node": "x"}).pod(), policy).allowed is False
    assert answer(MODERN.but(ask={"mode": "audit", "nproc_per_node": "x"}).pod(), policy).allowed is False


@pytest.mark.parametrize(("by", "default"), [({"mode": "audit"}, Mode.AUTO), ({}, Mode.AUDIT)])
def test_audit_only_tells(by: dict[str, str], default: Mode) -> None:
    """`audit` decides as `auto`, writes annotations only, and warns of what it would do."""
    raw = MODERN.but(ask=by).pod()
    given = answer(raw, Policy(default_mode=default))
    assert all(operation["path"].startswith("/metadata/annotations") for operation in given.patch)
    assert (given.rules, given.env[0]) == (("C1",), "RANK")
    assert given.warnings[0].startswith("rankfix audit: would apply C1 (env RANK, ")


def test_audit_tells_of_init_containers_too() -> None:
    """I1 is among what would change."""
    raw = MODERN.but(ask={"mode": "audit", "init_containers": "true"}).pod()
    raw["spec"]["initContainers"] = [{"name": "fetch"}]
    assert answer(raw).rules == ("C1", "I1")


def test_the_pods_mode_beats_the_servers() -> None:
    """A default is for pods that don't ask."""
    raw = MODERN.but(ask={"mode": "auto"}).pod()
    assert answer(raw, Policy(default_mode=Mode.OFF)).reason is Reason.PATCHED
    assert answer(MODERN.pod(), Policy(default_mode=Mode.NODE)).rules == ("C2",)
    assert answer(MODERN.but(ask={"mode": "off"}).pod(), Policy(default_mode=Mode.PROCESS)).reason is Reason.OFF


def test_containers_narrow_the_set() -> None:
    """Only the named containers change, and the first of them speaks for the pod if `pytorch` isn't named."""
    job = MODERN.but(names=("pytorch", "evaluator"))
    raw = job.but(ask={"containers": "evaluator"}).pod()
    result = after(raw)
    assert env_of(result)["RANK"] == "1"
    assert (env_of(result, "evaluator")["RANK"], notes_of(result)["status"]) == ("4", "process")


def test_containers_may_name_one_that_isnt_managed() -> None:
    """A container without the operator's env is in the pod, but there is nothing in it to change."""
    raw = MODERN.but(ask={"containers": "side"}).pod()
    raw["spec"]["containers"].append({"name": "side", "command": ["python", "x.py"]})
    given = answer(raw)
    assert (given.reason, given.env, given.warnings) == (Reason.NO_RANK_ENV, (), ())


def test_each_container_is_judged_by_its_own_command() -> None:
    """The status speaks of `pytorch`, wherever it stands; the rules are all that fired."""
    raw = MODERN.but(names=("side", "pytorch")).pod()
    raw["spec"]["containers"][0]["command"] = ["bash", "run.sh"]
    given = answer(raw)
    assert (given.rules, given.status, given.classes) == (("C1", "A1"), "process", ("hidden", "python"))
    assert given.warnings == ()


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (MODERN.but(command=("bash", "run.sh")).pod(), "set rankfix/mode"),
        (Job(master=False).pod(), "set rankfix/mode: process"),
        (Job(master=False, operator="1.6").pod(), "add a Master"),
        (Job(command=("torchrun", "--standalone", "t.py")).pod(), "--standalone"),
        (Job(command=("deepspeed", "t.py")).pod(), "deepspeed without a hostfile"),
        (Job(nproc="4", gpus=8).pod(), "8 GPUs for 4 processes"),
        (Job(gpus=8, command=("torchrun", "--nproc_per_node=4", "t.py")).pod(), "8 GPUs for 4 processes"),
        (Job(command=("torchrun", "--nproc_per_node=4", "t.py", "--rank", "0")).pod(), "--rank after"),
        (Job(gpus=2, command=("torchrun", "--nproc_per_node=gpu", "t.py", "--rank", "0")).pod(), "--rank after"),
        (Job(gpus=3, names=("pytorch", "pytorch-1"), nproc="4").pod(), "3 GPUs for 2 processes"),
        (OLD.but(command=("bash", "run.sh"), ask={"nproc_per_node": "4"}).pod(), "set rankfix/mode"),
    ],
)
def test_the_user_hears_what_only_the_user_can_change(raw: dict[str, Any], says: str) -> None:
    """Each finding of the contract's last list is a warning, and changes nothing by itself."""
    assert any(says in warning for warning in answer(raw).warnings)


@pytest.mark.parametrize(
    "raw",
    [
        MODERN.pod(),
        OLD.pod(),
        Job(gpus=8).pod(),
        OLD.but(command=("bash", "run.sh")).pod(),
        Job(pods=1, nproc="4", command=("bash", "run.sh")).pod(0),
        Job(master=False, command=("torchrun", "t.py")).pod(),
        Job(master=False, elastic="1:3").pod(),
        Job(pods=1, command=("torchrun", "--standalone", "t.py")).pod(0),
        Job(pods=1, command=("deepspeed", "t.py")).pod(0),
        Job(gpus=8, command=("torchrun", "--nproc_per_node=8", "t.py")).pod(),
        Job(gpus=8, command=("torchrun", "--nproc_per_node=gpu", "t.py")).pod(),
        Job(command=("torchrun", "t.py", "--rank", "0")).pod(),
        Job(nproc="4", gpus=4).pod(),
        MODERN.but(command=("bash", "-c", "unset RANK; bash run.sh")).pod(),
        Job(master=False, operator="1.6", command=("torchrun", "t.py")).pod(),
    ],
)
def test_who_has_nothing_to_do_hears_nothing(raw: dict[str, Any]) -> None:
    """A warning is only for what the user should act on."""
    assert answer(raw).warnings == ()


@pytest.mark.parametrize(
    ("launch", "unclear"),
    [
        (launched("launcher-env", unread_file=True), True),
        (launched("launcher-env", unread_file=True, node_count_in_sight=True), False),
        (launched("launcher-env"), False),
        (launched("reads-rank"), True),
        (launched("hidden"), True),
        (launched("hidden", parse_error=True), True),
        (launched("hidden", unsets=True), False),
        (launched("launcher", start(), only_launchers=False), False),
        (launched("python"), False),
    ],
)
def test_an_unclear_launch(launch: Any, *, unclear: bool) -> None:
    """Where the pair stays half and half, and nothing tells which half the command wants, that is the reason."""
    assert (answer(MODERN.pod(), launch=launch).reason is Reason.UNCLEAR_LAUNCH) is unclear
    assert answer(Job().pod(), launch=launch).reason is not Reason.UNCLEAR_LAUNCH


def test_an_entrypoint_that_is_left_is_unclear() -> None:
    """With `entrypoint=leave` the image is as hidden as a script."""
    given = answer(MODERN.but(command=None).pod(), Policy(entrypoint="leave"))
    assert given.reason is Reason.UNCLEAR_LAUNCH


JOBS = [
    MODERN,
    OLD,
    Job(pods=1),
    MODERN.but(command=("torchrun", "t.py")),
    OLD.but(command=("torchrun", "t.py")),
    OLD.but(ask={"nproc_per_node": "4"}),
    OLD.but(ask={"nproc_per_node": "master=1,worker=3"}),
    OLD.but(ask={"mode": "node"}),
    OLD.but(ask={"mode": "process", "nproc_per_node": "2"}),
    Job(names=("pytorch", "pytorch-1")),
    Job(names=("pytorch", "pytorch-1"), nproc="2"),
    OLD.but(names=("pytorch", "pytorch-1")),
    Job(pods=3, elastic="2:2", command=("torchrun", "t.py")),
    Job(pods=3, elastic="2:2", operator="1.6", command=("torchrun", "t.py")),
    Job(master=False).but(ask={"mode": "process"}),
    Job(master=False).but(ask={"mode": "node"}),
    MODERN.but(command=("bash", "-c", "torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK t.py")),
    MODERN.but(command=("bash", "run.sh")),
    MODERN.but(command=("python", "-m", "torch.distributed.launch", "--nnodes=2", "--node_rank=0", "t.py")),
    MODERN.but(ask={"mode": "audit"}),
    MODERN.but(ask={"mode": "torchrun"}),
    OLD.but(names=("a", "b")),
]


@pytest.mark.parametrize("job", JOBS)
def test_a_second_call_changes_nothing(job: Job) -> None:
    """Our own output needs no patch, annotations included; nor does it once Katib has been there."""
    for raw in job.all_pods():
        result = after(raw)
        assert answer(result).patch == []
        assert answer(katib(result)).patch == []
        result["spec"]["containers"].insert(0, {"name": "istio-proxy", "env": entries({"X": "1"})})
        result["spec"]["containers"][1]["env"].insert(0, {"name": "FIRST", "value": "$(RANK)"})
        assert answer(result).patch == []


@pytest.mark.parametrize("job", [job for job in JOBS if len(job.names) == 1])
def test_the_order_of_the_webhooks_doesnt_matter_to_the_ranks(job: Job) -> None:
    """A pod that Katib wrapped before our first call gets the pair that it would have got unwrapped."""
    for raw in job.all_pods():
        mine, theirs = (env_of(result, job.names[0]) for result in (after(raw), after(katib(raw))))
        assert [theirs.get(name) for name in ("RANK", "WORLD_SIZE")] == [
            mine.get(name) for name in ("RANK", "WORLD_SIZE")
        ]


def test_a_container_that_comes_later_is_served() -> None:
    """No mark keeps a second call from a container with the operator's env; the earlier results are added to."""
    result = after(MODERN.pod())
    result["spec"]["containers"].append(MODERN.but(command=("bash", "run.sh")).container(1, "late"))
    again = after(result)
    assert env_of(again, "late")["NODE_RANK"] == "1"
    assert notes_of(again) == {"status": "process", "rules": "C1,A1", "ranks": "k=1 P=2 N=4 ranks=4-7/8"}
    assert answer(again).patch == []


def test_a_later_container_leaves_the_status_of_a_main_one_that_has_nothing_to_change() -> None:
    """A1 is out of sight once it has fired, and its status stays."""
    result = after(OLD.pod())
    result["spec"]["containers"].append(OLD.but(command=("torchrun", "x.py")).container(1, "late"))
    assert notes_of(after(result)) == {"status": "environment", "rules": "A1,A2", "ranks": "k=1 P=2 ranks=1-1/2"}


def test_results_that_a_template_brought_along_are_overwritten() -> None:
    """A user who copies a pod's annotations into the template gets this pod's results, without leftovers."""
    copied = {"status": "process", "rules": "C1,evil", "ranks": "k=0 P=2 N=4 ranks=0-3/8", "reason": "elastic"}
    for job in (MODERN, OLD, Job(pods=1)):
        raw = job.pod(job.pods - 1)
        assert results(job.but(ask=copied).pod(job.pods - 1)) == results(raw)


LOOKS_WRAPPED = ("torchrun", "--nnodes=2", "--node_rank=0", "--master_addr=$(KUBERNETES_SERVICE_HOST)", "train.py")


def test_a_command_that_was_mended_into_one_of_ours() -> None:
    """On a server whose default is `torchrun`, what went by `auto` at first goes by it ever after."""
    policy = Policy(default_mode=Mode.TORCHRUN)
    for raw in OLD.but(command=LOOKS_WRAPPED).all_pods():
        first = answer(raw, policy)
        assert "F2" in first.rules
        assert answer(patched(raw, first.patch), policy).patch == []


@pytest.mark.parametrize(
    "own",
    [
        {"name": "WORLD_SIZE", "value": "0"},
        {"name": "PET_NNODES", "value": "7"},
        {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "x"}}},
        {"name": "PET_NPROC_PER_NODE", "value": "5"},
    ],
)
@pytest.mark.parametrize("ask", [{}, {"mode": "process"}])
def test_containers_with_worlds_of_their_own_are_no_twins(own: dict[str, Any], ask: dict[str, str]) -> None:
    """Nor do they become twins by what rankfix writes into both."""
    raw = MODERN.but(names=("pytorch", "pytorch-1"), ask=ask).pod(1)
    raw["spec"]["containers"][1]["env"].append(own)
    first = answer(raw)
    assert "T1" not in first.rules
    assert answer(patched(raw, first.patch)).patch == []


def test_init_containers_of_others_are_no_news_in_an_audit() -> None:
    """One that comes between two calls isn't what I1 would have changed."""
    raw = Job(pods=1, nproc="1").but(ask={"mode": "audit", "init_containers": "true"}).pod(0)
    result = after(raw)
    result["spec"]["initContainers"] = [{"name": "istio-init"}]
    assert answer(result).patch == []


def test_a_job_of_no_pods() -> None:
    """A world of nobody in one container, which our own results then repeat, stops nothing in the others."""
    raw = Job(operator="0.7", pods=1, names=("side", "pytorch")).but(ask={"mode": "process"}).pod(0)
    raw["spec"]["containers"][1]["env"] += entries({"WORLD_SIZE": "0"})
    result = after(raw)
    assert "P=0" in notes_of(result)["ranks"]
    given = answer(result)
    assert (given.bug, given.patch) == (None, [])


def test_a_status_that_nothing_contradicts_stays() -> None:
    """Without ranks there is nothing to hold an earlier status against (elastic pods have none)."""
    raw = Job(pods=1, master=False, elastic="1:1").pod(0)
    raw["spec"]["containers"][0]["env"].append({"name": "PET_STANDALONE"})
    result = after(raw)
    assert notes_of(result) == {"status": "environment", "rules": "E1", "reason": "elastic"}
    given = answer(result)
    assert (given.patch, given.status, given.rules) == ([], "environment", ("E1",))


def test_the_decision_tells_where_facts_came_from() -> None:
    """`explain` reads class, rules, k, P and N with their sources, and the values that change."""
    decision = decide(pod.read(MODERN.pod()), Policy())
    (judged,) = decision.containers
    assert [(fact.value, fact.source) for fact in judged.facts if fact] == [
        (1, "PET_NODE_RANK"),
        (2, "PET_NNODES"),
        (4, "PET_NPROC_PER_NODE"),
    ]
    assert (judged.name, judged.cls, judged.rules, judged.env[0]) == ("pytorch", "python", ("C1",), ("RANK", "4"))
    twin = decide(pod.read(Job(names=("pytorch", "pytorch-1")).pod()), Policy()).containers[0]
    assert twin.facts[2] == (2, "twins")
    assert decision.classes == ("python",)


@pytest.mark.parametrize("annotations", ["text", [], 3])
def test_odd_annotations_are_no_annotations(annotations: Any) -> None:
    """A pod whose annotations have no shape is judged as without, and gets none."""
    raw = MODERN.pod()
    raw["metadata"]["annotations"] = annotations
    given = answer(raw)
    assert given.rules == ("C1",)
    assert all(operation["path"].startswith("/spec") for operation in given.patch)

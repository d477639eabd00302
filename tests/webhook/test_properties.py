"""What must always hold (rank contract, section 9), on pods and jobs that Hypothesis makes up."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonpatch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.support_core import Job, answer, entries, env_of, katib
from webhook.errors import BadReview
from webhook.mutate import Answer, patched, respond
from webhook.policy import Mode, Policy, Reason
from webhook.review import review_of

quick = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

NAMES = (
    "RANK",
    "WORLD_SIZE",
    "NODE_RANK",
    "LOCAL_WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "PET_NNODES",
    "PET_NODE_RANK",
    "PET_NPROC_PER_NODE",
    "PET_STANDALONE",
    "PET_RDZV_BACKEND",
    "PYTORCH_DIST_INIT_METHOD",
)
OURS = (*NAMES, "PET_MASTER_ADDR", "PET_MASTER_PORT")
COMMANDS: tuple[tuple[str, ...] | None, ...] = (
    None,
    ("python", "train.py"),
    ("python", "-u", "-m", "pkg.train", "--lr", "1"),
    ("python", "main.py", "--multiprocessing-distributed"),
    ("torchrun", "train.py"),
    ("torchrun", "--nnodes=2", "--node_rank=0", "train.py"),
    ("torchrun", "--nnodes=1", "--node_rank=0", "--master_addr=$(KUBERNETES_SERVICE_HOST)", "train.py"),
    ("torchrun", "--nnodes=$(WORLD_SIZE)", "--node_rank=$(RANK)", "train.py"),
    ("accelerate", "launch", "--num_machines", "2", "--machine_rank", "0", "train.py"),
    ("composer", "-n", "2", "train.py"),
    ("deepspeed", "train.py"),
    ("bash", "run.sh"),
    ("bash", "-c", "torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK --master_addr=$MASTER_ADDR train.py"),
    ("bash", "-c", "torchrun --nnodes 2 --node_rank 0 --master_addr $KUBERNETES_SERVICE_HOST train.py"),
    ("bash", "-c", "pip install x && python train.py"),
    ("bash", "-c", 'if [ "$RANK" = 0 ]; then python prepare.py; fi; python train.py'),
    ("bash", "-c", "unset RANK; python train.py"),
    ("bash", "-c", "export NODE_RANK=$RANK; bash run.sh"),
    ("bash", "-c", "python train.py ((("),
    ("sh", "-c", ""),
    ("true",),
)

SMALL = st.integers(0, 9).map(str)
NOTES = st.fixed_dictionaries(
    {},
    optional={
        "rankfix/mode": st.sampled_from([*Mode, "typo"]),
        "rankfix/nproc-per-node": st.sampled_from(["1", "3", "gpu", "master=1,worker=3", "many"]),
        "rankfix/containers": st.sampled_from(["pytorch", "pytorch,side", "nobody"]),
        "rankfix/init-containers": st.sampled_from(["true", "false"]),
        "rankfix/status": st.sampled_from(["process", "environment", "unchanged", "odd"]),
        "rankfix/rules": st.sampled_from(["C1", "A1,I1", "T1", "Z9", ""]),
        "rankfix/ranks": st.sampled_from(["k=1 P=2 N=4 ranks=4-7/8", "k=0 P=3 ranks=0-0/3", "odd"]),
        "rankfix/reason": st.sampled_from(["elastic", "odd"]),
        "a.b/c~d": st.text(max_size=5),
    },
)


def jobs(**fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Job]:
    """Jobs of every operator generation and shape."""
    drawn = {
        "pods": st.integers(1, 4),
        "nproc": st.sampled_from([None, "auto", "gpu", "1", "2", "3", "8", "0"]),
        "operator": st.sampled_from(["0.7", "1.3", "1.5", "1.6", "1.7", "1.9"]),
        "master": st.booleans(),
        "elastic": st.sampled_from([None, None, None, "1:1", "2:2", "1:3"]),
        "command": st.sampled_from(COMMANDS),
        "args": st.sampled_from([None, None, ("--lr", "0.1"), ("--rank", "$(RANK)")]),
        "gpus": st.sampled_from([None, 1, 4]),
        "names": st.sampled_from([("pytorch",), ("pytorch", "pytorch-1"), ("side", "pytorch"), ("a", "b", "c")]),
        "annotations": NOTES,
    }
    return st.builds(Job, **(drawn | fixed))


ENTRIES = st.one_of(
    st.builds(
        lambda name, value: {"name": name, "value": value},
        st.sampled_from([*NAMES, "MINE"]),
        SMALL | st.text(max_size=3),
    ),
    st.builds(lambda name: {"name": name}, st.sampled_from(NAMES)),
    st.builds(lambda name: {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "x"}}}, st.sampled_from(NAMES)),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def pods(draw: st.DrawFn, others: st.SearchStrategy[dict[str, Any]] = ENTRIES) -> dict[str, Any]:
    """Pods of such jobs, to whose env lists others have added, before and after the operator; init containers too."""
    job = draw(jobs())
    raw = job.pod(draw(st.integers(0, job.pods - 1)))
    for container in raw["spec"]["containers"]:
        container["env"] = draw(st.lists(others, max_size=3)) + container["env"] + draw(st.lists(others, max_size=2))
    if draw(st.booleans()):
        raw["spec"]["initContainers"] = [{"name": "fetch", **draw(st.sampled_from([{}, {"env": None}, {"env": []}]))}]
    return raw


POLICIES = st.builds(
    Policy,
    default_mode=st.sampled_from(Mode),
    hidden=st.sampled_from(["leave", "process"]),
    entrypoint=st.sampled_from(["process", "leave"]),
)


def again(raw: dict[str, Any], policy: Policy) -> Answer:
    """The answer to a pod, as a fresh copy of it."""
    return answer(json.loads(json.dumps(raw)), policy)


ALONE = ("NODE_RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "PET_STANDALONE", "PYTORCH_DIST_INIT_METHOD", "MINE")
VALUES = st.builds(lambda name, value: {"name": name, "value": value}, st.sampled_from(NAMES), SMALL)
OTHERS = ENTRIES.filter(lambda entry: entry["name"] in ALONE)  # what a container may have to itself


@st.composite
def plain_pods(draw: st.DrawFn) -> dict[str, Any]:
    """Pods of such jobs whose containers are told the same world, which can be read, whoever says so."""
    raw, same = draw(pods(OTHERS)), draw(st.lists(VALUES, max_size=2))
    for container in raw["spec"]["containers"]:
        container["env"] += same
    return raw


@quick
@given(plain_pods(), POLICIES)
def test_a_second_call_has_no_patch(raw: dict[str, Any], policy: Policy) -> None:
    """1: apply, send again: no patch; nor after another webhook added containers, init containers or env."""
    result = patched(raw, again(raw, policy).patch)
    assert again(result, policy).patch == []
    result["spec"]["containers"].insert(0, {"name": "istio-proxy", "env": entries({"POD": "x"})})
    result["spec"].setdefault("initContainers", []).insert(0, {"name": "istio-init"})
    for container in result["spec"]["containers"]:
        container["env"] = [*entries({"FIRST": "$(RANK)"}), *container["env"], *entries({"LAST": "$(RANK)"})]
    assert again(result, policy).patch == []


@quick
@given(
    jobs(
        annotations=st.sampled_from([{}, {"rankfix/nproc-per-node": "3"}, {"rankfix/mode": "process"}]),
        command=st.sampled_from([("python", "train.py"), ("torchrun", "train.py"), None]),
        args=st.none(),
        names=st.sampled_from([("pytorch",), ("pytorch", "pytorch-1")]),
    )
)
def test_katib_after_us_changes_nothing(job: Job) -> None:
    """1: nor after Katib wrapped the main command of any of these jobs."""
    for raw in job.all_pods():
        given_ = answer(raw)
        if given_.allowed:
            assert answer(katib(patched(raw, given_.patch)) if job.command else patched(raw, given_.patch)).patch == []


@quick
@given(
    jobs(
        elastic=st.none(),
        command=st.just(("python", "train.py")),
        args=st.none(),
        names=st.sampled_from([("pytorch",), ("pytorch", "pytorch-1"), ("pytorch", "b", "c")]),
        annotations=st.fixed_dictionaries(
            {},
            optional={
                "rankfix/mode": st.sampled_from(["auto", "process"]),
                "rankfix/nproc-per-node": st.sampled_from(
                    ["1", "2", "6", "gpu", "master=2,worker=4", "master=6,worker=2"]
                ),
            },
        ),
    )
)
def test_the_processes_of_a_job_tile_its_ranks(job: Job) -> None:
    """2: under the process contract the intervals [RANK, RANK + LOCAL_WORLD_SIZE) tile 0..WORLD_SIZE-1 exactly."""
    answers = [(raw, answer(raw)) for raw in job.all_pods()]
    assume(all({"C1", "T1"} & set(one.rules) for _, one in answers))
    envs = [env_of(patched(raw, one.patch), name) for raw, one in answers for name in job.names]
    (world,) = {int(env["WORLD_SIZE"]) for env in envs}
    spans = [range(int(env["RANK"]), int(env["RANK"]) + int(env["LOCAL_WORLD_SIZE"])) for env in envs]
    assert sorted(rank for span in spans for rank in span) == list(range(world))
    if "master" not in job.annotations.get("rankfix/nproc-per-node", ""):
        for env in envs:
            assert int(env["RANK"]) == int(env["NODE_RANK"]) * int(env["LOCAL_WORLD_SIZE"])


def without_ours(raw: dict[str, Any]) -> dict[str, Any]:
    """The pod without what a rule may change."""
    rest = copy.deepcopy(raw)
    notes = rest["metadata"].pop("annotations", None) or {}
    rest["metadata"]["annotations"] = {key: value for key, value in notes.items() if not key.startswith("rankfix/")}
    for container in [*rest["spec"]["containers"], *rest["spec"].get("initContainers", [])]:
        for key in ("env", "command", "args"):
            container.pop(key, None)
    return rest


def words_of(container: dict[str, Any]) -> list[str]:
    """What a container runs."""
    return [*container.get("command", []), *container.get("args", [])]


@quick
@given(pods(), POLICIES)
def test_nothing_else_differs(raw: dict[str, Any], policy: Policy) -> None:
    """3: only env of managed containers, the words of F1, F2 and W1, and our annotations differ."""
    given_ = again(raw, policy)
    result = patched(raw, given_.patch)
    assert without_ours(result) == without_ours(raw)
    for old, new in zip(raw["spec"]["containers"], result["spec"]["containers"], strict=True):
        if not {"F1", "F2", "W1"} & set(given_.rules):
            assert words_of(old) == words_of(new)
        elif "W1" not in given_.rules:
            assert sum(a != b for a, b in zip(words_of(old), words_of(new), strict=True)) <= 3
    if given_.status in {"unchanged", "would-change", None}:
        assert all(operation["path"].startswith("/metadata/annotations") for operation in given_.patch)
    for old, new in zip(raw["spec"].get("initContainers", []), result["spec"].get("initContainers", []), strict=True):
        assert "I1" in given_.rules or old == new


@quick
@given(pods(), POLICIES)
def test_the_pod_stays_valid(raw: dict[str, Any], policy: Policy) -> None:
    """4: each entry that we write has a name and a string, no `valueFrom` beside it, and is the last of its name."""
    given_ = again(raw, policy)
    result = patched(raw, given_.patch)
    kinds = [(kind, i) for kind in ("containers", "initContainers") for i in range(len(raw["spec"].get(kind) or []))]
    for kind, index in kinds:
        old, new = (one["spec"][kind][index].get("env") or [] for one in (raw, result))
        assert [entry["name"] for entry in new[: len(old)]] == [entry["name"] for entry in old]
        for place, entry in enumerate(new):
            if place >= len(old) or entry != old[place]:
                assert set(entry) == {"name", "value"}
                assert isinstance(entry["value"], str)
                assert entry["name"] in OURS
                assert entry["name"] not in [later["name"] for later in new[place + 1 :]]
    assert all(isinstance(value, str) for value in result["metadata"].get("annotations", {}).values())


@quick
@given(pods(), POLICIES)
def test_an_independent_library_agrees(raw: dict[str, Any], policy: Policy) -> None:
    """4: the patch applies, and gives the same pod, by a JSON Patch library that isn't ours."""
    given_ = again(raw, policy)
    assert jsonpatch.JsonPatch(given_.patch).apply(copy.deepcopy(raw)) == patched(raw, given_.patch)


@quick
@given(pods(), POLICIES)
def test_what_is_said_has_its_bounds(raw: dict[str, Any], policy: Policy) -> None:
    """Warnings, audit annotations and reasons are as the API server and the metrics need them."""
    given_ = again(raw, policy)
    response = json.loads(given_.body)["response"]
    assert given_.reason in tuple(Reason)
    assert len(given_.warnings) <= 3
    assert all(0 < len(line) <= 200 and line.isprintable() for line in given_.warnings)
    assert all(isinstance(value, str) and value for value in response.get("auditAnnotations", {}).values())
    assert given_.allowed is (given_.message is None)


def answered(data: bytes) -> Answer | str:
    """The answer to any bytes, or what is said of those that no answer could name."""
    try:
        return respond(data, Policy())
    except BadReview as problem:
        return str(problem)


@quick
@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_answered_or_refused(data: bytes) -> None:
    """5: any bytes are a review, or a BadReview for the server's 400; never another error."""
    said = answered(data)
    assert isinstance(said, str)
    assert len(said.splitlines()) == 1


@quick
@given(st.data())
def test_any_json_in_a_pod_is_answered(data: st.DataObject) -> None:
    """5: whatever stands where rules look, the uid is answered, the patch applies, and no fault shows."""
    raw = data.draw(pods())
    places: list[tuple[Any, Any]] = [(raw, "metadata"), (raw, "spec")]
    places += [(raw["metadata"], key) for key in (*raw["metadata"], "annotations", "labels")]
    places += [(raw["spec"], key) for key in ("containers", "initContainers")]
    places += [(raw["metadata"]["labels"], key) for key in raw["metadata"]["labels"]]
    places += [(raw["metadata"]["ownerReferences"][0], key) for key in raw["metadata"]["ownerReferences"][0]]
    for container in raw["spec"]["containers"]:
        places += [(container, key) for key in ("name", "command", "args", "env", "resources", "ports", "image")]
        places += [(container["env"], index) for index in range(len(container["env"]))]
    for parent, key in data.draw(st.lists(st.sampled_from(places), max_size=4)):
        parent[key] = data.draw(JSON)
    given_ = answered(json.dumps(review_of(raw, uid="u")).encode())
    assert isinstance(given_, Answer)
    assert (given_.uid, given_.bug) == ("u", None)
    assert jsonpatch.JsonPatch(given_.patch).apply(copy.deepcopy(raw)) == patched(raw, given_.patch)
    assert answered(json.dumps(review_of(patched(raw, given_.patch), uid="u")).encode()) != ""


@quick
@given(pods(), POLICIES)
def test_the_same_pod_gets_the_same_answer(raw: dict[str, Any], policy: Policy) -> None:
    """6: no clock, no state, no look-up: the same bytes get the same bytes."""
    assert again(raw, policy).body == again(raw, policy).body

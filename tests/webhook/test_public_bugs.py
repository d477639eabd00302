"""Bugs that other webhooks had in public, each as a test of ours.

The numbers are those of the project's study of the field (bugs 16 to 37 are about patches and the protocol); the tests
without a number are the rest of the list that this project set itself.
"""

from __future__ import annotations

import base64
import json
import random
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import jsonpatch
import pytest

from tests.support_core import MODERN, OLD, Job, after, answer, changes, entries, env_of, katib, notes_of
from webhook.errors import BadReview
from webhook.mutate import patched, respond
from webhook.policy import Policy, Reason
from webhook.review import review_of


def body(raw: Any, version: str = "v1", **request: Any) -> bytes:
    """The body of a review of an object."""
    document = review_of(raw if isinstance(raw, dict) else {}, uid="the-uid", namespace="team")
    document |= {"apiVersion": f"admission.k8s.io/{version}"}
    document["request"] |= {"object": raw, **request}
    return json.dumps(document).encode()


@pytest.mark.parametrize("copies", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "NODE_RANK", "LOCAL_WORLD_SIZE", "PYTORCH_DIST_INIT_METHOD"])
def test_bug_16_duplicates_of_a_name(name: str, copies: int) -> None:
    """Bug 16: with 0 to 3 copies of a name beside the operator's the one that counts is right, and none is added."""
    raw = MODERN.but(env=tuple(entries({name: "old"})) * copies).pod()
    mutated = after(raw)
    want = {"RANK": "4", "WORLD_SIZE": "8", "NODE_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    if name in want:
        assert env_of(mutated)[name] == want[name]
    names = [entry["name"] for entry in mutated["spec"]["containers"][0]["env"]]
    assert names.count(name) == max(copies + (name in {"RANK", "WORLD_SIZE"}), 1)
    late = MODERN.pod()
    late["spec"]["containers"][0]["env"] += entries({name: "old"}) * copies
    assert env_of(after(late)).get(name) == (want[name] if name in want else env_of(after(late))[name])
    assert answer(after(late)).patch == []


def test_bug_17_a_second_call_has_neither_patch_nor_type() -> None:
    """Bug 17: our own output sent again gets an answer without `patch` and without `patchType`."""
    response = json.loads(answer(after(MODERN.pod())).body)["response"]
    assert {"patch", "patchType"} & response.keys() == set()


def test_bug_18_a_container_that_another_webhook_adds_is_served() -> None:
    """Bug 18: containers are decided one by one, never by a mark that says `done`."""
    raw = after(OLD.pod())
    raw["spec"]["containers"].append(OLD.but(command=("bash", "late.sh")).container(1, "late"))
    assert env_of(after(raw), "late")["NODE_RANK"] == "1"


ABSENT: tuple[dict[str, Any], ...] = ({}, {"env": None}, {"env": []})


@pytest.mark.parametrize("env", ABSENT)
@pytest.mark.parametrize("init", [*ABSENT, None])
@pytest.mark.parametrize("annotations", [None, {}, "absent"])
def test_bug_19_parents_that_are_missing_null_or_empty(env: Any, init: Any, annotations: Any) -> None:
    """Bug 19: wherever a list or map is absent, null or empty, an independent library can apply the patch."""
    raw = MODERN.pod()
    raw["spec"]["containers"].append({"name": "side", **env})
    raw["spec"]["initContainers"] = None if init is None else [{"name": "fetch", **init}]
    if annotations != "absent":
        raw["metadata"]["annotations"] = annotations
    for ask in ({}, {"rankfix/init-containers": "true"}):
        asked = json.loads(json.dumps(raw))  # no list twice, as in any JSON
        if ask:
            asked["metadata"]["annotations"] = ask
        given = answer(asked)
        assert jsonpatch.JsonPatch(given.patch).apply(asked) == patched(asked, given.patch)
        assert given.reason is Reason.PATCHED


def test_bug_20_fields_of_the_future_survive() -> None:
    """Bug 20: fields that no client library knows stay, at every level."""
    raw = MODERN.but(names=("pytorch", "side")).pod()
    raw["spec"]["initContainers"] = [{"name": "native", "restartPolicy": "Always", "restartPolicyRules": [{"x": 1}]}]
    places = [raw, raw["metadata"], raw["spec"], *raw["spec"]["containers"], *raw["spec"]["initContainers"]]
    places += [entry for container in raw["spec"]["containers"] for entry in container["env"]][:4]
    for number, place in enumerate(places):
        place[f"future{number}"] = {"deep": [number, None, {"f": 1.5}]}
    mutated = after(raw)
    for number, _ in enumerate(places):
        assert f'"future{number}"' in json.dumps(mutated)


SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef", "someFutureRef")


@pytest.mark.parametrize("source", SOURCES)
def test_bug_21_value_and_value_from_never_stand_together(source: str) -> None:
    """Bug 21: an entry that changes is replaced whole; in `auto` a RANK from elsewhere is left alone."""
    name_only = {"name": "NODE_RANK", "valueFrom": {source: {"name": "x", "key": "y"}}}
    mutated = after(MODERN.but(env=(name_only,)).pod())
    assert {"name": "NODE_RANK", "value": "1"} in mutated["spec"]["containers"][0]["env"]
    raw = MODERN.pod()
    raw["spec"]["containers"][0]["env"].append({"name": "RANK", "valueFrom": {source: {}}})
    assert (answer(raw).reason, answer(raw).env) == (Reason.VALUE_FROM, ())
    for entry in mutated["spec"]["containers"][0]["env"]:
        assert not {"value", "valueFrom"} <= entry.keys()


@pytest.mark.parametrize("index", ["-1", "1e3", "1_0", "٣", "9" * 5000, "+1", " 1", "1 ", "", "0x1", "²"])
@pytest.mark.parametrize("job", [MODERN, OLD])
def test_bug_22_numbers_are_ascii_digits(index: str, job: Job) -> None:
    """Bug 22: an index that only Python takes for a number changes nothing, and every value of ours is a string."""
    raw = job.pod()
    key = next(name for name in raw["metadata"]["labels"] if name.endswith("replica-index"))
    raw["metadata"]["labels"][key] = index
    assert (answer(raw).reason, answer(raw).env) == (Reason.BAD_LABEL, ())
    for entry in after(job.pod())["spec"]["containers"][0]["env"]:
        assert isinstance(entry["value"], str)


def test_bug_22_leading_zeros_are_digits() -> None:
    """Bug 22: "007" is seven."""
    raw = OLD.but(pods=9).pod(8)
    raw["metadata"]["labels"]["replica-index"] = "007"
    assert env_of(after(raw))["NODE_RANK"] == "8"


def test_bug_23_references_still_resolve() -> None:
    """Bug 23: nothing is moved, so a later `$(RANK)` is expanded as before; ours stand after what they name."""
    raw = MODERN.pod()
    raw["spec"]["containers"][0]["env"] += entries({"OUT": "/d/$(RANK)/$(WORLD_SIZE)"})
    names = [entry["name"] for entry in after(raw)["spec"]["containers"][0]["env"]]
    assert names.index("RANK") < names.index("OUT")
    assert names.index("WORLD_SIZE") < names.index("OUT")
    assert names.index("MASTER_ADDR") < names.index("PYTORCH_DIST_INIT_METHOD") > names.index("MASTER_PORT")


@pytest.mark.parametrize("entry", [{"name": "WORLD_SIZE", "value": ""}, {"name": "WORLD_SIZE"}])
def test_bug_24_empty_is_present(entry: dict[str, Any]) -> None:
    """Bug 24: an empty value, or none, is an entry, and is the one that counts if it's the last."""
    raw = MODERN.pod()
    raw["spec"]["containers"][0]["env"].append(entry)
    mutated = after(raw)
    assert env_of(mutated)["WORLD_SIZE"] == "8"
    assert len([e for e in mutated["spec"]["containers"][0]["env"] if e["name"] == "WORLD_SIZE"]) == 2
    assert env_of(after(OLD.but(env=({"name": "NODE_RANK"},)).pod()))["NODE_RANK"] == ""


@pytest.mark.parametrize("text", ["a.b/c~d", "~1", "~0~1/", "é😀", "\x00", "\ud800", "\udfff\ud800", "\u2028"])
def test_bug_25_escapes_and_unicode(text: str) -> None:
    """Bug 25: slashes, tildes, NUL, emoji and lone surrogates in names and values leave the answer valid."""
    raw = MODERN.but(
        name=text, env=tuple(entries({text: text})), annotations={text: text, f"rankfix/{text}": text}
    ).pod()
    given = respond(body(raw), Policy())
    assert (given.bug, given.allowed) == (None, False)
    json.loads(given.body.decode("utf-8", "strict"))
    del raw["metadata"]["annotations"][f"rankfix/{text}"]
    raw["metadata"]["annotations"]["rankfix/rules"] = "old"
    raw["spec"]["containers"][0]["command"] = ["bash", "-c", f"torchrun --master_addr=$KUBERNETES_SERVICE_HOST {text}"]
    given = respond(body(raw), Policy())
    assert given.bug is None
    response = json.loads(given.body.decode("utf-8", "strict"))["response"]
    patch = json.loads(base64.b64decode(response["patch"]).decode("utf-8", "strict"))
    assert jsonpatch.JsonPatch(patch).apply(raw)["metadata"]["annotations"]["rankfix/status"] != "old"


@pytest.mark.parametrize("names", [{}, {"generateName": "job-"}, {"name": ""}])
def test_bug_26_pods_without_a_name(names: dict[str, str]) -> None:
    """Bug 26: name and generateName are never needed."""
    raw = MODERN.pod()
    raw["metadata"] = {key: value for key, value in raw["metadata"].items() if key != "name"} | names
    assert answer(raw).patch == answer(MODERN.pod()).patch


@pytest.mark.parametrize("namespace", [None, "", "elsewhere"])
def test_bug_27_the_namespace_is_the_requests(namespace: str | None) -> None:
    """Bug 27: metadata.namespace may be empty or absent, and isn't read."""
    raw = MODERN.pod()
    raw["metadata"]["namespace"] = namespace
    assert respond(body(raw), Policy()).namespace == "team"


def test_bug_28_mirror_pods() -> None:
    """Bug 28: the mirror of a static pod is left alone."""
    given = answer(MODERN.but(annotations={"kubernetes.io/config.mirror": "x"}).pod())
    assert (given.reason, given.patch) == (Reason.NOT_OURS, [])


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "UPDATE"},
        {"operation": "UPDATE", "subResource": "ephemeralcontainers"},
        {"operation": "CREATE", "subResource": "ephemeralcontainers"},
        {"operation": "CONNECT", "subResource": "exec"},
        {"operation": "DELETE", "object": None},
        {"operation": "CREATE", "object": None},
    ],
)
def test_bug_29_other_operations_and_subresources(request_: dict[str, Any]) -> None:
    """Bug 29: anything but the creation of a pod is allowed as it came."""
    given = respond(body(MODERN.pod(), **request_), Policy())
    assert (given.allowed, given.patch, given.uid) == (True, [], "the-uid")
    assert given.reason in {Reason.NOT_CREATE, Reason.NOT_OURS}


@pytest.mark.parametrize(
    ("job", "k", "pair"),
    [
        (Job(pods=1, nproc="4"), 0, ("0", "4")),
        (Job(pods=3, nproc="2"), 2, ("4", "6")),
        (Job(pods=3, nproc="auto"), 2, ("2", "3")),
        (Job(pods=3, nproc="gpu", gpus=8), 2, ("2", "3")),
        (Job(pods=3, nproc=None), 2, ("2", "3")),
        (Job(pods=2, master=False), 1, (None, None)),
        (Job(pods=2, master=False, elastic="1:3"), 1, (None, None)),
        (Job(pods=3, elastic="2:2", nproc="2"), 2, ("4", "6")),
        (Job(pods=3, elastic="1:2", nproc="2"), 2, ("2", "6")),
        (OLD.but(pods=3), 2, ("2", "3")),
    ],
)
def test_bug_30_ranks_for_each_shape_of_job(job: Job, k: int, pair: tuple[str | None, str | None]) -> None:
    """Bug 30: a job's shape decides the pair, and where it can't be known nothing changes."""
    env = env_of(after(job.pod(k)))
    assert (env.get("RANK"), env.get("WORLD_SIZE")) == pair


@pytest.mark.parametrize(
    "labels",
    [{"replica-index": "5"}, {"replica-index": "-1"}, {"replica-index": "x"}, {"replica-type": "x"}],
)
def test_bug_30_labels_that_cant_be_true(labels: dict[str, str]) -> None:
    """Bug 30: an index out of range or of another form changes nothing, and the user hears why."""
    raw = OLD.pod()
    raw["metadata"]["labels"] |= labels
    given = answer(raw)
    assert (given.env, given.reason in {Reason.BAD_LABEL, Reason.INCONSISTENT}) == ((), True)
    assert given.warnings


def ranks_of(bodies: list[bytes]) -> list[str]:
    """The first rank that each pod gets."""
    found = []
    for data in bodies:
        raw = json.loads(data)["request"]["object"]
        found.append(env_of(patched(raw, respond(data, Policy()).patch))["RANK"])
    return found


def test_bug_31_a_thousand_pods_in_any_order_by_any_replica() -> None:
    """Bug 31: 1000 pods of one job, shuffled over three processes, get each rank once: nothing is handed out."""
    bodies = [body(raw) for raw in Job(pods=1000, nproc="2").all_pods()]
    random.Random(31).shuffle(bodies)  # noqa: S311 - an order, not a secret
    with ProcessPoolExecutor(3) as replicas:
        found = [rank for part in replicas.map(ranks_of, (bodies[i::3] for i in range(3))) for rank in part]
    assert sorted(map(int, found)) == list(range(0, 2000, 2))


def test_bug_32_no_cache_to_be_cold() -> None:
    """Bug 32: the pod itself says all that is needed; the first pod of a job is answered like the last."""
    first, *_, last = (respond(body(MODERN.pod()), Policy()).body for _ in range(3))
    assert first == last


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v9"])
@pytest.mark.parametrize("raw", [MODERN.pod(), MODERN.but(ask={"mode": "x"}).pod(), None, [], {"kind": "Job"}])
def test_bug_33_version_kind_and_uid_on_every_path(version: str, raw: Any) -> None:
    """Bug 33: allowed, denied or not ours, the answer echoes version and uid."""
    given = json.loads(respond(body(raw, version), Policy()).body)
    assert (given["apiVersion"], given["kind"]) == (f"admission.k8s.io/{version}", "AdmissionReview")
    assert given["response"]["uid"] == "the-uid"


@pytest.mark.parametrize("on_bug", ["allow", "deny"])
def test_bug_33_the_uid_survives_a_fault_of_ours(on_bug: Any) -> None:
    """Bug 33: the error path keeps the uid, too."""

    def fails(*_: Any) -> Any:
        raise RuntimeError

    given = json.loads(respond(body(MODERN.pod()), Policy(on_bug=on_bug), decide=fails).body)
    assert given["response"]["uid"] == "the-uid"


@pytest.mark.parametrize("data", [b"", b"null", b"{", b'{"kind": "AdmissionReview"}', b"\x1f\x8b\x08"])
def test_bug_33_a_body_without_version_and_uid(data: bytes) -> None:
    """Bug 33: what can't be named can't be answered, and says so in one line."""
    with pytest.raises(BadReview) as refusal:
        respond(data, Policy())
    assert len(str(refusal.value).splitlines()) == 1


def test_bug_34_patch_and_patch_type_come_together() -> None:
    """Bug 34: both or neither, for pods that change and pods that don't."""
    for raw in (MODERN.pod(), after(MODERN.pod()), {}, MODERN.but(ask={"mode": "x"}).pod()):
        response = json.loads(respond(body(raw), Policy()).body)["response"]
        assert ("patch" in response) is ("patchType" in response)


def test_bug_35_dry_run() -> None:
    """Bug 35: a dry run gets the very answer of the real one."""
    real, dry = (respond(body(MODERN.pod(), dryRun=dry), Policy()) for dry in (False, True))
    assert real.body == dry.body


def test_bug_36_cost_is_linear() -> None:
    """Bug 36: ten times the env costs about ten times the time; a quadratic step would cost a hundred times."""

    def seconds(count: int) -> float:
        data = body(MODERN.but(env=tuple(entries({f"NAME_{i}": "x" * 30 for i in range(count)}))).pod())
        times = []
        for _ in range(5):
            begin = time.process_time()
            respond(data, Policy())
            times.append(time.process_time() - begin)
        return min(times)

    assert seconds(20_000) < 40 * seconds(2_000)  # loose: the figure is bench/'s to print, the shape is what is tested


def test_bug_37_a_pod_as_big_as_etcd_takes() -> None:
    """Bug 37: 1.5 MB of pod, twice in the review, is answered as a small one is."""
    raw = MODERN.pod()
    raw["metadata"]["annotations"] = {"notes": "<&>" * 500_000}
    given = respond(body(raw, oldObject=raw), Policy())
    assert given.reason is Reason.PATCHED
    assert given.env == answer(MODERN.pod()).env


@pytest.mark.parametrize("env", [{}, {"env": None}, {"env": []}])
def test_containers_without_env_are_not_ours_to_touch(env: dict[str, Any]) -> None:
    """A container without the operator's env stays, and an operator that wrote none leaves nothing to repair."""
    raw = MODERN.pod()
    raw["spec"]["containers"] = [{"name": "pytorch", "image": "x", **env}]
    assert (answer(raw).reason, answer(raw).env) == (Reason.NO_RANK_ENV, ())


@pytest.mark.parametrize(
    "owner",
    [
        {"apiVersion": "training.kubedl.io/v1alpha1", "kind": "PyTorchJob"},
        {"apiVersion": "kubeflow.org/v1", "kind": "TFJob"},
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"},
        {"apiVersion": "batch/v1", "kind": "Job"},
    ],
)
def test_jobs_of_other_kinds_with_the_same_labels(owner: dict[str, str]) -> None:
    """KubeDL's PyTorchJob and a TFJob carry the same bare labels, and are none of ours."""
    raw = Job(operator="1.5").pod()
    raw["metadata"]["ownerReferences"] = [{**owner, "name": "job", "controller": True}]
    assert answer(raw).reason is Reason.NOT_OURS


@pytest.mark.parametrize("k", [0, 1])
def test_katib_wraps_the_master_only(k: int) -> None:
    """A second call on the wrapped master, with sidecar and env added, changes nothing; the worker's neither."""
    raw = after(MODERN.pod(k))
    assert answer(katib(raw) if k == 0 else raw).patch == []


def test_init_containers_of_other_webhooks() -> None:
    """A second call after somebody added an init container changes nothing."""
    raw = after(MODERN.pod())
    raw["spec"]["initContainers"] = [{"name": "istio-init", "env": entries({"A": "b"})}]
    assert answer(raw).patch == []


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 2**64, 10**30, 0.1, 1e22, -0.0])
def test_numbers_are_unharmed(number: float) -> None:
    """64-bit and float numbers in a pod never pass through a patch of ours."""
    raw = MODERN.pod()
    raw["spec"]["priority"] = number
    raw["spec"]["containers"][0]["future"] = [number]
    assert str(number) not in json.dumps(answer(raw).patch)
    assert changes(raw, after(raw))["RANK"] == "4"


def test_deep_pods_are_no_crash() -> None:
    """Nesting that JSON takes and nobody writes is refused or allowed unchanged, never an exception."""
    for depth in (100, 500, 900, 1020, 3000):
        deep = b'{"a":' * depth + b"1" + b"}" * depth
        data = body(MODERN.but(names=("pytorch", "side")).pod()).replace(b'"resources": {}', b'"resources": ' + deep)
        try:
            given = respond(data, Policy())
        except BadReview:
            continue
        assert given.allowed


def test_notes_of_others_stay() -> None:
    """Annotations with slashes and tildes beside ours are not touched."""
    raw = MODERN.but(annotations={"a.b/c~d": "x", "rankfix.io/mode": "y"}).pod()
    assert after(raw)["metadata"]["annotations"].items() >= raw["metadata"]["annotations"].items()
    assert notes_of(after(raw))["status"] == "process"

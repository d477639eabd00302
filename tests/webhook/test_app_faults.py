"""`webhook.app` against faults of ours, bytes of anybody's, and secrets: what must never happen, never does."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support_asgi import Edge, Wire, edge, get, post
from tests.support_edges import CANARY, RECORDED, UID, body, patch_of, pod, review, typo
from webhook import mutate
from webhook.errors import BadReview
from webhook.policy import Policy

SMALL = body()


class Broken(Exception):
    """A fault whose text quotes a value of the pod."""


def fails(_data: bytes, _policy: Policy) -> Any:
    """A core that breaks where it should not."""
    secret = CANARY
    raise Broken(secret)


def failed_in_decide(data: bytes, policy: Policy) -> Any:
    """A core that broke inside decide, and answered."""
    try:
        fails(data, policy)
    except Broken as exc:
        return replace(mutate.respond(data, policy), patch=[], bug=exc)


@pytest.mark.parametrize("respond", [fails, failed_in_decide])
def test_a_fault_of_ours_allows_the_pod(respond: Any) -> None:
    """Whatever breaks: the pod passes, the fault is counted, and logged with uid and frames but without its text."""
    made = edge(respond=respond)
    reply = post(made, body())
    assert reply.status == 200
    assert reply.json["response"]["uid"] == UID
    assert reply.json["response"]["allowed"] is True
    assert made.metric("rankfix_bugs_total") == 1
    bug = next(event for event in made.events() if event["event"] == "bug")
    assert (bug["uid"], bug["exception"]) == (UID, "Broken")
    assert bug["stack"][-1].endswith(" fails")
    assert CANARY not in made.log.getvalue() + reply.body.decode()


def test_a_fault_at_once_is_left_to_the_app() -> None:
    """What breaks there breaks again where it's told, and nothing of it is told twice."""
    made = edge(respond=fails)
    assert made.admission.at_once(body()) is None
    assert (made.events(), made.metric("rankfix_bugs_total")) == ([], 0)


def test_a_fault_in_the_book_keeping() -> None:
    """An answer that is there goes out, whatever becomes of its metrics; the fault is counted."""
    made = edge(
        respond=lambda data, policy: replace(mutate.respond(data, policy), rules=cast("tuple[str, ...]", (3, {})))
    )
    reply = post(made, body())
    assert patch_of(reply.json)
    assert made.metric("rankfix_bugs_total") == 1
    assert made.events()[-1]["exception"] == "TypeError"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_fault_of_ours_denies_where_that_is_wished(version: str) -> None:
    """on-bug=deny: the same with allowed false and a message that says whose fault it is."""
    reply = post(edge(respond=fails, policy=Policy(on_bug="deny")), body(version=version))
    assert reply.status == 200
    assert reply.json["apiVersion"] == f"admission.k8s.io/{version}"
    assert reply.json["response"]["allowed"] is False
    assert "rankfix failed" in reply.json["response"]["status"]["message"]


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"3", body(uid=3), body(version="v7"), b'{"request": null}', b"[" * 100_000]
)
def test_a_fault_on_what_cannot_be_answered(data: bytes) -> None:
    """No uid, no review: 400, and still never 500."""
    made = edge(respond=fails)
    assert post(made, data).status == 400
    assert made.metric("rankfix_bugs_total") == 1
    assert made.metric('rankfix_refused_total{cause="bug"}') == 1


@pytest.fixture(scope="module", name="fuzzed")
def _fuzzed() -> Edge:
    """One app for all examples of the property tests: making it takes longer than asking it."""
    return edge(level="error")


@given(st.binary(max_size=400))
@settings(max_examples=100, deadline=None)
def test_any_bytes(fuzzed: Edge, data: bytes) -> None:
    """Contract 9.5: an AdmissionReview or 400."""
    assert post(fuzzed, data).status == 400


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SPOTS: list[tuple[str, ...]] = [
    ("apiVersion",), ("kind",), ("request",), ("request", "uid"), ("request", "operation"), ("request", "namespace"),
    ("request", "kind"), ("request", "resource"), ("request", "object"), ("request", "dryRun"),
    ("request", "object", "metadata"), ("request", "object", "metadata", "labels"),
    ("request", "object", "metadata", "annotations"), ("request", "object", "metadata", "ownerReferences"),
    ("request", "object", "spec"), ("request", "object", "spec", "containers"),
]  # fmt: skip


@given(st.sampled_from(SPOTS), JSON_VALUES)
@settings(max_examples=250, deadline=None)
def test_any_json_in_any_place(fuzzed: Edge, spot: tuple[str, ...], value: object) -> None:
    """Contract 9.5: whatever stands where, it's an answer with the uid or 400, and never a fault of ours."""
    document = review()
    inner = document
    for key in spot[:-1]:
        inner = inner[key]
    inner[spot[-1]] = value
    reply = post(fuzzed, json.dumps(document).encode())
    assert reply.status in (200, 400)
    if reply.status == 200:
        assert reply.json["response"]["uid"] == document["request"]["uid"]
    assert fuzzed.metric("rankfix_bugs_total") == 0


@given(st.integers(0, len(SMALL)), st.binary(max_size=4))
@settings(max_examples=100, deadline=None)
def test_reviews_cut_and_dirtied(fuzzed: Edge, at: int, dirt: bytes) -> None:
    """A review cut off anywhere, or with bytes put into it, is answered or refused."""
    assert post(fuzzed, SMALL[:at]).status == (200 if at == len(SMALL) else 400)
    assert post(fuzzed, SMALL[:at] + dirt + SMALL[at:]).status in (200, 400)


def secretive(made: Edge) -> list[bytes]:
    """Answers over every path with a secret in the pod's env, its command and its labels."""
    secret = pod(("AWS_SECRET_ACCESS_KEY", CANARY), ("RANKFIX_TOKEN", CANARY))
    secret["spec"]["containers"][0]["args"] = ["--key", CANARY]
    denied = {**secret, "metadata": {**secret["metadata"], "annotations": {"rankfix/mode": "proces", "x": CANARY}}}
    whole = body(secret)
    data = [whole, body(denied), body(secret, operation="UPDATE"), whole[:-1], whole[:-40] + b"\xff" + whole[-40:]]
    replies = [post(made, item).body for item in data]
    replies.append(post(made, whole * 300).body)
    replies.append(post(made, whole, ("content-type", CANARY)).body)
    return replies


@pytest.mark.parametrize("respond", [mutate.respond, fails, failed_in_decide])
def test_bug_47_no_secret_gets_out(respond: Any) -> None:
    """Bug 47: a value of the pod's env is in no answer, no error, no log line and no metric."""
    made = edge(respond=respond)
    said = b"".join([*secretive(made), get(made, "/metrics").body, json.dumps(made.events()).encode()])
    assert CANARY.encode() not in said
    assert b"hunter2" not in said


def post_all(made: Edge, numbers: range) -> None:
    """A pod for each number, with a job, a namespace, an image and an env of its own."""

    async def all_of_them() -> None:
        for number in numbers:
            raw = pod((f"E{number}", f"{number}"), name=f"p{number}")
            raw["metadata"]["labels"]["training.kubeflow.org/job-name"] = f"job{number}"
            raw["spec"]["containers"][0]["image"] = f"image{number}"
            await Wire([body(raw, namespace=f"n{number}", uid=f"u{number}")])._run(made.app)

    asyncio.run(all_of_them())


def test_bug_48_ten_thousand_pods_make_no_more_series_than_a_few() -> None:
    """Bug 48: no label has a value that users make up."""
    made = edge(level="error")
    changed = 'rankfix_requests_total{outcome="changed",reason="patched"}'
    post_all(made, range(20))
    assert made.metric(changed) == 20
    few = len(made.metrics.render().splitlines())
    post_all(made, range(20, 10_000))
    assert made.metric(changed) == 10_000
    assert len(made.metrics.render().splitlines()) == few


OUTSIDE = {"import", "open", "os", "shutil", "socket", "subprocess", "urllib"}


@dataclass
class Deeds:
    """What this process does with the world outside, as Python's audit events tell it, while it's `watching`."""

    watching: bool = False
    seen: list[str] = field(default_factory=list)

    def __call__(self, event: str, _args: object) -> None:
        if self.watching and event.split(".", maxsplit=1)[0] in OUTSIDE:
            self.seen.append(event)


def test_bug_38_nothing_slow_is_done_for_an_admission() -> None:
    """Bug 38: no name is looked up, nobody is dialled, no file is read, no process and no key is made, for any pod."""
    made, deeds = edge(level="error"), Deeds()
    sys.addaudithook(deeds)
    data = [body(), body(typo()), body(pod(), version="v1beta1"), *(path.read_bytes() for path in RECORDED[:300])]

    async def all_of_them() -> None:
        for one in data[:3]:
            await Wire([one])._run(made.app)
        deeds.watching = True
        for one in data:
            await Wire([one])._run(made.app)
        deeds.watching = False

    asyncio.run(all_of_them())
    assert deeds.seen == []


def test_a_bad_review_is_told_in_the_core_s_words() -> None:
    """The 400's message is the core's one line."""

    def refuses(_data: bytes, _policy: Policy) -> Any:
        raise BadReview("request.uid is absent: send an AdmissionReview")

    assert post(edge(respond=refuses), b"{}").json == {"error": "request.uid is absent: send an AdmissionReview"}

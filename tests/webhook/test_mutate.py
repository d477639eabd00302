"""Bytes in, bytes out: every answer is one that the API server takes, whatever came in."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from tests.support_core import MODERN, OLD, SECRET, Job, answer, entries
from webhook import mutate
from webhook.errors import BadReview
from webhook.policy import Mode, Policy, Reason
from webhook.review import review_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webhook.pod import Pod


def body(raw: Any = None, version: str = "admission.k8s.io/v1", **request: Any) -> bytes:
    """The body of a review of a pod."""
    document = review_of(MODERN.pod() if raw is None else raw, uid="u-1", namespace="team")
    document["apiVersion"] = version
    document["request"] |= request
    return json.dumps(document).encode()


def respond(raw: Any = None, policy: Policy | None = None, **request: Any) -> mutate.Answer:
    """The answer to it."""
    return mutate.respond(body(raw, **request), policy or Policy())


def response(given: mutate.Answer) -> dict[str, Any]:
    """The response in an answer's bytes."""
    found: dict[str, Any] = json.loads(given.body)["response"]
    return found


def test_an_answer_says_in_fields_what_its_bytes_say() -> None:
    """Logs, metrics and the command line never have to parse the body."""
    given = respond()
    assert (given.allowed, given.uid, given.namespace, given.job) == (True, "u-1", "team", "job")
    assert (given.operation, given.dry_run, given.reason, given.status) == ("CREATE", False, Reason.PATCHED, "process")
    assert (given.rules, given.classes) == (("C1",), ("python",))
    assert given.env == ("RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "PYTORCH_DIST_INIT_METHOD")
    assert json.loads(base64.b64decode(response(given)["patch"])) == given.patch
    assert (given.message, given.bug) == (None, None)


def test_audit_annotations_are_strings_with_names_only() -> None:
    """Status, rules, reason and the names that change, each a string; nothing on the pods of others."""
    told = response(respond())["auditAnnotations"]
    env = "RANK,LOCAL_WORLD_SIZE,NODE_RANK,PYTORCH_DIST_INIT_METHOD"
    assert told == {"status": "process", "rules": "C1", "reason": "patched", "env": env}
    assert "auditAnnotations" not in response(respond({"kind": "Pod"}))


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"operation": "UPDATE"}, Reason.NOT_CREATE),
        ({"operation": "DELETE", "object": None}, Reason.NOT_CREATE),
        ({"subResource": "ephemeralcontainers", "operation": "UPDATE"}, Reason.NOT_CREATE),
        ({"subResource": "eviction"}, Reason.NOT_CREATE),
        ({"object": None}, Reason.NOT_OURS),
        ({"object": [1]}, Reason.NOT_OURS),
        ({"object": {"kind": "Job"}}, Reason.NOT_OURS),
        ({"object": {}}, Reason.NOT_OURS),
        ({"version": "admission.k8s.io/v7"}, Reason.BAD_REQUEST),
    ],
)
def test_what_isnt_a_new_pod_of_ours_is_allowed_unchanged(request_: dict[str, Any], reason: Reason) -> None:
    """Another operation, subresource, kind or version passes as it came, with its uid."""
    given = respond(**request_)
    assert response(given) == {"uid": "u-1", "allowed": True} | (
        {} if reason is not Reason.BAD_REQUEST else {"auditAnnotations": {"reason": "bad-request"}}
    )
    assert (given.reason, given.patch) == (reason, [])


@pytest.mark.parametrize("data", [b"", b"{}", b"nonsense", b"[]", b"\xff" * 10, b"[" * 100_000, b'{"kind":"Pod"}'])
def test_what_is_no_review_is_refused(data: bytes) -> None:
    """The server makes an HTTP 400 of it."""
    with pytest.raises(BadReview):
        mutate.respond(data, Policy())


def test_a_dry_run_gets_the_same_patch() -> None:
    """There are no side effects to spare."""
    dry = respond(dryRun=True)
    assert dry.dry_run
    assert dry.patch == respond().patch


def broken(pod: Pod, policy: Policy, /) -> NoReturn:
    """A decision that fails, and whose error quotes the pod as errors do."""
    del policy
    raise LookupError(f"{SECRET} {pod.raw}")


@pytest.mark.parametrize(("on_bug", "allowed"), [("allow", True), ("deny", False)])
def test_a_fault_of_ours_is_a_warning_or_a_denial(on_bug: Any, *, allowed: bool) -> None:
    """An exception in `decide` leaves the pod as it is, or refuses it where the server is set so; it is handed on."""
    given = mutate.respond(body(), Policy(on_bug=on_bug), decide=broken)
    told = response(given)
    assert (told["uid"], told["allowed"], given.patch) == ("u-1", allowed, [])
    assert isinstance(given.bug, LookupError)
    assert len(told.get("warnings", [])) == allowed
    assert given.reason is (Reason.BAD_REQUEST if allowed else Reason.DENIED)
    assert SECRET not in given.body.decode()


@pytest.mark.parametrize(
    "job",
    [
        MODERN,
        OLD,
        MODERN.but(command=("bash", "-c", f"TOKEN={SECRET} python t.py --rank $RANK {SECRET}")),
        MODERN.but(command=("sh", "run.sh", SECRET), gpus=3),
        MODERN.but(command=("torchrun", "--standalone", "t.py", SECRET)),
        MODERN.but(command=("deepspeed", SECRET)),
        Job(master=False),
        MODERN.but(ask={"mode": "audit"}),
        MODERN.but(ask={"mode": "typo"}),
        MODERN.but(ask={"nproc_per_node": "gpu"}),
        MODERN.but(names=("pytorch", "pytorch-1"), nproc="3"),
    ],
)
def test_no_value_of_the_users_env_leaves(job: Job) -> None:
    """A secret in the env, or in the command, appears in no warning, annotation, message or audit annotation."""
    places = ({"A": SECRET}, {"RANK": SECRET}, {"WORLD_SIZE": SECRET}, {"PET_NNODES": SECRET}, {"NODE_RANK": SECRET})
    for extra in places:
        for raw in (job.but(env=tuple(entries(extra))).pod(), after_operator(job, extra)):
            given = answer(raw)
            assert SECRET not in given.body.decode()
            assert SECRET not in json.dumps(given.patch)
            assert SECRET not in repr((given.warnings, given.message, given.env, given.reason))


def after_operator(job: Job, extra: Mapping[str, str]) -> dict[str, Any]:
    """A pod whose env another webhook has added to, after the operator."""
    raw = job.pod()
    raw["spec"]["containers"][0]["env"] += entries(dict(extra))
    return raw


def test_the_server_default_is_the_policys() -> None:
    """A policy's default mode decides for pods that don't."""
    assert respond(policy=Policy(default_mode=Mode.OFF)).reason is Reason.OFF


def test_patched_applies_an_answer() -> None:
    """`-o pod` and `diff` show what the API server would store; the pod handed in stays."""
    raw = MODERN.pod()
    result = mutate.patched(raw, respond(raw).patch)
    assert result["metadata"]["annotations"]["rankfix/ranks"] == "k=1 P=2 N=4 ranks=4-7/8"
    assert raw == MODERN.pod()

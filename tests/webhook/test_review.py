"""AdmissionReviews: which are read, which refused, and what an answer looks like."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from webhook import review
from webhook.errors import BadReview

POD = {"kind": "Pod", "metadata": {}}
REQUEST: dict[str, Any] = {"uid": "u-1", "operation": "CREATE", "namespace": "team", "object": POD}


def of(version: str = "admission.k8s.io/v1", **request: Any) -> review.Review:
    """The review of a request that differs from the plain one."""
    return review.of({"apiVersion": version, "kind": "AdmissionReview", "request": {**REQUEST, **request}})


def test_a_request_is_read() -> None:
    """Version, uid, namespace, operation, dry run and the object come through as sent."""
    seen = of(dryRun=True)
    assert (seen.version, seen.uid, seen.namespace, seen.operation) == ("admission.k8s.io/v1", "u-1", "team", "CREATE")
    assert (seen.dry_run, seen.creates, seen.pod, seen.known_version) == (True, True, POD, True)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "AdmissionReview",
        {},
        {"kind": "AdmissionReview"},
        {"kind": "AdmissionReview", "apiVersion": "v1", "request": REQUEST},
        {"kind": "AdmissionReview", "apiVersion": 1, "request": REQUEST},
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io.evil/v1", "request": REQUEST},
        {"kind": "ConversionReview", "apiVersion": "admission.k8s.io/v1", "request": REQUEST},
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"},
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": []},
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {}},
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": 3}},
    ],
)
def test_what_no_answer_could_name_is_refused(document: Any) -> None:
    """Without version and uid there is no answer; the error says in one line what was expected."""
    with pytest.raises(BadReview) as refusal:
        review.of(document)
    assert "AdmissionReview" in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("request_", "creates"),
    [
        ({}, True),
        ({"operation": "UPDATE"}, False),
        ({"operation": "DELETE"}, False),
        ({"operation": "CONNECT"}, False),
        ({"operation": None}, False),
        ({"subResource": "ephemeralcontainers"}, False),
        ({"requestSubResource": "binding"}, False),
        ({"subResource": ""}, True),
    ],
)
def test_only_creation_counts(request_: dict[str, Any], *, creates: bool) -> None:
    """Operation CREATE of the pod itself, not of a subresource."""
    assert of(**request_).creates is creates


@pytest.mark.parametrize(
    "request_",
    [
        {"object": None},
        {"object": []},
        {"object": {"kind": "Deployment"}},
        {"resource": {"group": "apps", "resource": "deployments"}},
        {"resource": {"group": "", "resource": "services"}},
        {"kind": {"group": "", "kind": "Binding"}},
        {"kind": {"group": "kubeflow.org", "kind": "Pod"}},
    ],
)
def test_other_objects_are_no_pods(request_: dict[str, Any]) -> None:
    """Null, another kind, or another resource is nobody's pod."""
    assert of(**request_).pod is None


@pytest.mark.parametrize(
    "request_",
    [
        {"resource": {"group": "", "version": "v1", "resource": "pods"}, "kind": {"group": "", "kind": "Pod"}},
        {"object": {"metadata": {}}},
        {"resource": None, "kind": "Pod"},
    ],
)
def test_what_a_review_leaves_out_isnt_held_against_it(request_: dict[str, Any]) -> None:
    """A hand-made review without resource or kinds is judged by what is there."""
    assert of(**request_).pod is not None


@pytest.mark.parametrize("odd", [None, 3, [], {}])
def test_odd_strings_are_empty(odd: Any) -> None:
    """Namespace and operation are strings for whoever logs them."""
    seen = of(namespace=odd, operation=odd)
    assert (seen.namespace, seen.operation, seen.creates) == ("", "", False)


def response(**told: Any) -> dict[str, Any]:
    """The response of an answer with a verdict that differs from the plain one."""
    given: dict[str, Any] = {"patch": [], "warnings": [], "audit": {}, "denial": None, **told}
    found: dict[str, Any] = json.loads(review.answer("admission.k8s.io/v1", "u-1", review.verdict(**given)))["response"]
    return found


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v2", "\ud800"])
@pytest.mark.parametrize("uid", ["u-1", 'a"b', "\ud800", ""])
def test_answers_echo_version_and_uid(version: str, uid: str) -> None:
    """An unknown version is echoed, too, and what JSON must escape is escaped."""
    answered = review.answer(version, uid, review.verdict(patch=[], warnings=[], audit={}, denial=None))
    expected = {"apiVersion": version, "kind": "AdmissionReview", "response": {"uid": uid, "allowed": True}}
    assert json.loads(answered.decode()) == expected
    assert list(json.loads(answered)) == list(expected)


def test_a_patch_has_its_type() -> None:
    """`patch` and `patchType` come together; the patch is base64 of a JSON list."""
    operation: Any = {"op": "add", "path": "/x", "value": "é"}
    told = response(patch=[operation], warnings=["w"], audit={"a": "b"})
    assert told["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(told["patch"])) == [operation]
    assert (told["warnings"], told["auditAnnotations"]) == (["w"], {"a": "b"})


def test_a_denial_has_code_reason_and_message() -> None:
    """A denied pod gets no patch; its status says why."""
    assert response(patch=[{"op": "remove", "path": "/x"}], denial="no") == {
        "uid": "u-1",
        "allowed": False,
        "status": {"code": 400, "reason": "BadRequest", "message": "no"},
    }


@pytest.mark.parametrize("metadata", [{"name": "p", "namespace": "n"}, {"generateName": "p-"}, None])
def test_a_bare_pod_is_wrapped(metadata: Any) -> None:
    """The command line's review of a pod is one that the server would get."""
    seen = review.of(review.review_of({"kind": "Pod", "metadata": metadata}, uid="x"))
    assert (seen.uid, seen.creates) == ("x", True)
    assert seen.pod is not None
    assert review.of(review.review_of({}, namespace="given")).namespace == "given"

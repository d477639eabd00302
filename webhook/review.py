"""AdmissionReviews of `admission.k8s.io`: the parts that rankfix reads, the answers, and a review around a bare pod."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

from webhook import say, wire
from webhook.errors import BadReview

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from webhook.jsonpatch import Patch

GROUP = "admission.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")


class Status(TypedDict):
    """`metav1.Status` of a denial. Without a code the API server says 400, without a reason kubectl says nothing."""

    code: int
    reason: str
    message: str


class Verdict(TypedDict):
    """`AdmissionResponse` without the request's uid. `patch` and `patchType` come together or not at all."""

    allowed: bool
    patch: NotRequired[str]
    patchType: NotRequired[Literal["JSONPatch"]]
    warnings: NotRequired[list[str]]
    auditAnnotations: NotRequired[dict[str, str]]
    status: NotRequired[Status]


@dataclass(frozen=True, slots=True)
class Review:
    """A request, as far as it could be read. `pod` is None where the object isn't a pod to be created."""

    version: str
    uid: str
    namespace: str
    operation: str
    dry_run: bool
    creates: bool
    pod: Mapping[str, Any] | None

    @property
    def known_version(self) -> bool:
        """Whether this is a version whose meaning rankfix knows."""
        return self.version in VERSIONS


def parse(body: bytes) -> Review:
    """The request in a body.

    Raises:
        BadReview: the body is no JSON, or no AdmissionReview whose version and uid can be read.
    """
    return of(wire.decode(body))


def of(review: object) -> Review:
    """The request in a decoded AdmissionReview.

    Raises:
        BadReview: it is none, or its version or uid can't be read.
    """
    if not isinstance(review, dict):
        raise BadReview("the body is not a JSON object; an AdmissionReview was expected")
    version, request = review.get("apiVersion"), review.get("request")
    if review.get("kind") != "AdmissionReview" or not isinstance(version, str) or version.split("/")[0] != GROUP:
        raise BadReview(
            f"not an AdmissionReview of {GROUP}: apiVersion {_name(version)}, kind {_name(review.get('kind'))}"
        )
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise BadReview("an AdmissionReview without a request that has a uid; an answer has to repeat it")
    return Review(
        version=version,
        uid=request["uid"],
        namespace=_string(request.get("namespace")),
        operation=_string(request.get("operation")),
        dry_run=request.get("dryRun") is True,
        creates=request.get("operation") == "CREATE" and not _sub_resource(request),
        pod=_pod(request),
    )


def _name(value: object) -> str:
    """A version or kind for a message; it is a stranger's text, so only a little of it."""
    return say.quoted(value) if isinstance(value, str) else "missing"


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _sub_resource(request: Mapping[str, Any]) -> bool:
    return bool(request.get("subResource") or request.get("requestSubResource"))


def _pod(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The object if it is a pod; what a hand-made review leaves out isn't held against it."""
    raw, resource, kind = (request.get(key) for key in ("object", "resource", "kind"))
    if not isinstance(raw, dict) or raw.get("kind", "Pod") != "Pod":
        return None
    if isinstance(resource, dict) and (resource.get("group", ""), resource.get("resource", "pods")) != ("", "pods"):
        return None
    if isinstance(kind, dict) and (kind.get("group", ""), kind.get("kind", "Pod")) != ("", "Pod"):
        return None
    return raw


def verdict(*, patch: Patch, warnings: Iterable[str], audit: Mapping[str, str], denial: str | None) -> bytes:
    """The JSON of a response without its uid: what answers to pods of one kind share.

    `denial` is the message of one that isn't allowed.
    """
    response: Verdict = {"allowed": denial is None}
    if denial is not None:
        response["status"] = {"code": 400, "reason": "BadRequest", "message": denial}
    elif patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(wire.encode(patch)).decode("ascii")
    if warnings := list(warnings):
        response["warnings"] = warnings
    if audit:
        response["auditAnnotations"] = dict(audit)
    return wire.encode(response)


def answer(version: str, uid: str, verdict: bytes) -> bytes:
    """The AdmissionReview that answers the request of this version and uid with a verdict."""
    return b'{"apiVersion":%b,"kind":"AdmissionReview","response":{"uid":%b,%b}' % (
        wire.encode(version),
        wire.encode(uid),
        verdict[1:],
    )


def review_of(
    pod: Mapping[str, Any], *, uid: str = "00000000-0000-0000-0000-000000000000", namespace: str | None = None
) -> dict[str, Any]:
    """An AdmissionReview that asks to create a bare pod, for the command line and for tests."""
    metadata = pod.get("metadata")
    meta = metadata if isinstance(metadata, dict) else {}
    request = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": meta.get("name", ""),
        "namespace": meta.get("namespace", "default") if namespace is None else namespace,
        "operation": "CREATE",
        "object": pod,
        "oldObject": None,
        "dryRun": False,
    }
    return {"apiVersion": VERSIONS[0], "kind": "AdmissionReview", "request": request}

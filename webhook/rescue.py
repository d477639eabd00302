"""The last answer there is: what to say when rankfix itself failed on a review and nothing of its own can be trusted.

Uses the standard library only and looks at three fields.
"""

from __future__ import annotations

import json
from typing import Any

_VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
WARNING = "rankfix failed on this pod and left it unchanged; its log says where (uid of the request)"
DENIAL = "rankfix failed on this pod, and its setting on-bug=deny refuses such pods; its log says where"


def answer(body: bytes, *, allow: bool) -> tuple[str | None, bytes | None]:
    """The request's uid, and an AdmissionReview that allows it unchanged or denies it; (None, None) if unreadable."""
    try:
        review = json.loads(body)
        uid, version = review["request"]["uid"], review["apiVersion"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None, None
    if not isinstance(uid, str) or version not in _VERSIONS:
        return None, None
    response: dict[str, Any] = {"uid": uid, "allowed": allow}
    if allow:
        response["warnings"] = [WARNING]
    else:
        response["status"] = {"code": 500, "reason": "InternalError", "message": DENIAL}
    return uid, json.dumps({"apiVersion": version, "kind": "AdmissionReview", "response": response}).encode()

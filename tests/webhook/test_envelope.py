"""Reviews opened only as far as needed: what is taken out, and what isn't opened at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support_edges import RECORDED, UID, body, pod
from webhook.envelope import essence, opened, pod_of
from webhook.errors import BadReview


def test_what_is_read() -> None:
    """Version, uid, namespace and dry run, and the five parts of the pod that decisions are made from."""
    envelope = opened(body(dryRun=True))
    assert envelope is not None
    assert envelope.api_version == "admission.k8s.io/v1"
    request = envelope.request
    assert (request.uid, request.namespace, request.operation, request.dry_run) == (UID, "team-a", "CREATE", True)
    raw = pod()
    parts = [json.loads(part) if part else None for part in essence(envelope)]
    metadata, spec = raw["metadata"], raw["spec"]
    assert parts == [
        metadata.get("labels"),
        metadata.get("annotations"),
        metadata["ownerReferences"],
        spec["containers"],
        spec.get("initContainers"),
    ]


@pytest.mark.parametrize("path", RECORDED[::10], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_recorded_review_is_opened(path: Any) -> None:
    """What API servers really sent has the usual form, and the pod of its parts is the pod that was sent."""
    envelope = opened(path.read_bytes())
    assert envelope is not None
    made, sent = pod_of(essence(envelope)), json.loads(path.read_bytes())["request"]["object"]
    for place in ("metadata", "spec"):
        assert {key: sent[place][key] for key in made[place]} == made[place]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        body(operation="UPDATE"),
        body(subResource="status"),
        body(uid=3),
        body(version="v7"),
        body({"kind": "Job"}),
        body(kind={"group": "apps", "kind": "Pod"}),
        body(resource={"group": "", "resource": "jobs"}),
        body(namespace=None),
        body() + b"x",
        body().replace(b"team-a", b"\xff"),
    ],
)
def test_what_has_another_form_stays_closed(data: bytes) -> None:
    """It is none of this module's business whether that is a good review: nothing is raised."""
    assert opened(data) is None


def test_parts_that_cannot_be_decoded() -> None:
    """Numbers beyond a double are passed over until somebody wants them; then the error is the usual one, or none."""
    with pytest.raises(BadReview):
        pod_of((b"{", b"", b"", b"", b""))

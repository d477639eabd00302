"""What is left in the audit log of a cluster: what rankfix did, by which rule, and that it failed open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e import controlplane
from tests.e2e.installation import installation, recorded, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods"]}]}],
}
CANARY = "hunter2-canary-QWERT"


@pytest.fixture(name="audited")
def _audited(tmp_path: Path) -> Iterator[controlplane.ControlPlane]:
    """A control plane of its own, which writes an audit log."""
    if not controlplane.available():
        pytest.skip(controlplane.SKIP)
    folder = tmp_path / "plane"
    folder.mkdir()
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    log = folder / "audit.log"
    with controlplane.start(folder, f"--audit-policy-file={tmp_path}/policy.json", f"--audit-log-path={log}") as plane:
        yield plane


def noted(plane: controlplane.ControlPlane, pod: str) -> dict[str, Any]:
    """The audit annotations of a pod's creation."""
    lines = (plane.folder / "audit.log").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return next((e.get("annotations", {}) for e in events if e["objectRef"].get("name") == pod), {})


def test_the_audit_log_says_what_was_done(audited: controlplane.ControlPlane, tmp_path: Path) -> None:
    """Status, rules and names of env under our webhook's name, no value; and of an unseen pod, that it was unseen."""
    folder = tmp_path / "tls"
    folder.mkdir()
    pod = recorded("v1.9.0", "bare-n4-worker-0")
    pod["spec"]["containers"][0]["env"].append({"name": "TOKEN", "value": CANARY})
    with installation(audited, folder, {"failurePolicy": "Ignore"}, namespace="rankfix-audit") as made:
        made.apply()
        made.make_certificate()
        with made.server():
            made.await_repair()
            assert made.create({**pod, "metadata": {**pod["metadata"], "name": "seen"}}).status == 201
        until(lambda: "rankfix/status" not in made.probe().body["metadata"].get("annotations", {}), "still served")
        assert made.create({**pod, "metadata": {**pod["metadata"], "name": "unseen"}}).status == 201
        until(lambda: noted(audited, "unseen"), "nothing in the audit log")
    seen, unseen = noted(audited, "seen"), noted(audited, "unseen")
    assert (seen["pods.rankfix.webhook/status"], seen["pods.rankfix.webhook/rules"]) == ("process", "C1")
    assert "WORLD_SIZE" in seen["pods.rankfix.webhook/env"]
    assert unseen["rankfix.rankfix-audit-guard/unseen"] == "true"
    assert any(key.startswith("failed-open.mutation.webhook") for key in unseen)
    assert "rankfix.rankfix-audit-guard/unseen" not in seen
    assert CANARY not in (audited.folder / "audit.log").read_text()

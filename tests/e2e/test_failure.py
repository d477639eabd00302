"""What pods get while no server answers: refused under Fail, let through under Ignore, and then named by the guard."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.installation import installation, recorded, until
from tests.support_deploy import Object, rendered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.controlplane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

OURS = recorded("v1.9.0", "bare-n4-worker-0")
OTHER = {"metadata": {"name": "other"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
NAMESPACE = "rankfix-down"


@pytest.fixture(name="down")
def _down(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation whose server has gone."""
    with installation(plane, tmp_path_factory.mktemp("tls"), namespace=NAMESPACE) as made:
        made.apply()
        made.make_certificate()
        until(lambda: made.probe().status == 500, "the configuration has no effect")
        yield made


def values(**more: object) -> dict[str, object]:
    return {"failurePolicy": "Ignore", **more}


def test_fail_refuses_ours_and_nobody_elses(down: Installation) -> None:
    """The default: no pod trains with ranks that nobody looked at, and other pods don't notice."""
    reply = down.create(OURS)
    assert (reply.status, reply.body["reason"]) == (500, "InternalError")
    assert 'failed calling webhook "pods.rankfix.webhook"' in reply.body["message"]
    assert down.create(OTHER, query="?dryRun=All").status == 201


def test_the_operator_gets_its_pods_when_a_server_is_back(down: Installation) -> None:
    """It tries again by itself, and what it gets then is repaired."""
    assert down.create(OURS, query="?dryRun=All").status == 500
    with down.server():
        down.await_repair()


def test_a_server_that_hangs_costs_the_timeout(down: Installation) -> None:
    """Three seconds a pod by default, not the API server's ten: the operator has one worker for all jobs."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        down.front.ports.append(silent.getsockname()[1])
        start = time.monotonic()
        assert down.create(OURS, query="?dryRun=All").status == 500
        assert 2.5 < time.monotonic() - start < 8
        down.front.ports.clear()


def test_ignore_lets_pods_through_and_the_guard_warns(down: Installation) -> None:
    """Bug 15: fail-open is not silent: a warning and an audit annotation for each pod that slipped through."""
    down.apply(rendered(values(), namespace=NAMESPACE))
    until(lambda: "rankfix did not see this pod" in created(down), "the guard says nothing")
    reply = down.create(OURS, query="?dryRun=All")
    assert (reply.status, env(reply.body)["RANK"]) == (201, "1")


def test_the_guard_can_deny(down: Installation) -> None:
    """`guard: deny`: what slipped through is refused, by the API server alone."""
    down.apply(rendered(values(guard="deny"), namespace=NAMESPACE))
    until(lambda: down.probe().status == 422, "the guard denies nothing")
    reply = down.create(OURS)
    assert "rankfix did not see this pod of a PyTorchJob" in reply.body["message"]
    assert down.create(OTHER, query="?dryRun=All").status == 201


def test_the_guard_is_silent_on_what_was_seen(down: Installation) -> None:
    """Repaired pods, and pods that need or want nothing, pass a guard that denies."""
    down.apply(rendered(values(guard="deny"), namespace=NAMESPACE))
    until(lambda: down.probe().status == 422, "the guard denies nothing")
    with down.server():
        down.await_repair()
        for name in ("bare-n4-worker-0", "ask-off-worker-0", "script-file-worker-0", "elastic-workers-worker-0",
                     "ask-audit-worker-0", "workers-only-worker-0"):  # fmt: skip
            reply = down.create(recorded("v1.9.0", name), query="?dryRun=All")
            assert reply.status == 201, reply.body


def created(installed: Installation) -> str:
    """What kubectl says when the pod is created."""
    text = json.dumps({**OURS, "apiVersion": "v1", "kind": "Pod"})
    ran = installed.plane.try_kubectl("create", "-n", "team-a", "--dry-run=server", "-f", "-", stdin=text)
    return ran.stderr


def env(pod: Object) -> dict[str, str]:
    """Of the first container, the last of each name."""
    return {entry["name"]: entry.get("value", "") for entry in pod["spec"]["containers"][0]["env"]}

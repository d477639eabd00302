"""An installation from its first day to its last, while pods of PyTorchJobs are created: not one of them fails."""

from __future__ import annotations

import contextlib
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.installation import installation, leftovers
from tests.e2e.traffic import load
from tests.support_deploy import Object, Objects, one, rendered

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.controlplane import ControlPlane
    from tests.e2e.installation import Installation
    from tests.support_edges import Running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

NAMESPACE = "rankfix-life"
END = ("--drain=1.5", "--grace=5")
OLD: Object = {"replicas": 2}
NEW: Object = {
    "replicas": 3,
    "timeoutSeconds": 5,
    "settings": {"default-mode": "auto"},
    "excludedNamespaces": ["istio-system"],
}


def objects(values: Object, version: str = "0.1.0") -> Objects:
    """A version of the manifests."""
    made = rendered(values, namespace=NAMESPACE)
    for item in made.values():
        item["metadata"]["labels"]["app.kubernetes.io/version"] = version
    one(made, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"] = f"rankfix:{version}"
    return made


def roll(installed: Installation, old: list[Running], stack: contextlib.ExitStack) -> list[Running]:
    """What a Deployment does, with maxUnavailable 0: a new server joins, then an old one leaves and ends."""
    fresh = []
    for gone in old:
        fresh.append(stack.enter_context(installed.server(*END)))
        installed.front.ports.remove(gone.port)
        time.sleep(0.5)  # stands for the preStop hook: new connections go elsewhere from now on
        assert gone.stop(signal.SIGTERM) == 0
    return fresh


def test_install_upgrade_rollback_uninstall(plane: ControlPlane, tmp_path: Path) -> None:
    """docs/install.md for a cluster that trains already: fail-open first, then Fail; up and down again; away."""
    with (
        installation(plane, tmp_path, namespace=NAMESPACE) as made,
        load(made, pause=0.02) as pods,
        contextlib.ExitStack() as stack,
    ):
        pods.wait(10)
        assert pods.repaired == 0
        made.apply(objects({**OLD, "failurePolicy": "Ignore"}))
        made.make_certificate()
        servers = [stack.enter_context(made.server(*END)) for _ in range(2)]
        made.await_repair()
        made.apply(objects(OLD))
        made.await_repair()
        pods.wait(30)
        before = pods.plain
        bundle = made.bundle()
        for version, values in (("0.2.0", NEW), ("0.1.0", OLD)):
            made.apply(objects(values, version))
            servers = roll(made, servers, stack)
            pods.wait(30)
        assert made.bundle() == bundle
        assert (pods.failed, pods.plain) == ([], before)
        made.remove()
        made.await_absence()
        pods.wait(10)
        assert pods.failed == []
    assert leftovers(plane, NAMESPACE) == []

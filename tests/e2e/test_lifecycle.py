"""An installation from its first day to its last, while pods of PyTorchJobs are created: not one of them fails."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.e2e.installation import installation, leftovers, repaired
from tests.support_deploy import Objects, one, rendered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.controlplane import ControlPlane
    from tests.e2e.installation import Installation
    from tests.support_edges import Running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

NAMESPACE = "rankfix-life"
END = ("--drain=1.5", "--grace=5")
OLD = {"replicas": 2}
NEW = {"replicas": 3, "timeoutSeconds": 5, "settings": {"default-mode": "auto"}, "excludedNamespaces": ["istio-system"]}


@dataclass
class Load:
    """Creates pods without a pause; what failed, and how many came through repaired and unrepaired."""

    installed: Installation
    failed: list[str] = field(default_factory=list)
    repaired: int = 0
    plain: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.over.is_set():
            reply = self.installed.probe()
            if reply.status != 201:
                self.failed.append(str(reply.body))
            elif repaired(reply):
                self.repaired += 1
            else:
                self.plain += 1

    def wait(self, count: int) -> None:
        """Until that many more pods came through."""
        goal = self.repaired + self.plain + count
        deadline = time.monotonic() + 60
        while self.repaired + self.plain < goal and not self.failed:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@contextlib.contextmanager
def load(installed: Installation, threads: int = 2) -> Iterator[Load]:
    """Pods, all the time."""
    made = Load(installed)
    workers = [threading.Thread(target=made.run) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield made
    finally:
        made.over.set()
        for worker in workers:
            worker.join()


def objects(values: dict[str, object], version: str = "0.1.0") -> Objects:
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
        load(made) as pods,
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
        bundle = caught_bundle(made)
        for version, values in (("0.2.0", NEW), ("0.1.0", OLD)):
            made.apply(objects(values, version))
            servers = roll(made, servers, stack)
            pods.wait(30)
        assert caught_bundle(made) == bundle
        assert (pods.failed, pods.plain) == ([], before)
        made.remove()
        made.await_absence()
        pods.wait(10)
        assert pods.failed == []
    assert leftovers(plane, NAMESPACE) == []


def caught_bundle(installed: Installation) -> str:
    """The caBundle: an upgrade mustn't take it away."""
    configuration = installed.plane.get(installed.configuration)
    bundle: str = configuration["webhooks"][0]["clientConfig"]["caBundle"]
    return bundle

"""The webhook's container serves under the Deployment's restrictions, and nothing that happens to it fails a call."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING

import jsonpatch
import pytest

from tests.images import engine
from tests.images.webhook_container import MEMORY, started
from tests.support_deploy import one, profile
from tests.support_edges import ask, body, patch_of, pod
from tests.support_tls import leaf as der

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.images.webhook_container import Webhook

pytestmark = [pytest.mark.image, pytest.mark.slow, pytest.mark.timeout(600)]

BURST, CLIENTS = 1000, 16
CALLS_BEFORE, CALLS_AFTER = 50, 100


def test_it_answers_from_outside(webhook: Webhook) -> None:
    """A pod is repaired over TLS, by a server that isn't root, on a root that is read-only, without a shell."""
    reply = webhook.server.ask("POST", "/mutate", body())
    repaired = jsonpatch.apply_patch(pod(), patch_of(reply.json))
    env = {entry["name"]: entry["value"] for entry in repaired["spec"]["containers"][0]["env"]}
    assert reply.json["response"]["allowed"]
    assert env["LOCAL_WORLD_SIZE"] == "4"
    assert webhook.server.ask("GET", "/readyz").status == 200
    assert webhook.container.execute("python3", "-c", "import os; print(os.getuid(), os.getgid())") == "65532 65532"
    with pytest.raises(AssertionError, match="permission denied"):
        webhook.container.execute("/bin/sh", "-c", "true")


def test_it_starts_soon(webhook: Webhook, figures: dict[str, str]) -> None:
    """From the engine's start to listening, by both logs: a figure, since a busy machine decides about it."""
    began = datetime.fromisoformat(webhook.container.state["StartedAt"][:26] + "+00:00")
    said = [json.loads(line) for line in webhook.container.log.splitlines()]
    ready = next(datetime.fromisoformat(line["time"]) for line in said if line["event"] == "listening")
    figures["start-up"] = f"{(ready - began).total_seconds():.2f} s until it listens"


def test_a_burst_fits_its_memory(webhook: Webhook, figures: dict[str, str]) -> None:
    """A thousand pods of different jobs at once are all answered, within half of the Deployment's memory."""
    limit = one(profile("self-signed"), "Deployment")["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert int(limit["limits"]["memory"].removesuffix("Mi")) >= MEMORY
    numbers, began = count(), time.perf_counter()

    def client(_: int) -> list[int]:
        with contextlib.closing(webhook.server.connect()) as connection:
            return [call(connection, next(numbers)) for _ in range(BURST // CLIENTS + 1)]

    def call(connection: object, number: int) -> int:
        made = pod(("SHARD", str(number)), name=f"job-{number}-worker-0")
        return len(patch_of(ask(connection, "POST", "/mutate", body(made)).json))  # type: ignore[arg-type]  # an HTTPConnection

    with ThreadPoolExecutor(CLIENTS) as pool:
        patches = [size for sizes in pool.map(client, range(CLIENTS)) for size in sizes]
    seconds = time.perf_counter() - began
    assert len(patches) >= BURST
    assert all(patches)
    state = webhook.container.state
    assert state["Running"]
    assert not state["OOMKilled"]
    peak = webhook.container.peak_memory() / 2**20
    figures["burst"] = f"{len(patches)} pods in {seconds:.1f} s by {CLIENTS} clients on this machine"
    figures["memory"] = f"at most {peak:.0f} of {MEMORY} MiB, the pages of its files among them"


def test_the_secret_is_replaced_under_load(webhook: Webhook) -> None:
    """Its files are swapped as kubelet swaps them: the new certificate is served, and no call fails."""
    with calling(webhook) as done:
        done.wait(CALLS_BEFORE)
        fresh = webhook.bring()
        engine.until(lambda: served(webhook) == der(fresh), "the old certificate is still served")
        done.wait(CALLS_AFTER)
    assert done.failed == []


def served(webhook: Webhook) -> bytes:
    """The certificate that a handshake shows."""
    with contextlib.closing(webhook.server.connect()) as connection:
        connection.connect()
        return connection.sock.getpeercert(binary_form=True) or b""


class Calls:
    """Calls on ever new connections, in a thread, and what failed."""

    def __init__(self, webhook: Webhook) -> None:
        self.failed: list[str] = []
        self._webhook = webhook
        self._over = threading.Event()
        self._answered = 0

    def run(self) -> None:
        while not self._over.is_set():
            try:
                reply = self._webhook.server.ask("POST", "/mutate", body())
            except OSError as exc:
                self.failed.append(repr(exc))
                continue
            self._answered += 1
            if reply.status != 200:
                self.failed.append(f"{reply.status} {reply.body!r}")

    def wait(self, more: int) -> None:
        """Until that many more were answered."""
        goal = self._answered + more
        engine.until(lambda: self._answered >= goal or self.failed, "too few calls", within=60)

    def stop(self) -> None:
        self._over.set()


@contextlib.contextmanager
def calling(webhook: Webhook) -> Iterator[Calls]:
    """Two clients that don't pause."""
    calls = Calls(webhook)
    threads = [threading.Thread(target=calls.run) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield calls
    finally:
        calls.stop()
        for thread in threads:
            thread.join()


def test_sigterm_drains(webhook_image: str, tmp_path: Path) -> None:
    """A call that is under way is answered, clients are told to go, and process 1 ends with 0."""
    with started(webhook_image, tmp_path, "--drain=1") as webhook:
        review = body()
        idle, half = webhook.server.connect(), webhook.server.connect()
        with contextlib.closing(idle), contextlib.closing(half):
            assert ask(idle, "GET", "/healthz").headers.get("connection") != "close"
            half.putrequest("POST", "/mutate")
            half.putheader("Content-Type", "application/json")
            half.putheader("Content-Length", str(len(review)))
            half.endheaders(review[:100])
            webhook.container.signal("TERM")
            webhook.container.says('"stopping"', within=30)
            half.send(review[100:])
            assert patch_of(json.loads(half.getresponse().read()))
            assert ask(idle, "GET", "/healthz").headers["connection"] == "close"
        assert webhook.container.wait(timeout=60) == 0
        assert not webhook.container.state["OOMKilled"]

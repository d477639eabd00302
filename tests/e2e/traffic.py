"""Pods of PyTorchJobs, created one after the other by several clients, and what became of each."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from tests.e2e.controlplane import ADMIN
from tests.e2e.installation import PODS, Installation, recorded

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Load:
    """Creates pods without a pause; what failed, and how many came through repaired and unrepaired."""

    installed: Installation
    failed: list[str] = field(default_factory=list)
    repaired: int = 0
    plain: int = 0
    pause: float = 0
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """One client with one connection, as the operator is."""
        path, body = PODS.format("team-a") + "?dryRun=All", json.dumps(recorded("v1.9.0", "bare-n4-worker-0"))
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}
        context = ssl.create_default_context(cafile=self.installed.plane.ca)
        address = ("127.0.0.1", self.installed.plane.port)
        with contextlib.closing(http.client.HTTPSConnection(*address, context=context, timeout=60)) as connection:
            while not self.over.wait(self.pause):
                connection.request("POST", path, body, headers)
                answer = connection.getresponse()
                self.count(answer.status, answer.read())

    def count(self, status: int, body: bytes) -> None:
        """Note what became of a pod."""
        if status != HTTPStatus.CREATED:
            self.failed.append(body.decode())
        elif b'"rankfix/status"' in body:
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
def load(installed: Installation, threads: int = 2, *, pause: float = 0) -> Iterator[Load]:
    """Pods, all the time."""
    made = Load(installed, pause=pause)
    workers = [threading.Thread(target=made.run) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield made
    finally:
        made.over.set()
        for worker in workers:
            worker.join()

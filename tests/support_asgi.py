"""An app with all that it depends on in the hands of a test, and a client that speaks ASGI to it."""

from __future__ import annotations

import asyncio
import io
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from webhook import app, logs, mutate
from webhook.app import Admission
from webhook.metrics import Metrics
from webhook.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Message, Receive

from tests.support_edges import JSON, Reply


@dataclass
class Edge:
    """An app with everything it was handed, to look at afterwards."""

    app: app.App
    admission: Admission
    metrics: Metrics
    log: io.StringIO

    def metric(self, sample: str) -> float:
        """A line of /metrics, 0 if it's not there."""
        self.admission.write_down()
        for line in self.metrics.render().decode().splitlines():
            if line.startswith(sample + " "):
                return float(line.rpartition(" ")[2])
        return 0.0

    def events(self) -> list[dict[str, Any]]:
        self.admission.write_down()
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


def edge(
    *,
    respond: Any = mutate.respond,
    policy: Policy | None = None,
    max_body: int = 1 << 20,
    body_timeout: float = 5,
    level: str = "debug",
    not_ready: str | None = None,
) -> Edge:
    """An app with its own registry and log."""
    stream = io.StringIO()
    metrics = Metrics(CollectorRegistry(), version="9.9.9")
    admission = Admission(
        respond=respond,
        policy=policy or Policy(),
        max_body=max_body,
        body_timeout=body_timeout,
        metrics=metrics,
        log=logs.make(stream, level),
        clock=time.perf_counter,
    )
    made = app.build(admission, metrics=metrics, version="9.9.9", not_ready=lambda: not_ready)
    return Edge(made, admission, metrics, stream)


@dataclass
class Wire:
    """One request on the ASGI wire: the chunks of its body, and whether the client goes away after them."""

    chunks: Sequence[bytes] = (b"",)
    method: str = "POST"
    path: str = "/mutate"
    headers: Sequence[tuple[str, str]] = (JSON,)
    leaves: bool = False
    stalls: bool = False
    query: bytes = b"timeout=3s"
    client: object = None
    sent: list[Message] = field(default_factory=list)
    taken: int = 0

    def send_to(self, asgi: ASGIApp) -> Reply | None:
        """The reply, None where the app said nothing."""
        asyncio.run(self._run(asgi))
        if not self.sent:
            return None
        start, *rest = self.sent
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return Reply(start["status"], headers, b"".join(message.get("body", b"") for message in rest))

    async def _run(self, asgi: ASGIApp) -> None:
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": self.method, "path": self.path,
            "raw_path": self.path.encode(), "query_string": self.query, "root_path": "", "scheme": "https",
            "headers": [(name.encode(), value.encode()) for name, value in self.headers], "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8443), "state": {} if self.client is None else {"client": self.client},
        }  # fmt: skip
        await asgi(scope, self._receive, self._send)

    async def _receive(self) -> Message:
        index, self.taken = self.taken, self.taken + 1
        if index < len(self.chunks):
            more = index + 1 < len(self.chunks) or self.leaves or self.stalls
            return {"type": "http.request", "body": self.chunks[index], "more_body": more}
        if self.stalls:
            await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.sent.append(message)


async def whole(receive: Receive) -> bytes | None:
    """The body of a request, for an app of a test; None where the client goes away before."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message["body"]
        more = message["more_body"]
    return body


def post(edge_: Edge, data: bytes, *headers: tuple[str, str]) -> Reply:
    """POST `data` to /mutate as the API server does."""
    reply = Wire([data], headers=headers or (JSON,)).send_to(edge_.app)
    assert reply is not None
    return reply


def get(edge_: Edge, path: str, method: str = "GET") -> Reply:
    """A request without a body."""
    reply = Wire(method=method, path=path, headers=()).send_to(edge_.app)
    assert reply is not None
    return reply

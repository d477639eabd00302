"""Before an admission: may this caller call, is there room for one more, can an answer still be in time?

The API server says with `?timeout=` how long it will wait. An answer that comes later is a failed call for it and work
for nothing for us, and all who wait behind would be late too: it isn't made.
"""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any

from webhook import caller

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from structlog.typing import FilteringBoundLogger

    from webhook.metrics import Metrics

EXTENSION = "rankfix"  # of the ASGI scope: `arrived`, of the request's first byte, and `names`, of its client
MOST_VALUES = 1_000_000  # in a body: as Python objects they take a hundred bytes each, in JSON as little as two
_COUNTED_FROM = 256 * 1024  # bytes of a body, before which there can't be too many
_FORBIDDEN, _TOO_LARGE, _UNAVAILABLE = 403, 413, 503
_TIMEOUT = re.compile(rb"(?:^|&)timeout=((?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:h|ms|m|s))+)(?:&|$)")
_PART = re.compile(rb"([0-9.]+)(h|ms|m|s)")
_SECONDS = {b"h": 3600.0, b"m": 60.0, b"s": 1.0, b"ms": 0.001}


class Refused(Exception):
    """A request that is turned away; `cause` is its name in the metrics."""

    def __init__(self, status: int, cause: str, message: str) -> None:
        super().__init__(message)
        self.status, self.cause, self.message = status, cause, message


class Gate:
    """An ASGI callable around the one that answers admissions.

    `most` requests at once, and `most_bytes` of all their bodies; `callers` are the names of which a client's
    certificate must have one, empty where any certificate will do, None where none is asked for.
    """

    def __init__(  # noqa: PLR0913 - all it depends on is handed in
        self,
        app: ASGIApp,
        *,
        most: int,
        most_bytes: int,
        callers: Collection[str] | None,
        metrics: Metrics,
        log: FilteringBoundLogger,
        clock: Callable[[], float],
    ) -> None:
        self._app = app
        self._most = most
        self._most_bytes = most_bytes
        self._callers = callers
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._held = 0
        self.in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI callable."""
        taken = _Taken(self, receive, _deadline(scope))
        self.in_flight += 1
        try:
            self._check(scope)
            await self._app(scope, taken, send)
        except Refused as refused:
            self._metrics.refused(refused.cause)
            self._log.debug("refused", cause=refused.cause, status=refused.status)
            await _send(send, refused)
        finally:
            self.in_flight -= 1
            self._held -= taken.size

    def _check(self, scope: Scope) -> None:
        if self._callers is not None:
            why = caller.why_not(_told(scope).get("names"), self._callers)
            if why:
                raise Refused(_FORBIDDEN, "caller", why)
        if self.in_flight > self._most:
            raise Refused(_UNAVAILABLE, "overload", f"more than {self._most} requests at once (setting max-requests)")

    def hold(self, size: int) -> None:
        """So many bytes more of somebody's body; one body alone is bounded elsewhere."""
        self._held += size
        if self._held > self._most_bytes and self.in_flight > 1:
            raise Refused(
                _UNAVAILABLE, "memory", f"more than {self._most_bytes} bytes of bodies at once (setting max-bodies)"
            )

    def in_time(self, deadline: float | None) -> None:
        """Raise `Refused` where the caller has gone by now."""
        if deadline is not None and self._clock() >= deadline:
            raise Refused(_UNAVAILABLE, "late", "the timeout of the request is over")


class _Taken:
    """`receive` of one request, which counts what comes; when all is there, the answer must still be in time."""

    def __init__(self, gate: Gate, receive: Receive, deadline: float | None) -> None:
        self._gate, self._receive, self._deadline = gate, receive, deadline
        self.size = 0
        self._values = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            body = message["body"]
            self.size += len(body)
            self._gate.hold(len(body))
            if self.size > _COUNTED_FROM:
                self._count(body)
            if not message["more_body"]:
                self._gate.in_time(self._deadline)
        return message

    def _count(self, body: bytes) -> None:
        # Each value but the last one of a list or an object has a comma behind it; those in a text count too
        self._values += sum(map(body.count, (b",", b"[", b"{")))
        if self._values > MOST_VALUES:
            raise Refused(_TOO_LARGE, "too-many-values", f"the body holds more than {MOST_VALUES} values")


def _told(scope: Scope) -> dict[str, Any]:
    told: dict[str, Any] = scope.get("extensions", {}).get(EXTENSION, {})
    return told


def _deadline(scope: Scope) -> float | None:
    arrived, wait = _told(scope).get("arrived"), seconds(scope["query_string"])
    return arrived + wait if arrived is not None and wait is not None else None


@functools.lru_cache(64)
def seconds(query: bytes) -> float | None:
    """What `timeout=` in a query says, a duration as Go writes it (`3s`, `1m0.5s`); None if it says nothing."""
    found = _TIMEOUT.search(query)
    if not found:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(found[1]))


async def _send(send: Send, refused: Refused) -> None:
    body = json.dumps({"error": refused.message}).encode() + b"\n"
    more = [(b"retry-after", b"1")] if refused.status == _UNAVAILABLE else [(b"connection", b"close")]
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

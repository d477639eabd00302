"""Before an admission: may this caller call, is there room for one more, can an answer still be in time?

The API server says with `?timeout=` how long it will wait. An answer that comes later is a failed call for it and work
for nothing for us, and all who wait behind would be late too: it isn't made.
"""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any, Protocol

from webhook import caller

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from starlette.types import Message, Receive, Scope, Send
    from structlog.typing import FilteringBoundLogger

    from webhook.metrics import Metrics

    Asgi = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]

JSON = b"application/json"
PATH = b"/mutate"
CLOSE, AGAIN = (b"connection", b"close"), (b"retry-after", b"1")  # headers
CLIENT = "client"  # in the state of an ASGI scope: who sends it
MOST_VALUES = 1_000_000  # in a body: as Python objects they take a hundred bytes each, in JSON as little as two
_LARGE = 256 * 1024  # bytes of a body: a smaller one can't hold too many
_FORBIDDEN, _TOO_LARGE, _UNAVAILABLE = 403, 413, 503
_TIMEOUT = re.compile(rb"(?:^|&)timeout=((?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:h|ms|m|s))+)(?:&|$)")
_PART = re.compile(rb"([0-9.]+)(h|ms|m|s)")
_SECONDS = {b"h": 3600.0, b"m": 60.0, b"s": 1.0, b"ms": 0.001}


class Client(Protocol):
    """Who sends a request: since when, and what names its certificate has."""

    since: float
    names: frozenset[str] | None


class Refused(Exception):
    """A request that gets an HTTP error instead of a review; `cause` is its name in the metrics."""

    def __init__(self, status: int, cause: str, message: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(message)
        self.status, self.cause, self.message, self.headers = status, cause, message, headers


class Gate:
    """An ASGI callable around the one that answers admissions.

    `at_once` is that one's answer to a body, None where it must be asked.

    `most` requests at once, and `most_bytes` of all their bodies; `callers` are the names of which a client's
    certificate must have one, empty where any certificate will do, None where none is asked for.
    """

    def __init__(  # noqa: PLR0913 - all it depends on is handed in
        self,
        app: Asgi,
        *,
        at_once: Callable[[bytes], bytes | None],
        most: int,
        most_bytes: int,
        callers: Collection[str] | None,
        metrics: Metrics,
        log: FilteringBoundLogger,
        clock: Callable[[], float],
    ) -> None:
        self._app = app
        self._answer = at_once
        self._most = most
        self.most_bytes = most_bytes
        self._callers = callers
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self.held = 0
        self.in_flight = 0

    def at_once(self, client: Client, query: bytes, body: bytes) -> bytes | None:
        """The answer to a body that is whole and small, from a client that may ask and still waits. None for all else:
        the ASGI callable says what is the matter.
        """
        usual = self._why_not(client) is None and len(body) < _LARGE and self.in_time(query, client)
        return self._answer(body) if usual else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI callable."""
        body = _Body(self, scope, receive)
        self.in_flight += 1
        try:
            self._check(scope)
            await self._app(scope, body.receive, send)
        except Refused as refused:
            await refuse(refused, send, self._metrics, self._log)
        finally:
            self.in_flight -= 1
            self.held -= body.size

    def in_time(self, query: bytes, client: Client | None) -> bool:
        """Whether the caller still waits."""
        wait = seconds(query)
        return wait is None or client is None or self._clock() < client.since + wait

    def _why_not(self, client: Client | None) -> str | None:
        """Why this client may not call."""
        return None if self._callers is None else caller.why_not(client.names if client else None, self._callers)

    def _check(self, scope: Scope) -> None:
        why = self._why_not(_client(scope))
        if why:
            raise Refused(_FORBIDDEN, "caller", why, CLOSE)
        if self.in_flight > self._most:
            raise Refused(
                _UNAVAILABLE, "overload", f"more than {self._most} requests at once (setting max-requests)", AGAIN
            )


class _Body:
    """The body of one request as it comes, which is counted. When all is there, the answer must still be in time."""

    __slots__ = ("_gate", "_receive", "_scope", "_values", "size")

    def __init__(self, gate: Gate, scope: Scope, receive: Receive) -> None:
        self._gate, self._scope, self._receive = gate, scope, receive
        self.size = self._values = 0

    async def receive(self) -> Message:
        """The ASGI callable."""
        message = await self._receive()
        if message["type"] == "http.request":
            gate, size = self._gate, len(message["body"])
            self.size += size
            gate.held += size
            if gate.held > gate.most_bytes or self.size > _LARGE:
                self._bound(message["body"])
            if not message["more_body"] and not gate.in_time(self._scope["query_string"], _client(self._scope)):
                raise Refused(_UNAVAILABLE, "late", "the timeout of the request is over", AGAIN)
        return message

    def _bound(self, body: bytes) -> None:
        gate = self._gate
        if gate.held > gate.most_bytes and gate.in_flight > 1:  # one alone is bounded elsewhere
            raise Refused(
                _UNAVAILABLE,
                "memory",
                f"more than {gate.most_bytes} bytes of bodies at once (setting max-bodies)",
                AGAIN,
            )
        if self.size > _LARGE:
            # Each value but the last one of a list or an object has a comma behind it; those in a text count too
            self._values += sum(map(body.count, (b",", b"[", b"{")))
        if self._values > MOST_VALUES:
            raise Refused(_TOO_LARGE, "too-many-values", f"the body holds more than {MOST_VALUES} values", CLOSE)


def _client(scope: Scope) -> Client | None:
    client: Client | None = scope["state"].get(CLIENT)
    return client


@functools.lru_cache(64)
def seconds(query: bytes) -> float | None:
    """What `timeout=` in a query says, a duration as Go writes it (`3s`, `1m0.5s`); None if it says nothing."""
    found = _TIMEOUT.search(query)
    if not found:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(found[1]))


async def refuse(refused: Refused, send: Send, metrics: Metrics, log: FilteringBoundLogger) -> None:
    """Count a refusal, and tell the client."""
    metrics.refused(refused.cause)
    log.debug("refused", cause=refused.cause, status=refused.status)
    await send_json(send, refused.status, error(refused.message), *refused.headers)


def error(message: str) -> bytes:
    """The body that tells it."""
    return json.dumps({"error": message}).encode() + b"\n"


async def send_json(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Send an answer whole."""
    fixed = [(b"content-type", JSON), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *headers]})
    await send({"type": "http.response.body", "body": body})

"""HTTP: `POST /mutate` for the API server, `/healthz`, `/readyz`, `/version` and `/metrics` for people and probes.

`/mutate` is a plain ASGI callable inside the FastAPI app and in front of its middleware: validation by pydantic would
rebuild a pod that must stay as it is, and routing costs more than most answers do. The rest are ordinary routes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Response
from starlette.exceptions import HTTPException

from webhook import rescue
from webhook.book import Book
from webhook.errors import BadReview
from webhook.gate import CLOSE, JSON, PATH, Refused, error, refuse, send_json
from webhook.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send
    from structlog.typing import FilteringBoundLogger

    from webhook.gate import Asgi
    from webhook.metrics import Metrics
    from webhook.mutate import Answer
    from webhook.policy import Policy

    Respond = Callable[[bytes, Policy], Answer]


class Disconnected(Exception):
    """The client went away before its body was whole: nobody is left to answer."""


class Admission:
    """`POST /mutate`: one AdmissionReview in, one out. It decides in the event loop: a decision takes microseconds."""

    def __init__(  # noqa: PLR0913 - all it depends on is handed in
        self,
        *,
        respond: Respond,
        policy: Policy,
        max_body: int,
        body_timeout: float,
        metrics: Metrics,
        log: FilteringBoundLogger,
        clock: Callable[[], float],
    ) -> None:
        self._respond = respond
        self._policy = policy
        self._max_body = max_body
        self._body_timeout = body_timeout
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._book = Book(metrics, log)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI callable."""
        try:
            body = await self._body(receive, declared=check(scope))
            answer = self._answer(body)
        except Refused as refused:
            await refuse(refused, send, self._metrics, self._log)
        except Disconnected:
            self._metrics.refused("disconnected")
        else:
            await send_json(send, 200, answer)

    def at_once(self, body: bytes) -> bytes | None:
        """The answer to the body of a usual request; None where it's another, or has none but an error."""
        if len(body) > self._max_body:
            return None
        start = self._clock()
        try:
            answer = self._respond(body, self._policy)
        except Exception:  # noqa: BLE001 - the ASGI callable meets it again, and says what it is
            return None
        self._book.note(answer, self._clock() - start)
        return answer.body

    def write_down(self) -> None:
        """Bring metrics and log up to the last answer."""
        self._book.write()

    async def _body(self, receive: Receive, *, declared: int) -> bytes:
        try:
            async with asyncio.timeout(self._body_timeout):
                return await read(receive, declared=declared, limit=self._max_body)
        except TimeoutError:
            raise Refused(408, "timeout", f"the body didn't arrive within {self._body_timeout:g} s", CLOSE) from None

    def _answer(self, body: bytes) -> bytes:
        start = self._clock()
        try:
            answer = self._respond(body, self._policy)
        except BadReview as exc:
            raise Refused(400, "bad-review", str(exc)) from None
        except Exception as exc:  # noqa: BLE001 - the outermost edge: whatever breaks here mustn't fail a pod
            return self._rescue(body, exc)
        self._book.note(answer, self._clock() - start)
        return answer.body

    def _rescue(self, body: bytes, exc: Exception) -> bytes:
        uid, answer = rescue.answer(body, allow=self._policy.on_bug == "allow")
        self._book.bug(uid, exc)
        if answer is None:
            raise Refused(400, "bug", "this request can't be answered: see the log of rankfix") from None
        return answer


def check(scope: Scope) -> int:
    """The Content-Length that a request declares, 0 where there is none.

    Raises:
        Refused: it can't hold a review, which shows before any of its body is read.
    """
    if scope["method"] != "POST":
        raise Refused(405, "method", "send the AdmissionReview with POST", (b"allow", b"POST"))
    headers = dict(scope["headers"])
    media = headers.get(b"content-type", b"")
    if media != JSON and media.partition(b";")[0].strip().lower() != JSON:
        raise Refused(415, "content-type", "send the AdmissionReview as Content-Type: application/json")
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise Refused(415, "content-encoding", "send the AdmissionReview without Content-Encoding")
    length = headers.get(b"content-length", b"")
    return int(length) if length.isdigit() and len(length) < 20 else 0  # noqa: PLR2004 - int() of more digits is slow


async def read(receive: Receive, *, declared: int, limit: int) -> bytes:
    """The whole body, kept only as long as it is within `limit`.

    What is too large is still taken in and dropped up to twice the limit: a client that is cut off while it sends sees
    a reset connection and never the reason.
    """
    chunks: list[bytes] = []
    size, fits = 0, declared <= limit
    more = declared <= 2 * limit
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(chunk)
        fits = fits and size <= limit
        if fits:
            chunks.append(chunk)
        else:
            chunks.clear()
            more = more and size <= 2 * limit
    if not fits:
        raise Refused(413, "too-large", f"the body is larger than {limit} bytes (setting max-body)", CLOSE)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class App(FastAPI):
    """A FastAPI app whose admission path comes before its middleware."""

    def __init__(self, admission: Asgi | None) -> None:
        super().__init__(title="rankfix", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
        self._admission = admission
        self.add_exception_handler(HTTPException, _http_error)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        """The ASGI callable."""
        if self._admission and scope["type"] == "http" and scope["path"] == PATH.decode():
            return self._admission(scope, receive, send)
        return super().__call__(scope, receive, send)


async def _http_error(_request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)  # noqa: S101 - the only class it's registered for
    return Response(error(str(exc.detail)), exc.status_code, exc.headers, "application/json")


def build(
    admission: Asgi | None,
    *,
    metrics: Metrics,
    version: str,
    not_ready: Callable[[], str | None],
    note: Callable[[], str | None] = lambda: None,
) -> App:
    """The app; without `admission` one for probes and metrics only.

    `not_ready` says why no request should come now, or None; `note` what a person should know anyway.
    """
    app = App(admission)

    @app.get("/healthz")
    async def healthz() -> Response:
        return _text("ok")

    @app.get("/readyz")
    async def readyz() -> Response:
        why, more = not_ready(), note()
        said = "ok" if why is None else f"not ready: {why}"
        return _text(said if more is None else f"{said}\n{more}", 200 if why is None else 503)

    @app.get("/version")
    async def version_() -> dict[str, str]:
        return {"version": version}

    @app.get("/metrics")
    async def metrics_() -> Response:
        return Response(metrics.render(), media_type=CONTENT_TYPE)

    return app


def _text(text: str, status: int = 200) -> Response:
    return Response(text + "\n", status, {"cache-control": "no-store"}, "text/plain")

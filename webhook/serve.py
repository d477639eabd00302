"""The running server: a socket, TLS, uvicorn on uvloop and httptools, and an end within a bound."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import uvicorn
from prometheus_client import CollectorRegistry

from webhook import app, logs, mutate, tls
from webhook.errors import RankfixError
from webhook.metrics import Metrics
from webhook.onewrite import OneWrite

if TYPE_CHECKING:
    import ssl
    from collections.abc import Generator

    from structlog.typing import FilteringBoundLogger

    from webhook.settings import Settings

EVERYWHERE = "*"
_BACKLOG = 2048


class CannotListen(RankfixError):
    """The address or port can't be had."""


@dataclass
class Readiness:
    """Why no request should come just now (None: they should), as /readyz says it."""

    why: str | None = "starting"


class Server(uvicorn.Server):
    """uvicorn's server that keeps `Readiness` true and takes SIGTERM and SIGINT as a wish to end well, with code 0."""

    def __init__(self, config: uvicorn.Config, readiness: Readiness, log: FilteringBoundLogger) -> None:
        super().__init__(config)
        self._readiness = readiness
        self._log = log

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets)
        self._readiness.why = None
        for sock in sockets or []:
            host, port = sock.getsockname()[:2]
            self._log.info("listening", host=host, port=port, tls=self.config.is_ssl)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, finish what runs."""
        self._readiness.why = "stopping"
        self._log.info("stopping")
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Like uvicorn's, which raises the signal again at the end: then a pod that ended well would have failed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run(settings: Settings, *, version: str, stream: TextIO) -> None:
    """Serve until a signal says stop. Raises `RankfixError` if it can't begin."""
    log = logs.make(stream, settings.log_level)
    context = None if settings.plain_http else tls.context(settings.cert_dir)
    with listen(settings.host, settings.port) as sock, logs.forwarded(log):
        log.info("starting", version=version, mode=settings.default_mode, tls=context is not None)
        make(settings, context=context, log=log, version=version).run(sockets=[sock])
        log.info("stopped")


def make(settings: Settings, *, context: ssl.SSLContext | None, log: FilteringBoundLogger, version: str) -> Server:
    """A server that has everything it needs but its sockets."""
    metrics = Metrics(CollectorRegistry(), version=version)
    readiness = Readiness()
    admission = app.Admission(
        respond=mutate.remembering(),
        policy=settings.policy,
        max_body=settings.max_body,
        body_timeout=settings.body_timeout,
        metrics=metrics,
        log=log,
        clock=time.perf_counter,
    )
    application = app.build(admission, metrics=metrics, version=version, not_ready=lambda: readiness.why)
    return Server(_config(application, settings, context), readiness, log)


def _config(application: app.App, settings: Settings, context: ssl.SSLContext | None) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        loop="uvloop",
        http=OneWrite,
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=settings.keep_alive,
        timeout_graceful_shutdown=settings.grace,
        ssl_context_factory=None if context is None else lambda _config, _default: context,
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; `*` takes IPv6 and IPv4 where the machine has both. Raises `CannotListen`."""
    try:
        if host == EVERYWHERE:
            return _everywhere(port)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as exc:
        why = os.strerror(exc.errno) if exc.errno and exc.errno > 0 else "no such host"  # Python's own text repeats us
        raise CannotListen(f"{host} port {port}: {why}: choose another --host or --port") from None


def _everywhere(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        # The kernel may know IPv6 and still have it switched off
        with contextlib.suppress(OSError):
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
    return socket.create_server(("0.0.0.0", port), backlog=_BACKLOG)  # noqa: S104 - a webhook is there to be called

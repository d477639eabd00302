"""The running server: a socket, TLS, uvicorn on uvloop and httptools, and an end within a bound."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

import uvicorn
from prometheus_client import CollectorRegistry

from webhook import app, keeper, kube, logs, mutate, probe, tls
from webhook.errors import RankfixError
from webhook.follow import Follower
from webhook.metrics import Metrics
from webhook.onewrite import OneWrite

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from types import FrameType

    from structlog.typing import FilteringBoundLogger

    from webhook.settings import Settings

    Bundles = Callable[[], Iterable[tuple[str, bytes, str]]]

EVERYWHERE = "*"
_BACKLOG = 2048
_FILES_EVERY, _LISTENER_EVERY, _TRUST_EVERY = 1.0, 5.0, 2.0  # seconds
_TRUST_FRESH = 30.0  # the cluster isn't asked for what was good so lately
_FILES_AGE, _LISTENER_AGE, _TRUST_AGE = 30.0, 30.0, 900.0  # for so long a verdict is believed


class CannotListen(RankfixError):
    """The address or port can't be had."""


@dataclass
class Readiness:
    """Why no request should come just now (None: they should), as /readyz says it."""

    why: str | None = "starting"
    more: list[Callable[[], str | None]] = field(default_factory=list)  # further reasons, the first one counts

    def not_ready(self) -> str | None:
        return self.why or next((why for why in (ask() for ask in self.more) if why), None)


class Server(uvicorn.Server):
    """uvicorn's server that keeps `Readiness` true and takes SIGTERM and SIGINT as a wish to end well, with code 0."""

    def __init__(  # noqa: PLR0913 - all it depends on is handed in
        self,
        config: uvicorn.Config,
        readiness: Readiness,
        log: FilteringBoundLogger,
        follower: Follower | None = None,
        trust: Bundles | None = None,
        *,
        drain: float = 0,
        last: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._readiness = readiness
        self._log = log
        self._follower = follower
        self._trust = trust
        self._seconds = drain
        self._last = last
        self._beats: list[probe.Beat] = []
        self._impatient = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self._follower and sockets:
            await self._watch(self._follower, sockets[0])
        self._readiness.why = None
        for sock in sockets or []:
            host, port = sock.getsockname()[:2]
            self._log.info("listening", host=host, port=port, tls=self.config.is_ssl)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, finish what runs."""
        self._readiness.why = "stopping"
        self._log.info("stopping")
        for beat in self._beats:
            beat.stop()
        await self._drain()
        await super().shutdown(sockets)
        self._last()

    async def _drain(self) -> None:
        """Go on serving for a while, each answer with the wish to close: a client whose connection ends at its back,
        just as it sends, has lost a call. A second signal ends the wait.
        """
        self.server_state.default_headers = [*self.server_state.default_headers, (b"connection", b"close")]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await self._impatient.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The second signal is impatient."""
        if self.should_exit:
            self._loop.call_soon_threadsafe(self._impatient.set)
        super().handle_exit(sig, frame)

    async def _watch(self, follower: Follower, sock: socket.socket) -> None:
        """Follow the files, and look now and then whether the API server can reach and trust us."""

        def where() -> tuple[str, int]:
            return probe.reachable(sock)

        def followed() -> None:
            follower.look()

        files = probe.Probe("files", followed, _FILES_AGE, time.monotonic)
        listener = probe.Probe(
            "TLS", lambda: probe.own_listener(where, lambda: follower.pair.leaf), _LISTENER_AGE, time.monotonic
        )
        self._readiness.more += [follower.not_ready, files.not_ready, listener.not_ready]
        self._beats = [probe.Beat(_FILES_EVERY, files.look), probe.Beat(_LISTENER_EVERY, listener.look)]
        if bundles := self._trust:
            trust = probe.Probe("trust", lambda: probe.trust(where, bundles), _TRUST_AGE, time.monotonic, _TRUST_FRESH)
            self._readiness.more.append(trust.not_ready)
            self._beats.append(probe.Beat(_TRUST_EVERY, trust.look))
        files.look()
        await asyncio.to_thread(listener.look)  # so that "listening" is true when it is said
        for beat in self._beats:
            beat.start()

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
    with _certificates_kept(settings, log):
        server = make(settings, log=log, version=version)
        with listen(settings.host, settings.port) as sock, logs.forwarded(log):
            log.info("starting", version=version, mode=settings.default_mode, tls=not settings.plain_http)
            with _unsearched():
                server.run(sockets=[sock])
            log.info("stopped")


@contextlib.contextmanager
def _unsearched() -> Iterator[None]:
    """What is there at the start, stays: the garbage collector needn't search it for cycles while pods wait.

    Measured: one full search took 14 to 30 ms, and the 99th of 100 answers to one client up to 24 ms for it.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def make(settings: Settings, *, log: FilteringBoundLogger, version: str) -> Server:
    """A server that has everything it needs but its sockets. Raises `BadCertificate` where that fails."""
    metrics = Metrics(CollectorRegistry(), version=version)
    follower = None if settings.plain_http else _follower(settings, metrics, log)
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
    note = follower.note if follower else lambda: None
    application = app.build(admission, metrics=metrics, version=version, not_ready=readiness.not_ready, note=note)
    trust = _trust(settings) if settings.webhook_config else None
    return Server(
        _config(application, settings, follower),
        readiness,
        log,
        follower,
        trust,
        drain=settings.drain,
        last=admission.write_down,
    )


def _follower(settings: Settings, metrics: Metrics, log: FilteringBoundLogger) -> Follower:
    """The pair to begin with, for which `cert_wait` says how long to wait."""
    deadline = time.monotonic() + settings.cert_wait
    said = ""
    while True:
        try:
            return Follower(settings.cert_dir, metrics, log, clock=lambda: datetime.now(UTC))
        except tls.BadCertificate as exc:
            if time.monotonic() >= deadline:
                raise
            if str(exc) != said:
                said = str(exc)
                log.info("waiting", why=said)
        time.sleep(_FILES_EVERY / 4)


@contextlib.contextmanager
def _certificates_kept(settings: Settings, log: FilteringBoundLogger) -> Iterator[None]:
    """With `--manage-certs`, from before the first certificate is needed until after the last."""
    if not settings.manage_certs:
        yield
        return
    kept = keeper.Keeper(keeper.command(settings), log)
    kept.start()
    try:
        yield
    finally:
        kept.stop()


def _trust(settings: Settings) -> Bundles:
    """What the cluster trusts us by, asked anew each time."""

    def bundles() -> Iterable[tuple[str, bytes, str]]:
        get = kube.connect()
        return kube.bundles(
            get,
            configuration=settings.webhook_config,
            namespace=settings.namespace or kube.own_namespace(),
            service=settings.service,
            webhook=settings.webhook,
        )

    return bundles


def _config(application: app.App, settings: Settings, follower: Follower | None) -> uvicorn.Config:
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
        ssl_context_factory=None if follower is None else lambda _config, _default: follower.context,
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

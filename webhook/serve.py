"""The running server, put together: sockets, TLS, what is watched, uvicorn on uvloop and httptools."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

import uvicorn
from prometheus_client import CollectorRegistry

from webhook import app, begin, kube, logs, metrics, mutate, probe
from webhook.connection import Connection, Limits
from webhook.direct import Quick
from webhook.follow import Follower
from webhook.gate import Gate
from webhook.metrics import Metrics
from webhook.room import Room
from webhook.server import Readiness, Server, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from structlog.typing import FilteringBoundLogger

    from webhook.launch import Classifier
    from webhook.recent import Recent
    from webhook.settings import Settings

    Bundles = Callable[[], Iterable[tuple[str, bytes, str]]]

_FILES_EVERY, _LISTENER_EVERY, _TRUST_EVERY = 1.0, 5.0, 2.0  # seconds
_TRUST_FRESH = 30.0  # the cluster isn't asked for what was good so lately
_FILES_AGE, _LISTENER_AGE, _TRUST_AGE = 30.0, 30.0, 900.0  # for so long a verdict is believed
_POLITE = 0.001  # seconds between two connections: less than a handshake takes
_FRAMING = 4  # a body's largest share of what travels: chunks of one byte would be a sixth


@dataclass(frozen=True, slots=True)
class Member:
    """One of several processes that share their sockets: its slot, the folder of the counters that they share, the pipe
    through which the supervisor hears that it lives, and whether it takes the place of one that died.
    """

    slot: int
    sockets: Sequence[int]
    pulse: int
    shared: Path
    again: bool


def run(settings: Settings, *, version: str, stream: TextIO) -> None:
    """Serve until a signal says stop. Raises `RankfixError` if it can't begin."""
    begin.check(settings)
    log = logs.make(stream, settings.log_level)
    with begin.beside(settings, log):
        server = make(settings, log=log, version=version)
        with begin.listening(settings) as sockets, logs.forwarded(log):
            log.info("starting", version=version, mode=settings.default_mode, tls=not settings.plain_http)
            with unsearched():
                server.run(sockets=sockets)
            log.info("stopped")


def work(settings: Settings, member: Member, *, version: str, stream: TextIO) -> None:
    """Serve as one of several, until a signal says stop or the supervisor has gone."""
    metrics.share(member.slot)
    log = logs.make(stream, settings.log_level).bind(worker=member.slot)
    counters = Metrics(CollectorRegistry(), version=version, shared=member.shared)
    counters.restarted(int(member.again))
    os.set_blocking(member.pulse, False)
    server = make(settings, log=log, version=version, counters=counters, second=lambda: _beat(member.pulse))
    with contextlib.ExitStack() as stack, logs.forwarded(log), unsearched():
        server.run(sockets=[stack.enter_context(socket.socket(fileno=number)) for number in member.sockets])


@contextlib.contextmanager
def unsearched() -> Iterator[None]:
    """What is there at the start, stays: the garbage collector needn't search it for cycles while pods wait.

    Measured: one full search took 14 to 30 ms, and the 99th of 100 answers to one client up to 24 ms for it. Python
    searches fully when what is new is a quarter of what the last search left; without one that sees how little that is
    now, the remains of a thousand connections would wait for the next.
    """
    gc.collect()
    gc.freeze()
    gc.collect()
    try:
        yield
    finally:
        gc.unfreeze()


def _beat(pulse: int) -> bool:
    """Tell the supervisor that this process lives; False where there is none."""
    with contextlib.suppress(BlockingIOError):
        try:
            os.write(pulse, b".")
        except BrokenPipeError:
            return False
    return True


def make(
    settings: Settings,
    *,
    log: FilteringBoundLogger,
    version: str,
    counters: Metrics | None = None,
    second: Callable[[], bool] = lambda: True,
) -> Server:
    """A server that has everything it needs but its sockets. Raises `BadCertificate` where that fails."""
    counters = counters or Metrics(CollectorRegistry(), version=version)
    follower = None if settings.plain_http else _follower(settings, counters, log)
    readiness = Readiness()
    room = Room(settings.max_connections, time.monotonic, counters.ended)
    build = functools.partial(
        app.build,
        metrics=counters,
        version=version,
        not_ready=readiness.not_ready,
        note=follower.note if follower else lambda: None,
    )
    gate = _gate(settings, counters, log)
    counters.follow_load(requests=lambda: gate.in_flight, connections=lambda: len(room.guests))
    watch = _watch(settings, follower, readiness)

    def each_second() -> bool:
        counters.refresh()
        return second()

    watch.second = each_second
    return Server(
        _config(build(gate), settings),
        readiness=readiness,
        log=log,
        room=room,
        limits=_limits(settings),
        watch=watch,
        context=follower.context if follower else None,
        handshake=settings.handshake_timeout,
        drain=settings.drain,
        pause=_POLITE if settings.workers > 1 else 0,
        aside=_config(build(None), settings),
        quick=Quick(gate.at_once),
    )


def _follower(settings: Settings, counters: Metrics, log: FilteringBoundLogger) -> Follower:
    def make_one() -> Follower:
        return Follower(settings.cert_dir, counters, log, lambda: datetime.now(UTC), settings.client_ca)

    return begin.patiently(make_one, settings.cert_wait, log)


def _gate(settings: Settings, counters: Metrics, log: FilteringBoundLogger) -> Gate:
    respond = mutate.remembering()
    caches: dict[str, Classifier | Recent[Any, Any]] = {
        "text": respond.classifier,
        "pod": respond.verdicts,
        "job": respond.kin,
    }
    for name, cache in caches.items():
        counters.follow_cache(name, functools.partial(_uses, cache))
    admission = app.Admission(
        respond=respond,
        policy=settings.policy,
        max_body=settings.max_body,
        body_timeout=settings.body_timeout,
        metrics=counters,
        log=log,
        clock=time.perf_counter,
    )
    counters.watch(admission.write_down)
    names = [name for name in settings.client_name.split(",") if name]
    return Gate(
        admission,
        at_once=admission.at_once,
        most=settings.max_requests,
        most_bytes=settings.max_bodies,
        callers=names if settings.client_ca else None,
        metrics=counters,
        log=log,
        clock=time.monotonic,
    )


def _uses(cache: Classifier | Recent[Any, Any]) -> tuple[int, int]:
    return cache.hits, cache.misses


def _limits(settings: Settings) -> Limits:
    return Limits(
        idle=settings.keep_alive,
        head=settings.header_timeout,
        body=settings.body_timeout,
        request_bytes=_FRAMING * settings.max_body,
    )


def _watch(settings: Settings, follower: Follower | None, readiness: Readiness) -> Watch:
    """Follow the files, and look now and then whether the API server can reach and trust us."""
    if follower is None:
        return Watch()
    where: list[socket.socket] = []

    def dialled() -> tuple[str, int]:
        return probe.reachable(where[0])

    def leaf() -> bytes:
        return follower.pair.leaf

    def followed() -> None:
        follower.look()

    def shown() -> str | None:
        return probe.own_listener(dialled, leaf, again_after=2 * _FILES_EVERY if settings.workers > 1 else None)

    files = probe.Probe("files", followed, _FILES_AGE, time.monotonic)
    listener = probe.Probe("TLS", shown, _LISTENER_AGE, time.monotonic)
    looks = [(files, _FILES_EVERY), (listener, _LISTENER_EVERY)]
    if settings.webhook_config:
        bundles = _trust(settings)
        trust = probe.Probe("trust", lambda: probe.trust(dialled, bundles), _TRUST_AGE, time.monotonic, _TRUST_FRESH)
        looks.append((trust, _TRUST_EVERY))
    readiness.more += [follower.not_ready, *(look.not_ready for look, _ in looks)]

    def first(sock: socket.socket) -> None:
        where.append(sock)
        files.look()
        listener.look()

    return Watch(first, [probe.Beat(seconds, look.look) for look, seconds in looks])


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


def _config(application: app.App, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        loop="uvloop",
        http=Connection,
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=settings.keep_alive,
        timeout_graceful_shutdown=settings.grace,
    )

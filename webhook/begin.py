"""What comes before a server, alone or with a supervisor: settings that agree, sockets, a certificate to begin with."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, TypeVar

from webhook import keeper, orphans, tls
from webhook.listen import listen
from webhook.settings import BadSettings

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Collection, Iterator

    from structlog.typing import FilteringBoundLogger

    from webhook.settings import Settings

_LOOK_EVERY = 0.25  # seconds
Made = TypeVar("Made")


def check(settings: Settings) -> None:
    """Raise `BadSettings` for settings that contradict each other."""
    if settings.client_ca and settings.plain_http:
        raise BadSettings("setting client-ca: without TLS nobody shows a certificate: leave plain-http out")
    if settings.client_name and not settings.client_ca:
        raise BadSettings("setting client-name: says who of a CA may call: give that CA as client-ca")


@contextlib.contextmanager
def listening(settings: Settings) -> Iterator[list[socket.socket]]:
    """The sockets: the one for reviews, and where it's asked for the one for metrics."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(listen(settings.host, settings.port))]
        if settings.metrics_port:
            made.append(stack.enter_context(listen(settings.host, settings.metrics_port, setting="metrics-port")))
        yield made


def patiently(make: Callable[[], Made], seconds: float, log: FilteringBoundLogger) -> Made:
    """What `make` makes of the certificate files, for so long that there is nothing to make it of."""
    deadline = time.monotonic() + seconds
    said = ""
    while True:
        try:
            return make()
        except tls.BadCertificate as exc:
            if time.monotonic() >= deadline:
                raise
            if str(exc) != said:
                said = str(exc)
                log.info("waiting", why=said)
        time.sleep(_LOOK_EVERY)


@contextlib.contextmanager
def beside(
    settings: Settings, log: FilteringBoundLogger, children: Callable[[], Collection[int]] = tuple
) -> Iterator[None]:
    """What runs beside a server: who makes the certificate, with `--manage-certs`, from before it's needed until after;
    and, in process 1, the care for orphans, among whom `children` aren't.
    """
    kept = keeper.Keeper(keeper.command(settings), log)
    with contextlib.ExitStack() as stack:
        if settings.manage_certs:
            kept.start()
            stack.callback(kept.stop)
        if os.getpid() == 1:
            stack.enter_context(orphans.reaped(lambda: {*kept.processes(), *children()}))
        yield

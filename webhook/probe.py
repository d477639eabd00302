"""Checks that take too long to be made while somebody waits for /readyz: made beside, remembered, and not for ever.

`own_listener` dials the server as the API server does, and sees whether its certificate is what comes; `trust` does the
same with the cluster's caBundle as the only thing that it trusts.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from webhook.errors import RankfixError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}  # noqa: S104 - compared with, not bound to
TIMEOUT = 3.0


class Unknown(RankfixError):
    """A check couldn't be made: what was known before stays, until it is too old."""


@dataclass
class Probe:
    """A check with the verdict that it gave last: None is good, a sentence is why not."""

    name: str
    check: Callable[[], str | None]
    max_age: float
    clock: Callable[[], float]
    fresh: float = 0  # a good verdict isn't looked at again within so many seconds
    _verdict: tuple[str | None, float] | None = None
    _unknown: str = "not looked at yet"

    def look(self) -> None:
        """Make the check, unless its last verdict is good and fresh."""
        if self._verdict and not self._verdict[0] and self.clock() - self._verdict[1] < self.fresh:
            return
        try:
            self._verdict = (self.check(), self.clock())
        except Unknown as exc:
            self._unknown = str(exc)

    def not_ready(self) -> str | None:
        """The verdict, while it's fresh enough to be believed."""
        if self._verdict is None:
            return f"{self.name}: {self._unknown}"
        why, moment = self._verdict
        age = self.clock() - moment
        if age > self.max_age:
            return f"{self.name}: not known for {age:.0f} s ({self._unknown})"
        return f"{self.name}: {why}" if why else None


@dataclass
class Beat:
    """Calls `job` every `seconds`, in a thread of its own, from the start until the end."""

    seconds: float
    job: Callable[[], object]
    _over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.is_set():
            self.job()
            self._over.wait(self.seconds)


def own_listener(
    where: Callable[[], tuple[str, int]], leaf: Callable[[], bytes], *, again_after: float | None = None
) -> str | None:
    """Whether a TLS handshake with ourselves shows the certificate that we mean to serve.

    Where several processes share the port and another one answered, it may have taken a new pair a moment before us or
    after: only if it's so again after so many seconds, something is wrong.
    """
    said = _shown(where, leaf)
    if said and again_after is not None:
        time.sleep(again_after)
        said = _shown(where, leaf)
    return said


def _shown(where: Callable[[], tuple[str, int]], leaf: Callable[[], bytes]) -> str | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the bytes are compared
    context.verify_mode = ssl.CERT_NONE
    before = leaf()  # a new pair may come while we look
    try:
        shown = _dial(where(), context, None)
    except OSError as exc:
        return f"our own port doesn't answer ({_reason(exc)})"
    return None if shown in {before, leaf()} else "our own port shows another certificate"


def trust(where: Callable[[], tuple[str, int]], bundles: Callable[[], Iterable[tuple[str, bytes, str]]]) -> str | None:
    """Whether each of `bundles` (entry, PEM, server name) verifies what we serve, as the API server will."""
    for entry, pem, name in bundles():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # Go takes any certificate of the bundle for a root
        try:
            context.load_verify_locations(cadata=pem.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError):
            return f"webhook {entry} has no caBundle yet"
        try:
            _dial(where(), context, name)
        except ssl.SSLCertVerificationError as exc:
            return f"the caBundle of webhook {entry} doesn't verify our certificate ({exc.verify_message})"
        except OSError as exc:
            raise Unknown(f"our own port doesn't answer ({_reason(exc)})") from None
    return None


def reachable(sock: socket.socket) -> tuple[str, int]:
    """Where a listening socket can be dialled from this machine.

    One that takes both families is dialled by IPv4: a container may know IPv6 and have no such address.
    """
    host, port = sock.getsockname()[:2]
    if sock.family == socket.AF_INET6 and sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY):
        return "::1" if host == "::" else host, port
    return ANYWHERE.get(host, host), port


def _dial(address: tuple[str, int], context: ssl.SSLContext, name: str | None) -> bytes | None:
    with (
        socket.create_connection(address, timeout=TIMEOUT) as plain,
        context.wrap_socket(plain, server_hostname=name) as secure,
    ):
        return secure.getpeercert(binary_form=True)


def _reason(exc: OSError) -> str:
    return exc.strerror or type(exc).__name__

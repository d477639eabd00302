"""Serve what the certificate files hold, without a restart: a pair that is good and no older replaces the one before.

The kubelet brings a changed Secret by swapping a link. What counts is the content of the files, so any way to change
them will do, and a half-written pair is refused until the other half is there. A live context isn't touched: OpenSSL
would go on with the old kind of key. Each handshake is handed to the context of the newest pair instead, whether the
client names a server or not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from webhook import tls

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from structlog.typing import FilteringBoundLogger

    from webhook.metrics import Metrics


@dataclass
class Follower:
    """The pair that is served. `context` is what a listener is given; it never changes, what it shows does."""

    folder: Path
    metrics: Metrics
    log: FilteringBoundLogger
    clock: Callable[[], datetime]
    callers: str = ""  # the file with the CA of the clients' certificates
    pair: tls.Pair = field(init=False)
    context: ssl.SSLContext = field(init=False)
    refused: str | None = None  # why the files aren't what is served
    _digest: bytes = b""  # of what was refused

    def __post_init__(self) -> None:
        """Raises `BadCertificate` where there is no pair; an expired one will do, to wait for a good one."""
        self.pair = tls.load(self.folder, self.callers)
        self.context = self.pair.context
        self.context.sni_callback = self._select
        self.metrics.follow_certificate(self._seconds_left)

    def look(self) -> bool:
        """Take what is new; True where it was taken."""
        found = tls.digest(self.folder, self.callers)
        if found == self.pair.digest:
            self.refused, self._digest = None, b""
            return False
        try:
            pair = tls.load(self.folder, self.callers)
            why = self._why_not(pair)
        except tls.BadCertificate as exc:
            why, pair = str(exc), self.pair
        if why:
            self._refuse(why, found)
            return False
        self.pair, self.refused, self._digest = pair, None, b""
        self.metrics.certificate("loaded")
        self.log.info("certificate", outcome="reloaded", ends=pair.ends.isoformat())
        return True

    def not_ready(self) -> str | None:
        """Why nobody can trust what is served now."""
        fault = self.pair.time_fault(self.clock())
        return f"the certificate is {fault}" if fault else None

    def note(self) -> str | None:
        """What a person should know though requests are served well."""
        return f"still serving the certificate before: {self.refused}" if self.refused else None

    def _seconds_left(self) -> float:
        return (self.pair.ends - self.clock()).total_seconds()

    def _why_not(self, pair: tls.Pair) -> str | None:
        now = self.clock()
        if self.pair.time_fault(now):
            return None  # nothing can be worse
        fault = pair.time_fault(now)
        if fault:
            return f"{self.folder}: the new certificate is {fault}"
        if pair.begins < self.pair.begins:
            return f"{self.folder}: the new certificate is older, of {pair.begins:%Y-%m-%d %H:%M} UTC"
        return None

    def _refuse(self, why: str, found: bytes) -> None:
        if self._digest != found or self.refused is None:  # once, not at each look
            self.metrics.certificate("refused")
            self.log.warning("certificate", outcome="refused", why=why)
        self.refused, self._digest = why, found

    def _select(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        if connection.context is not self.pair.context:
            connection.context = self.pair.context

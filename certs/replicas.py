"""Ask replicas over TLS which certificate they serve. Nothing is trusted and nothing sent: a handshake is looked at."""

from __future__ import annotations

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from certs.rotate import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Address:
    """Where a replica listens, and whether the cluster sends it requests."""

    host: str
    port: int
    ready: bool = True

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def ask(addresses: Sequence[Address], *, name: str, timeout: float = 3.0) -> tuple[Answer, ...]:
    """The leaf of each, as it shows it to a client that wants `name`."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return tuple(pool.map(partial(_ask, name=name, timeout=timeout), addresses))


def _ask(address: Address, *, name: str, timeout: float) -> Answer:
    try:
        return Answer(str(address), address.ready, _leaf(address, name, timeout))
    except (OSError, ValueError) as exc:
        return Answer(str(address), address.ready, None, getattr(exc, "strerror", None) or str(exc))


def _leaf(address: Address, name: str, timeout: float) -> bytes | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the bytes are compared with those of the Secret, which says more than any check
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((address.host, address.port), timeout=timeout) as plain,
        context.wrap_socket(plain, server_hostname=name) as secure,
    ):
        return secure.getpeercert(binary_form=True)

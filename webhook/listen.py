"""Listening sockets: on an address, on every address of both families, or one that was handed down."""

from __future__ import annotations

import contextlib
import os
import socket

from webhook.errors import RankfixError

EVERYWHERE = "*"
BACKLOG = 2048


class CannotListen(RankfixError):
    """The address or port can't be had."""


def listen(host: str, port: int, *, setting: str = "port") -> socket.socket:
    """A listening socket; `*` takes IPv6 and IPv4 where the machine has both. Raises `CannotListen`."""
    try:
        if host == EVERYWHERE:
            return _everywhere(port)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as exc:
        why = os.strerror(exc.errno) if exc.errno and exc.errno > 0 else "no such host"  # Python's own text repeats us
        raise CannotListen(f"{host} port {port}: {why}: choose another --host or --{setting}") from None


def _everywhere(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        # The kernel may know IPv6 and still have it switched off
        with contextlib.suppress(OSError):
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
    return socket.create_server(("0.0.0.0", port), backlog=BACKLOG)  # noqa: S104 - a webhook is there to be called

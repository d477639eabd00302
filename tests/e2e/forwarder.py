"""What kube-proxy is to a Service: one address in front of servers that come and go."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Forwarder:
    """Each new connection goes to the next of `ports`, or is closed where there is none; open ones stay."""

    def __init__(self, listener: socket.socket) -> None:
        self.ports: list[int] = []
        self.port: int = listener.getsockname()[1]
        self._listener = listener
        self._turn = itertools.count()
        self._open: set[socket.socket] = set()

    def run(self) -> None:
        """Accept until `stop`."""
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def stop(self) -> None:
        """End it, and what still runs through it."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in list(self._open):
            _hang_up(sock)

    def _forward(self, client: socket.socket) -> None:
        ports = list(self.ports)
        with client, contextlib.suppress(OSError):  # as a Service does: the client sees a connection that ends
            if not ports:
                return
            with socket.create_connection(("127.0.0.1", ports[next(self._turn) % len(ports)])) as server:
                self._splice(client, server)

    def _splice(self, client: socket.socket, server: socket.socket) -> None:
        ends = {client, server}
        self._open |= ends
        back = threading.Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        _pump(client, server)
        back.join()
        self._open -= ends


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    _hang_up(sink)
    _hang_up(source)


def _hang_up(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def forwarder(address: str = "127.0.0.1") -> Iterator[Forwarder]:
    """A forwarder that runs, and listens at an address of this machine."""
    with socket.create_server((address, 0), backlog=512) as listener:
        made = Forwarder(listener)
        thread = threading.Thread(target=made.run)
        thread.start()
        try:
            yield made
        finally:
            made.stop()
            thread.join()

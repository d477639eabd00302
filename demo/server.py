"""A rankfix server as its users run it: a certificate of its own, a child process, HTTPS on loopback."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certs.issue import make_ca, make_leaf

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PATIENCE = 120.0  # seconds until the server must be ready; a busy machine takes its time
_HOST = "127.0.0.1"


class DemoError(Exception):
    """The demonstration can't go on; the text is one line for a person."""


@dataclass(frozen=True, slots=True)
class Client:
    """Speaks HTTPS to the server, and believes its certificate only by the authority made for it."""

    port: int
    trust: ssl.SSLContext
    authority: bytes = b""  # what `trust` believes, in PEM: the caBundle of a registration

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body of one request. Raises OSError where nobody answers."""
        connection = http.client.HTTPSConnection(_HOST, self.port, context=self.trust, timeout=10)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def review(self, body: bytes) -> dict[str, Any]:
        """The `response` of the AdmissionReview that answers `body`."""
        status, answer = self.ask("POST", "/mutate", body)
        if status != http.client.OK:
            raise DemoError(f"the server answered {status} to a review: {answer[:200]!r}")
        response: dict[str, Any] = json.loads(answer)["response"]
        return response


@contextlib.contextmanager
def running() -> Iterator[Client]:
    """A server that is ready; it and its certificate are gone afterwards, however the block ends."""
    with tempfile.TemporaryDirectory(prefix="rankfix-demo-") as name:
        folder = Path(name)
        authority = _certificate(folder)
        client = Client(free_port(), ssl.create_default_context(cadata=authority.decode()), authority)
        with (folder / "log").open("w+b") as log, _child(folder, client.port, log.fileno()) as process:
            _wait(client, process, folder / "log")
            yield client


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.create_server((_HOST, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _certificate(folder: Path) -> bytes:
    now = datetime.now(UTC)
    ca = make_ca(now=now, lifetime=timedelta(days=2))
    leaf = make_leaf(ca, names=["rankfix.demo.svc"], ips=[_HOST], now=now, lifetime=timedelta(days=1))
    (folder / "tls.crt").write_bytes(leaf.certificate)
    (folder / "tls.key").touch(0o600)
    (folder / "tls.key").write_bytes(leaf.key)
    return ca.certificate


@contextlib.contextmanager
def _child(folder: Path, port: int, log: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable,
        "-m",
        "webhook",
        "serve",
        "--cert-dir",
        str(folder),
        "--host",
        _HOST,
        "--port",
        str(port),
        "--drain=0",
    ]
    # A demonstration shows the defaults, whatever this shell was set up for
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RANKFIX_")}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)  # noqa: S603 - ourselves
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes], patience: float = 10) -> None:
    """End a process: politely, and after `patience` seconds by force."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(client: Client, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = log.read_text(errors="replace").strip().splitlines() or ["nothing"]
            raise DemoError(f"the server ended with code {process.returncode} and said: {said[-1]}")
        with contextlib.suppress(OSError):
            if client.ask("GET", "/readyz")[0] == http.client.OK:
                return
        time.sleep(0.05)
    raise DemoError(f"the server wasn't ready within {PATIENCE:g} s")

"""Servers under load: started on a core of their own, waited for, looked at, and ended."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PATIENCE = 60.0  # seconds for a first answer
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers at `url`: `ready` seconds after its start it did so first."""

    name: str
    url: str
    ready: float
    pid: int

    def rss(self) -> float:
        """MiB of memory that are in use, all of its processes together."""
        return sum(_status(pid) for pid in self._family()) / 1024

    def cpu(self) -> float:
        """Seconds of CPU it has used so far."""
        return sum(_cpu(pid) for pid in self._family())

    def _family(self) -> list[int]:
        found = [self.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
                found += [int(child) for child in children]
        return found


def _status(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def _cpu(pid: int) -> float:
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    return 0.0


def commands(peers: Sequence[str]) -> Mapping[str, str]:
    """How each server is started, by name, `{port}` and `{certdir}` to be put in: ours first, peers last."""
    python = shlex.quote(sys.executable)
    ours = "-m webhook serve --host 127.0.0.1 --port {port} --cert-dir {certdir}"
    return {
        "rankfix": f"{python} {ours}",
        "no-op ASGI": f"{python} -m bench.noop asgi {{port}} {{certdir}}",
        "no-op FastAPI": f"{python} -m bench.noop fastapi {{port}} {{certdir}}",
        **{Path(shlex.split(peer)[0]).name: peer for peer in peers},
    }


def pinned(core: int) -> list[str]:
    """The words before a command that keep it on a core, where the machine has several and a program for it."""
    return ["taskset", "-c", str(core)] if shutil.which("taskset") and (os.cpu_count() or 1) > 1 else []


@contextlib.contextmanager
def running(name: str, template: str, certificates: Path, body: bytes) -> Iterator[Running]:
    """Start a server on core 0 and wait for its first answer; its log goes to a file beside the certificates.

    Raises:
        RuntimeError: it ended, or didn't answer in time; with the end of its log.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = shlex.split(template.format(port=port, certdir=certificates))
    url, log = f"https://127.0.0.1:{port}/mutate", certificates / "server.log"
    start = time.perf_counter()
    with log.open("wb") as stream:
        environment = {**os.environ, "GOMAXPROCS": "1"}
        process = subprocess.Popen(  # noqa: S603 - the programs that are compared
            [*pinned(0), *words], stdout=stream, stderr=stream, env=environment, start_new_session=True
        )
    try:
        _first_answer(process, url, certificates, body, log)
        yield Running(name, url, time.perf_counter() - start, process.pid)
    finally:
        _end(process)


def _first_answer(process: subprocess.Popen[bytes], url: str, certificates: Path, body: bytes, log: Path) -> None:
    context = ssl.create_default_context(cafile=certificates / "ca.crt")
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})  # noqa: S310 - https
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(request, context=context, timeout=10) as answer:  # noqa: S310 - see above
                answer.read()
        except OSError as exc:
            if process.poll() is not None or time.monotonic() > deadline:
                tail = log.read_text(encoding="utf-8", errors="replace")[-1000:]
                raise RuntimeError(f"{process.args!r} doesn't answer ({exc}); its log ends: {tail}") from None
            time.sleep(0.01)
        else:
            return


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

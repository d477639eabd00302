"""A Docker engine, as its command line shows it: containers that are gone after a test, whatever becomes of that."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SKIP = "no Docker engine answers: start one, or let `make test-images` do it"


def docker(*words: str, timeout: float = 120) -> str:
    """What a docker command says; fails with what it complains about."""
    ran = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=timeout)
    assert ran.returncode == 0, f"docker {' '.join(words)}: {ran.stdout}{ran.stderr}"
    return ran.stdout.strip()


def available() -> bool:
    """Whether an engine answers."""
    with contextlib.suppress(OSError):
        return subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0
    return False


def inspect(name: str) -> Any:
    """All that the engine knows of a container or an image."""
    return json.loads(docker("inspect", name))[0]


@dataclass(frozen=True, slots=True)
class Container:
    """A container that was started."""

    id: str

    @property
    def state(self) -> dict[str, Any]:
        """`Running`, `ExitCode`, `OOMKilled` and so on."""
        found: dict[str, Any] = inspect(self.id)["State"]
        return found

    @property
    def log(self) -> str:
        """Both streams."""
        words = ["docker", "logs", self.id]
        ran = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
        return ran.stdout

    def port(self, inside: int) -> int:
        """Where a port is published on loopback."""
        return int(docker("port", self.id, str(inside)).splitlines()[0].rpartition(":")[2])

    def signal(self, name: str) -> None:
        """Send a signal to process 1."""
        docker("kill", "--signal", name, self.id)

    def wait(self, timeout: float) -> int:
        """The exit code, when it has ended."""
        return int(docker("wait", self.id, timeout=timeout))

    def says(self, text: str, within: float) -> str:
        """Wait until its log has a text; the log."""
        until(lambda: text in self.log or not self.state["Running"], f"no '{text}' within {within} s", within)
        log = self.log
        assert text in log, log
        return log

    def execute(self, *words: str) -> str:
        """What a command in it says."""
        return docker("exec", self.id, *words)

    def peak_memory(self) -> int:
        """The most that it took of its limit in bytes, the pages of files among it; 0 where the kernel can't say."""
        script = (
            "import pathlib\n"
            "names = 'memory/memory.max_usage_in_bytes', 'memory.peak'\n"
            "files = [pathlib.Path('/sys/fs/cgroup', name) for name in names]\n"
            "print(next((file.read_text() for file in files if file.exists()), 0))"
        )
        return int(self.execute("python3", "-c", script))


@contextlib.contextmanager
def running(image: str, *command: str, options: tuple[str, ...] = ()) -> Iterator[Container]:
    """A container in the background; it is removed at the end."""
    made = Container(docker("run", "--detach", *options, image, *command))
    try:
        yield made
    finally:
        docker("rm", "--force", "--volumes", made.id)


def finished(image: str, *command: str, options: tuple[str, ...] = (), timeout: float = 60) -> tuple[int, str]:
    """Run a container to its end: its exit code and log."""
    with running(image, *command, options=options) as made:
        return made.wait(timeout), made.log


@contextlib.contextmanager
def network() -> Iterator[str]:
    """A bridge of one's own."""
    name = f"rankfix-{uuid.uuid4().hex[:8]}"
    docker("network", "create", name)
    try:
        yield name
    finally:
        docker("network", "rm", name)


def gateway(name: str) -> str:
    """This machine's address on a bridge."""
    found: str = inspect(name)["IPAM"]["Config"][0]["Gateway"]
    return found


def until(holds: Callable[[], object], otherwise: str, within: float = 30) -> None:
    """Wait for something that will come; fail with `otherwise`."""
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.1)

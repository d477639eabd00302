"""What the trainer's tests share: pods that really run, each at an address of its own, and small data to feed them."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from trainer import idx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

REPO = Path(__file__).parents[2]
SAMPLE = REPO / "trainer" / "sample"
PYTHON = sys.executable
PATIENCE = 150.0  # seconds: the machine may be busy with everything else, and each process loads torch
LEAVE = 2.0  # seconds that the issue allows between a fault and the end of the last process
SLACK = 8.0  # what a busy machine may add to that before a test complains

needs_torch = [
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="the trainer needs torch, which isn't installed"
    ),
    pytest.mark.trainer,
]


def contract(pod: int, pods: int, each: int) -> dict[str, str]:
    """What rankfix makes of the environment of a pod."""
    return {
        "RANK": str(pod * each),
        "WORLD_SIZE": str(pods * each),
        "LOCAL_WORLD_SIZE": str(each),
        "NODE_RANK": str(pod),
        "PET_NODE_RANK": str(pod),
        "PET_NNODES": str(pods),
        "PET_NPROC_PER_NODE": str(each),
    }


def wait_until(holds: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Polls, so that a slow machine only takes longer."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            pytest.fail(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.05)


def free_port() -> int:
    """A port below the range that the kernel takes for outgoing connections, so that none of those is in the way."""
    while True:
        port = random.randint(15000, 32000)  # noqa: S311  # no secret
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port


@dataclass
class Run:
    """A process that was started, and what it has said."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    @property
    def said(self) -> str:
        return self.out.read_text()

    @property
    def complaint(self) -> str:
        return self.err.read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events of a name, from a run with --json."""
        lines = [line for line in self.said.splitlines() if line.startswith("{") and line.endswith("}")]
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def until(self, pattern: str, seconds: float = PATIENCE) -> Self:
        """Waits for something on stdout; fails at once if the process ends without having said it."""

        def there() -> bool:
            ended = self.process.poll() is not None
            if re.search(pattern, self.said):
                return True
            if ended:
                pytest.fail(
                    f"ended with {self.process.returncode} before it said {pattern!r}: {self.said}{self.complaint}"
                )
            return False

        wait_until(there, f"{pattern!r} on stdout", seconds)
        return self

    def code(self, seconds: float = PATIENCE) -> int:
        """Waits for the end."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still running after {seconds:.0f} s; so far: {self.said}{self.complaint}")

    def expect(self, code: int, seconds: float = PATIENCE) -> Self:
        """Waits for the end, and for the exit code."""
        found = self.code(seconds)
        assert found == code, f"exit code {found} instead of {code}: {self.said}{self.complaint}"
        return self

    def sentence(self) -> str:
        """The one sentence that the program ended with."""
        sentences = [line for line in self.complaint.splitlines() if line.startswith("rankfix-train: ")]
        assert len(sentences) == 1, f"one sentence is wanted, not {len(sentences)}: {self.complaint}"
        return sentences[0].removeprefix("rankfix-train: ")

    def children(self) -> list[int]:
        """The processes that a pod has started, in order of rank."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]


@dataclass
class Host:
    """Where a pod runs: a network namespace with its own address and name, or just an address."""

    name: str
    address: str
    enter: Sequence[str] = ()


@dataclass
class Cluster:
    """Starts the pods of jobs, and ends what is left of them. Their coverage is `measured` or not."""

    hosts: Sequence[Host]
    folder: Path
    measured: bool = True
    runs: list[Run] = field(default_factory=list)

    def start(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, *, pod: int = 0, strict: bool = True
    ) -> Run:
        """Starts a program in a pod. `strict` makes warnings of Python errors there too."""
        host, number = self.hosts[pod], len(self.runs)
        coverage = {key: value for key, value in os.environ.items() if key.startswith(("COV_", "COVERAGE_"))}
        whole = {
            **(coverage if self.measured else {}),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPO),
            "OMP_NUM_THREADS": "1",
            "HOSTNAME": host.name,
            **({"PYTHONWARNINGS": "error"} if strict else {}),
            **(env or {}),
        }
        out, err = self.folder / f"{number}.out", self.folder / f"{number}.err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [*host.enter, *argv], env=whole, stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL, cwd=self.folder
            )
        run = Run(process, out, err)
        self.runs.append(run)
        return run

    def train(self, *options: str, env: Mapping[str, str] | None = None, pod: int = 0) -> Run:
        """Starts `python -m trainer` in a pod."""
        return self.start([PYTHON, "-m", "trainer", *options], env, pod=pod)

    def master(self, port: int | None = None) -> dict[str, str]:
        """The operator's MASTER_ADDR and MASTER_PORT: pod 0, by name where the pods have names."""
        named = self.hosts[0].name if self.hosts[0].enter else self.hosts[0].address
        return {"MASTER_ADDR": named, "MASTER_PORT": str(port or free_port())}

    def close(self) -> None:
        """Ends what a test has left, children included: they end when their parent does."""
        for run in self.runs:
            if run.process.poll() is None:
                run.process.kill()
            run.process.wait()
        self.runs.clear()


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """Network namespaces where that is possible (root, and ip from iproute2), else addresses of the loopback."""
    with contextlib.ExitStack() as stack:
        try:
            made = _namespaces(count, stack)
        except (OSError, subprocess.CalledProcessError):
            made = [Host(f"pod-{index}", f"127.0.0.{index + 2}") for index in range(count)]
        yield made


def _namespaces(count: int, stack: contextlib.ExitStack) -> list[Host]:
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        raise OSError("not root, or no iproute2")
    mark = f"rfx{os.getpid()}"
    switch = f"{mark}s"
    _ip(stack, "netns", "add", switch, undo=("netns", "del", switch))
    _ip(stack, "-n", switch, "link", "add", "br0", "type", "bridge")
    _ip(stack, "-n", switch, "link", "set", "br0", "up")
    names = {f"pod-{index}": f"10.99.0.{index + 1}" for index in range(count)}
    table = "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in names.items())
    made = []
    for index, (name, address) in enumerate(names.items()):
        space = f"{mark}p{index}"
        _ip(stack, "netns", "add", space, undo=("netns", "del", space))
        _ip(stack, "-n", switch, "link", "add", f"v{index}", "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip(stack, "-n", switch, "link", "set", f"v{index}", "master", "br0", "up")
        for words in (
            ("link", "set", "lo", "up"),
            ("addr", "add", f"{address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
        ):
            _ip(stack, "-n", space, *words)
        etc = Path("/etc/netns") / space  # `ip netns exec` mounts it over /etc, as kubelet does with a pod's hosts file
        etc.mkdir(parents=True)
        stack.callback(shutil.rmtree, etc, ignore_errors=True)
        (etc / "hosts").write_text(table)
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name]
        made.append(Host(name, address, ["ip", "netns", "exec", space, *named]))
    return made


def _ip(stack: contextlib.ExitStack, *words: str, undo: Sequence[str] = ()) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
    if undo:
        stack.callback(subprocess.run, ["ip", *undo], check=False, capture_output=True)


def shrink(folder: Path, train: int, test: int) -> Path:
    """The first images of the packaged sample, as a data set of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, count in (("train", train), ("t10k", test)):
        for name in (f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"):
            whole = idx.parse(idx.unzip((SAMPLE / f"{name}.gz").read_bytes(), name), name)
            size = len(whole.data) // whole.shape[0]
            part = idx.Idx((count, *whole.shape[1:]), whole.data[: count * size])
            (folder / name).write_bytes(idx.write(part))
    return folder


def end(pid: int, number: int = signal.SIGKILL) -> float:
    """Sends a signal; returns when."""
    os.kill(pid, number)
    return time.monotonic()

"""Networks for local pods: each pod has an address of its own, and finds the others by their names.

`Namespaces` gives each pod a network, a host name and an /etc/hosts, as a cluster would; it needs Linux with `unshare`,
`nsenter` and `ip`, as root or where users may make namespaces. `Loopback` works anywhere: pods are 127.0.0.x, and their
names are replaced by these addresses before a container starts.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_TOOLS = ("unshare", "nsenter", "ip", "mount", "hostname")
_PATIENCE = 60.0
_SUBNET = "10.77.0"
_SWITCH = 254
_FIRST = 2  # 127.0.0.1 is everybody's


class NoNetwork(Exception):
    """This machine can't make such a network; the text says what failed."""


class Network(Protocol):
    """What local pods need of a network. `environment` goes into every container, `words` in front of its command."""

    environment: dict[str, str]

    def add(self, pod: str) -> str:
        """Bring a pod in, and return its address; one that was here before keeps it."""

    def words(self, pod: str, folder: Path) -> list[str]:
        """What starts a command in the pod's network, in a folder."""

    def translate(self, text: str) -> str:
        """A value as the pod can use it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Loopback(contextlib.AbstractContextManager["Loopback"]):
    """All pods on this machine's loopback, one address each. Ports are shared by those who listen on all addresses."""

    def __init__(self) -> None:
        self.environment = {"GLOO_SOCKET_IFNAME": "lo"}  # else gloo looks up this machine's own name
        self._addresses: dict[str, str] = {}

    def __exit__(self, *_: object) -> None:
        self._addresses.clear()

    def add(self, pod: str) -> str:
        """See `Network`."""
        return self._addresses.setdefault(pod, f"127.0.0.{len(self._addresses) + _FIRST}")

    def words(self, pod: str, folder: Path) -> list[str]:
        """See `Network`."""
        del pod, folder
        return []

    def translate(self, text: str) -> str:
        """Names of pods become their addresses."""
        for pod, address in self._addresses.items():
            text = re.sub(rf"(?<![\w.-]){re.escape(pod)}(?![\w-])", address, text)
        return text


class Namespaces(contextlib.AbstractContextManager["Namespaces"]):
    """Each pod in a network namespace, joined by a bridge in another one.

    A namespace lives as long as a `cat` in it does, and that as long as this process holds its input open: nothing is
    left, even if this process is killed.
    """

    def __init__(self, folder: Path) -> None:
        self.environment: dict[str, str] = {}
        self._folder = folder
        self._hosts = folder / "hosts"
        self._keepers: dict[str, subprocess.Popen[bytes]] = {}
        self._root = os.geteuid() == 0

    def __enter__(self) -> Self:
        missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
        if missing:
            raise NoNetwork(f"{', '.join(missing)} isn't installed")
        self._hosts.write_text("127.0.0.1 localhost\n", encoding="utf-8")
        try:
            self._keep("")
            self._in("", "ip link set lo up")
            self._in("", "ip link add br0 type bridge")
            self._in("", f"ip addr add {_SUBNET}.{_SWITCH}/24 dev br0")
            self._in("", "ip link set br0 up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for keeper in reversed(self._keepers.values()):
            keeper.kill()
            keeper.communicate()
        self._keepers.clear()

    def add(self, pod: str) -> str:
        """See `Network`."""
        number = list(self._keepers).index(pod) if pod in self._keepers else len(self._keepers)
        address = f"{_SUBNET}.{number}"
        if pod not in self._keepers:
            with self._hosts.open("a", encoding="utf-8") as hosts:  # the same file, which the others see, too
                hosts.write(f"{address} {pod}\n")
            self._keep(pod)
            keeper = self._keepers[pod].pid
            self._in("", f"ip link add pod{number} type veth peer name eth0 netns {keeper}")
            self._in("", f"ip link set pod{number} master br0 up")
            for command in (
                f"ip addr add {address}/24 dev eth0",
                "ip link set eth0 up",
                "ip link set lo up",
                f"hostname {pod}",
                f"mount --bind {self._hosts} /etc/hosts",
            ):
                self._in(pod, command)
        return address

    def words(self, pod: str, folder: Path) -> list[str]:
        """See `Network`."""
        user = [] if self._root else ["--user", "--preserve-credentials"]
        keeper = self._keepers[pod].pid
        return ["nsenter", "-t", str(keeper), *user, "--net", "--mount", "--uts", f"--wd={folder}", "--"]

    def translate(self, text: str) -> str:
        """Names are looked up."""
        return text

    def _keep(self, pod: str) -> None:
        """Make the namespaces of a pod ("": those of the bridge) and keep them."""
        user = ["--user", "--map-root-user"] if not self._root and not pod else []
        enter = (
            []
            if self._root or not pod
            else ["nsenter", "-t", str(self._keepers[""].pid), "--user", "--preserve-credentials", "--"]
        )
        command = [*enter, "unshare", *user, "--net", "--mount", "--uts", "cat"]
        keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # noqa: S603 - tools of the system
        self._keepers[pod] = keeper
        deadline = time.monotonic() + _PATIENCE
        while Path(f"/proc/{keeper.pid}/comm").read_text(encoding="ascii").strip() != "cat":
            if keeper.poll() is not None or time.monotonic() > deadline:
                keeper.kill()
                raise NoNetwork(f"unshare: {keeper.communicate()[1].decode(errors='replace').strip() or 'no answer'}")
            time.sleep(0.01)

    def _in(self, pod: str, command: str) -> None:
        ran = subprocess.run(  # noqa: S603 - tools of the system
            [*self.words(pod, self._folder), *command.split()], capture_output=True, check=False, timeout=_PATIENCE
        )
        if ran.returncode:
            raise NoNetwork(f"{command}: {ran.stderr.decode(errors='replace').strip()}")


def best(folder: Path) -> Network:
    """Namespaces where this machine lets us have them (tried with a first pod), else loopback."""
    try:
        with Namespaces(folder) as network:
            network.add("probe")
    except (NoNetwork, OSError, subprocess.SubprocessError):
        return Loopback()
    return Namespaces(folder)

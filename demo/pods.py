"""Pods on this machine: their containers as real processes, started the way kubelet would, each pod with its address.

    with LocalPods(folder) as local:
        local.start(pods)                     # PyTorchJob pods as the operator, or the webhook, left them
        for ended in local.wait(limit=60):    # code None: the time was up, and it was ended
            print(ended.pod, ended.code, ended.log)

Images don't exist here: commands are looked up on PATH, where `python` is the interpreter that runs this, and what
else an image holds is handed in as files. Of volumes there are emptyDirs. Paths in one, or of such a file, are replaced
in words and values before the container starts. Init containers are run only where that is asked for.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo import image, kubelet, leftovers, net

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Self

ROOT = Path(__file__).parents[1]
OPERATORS_OWN = "init-pytorch"
GRACE = 3.0  # seconds between asking and making a process end; a cluster gives 30
_TICK = 0.05
_PATIENCE = 60.0
_SHELLS_OF_THE_CALLER = ("HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "OMP_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Ended:
    """A container that has ended: exit code (negative: a signal; None: its time was up), seconds, and all it said."""

    pod: str
    container: str
    code: int | None
    seconds: float
    log: str

    @property
    def name(self) -> str:
        """`POD/CONTAINER`."""
        return f"{self.pod}/{self.container}"


@dataclass(slots=True)
class _Running:
    pod: str
    container: str
    process: subprocess.Popen[bytes]
    log: Path
    began: float
    ended: float | None = None
    seen: int = 0
    cut: bool = False

    def news(self) -> list[str]:
        """Whole lines since the last call."""
        with self.log.open("rb") as file:
            file.seek(self.seen)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self.seen += len(whole)
        return whole.decode(errors="replace").splitlines()

    def result(self) -> Ended:
        code = None if self.cut else self.process.returncode
        log = self.log.read_text(encoding="utf-8", errors="replace")
        return Ended(self.pod, self.container, code, (self.ended or time.monotonic()) - self.began, log)


def _mounts(pod: Mapping[str, Any], container: Mapping[str, Any], volumes: Path) -> dict[str, str]:
    """Where a container's emptyDirs are here, but for paths that exist here (/dev/shm). They come with the pod."""
    empty = {volume["name"] for volume in pod["spec"].get("volumes") or () if "emptyDir" in volume}
    mounts = {}
    for mount in container.get("volumeMounts") or ():
        if mount["name"] in empty and not Path(mount["mountPath"]).exists():
            (volumes / mount["name"]).mkdir(parents=True, exist_ok=True)
            mounts[mount["mountPath"]] = str(volumes / mount["name"])
    return mounts


@dataclass(slots=True)
class LocalPods(contextlib.AbstractContextManager["LocalPods"]):
    """Runs pods, and ends all of their processes at the latest when the block ends.

    `network` is the best that this machine has, unless one is given (it is entered and left here). `entrypoints` says
    what an image without a command runs, `environment` and `files` (see `demo.image`) what images bring along. `inits`
    runs the init containers, too, but for the operator's own, which waits for a name server. `grace` is what a process
    that is told to end gets.
    """

    folder: Path
    network: net.Network | None = None
    entrypoints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    inits: bool = False
    grace: float = GRACE
    _mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    _running: list[_Running] = field(default_factory=list)
    _entered: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Self:
        self.network = self.network or net.best(self.folder)
        self._entered.enter_context(self.network)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for pod in {one.pod for one in self._running}:
                self._end(pod, grace=0)
        finally:
            self._entered.close()

    @property
    def mark(self) -> str:
        """What the marks of all processes begin with, see `demo.leftovers`."""
        return self._mark

    @property
    def left(self) -> list[int]:
        """The processes that still run."""
        return [pid for pod in {one.pod for one in self._running} for pid in leftovers.marked(self._mark_of(pod))]

    def start(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Start all containers of some pods, in order. A pod that ran before may be started again.

        Raises:
            kubelet.Unsupported: a container asks for what only a cluster has.
        """
        pods = list(pods)
        addresses = {pod["metadata"]["name"]: self._net.add(pod["metadata"]["name"]) for pod in pods}
        for pod in pods:
            address = addresses[pod["metadata"]["name"]]
            for container in pod["spec"].get("initContainers") or () if self.inits else ():
                if container["name"] != OPERATORS_OWN:
                    self._start(pod, container, address).process.wait(timeout=_PATIENCE)
            for container in pod["spec"]["containers"]:
                self._start(pod, container, address)

    @property
    def _net(self) -> net.Network:
        if self.network is None:
            raise RuntimeError("LocalPods is a context manager")
        return self.network

    def codes(self) -> dict[tuple[str, str], int | None]:
        """By pod and container: how each ended; None: it runs."""
        self._look(None)
        return {(one.pod, one.container): one.process.returncode for one in self._running}

    def _start(self, pod: Mapping[str, Any], container: Mapping[str, Any], address: str) -> _Running:
        name = pod["metadata"]["name"]
        values = kubelet.environment(container, pod, address)
        words = kubelet.command_line(container, values, self.entrypoints.get(str(container.get("image"))))
        home = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        mounts = _mounts(pod, container, self._volumes(name))
        paths = image.unpack(self.files, home, mounts, self._net.translate)

        def translate(text: str) -> str:
            return kubelet.moved(self._net.translate(text), paths)

        given = {key: translate(value) for key, value in values.items()}
        log = home / f"{container['name']}.log"
        environment = {**self._image(paths), **self.environment, **self._net.environment, "HOSTNAME": name, **given}
        environment[leftovers.MARK] = self._mark_of(name)
        cwd = image.working_folder(container, paths, home)
        with log.open("wb") as out:
            process = subprocess.Popen(  # noqa: S603 - what the job's owner wrote
                [*self._net.words(name, cwd), *map(translate, words)],
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append(_Running(name, container["name"], process, log, time.monotonic()))
        return self._running[-1]

    def _image(self, paths: Mapping[str, str]) -> dict[str, str]:
        """What an image with this Python, this project, and such files would set."""
        kept = {name: os.environ[name] for name in _SHELLS_OF_THE_CALLER if name in os.environ}
        folders = [*image.commands(paths), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        return {**kept, "PATH": os.pathsep.join(folders), "PYTHONPATH": str(ROOT)}

    def _volumes(self, pod: str) -> Path:
        return self.folder / f"{pod}.{self._mark}.volumes"

    def _mark_of(self, pod: str) -> str:
        return f"{self._mark}/{pod}"

    def wait(
        self,
        limit: float,
        watch: Callable[[str, str], None] | None = None,
        until: Callable[[], bool] | None = None,
    ) -> list[Ended]:
        """Wait until all containers have ended, `limit` seconds have passed, or `until` says so; end the rest.

        `watch` hears of each line, with the pod's name, as it is written.
        """
        deadline = time.monotonic() + limit
        while self._look(watch) and time.monotonic() < deadline and not (until is not None and until()):
            time.sleep(_TICK)
        running = [one for one in self._running if one.ended is None]
        for one in running:
            one.cut = True
        for pod in {one.pod for one in running}:
            self._end(pod, grace=self.grace)
        self._look(watch)
        ended, self._running = [one.result() for one in self._running], []
        return ended

    def delete(self, pod: str) -> list[Ended]:
        """End a pod, as somebody who deletes it would, while the others go on; its emptyDirs go with it."""
        self._end(pod, grace=self.grace)
        self._look(None)
        shutil.rmtree(self._volumes(pod), ignore_errors=True)
        gone = [one.result() for one in self._running if one.pod == pod]
        self._running = [one for one in self._running if one.pod != pod]
        return gone

    def _look(self, watch: Callable[[str, str], None] | None) -> bool:
        """Note what has ended and what is new; whether anything still runs."""
        for one in self._running:
            if one.ended is None and one.process.poll() is not None:
                one.ended = time.monotonic()
                if self._is_last(one):
                    leftovers.end(self._mark_of(one.pod), grace=0)
            if watch is not None:
                for line in one.news():
                    watch(one.pod, line)
        return any(one.ended is None for one in self._running)

    def _is_last(self, ended: _Running) -> bool:
        return all(one.ended is not None for one in self._running if one.pod == ended.pod)

    def _end(self, pod: str, *, grace: float) -> None:
        leftovers.end(self._mark_of(pod), grace=grace)
        for one in self._running:
            if one.pod == pod:
                one.process.wait(timeout=GRACE)
                one.ended = one.ended or time.monotonic()

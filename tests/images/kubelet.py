"""Pods as containers of the engine, started as kubelet would: `demo.kubelet` says what it makes of a pod."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demo import kubelet
from tests.images.engine import network, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.images.engine import Container
    from tests.support_deploy import Object

_TERMINATION_LOG = "/dev/termination-log"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount of every container


@dataclass
class Node:
    """Runs pods in a network of their own; their volumes are folders that outlive the containers."""

    folder: Path
    bridge: str

    def start(self, pod: Object, ending: contextlib.ExitStack) -> Container:
        """Start the pod's one container. A pod that ran before may be started again, and finds its volumes."""
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        values = kubelet.environment(container, pod, "")
        words = kubelet.command_line(container, values, None)
        memory = _bytes(container["resources"]["limits"]["memory"])
        options = (
            f"--hostname={name}", f"--network={self.bridge}", f"--network-alias={name}", f"--entrypoint={words[0]}",
            *(f"--env={key}={value}" for key, value in values.items()), *self._volumes(pod, container),
            f"--memory={memory}", f"--volume={self.message(pod)}:{_TERMINATION_LOG}",
        )  # fmt: skip
        return ending.enter_context(running(container["image"], *words[1:], options=options))

    def message(self, pod: Object) -> Path:
        """The file of the container's termination message."""
        path = self.folder / f"{pod['metadata']['name']}.message"
        path.touch()
        path.chmod(0o666)
        return path

    def _volumes(self, pod: Object, container: Object) -> Iterator[str]:
        empty = {volume["name"]: volume["emptyDir"] for volume in pod["spec"]["volumes"] if "emptyDir" in volume}
        for mount in container["volumeMounts"]:
            if mount["mountPath"] == _SHARED_MEMORY:
                yield f"--shm-size={_bytes(empty[mount['name']]['sizeLimit'])}"
            else:
                place = self.folder / pod["metadata"]["name"] / mount["name"]
                place.mkdir(parents=True, exist_ok=True)
                place.chmod(0o777)
                yield f"--volume={place}:{mount['mountPath']}"


def _bytes(quantity: str) -> str:
    """256Mi as docker writes it."""
    return quantity.removesuffix("i").lower()


@contextlib.contextmanager
def node(folder: Path) -> Iterator[Node]:
    """A node without pods."""
    with network() as bridge:
        yield Node(folder, bridge)

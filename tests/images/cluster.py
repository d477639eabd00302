"""rankfix in a cluster whose nodes are a Docker engine: its manifests on a real API server, its pods as containers.

What kubelet does is done here: it mounts the Secret, the account's token and the way to the API server, and starts the
containers with the words that the manifests have.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.e2e import controlplane
from tests.e2e.forwarder import forwarder
from tests.e2e.installation import Installation, fresh, installation, ready, repaired
from tests.images.engine import finished, gateway, network, running, until
from tests.images.webhook_container import MEMORY, PORT, restrictions, secret_folder
from tests.support_deploy import Object, one

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMESPACE = "team-images"
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_HOST = "kubernetes.default.svc"


@dataclass(frozen=True, slots=True)
class Cluster:
    """An installation, the folder of its mounts, and what a container needs to get to the API server."""

    installed: Installation
    folder: Path
    image: str
    to_the_api: tuple[str, ...]

    def account(self, name: str) -> tuple[str, ...]:
        """A service account as a pod finds it mounted, for its group alone."""
        place = secret_folder(self.folder / name)
        plane, namespace = self.installed.plane, self.installed.namespace
        files = {"token": plane.token(namespace, name), "ca.crt": plane.ca.read_text(), "namespace": namespace}
        for file, text in files.items():
            (place / file).write_text(text)
        return (f"--volume={place}:{_ACCOUNT}:ro", *self.to_the_api)

    def run_job(self) -> tuple[int, str]:
        """The Job that makes the certificate: its exit code and log."""
        pod = one(self.installed.objects, "Job")["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        options = (
            *restrictions(self.folder), *self.account(pod["serviceAccountName"]),
            f"--memory={container['resources']['limits']['memory'].removesuffix('i')}",
            f"--entrypoint={container['command'][0]}",
        )  # fmt: skip
        return finished(self.image, *container["args"], options=options)

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """The Deployment's container, in the Service's endpoints once it says that it is ready."""
        pod = one(self.installed.objects, "Deployment")["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        options = (
            *restrictions(self.folder), *self.account(pod["serviceAccountName"]), f"--publish=127.0.0.1::{PORT}",
            f"--memory={MEMORY}m", f"--memory-swap={MEMORY}m",
            f"--volume={self.installed.folder}:{container['volumeMounts'][0]['mountPath']}:ro",
        )  # fmt: skip
        with running(self.image, *container["args"], options=options) as made:
            port = made.port(PORT)
            made.says('"listening"', within=60)
            until(lambda: ready(port), "the webhook's container isn't ready")
            self.installed.front.ports.append(port)
            yield

    def stored(self, pods: list[Object]) -> list[Object]:
        """The pods, created on the API server, as it stores them."""
        self.installed.await_repair(NAMESPACE)
        replies = [self.installed.create(fresh(pod), NAMESPACE) for pod in pods]
        assert all(repaired(reply) for reply in replies), replies
        return [reply.body for reply in replies]


@contextlib.contextmanager
def started(image: str, folder: Path) -> Iterator[Cluster]:
    """A cluster with rankfix: applied, its certificate made by the Job, and its server ready."""
    with (
        network() as bridge,
        controlplane.start(made_folder(folder / "plane")) as plane,
        forwarder(address := gateway(bridge)) as way,
        installation(plane, secret_folder(folder / "tls"), namespace="rankfix-images", alone=False) as installed,
    ):
        way.ports.append(plane.port)
        plane.namespace(NAMESPACE)
        to_the_api = (
            f"--network={bridge}", f"--add-host={_HOST}:{address}",
            f"--env=KUBERNETES_SERVICE_HOST={_HOST}", f"--env=KUBERNETES_SERVICE_PORT={way.port}",
        )  # fmt: skip
        made = Cluster(installed, folder, image, to_the_api)
        installed.apply()
        code, log = made.run_job()
        assert code == 0, log
        installed.mount()
        with made.serving():
            yield made


def made_folder(path: Path) -> Path:
    """The folder, newly made."""
    path.mkdir(parents=True)
    return path

"""The webhook as a container: under the Deployment's restrictions, and with less memory than that allows."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from certs.issue import Identity, make_leaf
from tests.images.engine import Container, network, running
from tests.support_deploy import Object, one, profile
from tests.support_edges import Running
from tests.support_tls import NAMES, Volume, authority, now

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEMORY = 128  # MiB
PORT = 8443
# Of the Deployment's words, those that need a cluster behind them
OF_A_CLUSTER = ("--webhook-config=", "--webhook=", "--namespace=", "--service=", "--cert-wait=")


def pod() -> Object:
    """The pod's spec, as `rankfix render` prints it."""
    found: Object = one(profile("self-signed"), "Deployment")["spec"]["template"]["spec"]
    return found


def restrictions(folder: Path) -> tuple[str, ...]:
    """What the security contexts forbid, in docker's words; and no shell, whatever the base has."""
    spec = pod()
    user = spec["securityContext"]
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    shell = folder / "no-shell"
    shell.touch(0o444)
    return (
        "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges",
        f"--user={user['runAsUser']}:{user['fsGroup']}", f"--volume={shell}:/bin/sh:ro",
    )  # fmt: skip


def secret_folder(path: Path) -> Path:
    """A folder whose files are for the pod's group alone, as fsGroup makes it; for all where we may not."""
    path.mkdir(parents=True)
    with contextlib.suppress(PermissionError):
        os.chown(path, -1, pod()["securityContext"]["fsGroup"])
        path.chmod(0o2750)  # what comes into it belongs to the group, too
    return path


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook that serves, the authority of its certificate, and the Secret that it mounts."""

    container: Container
    server: Running
    ca: Identity
    secret: Volume

    def bring(self) -> Identity:
        """Another certificate of the same authority, all at once."""
        leaf = make_leaf(self.ca, names=NAMES, ips=["127.0.0.1"], now=now(), lifetime=timedelta(days=1))
        before = os.umask(0o027 if self.secret.path.stat().st_mode & 0o2000 else 0o022)
        try:
            self.secret.bring(leaf)
        finally:
            os.umask(before)
        return leaf


@contextlib.contextmanager
def started(image: str, folder: Path, *more: str) -> Iterator[Webhook]:
    """A webhook with the Deployment's words (and `more`), called from outside through a published port."""
    (container,) = pod()["containers"]
    words = [word for word in container["args"] if not word.startswith(OF_A_CLUSTER)]
    ca = authority()
    (folder / "ca.crt").write_bytes(ca.certificate)
    made = Webhook(Container(""), Running(0, folder), ca, Volume(secret_folder(folder / "tls")))
    made.bring()
    with network() as bridge:
        options = (
            *restrictions(folder), f"--network={bridge}", f"--publish=127.0.0.1::{PORT}",
            f"--memory={MEMORY}m", f"--memory-swap={MEMORY}m", f"--volume={made.secret.path}:/etc/rankfix/tls:ro",
        )  # fmt: skip
        with running(image, *words, *more, options=options) as ran:
            ran.says('"listening"', within=60)
            yield Webhook(ran, Running(ran.port(PORT), folder), ca, made.secret)

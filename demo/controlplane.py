"""A Kubernetes control plane on this machine: etcd and kube-apiserver, from the folder that KUBEBUILDER_ASSETS names.

As `setup-envtest` installs them. Everything listens on loopback, lives in one folder, and is gone afterwards.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import ssl
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from demo.server import DemoError, free_port, stop

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = ("etcd", "kube-apiserver")
_PATIENCE = 180.0
_HOST = "127.0.0.1"


def assets() -> Path | None:
    """Where the programs are; None if they aren't on this machine."""
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    found = folder and all(os.access(Path(folder, program), os.X_OK) for program in PROGRAMS)
    return Path(folder) if folder and found else None


@dataclass(frozen=True, slots=True)
class Api:
    """Speaks to the API server as its administrator."""

    port: int
    token: str

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and JSON of one request. Raises OSError where nobody answers."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without the system's authorities, which take 50 ms to read
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # it made its own certificate a moment ago, and listens on loopback only
        connection = http.client.HTTPSConnection(_HOST, self.port, context=context, timeout=30)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            data = answer.read()
        try:
            return answer.status, json.loads(data)
        except ValueError:
            return answer.status, data.decode(errors="replace")

    def create(self, path: str, body: object) -> Any:  # noqa: ANN401 - any object of the API
        """The created object.

        Raises:
            DemoError: the API server refuses it.
        """
        status, answer = self.ask("POST", path, body)
        if status not in (http.client.OK, http.client.CREATED):
            raise DemoError(
                f"the API server refused {path}: {answer.get('message') if isinstance(answer, dict) else answer}"
            )
        return answer


@contextlib.contextmanager
def running(folder: Path, programs: Path) -> Iterator[Api]:
    """An API server that is ready."""
    with contextlib.ExitStack() as ending:
        client, peer = free_port(), free_port()
        store = f"http://{_HOST}:{client}"
        etcd = [
            "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync",
            "--listen-client-urls", store, "--advertise-client-urls", store,
            "--listen-peer-urls", f"http://{_HOST}:{peer}", "--initial-advertise-peer-urls", f"http://{_HOST}:{peer}",
            "--initial-cluster", f"default=http://{_HOST}:{peer}",
        ]  # fmt: skip
        ending.enter_context(_child(programs / "etcd", etcd, folder))
        api = Api(free_port(), secrets.token_hex(16))
        server = ending.enter_context(_child(programs / "kube-apiserver", _arguments(api, store, folder), folder))
        _wait(api, server, folder / "kube-apiserver.log")
        yield api


def _arguments(api: Api, store: str, folder: Path) -> list[str]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = folder / "sa.key", folder / "sa.pub"
    plain = serialization.NoEncryption()
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    )
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    tokens = folder / "tokens.csv"
    tokens.write_text(f'{api.token},admin,admin,"system:masters"\n', encoding="ascii")
    return [
        f"--etcd-servers={store}", f"--secure-port={api.port}", f"--bind-address={_HOST}",
        f"--cert-dir={folder / 'certificates'}", "--service-cluster-ip-range=10.96.0.0/16",
        f"--service-account-key-file={public}", f"--service-account-signing-key-file={private}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--token-auth-file={tokens}", "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount", "--allow-privileged=true",
    ]  # fmt: skip


@contextlib.contextmanager
def _child(program: Path, arguments: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{program.name}.log").open("wb") as log:
        process = subprocess.Popen([program, *arguments], stdout=log, stderr=log, start_new_session=True)  # noqa: S603 - the caller's own
        try:
            yield process
        finally:
            stop(process, patience=2)  # nothing in here is worth a long goodbye


def _wait(api: Api, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = log.read_text(errors="replace").strip().splitlines() or ["nothing"]
            raise DemoError(f"kube-apiserver ended with code {process.returncode} and said: {said[-1]}")
        with contextlib.suppress(OSError):
            if api.ask("GET", "/readyz")[0] == http.client.OK:
                return
        time.sleep(0.2)
    raise DemoError(f"kube-apiserver wasn't ready within {_PATIENCE:g} s")

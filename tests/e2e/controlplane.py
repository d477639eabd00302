"""A real control plane for tests: etcd and kube-apiserver as children, on loopback, in one folder.

The programs come from the folder that KUBEBUILDER_ASSETS names (the convention of envtest: etcd, kube-apiserver and
kubectl). `SKIP` says how to get them where they are missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs.issue import make_ca, make_leaf
from tests.support_tls import client

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ADMIN = "admin-token"
CALLER = "kube-apiserver"  # the name in the certificate that it shows to webhooks
ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
SKIP = (
    "no control plane: set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl, as "
    "`setup-envtest use -p path` (sigs.k8s.io/controller-runtime/tools/setup-envtest) prints it"
)
READY_WITHIN = 90.0


def available() -> bool:
    """Whether the programs are there."""
    return bool(ASSETS) and all((Path(ASSETS) / name).exists() for name in ("etcd", "kube-apiserver", "kubectl"))


@dataclass(frozen=True, slots=True)
class Reply:
    """What the API server answered: the status, and the object (or text, where it is no JSON)."""

    status: int
    body: Any

    def must(self) -> Any:
        """The object, of a call that has to succeed."""
        assert self.status < HTTPStatus.MULTIPLE_CHOICES, (self.status, self.body)
        return self.body


@dataclass
class ControlPlane:
    """A running API server. `start` makes one."""

    folder: Path
    assets: Path
    port: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> Path:
        """The authority of the API server's own certificate."""
        return self.folder / "api-ca.crt"

    @property
    def kubeconfig(self) -> Path:
        """Of a cluster administrator."""
        return self.folder / "kubeconfig-admin"

    def request(
        self, method: str, path: str, body: object = None, *, token: str = ADMIN, media: str = "application/json"
    ) -> Reply:
        """One call; `body` is bytes, or anything that JSON can say."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": media, "Accept": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)  # noqa: S310 - our own https address
        context = ssl.create_default_context(cafile=self.ca)
        try:
            with urllib.request.urlopen(request, context=context, timeout=60) as answer:  # noqa: S310 - see above
                return Reply(answer.status, _parsed(answer.read()))
        except urllib.error.HTTPError as refused:
            with refused:
                return Reply(refused.code, _parsed(refused.read()))

    def get(self, path: str) -> Any:
        """The object at `path`, which must be there."""
        return self.request("GET", path).must()

    def create(self, path: str, body: object) -> Any:
        """Create `body` under the collection `path`."""
        return self.request("POST", path, body).must()

    def delete(self, path: str) -> Reply:
        return self.request("DELETE", path)

    def namespace(self, name: str) -> str:
        """Make a namespace, unless it's there; its name."""
        assert self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).status in {201, 409}
        return name

    def kubectl(self, *words: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """What kubectl prints; fails with what it complains about."""
        ran = self.try_kubectl(*words, stdin=stdin, kubeconfig=kubeconfig)
        assert ran.returncode == 0, f"kubectl {' '.join(words)}: {ran.stderr}"
        return ran.stdout

    def try_kubectl(
        self, *words: str, stdin: str | None = None, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [str(self.assets / "kubectl"), "--kubeconfig", str(kubeconfig or self.kubeconfig), *words]
        environment = {**os.environ, "KUBECACHEDIR": str(self.folder / "kubectl-cache")}
        return subprocess.run(command, input=stdin, text=True, capture_output=True, check=False, env=environment)

    def token(self, namespace: str, service_account: str) -> str:
        """A token of a service account that is there, as a pod would find it mounted."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        spec = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        made: str = self.create(path, spec)["status"]["token"]
        return made

    def kubeconfig_for(self, token: str, name: str) -> Path:
        """A kubeconfig of whoever has `token`, in a file called after `name`."""
        path = self.folder / f"kubeconfig-{name}"
        path.write_text(json.dumps(self._kubeconfig(token)))
        path.chmod(0o600)
        return path

    def _kubeconfig(self, token: str) -> dict[str, Any]:
        cluster = {"server": self.url, "certificate-authority": str(self.ca)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
        }

    def log(self, name: str) -> str:
        """What `etcd` or `kube-apiserver` has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")


@contextlib.contextmanager
def start(folder: Path, *flags: str, env: Mapping[str, str] | None = None) -> Iterator[ControlPlane]:
    """Start etcd and kube-apiserver (with `flags` beside the usual ones) in the empty `folder`, and end them after."""
    etcd, peer, port = _free_ports(3)
    plane = ControlPlane(folder, Path(ASSETS), port)
    _keys(folder)
    _webhooks(folder)
    plane.kubeconfig_for(ADMIN, "admin")
    try:
        _spawn(plane, "etcd", _etcd_flags(folder, etcd, peer), env)
        _spawn(plane, "kube-apiserver", [*_apiserver_flags(folder, etcd, port), *flags], env)
        _await_ready(plane)
        yield plane
    finally:
        for process in plane.processes:
            process.kill()  # nothing here is worth a graceful end
        for process in plane.processes:
            process.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:  # all at once, so that no port is given out twice
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [sock.getsockname()[1] for sock in sockets]


def _keys(folder: Path) -> None:
    """The API server's identity, the key that signs service accounts' tokens, and the administrator's token."""
    now = datetime.now(UTC)
    ca = make_ca(now=now, lifetime=timedelta(days=1), common_name="test API")
    leaf = make_leaf(
        ca, names=["localhost", "kubernetes.default.svc"], ips=["127.0.0.1"], now=now, lifetime=timedelta(days=1)
    )
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    caller = client(ca, CALLER)
    files = {
        "caller.crt": caller.certificate, "caller.key": caller.key,
        "api-ca.crt": ca.certificate, "api.crt": leaf.certificate, "api.key": leaf.key, "sa.key": private,
        "sa.pub": public, "tokens.csv": f'{ADMIN},admin,admin,"system:masters"\n'.encode(),
    }  # fmt: skip
    for name, data in files.items():
        (folder / name).write_bytes(data)


def _webhooks(folder: Path) -> None:
    """Who the API server says that it is when it calls a webhook: a client certificate, for whoever asks for one."""
    user = {"client-certificate": f"{folder}/caller.crt", "client-key": f"{folder}/caller.key"}
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]}
    (folder / "webhooks").write_text(json.dumps(kubeconfig))
    version = "apiserver.config.k8s.io/v1"
    told = {"apiVersion": version, "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": f"{folder}/webhooks"}
    plugins = [{"name": "MutatingAdmissionWebhook", "configuration": told}]
    configuration = {"apiVersion": version, "kind": "AdmissionConfiguration", "plugins": plugins}
    (folder / "admission").write_text(json.dumps(configuration))


def _etcd_flags(folder: Path, port: int, peer: int) -> list[str]:
    client, other = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
    return [
        f"--data-dir={folder}/etcd", f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
        f"--listen-peer-urls={other}", f"--initial-advertise-peer-urls={other}", f"--initial-cluster=default={other}",
        "--unsafe-no-fsync",
    ]  # fmt: skip


def _apiserver_flags(folder: Path, etcd: int, port: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}", "--bind-address=127.0.0.1", f"--secure-port={port}",
        f"--tls-cert-file={folder}/api.crt", f"--tls-private-key-file={folder}/api.key", f"--cert-dir={folder}/api",
        "--service-cluster-ip-range=10.96.0.0/16", "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder}/sa.pub", f"--service-account-signing-key-file={folder}/sa.key",
        f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=RBAC", "--allow-privileged=true",
        f"--admission-control-config-file={folder}/admission",
        "--disable-admission-plugins=ServiceAccount",  # nobody makes the default accounts that it would ask for
    ]  # fmt: skip


def _spawn(plane: ControlPlane, name: str, flags: Sequence[str], env: Mapping[str, str] | None) -> None:
    with (plane.folder / f"{name}.log").open("wb") as log:
        command = [str(plane.assets / name), *flags]
        plane.processes.append(
            subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})})
        )


def _await_ready(plane: ControlPlane) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if plane.request("GET", "/readyz").status == HTTPStatus.OK:
                return
        assert plane.processes[-1].poll() is None, plane.log("kube-apiserver")[-3000:]
        time.sleep(0.2)
    raise AssertionError(f"kube-apiserver isn't ready: {plane.log('kube-apiserver')[-3000:]}")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")

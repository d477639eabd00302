"""What the tests of the edges share: review makers, certificates, and servers that really run."""

from __future__ import annotations

import base64
import contextlib
import copy
import http.client
import io
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certs.issue import make_ca, make_leaf
from webhook import begin, logs, serve
from webhook.settings import Settings, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


REPO = Path(__file__).parents[1]
RECORDED = sorted((REPO / "tests/data/reviews").glob("*/*.json"))
JSON = ("content-type", "application/json")
CANARY = "hunter2-canary-ZXCVB"
UID = "5f7e2a80-6c1c-4d2e-9d0a-1f2e3d4c5b6a"


def pod(*env: tuple[str, str], name: str = "job-worker-0", **metadata: object) -> dict[str, Any]:
    """A worker of a job of two pods, four processes each, as training-operator 1.9 makes it."""
    operator = {
        "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "WORLD_SIZE": "8", "RANK": "1",
        "PET_NPROC_PER_NODE": "4", "PET_NNODES": "2", "PET_NODE_RANK": "1",
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {
                "training.kubeflow.org/job-name": "job",
                "training.kubeflow.org/operator-name": "pytorchjob-controller",
                "training.kubeflow.org/replica-index": "0",
                "training.kubeflow.org/replica-type": "worker",
            },
            "ownerReferences": [
                {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "job", "uid": "1", "controller": True}
            ],
            **metadata,
        },
        "spec": {
            "containers": [
                {
                    "name": "pytorch",
                    "image": "train",
                    "command": ["python", "train.py"],
                    "env": [{"name": key, "value": value} for key, value in [*operator.items(), *env]],
                }
            ]
        },
    }


def review(obj: object = None, *, uid: object = UID, version: str = "v1", **request: object) -> dict[str, Any]:
    """An AdmissionReview of a pod's creation."""
    return {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "team-a",
            "operation": "CREATE",
            "object": pod() if obj is None else obj,
            **request,
        },
    }


def body(obj: object = None, **request: Any) -> bytes:
    """The same as bytes."""
    return json.dumps(review(obj, **request)).encode()


def typo() -> dict[str, Any]:
    """A pod that must be denied."""
    return pod(annotations={"rankfix/mode": "proces"})


def patch_of(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The JSON Patch in an AdmissionReview answer."""
    encoded = answer["response"].get("patch")
    return json.loads(base64.b64decode(encoded)) if encoded else []


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def certificate_folder(folder: Path, *, names: Sequence[str] = ("localhost", "rankfix.ml.svc")) -> Path:
    """A folder with tls.crt, tls.key and ca.crt, valid now."""
    now = datetime.now(UTC)
    ca = make_ca(now=now, lifetime=timedelta(days=2))
    leaf = make_leaf(ca, names=names, ips=["127.0.0.1", "::1"], now=now, lifetime=timedelta(days=1))
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in (("tls.crt", leaf.certificate), ("tls.key", leaf.key), ("ca.crt", ca.certificate)):
        (folder / name).write_bytes(data)
    return folder


@dataclass
class Running:
    """A server that listens on loopback, how to trust it, and what it has said."""

    port: int
    folder: Path
    said: list[str] = field(default_factory=list)
    process: subprocess.Popen[str] | None = None

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.folder / "ca.crt")

    def connect(self, timeout: float = 10) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context(), timeout=timeout)

    def ask(self, method: str, path: str, data: bytes | None = None, headers: Mapping[str, str] | None = None) -> Reply:
        """One request on a connection of its own."""
        with contextlib.closing(self.connect()) as connection:
            return ask(connection, method, path, data, headers)

    def stop(self, number: int = signal.SIGTERM, timeout: float = 15) -> int:
        """Send the signal; the exit code."""
        assert self.process
        self.process.send_signal(number)
        return self.process.wait(timeout)


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    data: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """One request on an open connection."""
    default = {"Content-Type": "application/json"} if data is not None else {}
    connection.request(method, path, data, {**default, **(headers or {})})
    answer = connection.getresponse()
    return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


def serve_command(folder: Path) -> list[str]:
    """`rankfix serve` on a free port of loopback, without a drain."""
    flags = ["--host", "127.0.0.1", "--port", "0", "--cert-dir", str(folder), "--drain", "0"]
    return [sys.executable, "-m", "webhook", "serve", *flags]


@contextlib.contextmanager
def child(
    folder: Path, *flags: str, env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
) -> Iterator[Running]:
    """`rankfix serve` as a process of its own, on a free port, begun by `prefix`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RANKFIX_")}
    environment = {**inherited, "PYTHONUNBUFFERED": "1", **(env or {})}
    command = [*prefix, *serve_command(folder), *flags]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPO, env=environment
    ) as process:
        assert process.stderr
        running = Running(0, folder, process=process)
        try:
            for line in process.stderr:
                running.said.append(line)
                if '"listening"' in line:
                    running.port = json.loads(line)["port"]
                    break
            assert running.port, running.said
            reader = threading.Thread(target=running.said.extend, args=(process.stderr,))
            reader.start()
            yield running
        finally:
            process.kill()
            process.wait()
        reader.join()


@contextlib.contextmanager
def threaded(folder: Path, **settings: object) -> Iterator[tuple[Running, io.StringIO]]:
    """The same server in a thread of this process, and its log."""
    stream = io.StringIO()
    loaded: Settings = load({"cert_dir": folder, "drain": 0, "grace": 2, **settings}, environ={}).settings
    log = logs.make(stream, "debug")
    made: Settings = loaded.model_copy(update={"host": "127.0.0.1", "port": 0})
    with begin.listening(made) as sockets, logs.forwarded(log):
        port = sockets[0].getsockname()[1]
        server = serve.make(made, log=log, version="9.9.9")
        thread = threading.Thread(target=server.run, kwargs={"sockets": sockets})
        thread.start()
        try:
            while '"listening"' not in stream.getvalue() and thread.is_alive():
                time.sleep(0.01)
            yield Running(port, folder), stream
        finally:
            server.should_exit = True
            thread.join()


def until(good: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until it's so."""
    deadline = time.monotonic() + seconds
    while not good():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def raw(running: Running, data: bytes, *, timeout: float = 5) -> bytes:
    """Send bytes over TLS, whatever they are, and return what comes until the server closes or is silent."""
    with tls_socket(running, timeout=timeout) as secure:
        secure.sendall(data)
        return drain(secure)


def tls_socket(running: Running, *, timeout: float = 5) -> ssl.SSLSocket:
    """A connection past its handshake."""
    plain = socket.create_connection(("127.0.0.1", running.port), timeout=timeout)
    return running.context().wrap_socket(plain, server_hostname="localhost")


def drain(sock: socket.socket) -> bytes:
    """What comes until the other side closes, or says nothing for the socket's time-out."""
    got = b""
    with contextlib.suppress(TimeoutError, ConnectionError, ssl.SSLError):
        while chunk := sock.recv(65536):
            got += chunk
    return got


def changed(document: Any, *path: str | int, to: object) -> Any:
    """A copy of `document` with one thing in it replaced."""
    made = copy.deepcopy(document)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return made

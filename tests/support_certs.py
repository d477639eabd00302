"""What the tests of `certs` share: an API server in memory, replicas that serve what they have loaded, and a clock."""

from __future__ import annotations

import base64
import contextlib
import copy
import http.server
import itertools
import json
import re
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from certs import inspect
from certs.drive import Issuer, Run, finish
from certs.issue import service_names
from certs.rotate import Answer, Wish
from certs.store import CONFIGURATIONS, STRATEGIC, KubeCluster, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from certs.replicas import Address
    from certs.rotate import Action
    from tests.support_tls import Volume

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)
PLACE = Place("ml", "rankfix-tls", "rankfix", "rankfix.example.org")
SECRET = "/api/v1/namespaces/ml/secrets/rankfix-tls"
CONFIGURATION = f"{CONFIGURATIONS}/rankfix.example.org"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/ml/endpointslices"
NAMES = service_names("rankfix", "ml")


class Crash(Exception):
    """What ends a run in the midst of it."""


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class MemoryApi:
    """An API server's objects by path, with resourceVersions: a write with an old one is refused with 409."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    before: Callable[[str, str], None] = lambda _method, _path: None
    after: Callable[[str, str], None] = lambda _method, _path: None
    versions: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def __call__(
        self, method: str, path: str, body: object = None, media: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        self.calls.append((method, path))
        self.before(method, path)
        answer = self._answer(method, path, copy.deepcopy(body), media)
        self.after(method, path)
        return copy.deepcopy(answer)

    def put(self, path: str, found: dict[str, Any]) -> dict[str, Any]:
        """Store it as its newest version."""
        metadata = {**found.get("metadata", {}), "resourceVersion": str(next(self.versions))}
        self.objects[path] = {**found, "metadata": metadata}
        return self.objects[path]

    def writes(self) -> list[tuple[str, str]]:
        return [call for call in self.calls if call[0] != "GET"]

    def _answer(self, method: str, path: str, body: Any, media: str) -> tuple[int, dict[str, Any]]:
        place, _, query = path.partition("?")
        if method == "GET" and query:
            return 200, {"items": self._selected(place, query)}
        if method == "POST":
            return self._create(f"{place}/{body['metadata']['name']}", body)
        if place not in self.objects:
            return 404, {"message": f"{place} not found"}
        if method == "GET":
            return 200, self.objects[place]
        version = body["metadata"].get("resourceVersion")
        if version and version != self.objects[place]["metadata"]["resourceVersion"]:
            return 409, {"message": "the object has been modified"}
        if method == "PUT":
            return 200, self.put(place, body)
        assert (method, media) == ("PATCH", STRATEGIC)
        return 200, self.put(place, _merged(self.objects[place], body))

    def _create(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path in self.objects:
            return 409, {"message": f"{path} already exists"}
        return 201, self.put(path, body)

    def _selected(self, place: str, query: str) -> list[dict[str, Any]]:
        service = re.sub(".*%3D", "", query)
        found = [value for path, value in self.objects.items() if path.startswith(place + "/")]
        return [one for one in found if one["metadata"]["labels"]["kubernetes.io/service-name"] == service]


def _merged(found: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Strategic merge of a list of webhooks, by their names."""
    webhooks = copy.deepcopy(found["webhooks"])
    for change in patch["webhooks"]:
        (entry,) = [one for one in webhooks if one["name"] == change["name"]]
        entry["clientConfig"].update(change["clientConfig"])
    return {**found, "webhooks": webhooks}


def entry(name: str, service: str = "rankfix", namespace: str = "ml", **client: Any) -> dict[str, Any]:
    """A webhook that calls a Service."""
    return {"name": name, "clientConfig": {"service": {"name": service, "namespace": namespace}, **client}}


def configuration(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": PLACE.configuration}, "webhooks": list(entries or (entry("pods.rankfix"),))}


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@dataclass
class Replica:
    """A server that serves what it took from its volume last, and refuses what can't be served or is older."""

    address: str = "10.0.0.1:8443"
    ready: bool = True
    certificate: bytes = b""

    def take(self, certificate: bytes, key: bytes, now: datetime) -> None:
        """What the kubelet brings."""
        found, mine = inspect.certificates(certificate), self.leaf
        older = mine and found and found[0].begins < mine.begins and not inspect.time_fault(mine, now)
        if inspect.pair_fault(found, key, now) is None and not older:
            self.certificate = certificate

    @property
    def leaf(self) -> inspect.Certificate | None:
        found = inspect.certificates(self.certificate)
        return found[0] if found else None


@dataclass
class World:
    """A cluster in memory: API server, replicas, a clock, and the run of `rankfix-certs` that a test needs."""

    api: MemoryApi = field(default_factory=MemoryApi)
    clock: Clock = field(default_factory=Clock)
    replicas: list[Replica] = field(default_factory=list)
    place: Place = PLACE
    said: list[str] = field(default_factory=list)

    @property
    def cluster(self) -> KubeCluster:
        return KubeCluster(self.api, self.place, self._ask)

    def _ask(self, _addresses: Sequence[Address]) -> tuple[Answer, ...]:
        return tuple(
            Answer(replica.address, replica.ready, replica.leaf.der if replica.leaf else None)
            for replica in self.replicas
        )

    def run(self, *, names: Sequence[str] = NAMES, issuer: Issuer | None = None, **wish: Any) -> Run:
        made = issuer or Issuer(tuple(names))
        return Run(
            self.cluster,
            Wish(**{"names": inspect.Names.of(made.names, made.ips), **wish}),
            made,
            clock=self.clock,
            say=lambda action: self.said.append(type(action).__name__),
        )

    def sync(self) -> None:
        """The kubelets bring the Secret to each replica."""
        certificate, key = self.data("tls.crt"), self.data("tls.key")
        for replica in self.replicas:
            replica.take(certificate, key, self.clock.now)

    def sleep(self, seconds: float) -> None:
        """Time passes, and the kubelets do their work in it."""
        self.clock.sleep(seconds)
        self.sync()

    def data(self, name: str) -> bytes:
        """A key of the Secret."""
        secret = self.api.objects.get(SECRET) or {}
        return base64.b64decode((secret.get("data") or {}).get(name, ""))

    def bundle(self, index: int = 0) -> bytes:
        """The caBundle of an entry."""
        found = self.api.objects[CONFIGURATION]["webhooks"][index]
        return base64.b64decode(found["clientConfig"].get("caBundle") or "")

    def leaf(self) -> inspect.Certificate:
        return inspect.certificates(self.data("tls.crt"))[0]

    def signer(self) -> inspect.Certificate:
        return inspect.certificates(self.data("ca.crt"))[0]

    def edit(self, path: str, change: Callable[[dict[str, Any]], None]) -> None:
        """What somebody else does to an object."""
        found = copy.deepcopy(self.api.objects[path])
        change(found)
        self.api.put(path, found)

    def set(self, **data: bytes) -> None:
        """Overwrite keys of the Secret: tls_crt=..."""
        named = {name.replace("_", "."): encoded(value) for name, value in data.items()}
        self.edit(SECRET, lambda secret: secret["data"].update(named))

    def untrusted(self) -> list[str]:
        """The replicas whose leaf the published caBundle doesn't verify."""
        roots = inspect.certificates(self.bundle())
        return [
            one.address for one in self.replicas if one.leaf and not inspect.trusted(one.leaf, roots, self.clock.now)
        ]


def installed(*, replicas: int = 2, **wish: Any) -> World:
    """A world in which everything is as it should be, and each replica serves."""
    world = World(replicas=[Replica(f"10.0.0.{number}:8443") for number in range(1, replicas + 1)])
    world.api.put(CONFIGURATION, configuration())
    finish(world.run(**wish), sleep=world.sleep, timeout=timedelta(minutes=5))
    world.sync()
    world.said.clear()
    world.api.calls.clear()
    return world


def settled(world: World, run: Run) -> Action:
    """Finish a run."""
    done = finish(run, sleep=world.sleep, timeout=timedelta(minutes=5))
    assert done
    return done


@contextlib.contextmanager
def over_http(api: MemoryApi, folder: Path) -> Iterator[Path]:
    """The API server in memory behind a socket; yields a kubeconfig for it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            assert self.headers["Authorization"] == "Bearer token"
            status, found = api(self.command, self.path, body, self.headers["Content-Type"])
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = _handle  # noqa: N815 - the names that the base class calls

        def log_message(self, *_: object) -> None:
            """Silent."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        config = folder / "kubeconfig"
        cluster = {"server": f"http://127.0.0.1:{server.server_address[1]}"}
        config.write_text(
            json.dumps({
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": {"token": "token"}}],
            })
        )  # fmt: skip
        try:
            yield config
        finally:
            server.shutdown()
            thread.join()


class Kubelet(threading.Thread):
    """Brings the Secret of the API server in memory into a volume, a moment late."""

    def __init__(self, world: World, folder: Volume) -> None:
        super().__init__(daemon=True)
        self.world, self.folder, self.over = world, folder, threading.Event()

    def run(self) -> None:
        brought = b""
        while not self.over.wait(0.3):
            certificate, key = self.world.data("tls.crt"), self.world.data("tls.key")
            if certificate != brought:
                brought = certificate
                self.folder.bring_files(certificate, key)

"""Where the identity lives: a Secret, the caBundle of a webhook configuration, and the replicas behind a Service.

Objects are read and written as the JSON that they are: typed models would drop the fields that they don't know.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from certs.drive import Conflict
from certs.issue import CertsError
from certs.replicas import Address
from certs.rotate import Held, Published

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kubernetes import client

    from certs.rotate import Answer

CERTIFICATE, KEY, AUTHORITIES, AUTHORITY_KEY = "tls.crt", "tls.key", "ca.crt", "ca.key"
STRATEGIC = "application/strategic-merge-patch+json"  # merges the list of webhooks by their names
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
PORTS = ("https", "webhook")
TIMEOUT = 15.0


class ApiError(CertsError):
    """The API server couldn't be asked, or refused."""


class Api(Protocol):
    """One call to the API server: the status, and the object that it answers."""

    def __call__(
        self, method: str, path: str, body: object = None, media: str = "application/json"
    ) -> tuple[int, dict[str, Any]]: ...


def connect(kubeconfig: Path | None = None) -> Api:
    """The API server of `kubeconfig` if given, else of the pod that this runs in, else of the user's kubeconfig."""
    from kubernetes import client, config  # noqa: PLC0415 - certificates in files shouldn't wait for its import
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - see above

    settings = client.Configuration()
    try:
        if kubeconfig:
            config.load_kube_config(str(kubeconfig), client_configuration=settings)
        else:
            _load_default(settings)
    except (config.ConfigException, OSError) as exc:
        raise ApiError(f"no cluster to talk to ({exc}): run this in a pod, or give --kubeconfig") from None
    settings.retries = False
    pool = client.ApiClient(settings).rest_client.pool_manager

    def call(
        method: str, path: str, body: object = None, media: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        headers = {"Accept": "application/json", "Content-Type": media}
        headers |= {auth["key"]: auth["value"] for auth in settings.auth_settings().values()}
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = pool.request(method, settings.host + path, body=data, headers=headers, timeout=TIMEOUT)
        except (HTTPError, OSError) as exc:
            raise ApiError(f"the API server at {settings.host} doesn't answer ({type(exc).__name__})") from None
        return answer.status, _object(answer.data)

    return call


def _load_default(settings: client.Configuration) -> None:
    from kubernetes import config  # noqa: PLC0415 - see connect

    try:
        config.load_incluster_config(client_configuration=settings)
    except config.ConfigException:
        config.load_kube_config(client_configuration=settings)


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def ask(api: Api, method: str, path: str, body: object = None, media: str = "application/json") -> dict[str, Any]:
    """The object; raises `Absent`, `Conflict` or `ApiError`."""
    status, found = api(method, path, body, media)
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return found
    said = str(found.get("message") or f"HTTP {status}")
    if status == HTTPStatus.CONFLICT:
        raise Conflict(f"somebody else wrote first ({said}): reading again")
    if status == HTTPStatus.NOT_FOUND:
        raise Absent(said)
    raise ApiError(f"{method} {path}: {said}")


class Absent(ApiError):
    """There is no such object."""


def look(api: Api, path: str) -> dict[str, Any] | None:
    """The object at `path`, None where there is none."""
    try:
        return ask(api, "GET", path)
    except Absent:
        return None


def change(api: Api, method: str, path: str, body: object, media: str = "application/json") -> None:
    """Write what was there a moment ago; what has vanished since was changed by somebody else, too."""
    try:
        ask(api, method, path, body, media)
    except Absent as exc:
        raise Conflict(f"somebody deleted it meanwhile ({exc}): reading again") from None


@dataclass(frozen=True, slots=True)
class Place:
    """The names under which a cluster keeps it all. `webhooks` empty: each entry that calls the Service."""

    namespace: str
    secret: str
    service: str
    configuration: str = ""  # of no name: nothing is published
    webhooks: tuple[str, ...] = ()
    replicas: tuple[Address, ...] = ()  # asked in place of the Service's endpoints


@dataclass(frozen=True, slots=True)
class KubeCluster:
    """`drive.Cluster` on an API server."""

    api: Api
    place: Place
    ask_replicas: Callable[[Sequence[Address]], tuple[Answer, ...]]

    def held(self) -> Held | None:
        """The Secret; what isn't base64 in it counts as absent."""
        found = look(self.api, self._secret)
        if found is None:
            return None
        data = found.get("data") or {}
        parts = (_decoded(data.get(name)) for name in (CERTIFICATE, KEY, AUTHORITIES, AUTHORITY_KEY))
        return Held(found["metadata"]["resourceVersion"], *parts)

    def write(self, held: Held) -> None:
        """Create the Secret, or replace our four keys of it; what else it has stays."""
        parts = (held.certificate, held.key, held.authorities, held.authority_key)
        data = {
            name: base64.b64encode(value).decode()
            for name, value in zip((CERTIFICATE, KEY, AUTHORITIES, AUTHORITY_KEY), parts, strict=True)
        }
        if not held.version:
            metadata = {"name": self.place.secret, "labels": {"app.kubernetes.io/managed-by": "rankfix-certs"}}
            ask(self.api, "POST", self._secrets, {"metadata": metadata, "type": "kubernetes.io/tls", "data": data})
            return
        found = look(self.api, self._secret)
        if found is None or found["metadata"]["resourceVersion"] != held.version:
            raise Conflict(f"Secret {self.place.secret} was changed meanwhile: reading again")
        change(self.api, "PUT", self._secret, {**found, "data": {**(found.get("data") or {}), **data}})

    def published(self) -> Published | None:
        """The caBundle of each entry that is ours; a configuration without one is a mistake that waiting won't mend."""
        found = look(self.api, f"{CONFIGURATIONS}/{self.place.configuration}") if self.place.configuration else None
        if found is None:
            return None
        ours = {entry["name"]: entry for entry in found.get("webhooks") or () if self._is_ours(entry)}
        missing = sorted({*self.place.webhooks} - {*ours})
        if missing or not ours:
            wanted = ", ".join(missing) or f"that calls Service {self.place.namespace}/{self.place.service}"
            raise CertsError(f"MutatingWebhookConfiguration {self.place.configuration} has no webhook {wanted}")
        bundles = {name: _decoded(entry["clientConfig"].get("caBundle")) for name, entry in ours.items()}
        return Published(found["metadata"]["resourceVersion"], bundles)

    def publish(self, bundle: bytes, entries: Sequence[str], version: str) -> None:
        """Write the caBundle of `entries`, which are found by their names (bug 10: indexes may have moved)."""
        text = base64.b64encode(bundle).decode()
        patch = {
            "metadata": {"resourceVersion": version},
            "webhooks": [{"name": name, "clientConfig": {"caBundle": text}} for name in entries],
        }
        change(self.api, "PATCH", f"{CONFIGURATIONS}/{self.place.configuration}", patch, STRATEGIC)

    def served(self) -> tuple[Answer, ...]:
        """What each replica serves, ready or not: one that isn't may be so in a moment."""
        return self.ask_replicas(self.place.replicas or self._endpoints())

    def _endpoints(self) -> tuple[Address, ...]:
        selector = f"?labelSelector=kubernetes.io%2Fservice-name%3D{self.place.service}"
        path = f"/apis/discovery.k8s.io/v1/namespaces/{self.place.namespace}/endpointslices"
        slices = ask(self.api, "GET", path + selector).get("items") or ()
        return tuple(dict.fromkeys(address for found in slices for address in _addresses(found)))

    def _is_ours(self, entry: Mapping[str, Any]) -> bool:
        if self.place.webhooks:
            return entry["name"] in self.place.webhooks
        service = entry["clientConfig"].get("service") or {}
        return (service.get("namespace"), service.get("name")) == (self.place.namespace, self.place.service)

    @property
    def _secrets(self) -> str:
        return f"/api/v1/namespaces/{self.place.namespace}/secrets"

    @property
    def _secret(self) -> str:
        return f"{self._secrets}/{self.place.secret}"


def _decoded(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except ValueError:
        return b""


def _addresses(found: Mapping[str, Any]) -> list[Address]:
    """The addresses of an EndpointSlice, at the port called https or webhook, else at its first."""
    ports = {port.get("name") or "": port.get("port") for port in found.get("ports") or ()}
    port = next((ports[name] for name in (*PORTS, *ports) if ports.get(name)), None)
    if port is None:
        return []
    return [
        Address(host, port, ready=(endpoint.get("conditions") or {}).get("ready") is not False)
        for endpoint in found.get("endpoints") or ()
        for host in endpoint.get("addresses") or ()
    ]


def from_folder(folder: Path) -> Held:
    """What a folder holds; a file that isn't there is empty."""
    parts = (folder / name for name in (CERTIFICATE, KEY, AUTHORITIES, AUTHORITY_KEY))
    return Held("", *(path.read_bytes() if path.exists() else b"" for path in parts))

"""What the cluster says of our webhook. Asked beside the path of an admission, never on it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from webhook.probe import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes import client

_PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/"
_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_TIMEOUT = 5.0
_OK, _ABSENT = 200, 404


def bundles(
    get: Callable[[str], tuple[int, dict[str, Any]]], *, configuration: str, namespace: str, service: str, webhook: str
) -> list[tuple[str, bytes, str]]:
    """Name, caBundle and server name of each entry that calls us: the one called `webhook`, else those of our Service.

    Raises `Unknown` where the cluster doesn't say.
    """
    status, found = get(_PATH + configuration)
    if status != _OK:
        said = f"MutatingWebhookConfiguration {configuration}"
        raise Unknown(f"{said} isn't there" if status == _ABSENT else f"{said}: {found.get('message') or status}")
    ours = [entry for entry in found.get("webhooks") or () if _is_ours(entry, namespace, service, webhook)]
    if not ours:
        raise Unknown(f"MutatingWebhookConfiguration {configuration} has no webhook that calls us")
    return [(entry["name"], _decoded(entry["clientConfig"]), _server(entry["clientConfig"])) for entry in ours]


def _is_ours(entry: dict[str, Any], namespace: str, service: str, webhook: str) -> bool:
    if webhook:
        return bool(entry["name"] == webhook)
    called = entry["clientConfig"].get("service") or {}
    return (called.get("namespace"), called.get("name")) == (namespace, service)


def _decoded(config: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(config.get("caBundle") or "")
    except ValueError:
        return b""


def _server(config: dict[str, Any]) -> str:
    service = config.get("service")
    return f"{service['name']}.{service['namespace']}.svc" if service else urlsplit(config["url"]).hostname or ""


def own_namespace() -> str:
    """The namespace of the pod that this runs in; empty where it's none."""
    try:
        return _NAMESPACE.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def connect() -> Callable[[str], tuple[int, dict[str, Any]]]:
    """GET of the pod's own API server, else of the user's; raises `Unknown` where there is none."""
    from kubernetes import client, config  # noqa: PLC0415 - only a server that looks at its cluster needs it
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - see above

    settings = client.Configuration()
    try:
        _load(settings)
    except (config.ConfigException, OSError) as exc:
        raise Unknown(f"no cluster to ask ({exc})") from None
    settings.retries = False
    pool = client.ApiClient(settings).rest_client.pool_manager

    def get(path: str) -> tuple[int, dict[str, Any]]:
        headers = {auth["key"]: auth["value"] for auth in settings.auth_settings().values()}
        try:
            answer = pool.request("GET", settings.host + path, headers=headers, timeout=_TIMEOUT)
            return answer.status, json.loads(answer.data)
        except (HTTPError, OSError, ValueError) as exc:
            raise Unknown(f"the API server doesn't answer ({type(exc).__name__})") from None

    return get


def _load(settings: client.Configuration) -> None:
    from kubernetes import config  # noqa: PLC0415 - see connect

    try:
        config.load_incluster_config(client_configuration=settings)
    except config.ConfigException:
        config.load_kube_config(client_configuration=settings)

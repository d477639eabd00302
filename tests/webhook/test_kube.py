"""`webhook.kube`: what is read of a webhook configuration, and what is unknown."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from webhook import kube
from webhook.probe import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable


def entry(name: str, service: str = "rankfix", namespace: str = "ml", **client: Any) -> dict[str, Any]:
    return {"name": name, "clientConfig": {"service": {"name": service, "namespace": namespace}, **client}}


def api(*entries: dict[str, Any], status: int = 200, **more: Any) -> Callable[[str], tuple[int, dict[str, Any]]]:
    """An API server with one configuration."""

    def get(path: str) -> tuple[int, dict[str, Any]]:
        assert path.endswith("/mutatingwebhookconfigurations/rankfix.example.org")
        return status, {"webhooks": list(entries), **more}

    return get


def bundles(get: Callable[[str], tuple[int, dict[str, Any]]], webhook: str = "") -> list[tuple[str, bytes, str]]:
    return kube.bundles(get, configuration="rankfix.example.org", namespace="ml", service="rankfix", webhook=webhook)


def test_the_entries_that_call_our_service() -> None:
    """In any order, with others between them, with a caBundle or without."""
    text = base64.b64encode(b"PEM").decode()
    found = bundles(
        api(
            entry("x", "other"),
            entry("b", caBundle=text),
            entry("y", namespace="prod"),
            entry("a"),
            entry("c", caBundle="!"),
        )
    )
    assert found == [
        ("b", b"PEM", "rankfix.ml.svc"),
        ("a", b"", "rankfix.ml.svc"),
        ("c", b"", "rankfix.ml.svc"),
    ]


def test_an_entry_by_its_name() -> None:
    """It may call a URL."""
    url = {"name": "b", "clientConfig": {"url": "https://hooks.example.org:8443/mutate"}}
    assert bundles(api(entry("a"), url), webhook="b") == [("b", b"", "hooks.example.org")]


@pytest.mark.parametrize(
    ("get", "said"),
    [
        (api(status=404), "isn't there"),
        (api(status=403, message="may not"), "may not"),
        (api(status=500), "500"),
        (api(), "no webhook that calls us"),
        (api(entry("x", "other")), "no webhook that calls us"),
    ],
)
def test_what_is_unknown(get: Callable[[str], tuple[int, dict[str, Any]]], said: str) -> None:
    """Absent, forbidden and foreign are no verdict on our certificate."""
    with pytest.raises(Unknown, match=said):
        bundles(get)


def test_no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Outside of a pod and without a kubeconfig there's nobody to ask."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(Unknown, match="no cluster"):
        kube.connect()


def test_a_cluster_that_is_silent(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The reason names no more than the kind of failure."""
    config = tmp_path / "config"
    config.write_text(
        '{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": '
        '{"cluster": "c", "user": "u"}}], "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], '
        '"users": [{"name": "u", "user": {"token": "secret-token"}}]}'
    )
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(config))
    with pytest.raises(Unknown, match="doesn't answer") as caught:
        kube.connect()("/x")
    assert "secret-token" not in str(caught.value)


def test_our_namespace(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The file that a pod finds; nothing elsewhere."""
    monkeypatch.setattr(kube, "_NAMESPACE", tmp_path / "namespace")
    assert kube.own_namespace() == ""
    (tmp_path / "namespace").write_text("ml\n")
    assert kube.own_namespace() == "ml"

"""`certs.store`: what is read from an API server's objects, and how what it refuses is told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from certs import store
from certs.drive import Conflict
from certs.issue import CertsError
from certs.replicas import Address
from certs.rotate import Held
from tests.support_certs import (
    CONFIGURATION,
    PLACE,
    SECRET,
    SLICES,
    MemoryApi,
    configuration,
    encoded,
    entry,
    over_http,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from certs.rotate import Answer


def cluster(api: store.Api, place: store.Place = PLACE, asked: list[Address] | None = None) -> store.KubeCluster:
    def ask(addresses: Sequence[Address]) -> tuple[Answer, ...]:
        if asked is not None:
            asked.extend(addresses)
        return ()

    return store.KubeCluster(api, place, ask)


def slice_(ports: list[dict[str, Any]] | None, *endpoints: dict[str, Any]) -> dict[str, Any]:
    metadata = {"labels": {"kubernetes.io/service-name": "rankfix"}}
    return {"metadata": metadata, "ports": ports, "endpoints": list(endpoints)}


def test_a_secret_that_holds_anything() -> None:
    """Absent keys, no data, and what isn't base64 are empty."""
    api = MemoryApi()
    assert cluster(api).held() is None
    api.put(SECRET, {"metadata": {}})
    assert cluster(api).held() == Held("1")
    api.put(SECRET, {"metadata": {}, "data": {"tls.crt": encoded(b"x"), "tls.key": "no base64!", "ca.crt": None}})
    assert cluster(api).held() == Held("2", b"x")


def test_bug_4_the_secret_is_written_only_where_nobody_else_has() -> None:
    """Bug 4: created once; replaced only at the version that was read, also where it changes between look and write."""
    api = MemoryApi()
    cluster(api).write(Held("", b"1"))
    with pytest.raises(Conflict):
        cluster(api).write(Held("", b"2"))
    with pytest.raises(Conflict, match="changed meanwhile"):
        cluster(api).write(Held("7", b"2"))

    def meddle(method: str, path: str) -> None:
        if method == "PUT":
            api.before = lambda _method, _path: None
            api.put(path, api.objects[path])

    api.before = meddle
    with pytest.raises(Conflict, match="modified"):
        cluster(api).write(Held("1", b"2"))
    cluster(api).write(Held("2", b"2"))
    held = cluster(api).held()
    assert held
    assert held.certificate == b"2"


def test_bug_9_a_bundle_is_written_only_where_nobody_else_has() -> None:
    """Bug 9: what a GitOps tool does between our look and our write isn't overwritten unseen."""
    api = MemoryApi()
    api.put(CONFIGURATION, configuration())
    published = cluster(api).published()
    assert published
    assert published.bundles == {"pods.rankfix": b""}
    api.put(CONFIGURATION, api.objects[CONFIGURATION])
    with pytest.raises(Conflict):
        cluster(api).publish(b"x", ["pods.rankfix"], published.version)


@pytest.mark.parametrize("last", ["GET", "PUT"])
def test_a_secret_that_vanishes_before_it_is_written(last: str) -> None:
    """Deleted between look and write: read again, which makes a new one."""
    api = MemoryApi()
    cluster(api).write(Held("", b"1"))

    def vanish(method: str, path: str) -> None:
        if method == last:
            api.objects.pop(path, None)

    api.before = vanish
    with pytest.raises(Conflict):
        cluster(api).write(Held("1", b"2"))


def test_a_configuration_that_vanishes_before_it_is_written() -> None:
    """An uninstall in the midst of a run: the next look sees that it's gone."""
    with pytest.raises(Conflict, match="deleted it meanwhile"):
        cluster(MemoryApi()).publish(b"x", ["pods.rankfix"], "1")


def test_a_configuration_without_our_entry() -> None:
    """Waiting won't mend it, so it's an error that names what was looked for."""
    api = MemoryApi()
    api.put(CONFIGURATION, configuration(entry("a", service="other")))
    with pytest.raises(CertsError, match="no webhook that calls Service ml/rankfix"):
        cluster(api).published()
    by_name = store.Place("ml", "rankfix-tls", "rankfix", "rankfix.example.org", webhooks=("a", "b"))
    with pytest.raises(CertsError, match="no webhook b"):
        cluster(api, by_name).published()
    api.put(CONFIGURATION, {"metadata": {}, "webhooks": None})
    with pytest.raises(CertsError, match="no webhook"):
        cluster(api).published()


def test_bug_10_entries_by_name_may_call_a_url() -> None:
    """Bug 10: a name is enough."""
    api = MemoryApi()
    url = {"name": "b", "clientConfig": {"url": "https://example.org"}}
    api.put(CONFIGURATION, configuration(entry("a"), url))
    place = store.Place("ml", "rankfix-tls", "rankfix", "rankfix.example.org", webhooks=("b",))
    published = cluster(api, place).published()
    assert published
    assert list(published.bundles) == ["b"]


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [(403, {"message": "may not get secrets"}, "may not get secrets"), (500, {}, "HTTP 500")],
)
def test_what_is_refused(status: int, body: dict[str, Any], said: str) -> None:
    """The API server's own words, which name verb and object."""

    def api(*_: object, **__: object) -> tuple[int, dict[str, Any]]:
        return status, body

    with pytest.raises(store.ApiError, match=said):
        cluster(api).held()


def test_replicas_are_found_by_the_service() -> None:
    """Each address once, ready or not, at the port called https or webhook, else at the first one."""
    api = MemoryApi()
    https = [{"name": "metrics", "port": 1}, {"name": "https", "port": 8443}]
    api.put(
        f"{SLICES}/a",
        slice_(
            https,
            {"addresses": ["10.0.0.1"]},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": False}},
            {"addresses": ["10.0.0.3"], "conditions": {"ready": True}},
            {"addresses": None},
        ),
    )
    api.put(f"{SLICES}/b", slice_([{"name": "", "port": 9443}], {"addresses": ["fd00::7"], "conditions": {}}))
    api.put(f"{SLICES}/c", slice_(None, {"addresses": ["10.0.0.9"]}))
    api.put(f"{SLICES}/d", slice_(https, {"addresses": ["10.0.0.1"]}))
    api.put(f"{SLICES}/e", {"metadata": {"labels": {"kubernetes.io/service-name": "rankfix"}}, "ports": https})
    asked: list[Address] = []
    cluster(api, asked=asked).served()
    assert asked == [
        Address("10.0.0.1", 8443),
        Address("10.0.0.2", 8443, ready=False),
        Address("10.0.0.3", 8443),
        Address("fd00::7", 9443),
    ]
    assert str(asked[-1]) == "[fd00::7]:9443"


def test_replicas_that_are_named() -> None:
    """The Service isn't looked at."""
    api, asked = MemoryApi(), list[Address]()
    named = store.Place("ml", "s", "", replicas=(Address("a", 1),))
    cluster(api, named, asked).served()
    assert asked == [Address("a", 1)]
    assert api.calls == []


def test_over_a_socket(tmp_path: Path) -> None:
    """`connect` speaks to what a kubeconfig names: objects, conflicts and absence come through."""
    api = MemoryApi()
    with over_http(api, tmp_path) as kubeconfig:
        call = store.connect(kubeconfig)
        assert cluster(call).held() is None
        cluster(call).write(Held("", b"1"))
        with pytest.raises(Conflict):
            cluster(call).write(Held("", b"1"))
        held = cluster(call).held()
        assert held
        assert held.certificate == b"1"
    with pytest.raises(store.ApiError, match="doesn't answer"):
        cluster(call).held()


def test_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubeconfig that isn't there, and none at all."""
    with pytest.raises(store.ApiError, match="no cluster to talk to"):
        store.connect(tmp_path / "none")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    with pytest.raises(store.ApiError, match="give --kubeconfig"):
        store.connect()


@pytest.mark.parametrize("data", [b"", b"<html>", b"[1]"])
def test_an_answer_that_is_no_object(data: bytes) -> None:
    """A proxy's page between us and the API server is told by its status alone."""
    assert store._object(data) == {}


def test_a_folder(tmp_path: Path) -> None:
    """A file that isn't there is empty."""
    (tmp_path / "tls.crt").write_bytes(b"x")
    assert store.from_folder(tmp_path) == Held("", b"x")

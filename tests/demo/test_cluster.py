"""`make demo-cluster`: skips without a control plane, and keeps its promises with one."""

from __future__ import annotations

import base64
import io
import signal
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from demo import cluster, controlplane, job, server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def shown() -> tuple[int, str]:
    out = io.StringIO()
    return cluster.main(Console(file=out, width=100)), out.getvalue()


@pytest.mark.parametrize("programs", [(), ("etcd",)])
def test_skips_without_a_control_plane(
    programs: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 0, and how to get one."""
    for program in programs:
        (tmp_path / program).touch(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    code, out = shown()
    assert (code, "skipped: KUBEBUILDER_ASSETS" in out) == (0, True)
    monkeypatch.delenv("KUBEBUILDER_ASSETS")
    assert shown()[0] == 0


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.skipif(controlplane.assets() is None, reason="no control plane (KUBEBUILDER_ASSETS)")
def test_through_a_real_api_server() -> None:
    """The pods as the API server stored them have ranks 0 to 3 of 4 with the webhook, and not without it."""
    code, out = shown()
    assert code == 0, out
    assert out.count("✓") == 2
    assert "k=1 P=2 N=2 ranks=2-3/4" in out


def test_a_control_plane_that_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said is passed on, and nothing is left."""
    for program in controlplane.PROGRAMS:
        (tmp_path / program).write_text("#!/bin/sh\necho I am broken; exit 7\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    code, out = shown()
    assert code == cluster.BROKEN
    assert "kube-apiserver ended with code 7 and said: I am broken" in " ".join(out.split())


def test_a_control_plane_that_is_never_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience ends, and so do the programs."""
    for program in controlplane.PROGRAMS:
        (tmp_path / program).write_text("#!/bin/sh\nexec sleep 600\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setattr(controlplane, "_PATIENCE", 0.5)
    code, out = shown()
    assert (code, "wasn't ready within 0.5 s" in out) == (cluster.BROKEN, True)


def test_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code 130."""

    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    for program in controlplane.PROGRAMS:
        (tmp_path / program).touch(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setattr(cluster, "tell", interrupt)
    assert shown()[0] == cluster.INTERRUPTED


def test_the_registration() -> None:
    """Pods only, CREATE only, and the server's own authority."""
    with server.running() as client:
        (hook,) = cluster.configuration(client)["webhooks"]
    assert base64.b64decode(hook["clientConfig"]["caBundle"]).startswith(b"-----BEGIN CERTIFICATE-----")
    assert hook["rules"] == [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    ]
    assert hook["clientConfig"]["url"] == f"https://127.0.0.1:{client.port}/mutate"


def test_refusals_of_the_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own words are passed on."""
    api = controlplane.Api(1, "t")
    monkeypatch.setattr(controlplane.Api, "ask", lambda *_: (403, {"message": "no"}))
    with pytest.raises(server.DemoError, match="refused /x: no"):
        api.create("/x", job.load())
    monkeypatch.setattr(controlplane.Api, "ask", lambda *_: (500, "text"))
    with pytest.raises(server.DemoError, match="refused /x: text"):
        api.create("/x", job.load())

"""Fixtures of the trainer's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.trainer.support import Cluster, Host, hosts, shrink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@pytest.fixture(scope="session", name="pod_hosts")
def _pod_hosts() -> Iterator[Sequence[Host]]:
    with hosts(3) as made:
        yield made


@pytest.fixture(name="cluster")
def _cluster(request: pytest.FixtureRequest, pod_hosts: Sequence[Host], tmp_path: Path) -> Iterator[Cluster]:
    # Tracing makes a process a third slower, and what the slow tests run is measured in quick ones.
    cluster = Cluster(pod_hosts, tmp_path, measured=request.node.get_closest_marker("slow") is None)
    yield cluster
    cluster.close()


@pytest.fixture(scope="session", name="digits")
def _digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set small enough to train on in a moment: 512 and 200 images."""
    return shrink(tmp_path_factory.mktemp("digits"), 512, 200)

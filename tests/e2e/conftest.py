"""One control plane for all tests here, and the reason where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e import controlplane

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", name="plane")
def _plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[controlplane.ControlPlane]:
    if not controlplane.available():
        pytest.skip(controlplane.SKIP)
    with controlplane.start(tmp_path_factory.mktemp("plane")) as plane:
        yield plane

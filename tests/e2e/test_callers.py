"""A real API server that shows a client certificate to its webhooks, and a server that asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.controlplane import CALLER
from tests.e2e.installation import installation

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.controlplane import ControlPlane

pytestmark = pytest.mark.e2e


def test_only_the_api_server_may_call(plane: ControlPlane, tmp_path: Path) -> None:
    """With its name pods are repaired; where another name is asked for, its own call is refused, and counted."""
    with installation(plane, tmp_path, namespace="rankfix-callers") as made:
        made.apply()
        made.make_certificate()
        asks = f"--client-ca={plane.ca}"
        with made.server(asks, f"--client-name={CALLER}"):
            made.await_repair()
        with made.server(asks, "--client-name=somebody-else"):
            refused = made.probe()
            assert (refused.status, "failed calling webhook" in refused.body["message"]) == (500, True)

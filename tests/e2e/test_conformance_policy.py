"""What the launch cases' policy arm shows without an API server is what a real one answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance import arms, policies
from conformance.cases import load
from conformance.words import Arm
from demo.server import DemoError
from tests.e2e import controlplane

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(not controlplane.available(), reason=controlplane.SKIP)]


def test_the_record_is_what_an_api_server_answers(tmp_path: Path) -> None:
    """For each pod of each case: `make conformance ARGS=--record` writes it anew after a change of case or policy."""
    programs = policies.programs()
    assert programs is not None
    with policies.live(tmp_path, programs) as live:
        for case in load():
            for workers in case.scale or (None,):
                arms.made(case, Arm.POLICY, live, workers=workers)
        with pytest.raises(DemoError, match="refused"):
            live({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c"}]}})
    assert live.changes == policies.recorded().changes
    assert sum(map(bool, live.changes.values())) > 100

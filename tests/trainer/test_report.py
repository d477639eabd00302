"""`trainer.report`: events as text, as JSON, around a bar; the termination message."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from trainer import report

if TYPE_CHECKING:
    from pathlib import Path

LINES = [
    ("verified", {"ranks": 8, "parameters": "equal", "seen": 10000}, "verified ranks=8 parameters=equal seen=10000"),
    ("result", {"accuracy": 0.99123, "world": 2, "loss": None}, "accuracy=0.9912 world=2"),
    ("epoch", {"loss": 12.345, "backend": "gloo"}, "epoch loss=12.35 backend=gloo"),
    ("start", {"data": "packaged sample"}, 'start data="packaged sample"'),
    ("warning", {"message": "a b"}, "warning: a b"),
]


@pytest.mark.parametrize(("name", "fields", "line"), LINES)
def test_event_as_a_line(name: str, fields: dict[str, report.Value], line: str) -> None:
    """The verified line is as documented; results are bare name=value, which Katib's collector reads."""
    assert report.text(name, fields) == line


def test_event_as_json() -> None:
    """One object a line, with its name and the time."""
    found = json.loads(report.json_line("verified", {"ranks": 2, "ok": None}))
    assert found.pop("time") > 0
    assert found == {"event": "verified", "ranks": 2, "ok": None}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("rank", "as_json", "out", "kind"),
    [
        (0, True, Terminal(), report.Lines),
        (0, False, io.StringIO(), report.Lines),
        (0, False, Terminal(), report.Bar),
        (1, True, Terminal(), report.Silent),
    ],
)
def test_rank_0_speaks(rank: int, as_json: bool, out: io.StringIO, kind: type) -> None:
    """A bar on a terminal only, JSON if asked; the others are silent."""
    with report.choose(rank, as_json=as_json, out=out) as chosen:
        assert type(chosen) is kind
        chosen.event("verified", ranks=1)
        chosen.progress(1, 2)
        chosen.progress(2, 2)
    assert ("verified" in out.getvalue()) == (rank == 0)


def test_termination_message_is_left_where_kubernetes_wants_one(tmp_path: Path) -> None:
    """Only into a file that exists, never more than Kubernetes takes, and failing to write it ends nothing."""
    report.leave_message(tmp_path / "none", "x")
    assert not (tmp_path / "none").exists()
    log = tmp_path / "log"
    log.touch()
    report.leave_message(log, "x" * 10000)
    assert 3000 < log.stat().st_size < 4096
    report.leave_message(tmp_path, "a folder can't be written")

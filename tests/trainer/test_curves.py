"""Same settings, same training: over world sizes to rounding, over an interruption to the bit. Real processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.trainer.support import needs_torch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.trainer.support import Cluster

pytestmark = [*needs_torch, pytest.mark.slow, pytest.mark.timeout(400)]

OPTIONS = ["--allow-unknown-data", "--batch", "128", "--json", "--data-dir"]


def train(cluster: Cluster, digits: Path, *options: str, code: int = 0) -> dict[str, Any]:
    """Trains to the end and returns the summary."""
    summary = cluster.folder / "summary.json"
    cluster.train(*OPTIONS, str(digits), "--summary", str(summary), *options).expect(code)
    result: dict[str, Any] = json.loads(summary.read_text())
    return result


def test_worlds_follow_the_same_curve(cluster: Cluster, digits: Path) -> None:
    """1, 2 and 4 ranks with the same global batch have the same losses and accuracies, but for rounding."""
    one, two, four = (train(cluster, digits, "--epochs", "3", "--nproc", str(world)) for world in (1, 2, 4))
    for other in (two, four):
        assert other["losses"] == pytest.approx(one["losses"], rel=2e-3)
        assert other["accuracies"] == pytest.approx(one["accuracies"], abs=0.02)


def test_resumed_run_ends_with_the_same_bits(cluster: Cluster, digits: Path, tmp_path: Path) -> None:
    """An interrupted run of two ranks ends as an unbroken one; finished, it ends at once; damaged, it falls back."""
    import torch  # noqa: PLC0415  # skipped without it

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    options = ["--nproc", "2", "--epochs", "12"]
    expected = train(cluster, digits, *options, "--checkpoint-dir", str(whole))
    interrupted = cluster.train(*OPTIONS, str(digits), *options, "--checkpoint-dir", str(broken))
    interrupted.until(r'"event": "epoch".*"epoch": 3,').process.terminate()
    interrupted.expect(143)

    # The newest checkpoint is damaged, so the one before it must do.
    newest = max(broken.glob("checkpoint-*.pt"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    resumed = cluster.train(*OPTIONS, str(digits), *options, "--checkpoint-dir", str(broken)).expect(0)
    messages = [event["message"] for event in resumed.events("warning")]
    assert any(newest.name in message and "damaged" in message for message in messages)
    assert any("resuming from" in message for message in messages)

    def final(folder: Path) -> dict[str, Any]:
        state: dict[str, Any] = torch.load(max(folder.glob("checkpoint-*.pt")), weights_only=True)
        return state

    one, other = final(whole), final(broken)
    assert one["course"]["step"] == other["course"]["step"]
    for name, value in one["model"].items():
        assert torch.equal(value, other["model"][name]), name
    assert resumed.events("result")[0]["accuracy"] == expected["accuracy"]

    again = cluster.train(*OPTIONS, str(digits), *options, "--checkpoint-dir", str(broken), "--target-accuracy", "0.01")
    again.expect(0)
    assert not again.events("epoch")
    missed = cluster.train(*OPTIONS, str(digits), *options, "--checkpoint-dir", str(broken), "--target-accuracy", "1")
    assert "is below the target of 1.0" in missed.expect(4).sentence()
    other_settings = cluster.train(*OPTIONS, str(digits), "--epochs", "13", "--checkpoint-dir", str(broken)).expect(2)
    assert "trained with epochs 12" in other_settings.sentence()

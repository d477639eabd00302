"""That it learns: the packaged sample always, 99 % of the official test set where that is at hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.trainer.support import needs_torch

if TYPE_CHECKING:
    from tests.trainer.support import Cluster

pytestmark = [*needs_torch, pytest.mark.slow, pytest.mark.timeout(600)]

MNIST = os.environ.get("MNIST_IDX_DIR")
MINUTES = 540.0  # to wait for at most, in seconds: the machine may be busy


def test_sample_is_learnt(cluster: Cluster) -> None:
    """Two ranks reach 97 % on the packaged sample, of which nothing has to be fetched."""
    run = cluster.train("--nproc", "2", "--json", "--epochs", "8", "--target-accuracy", "0.97").expect(0, MINUTES)
    assert run.events("verified")[0]["seen"] == 1000


@pytest.mark.skipif(not MNIST, reason="MNIST_IDX_DIR doesn't name a folder with the official test set")
def test_99_percent_of_the_official_test_set(cluster: Cluster) -> None:
    """The command of the README: two gloo ranks, official 10,000 test images, checksums known."""
    folder = str(Path(str(MNIST)).resolve())
    run = cluster.train("--data-dir", folder, "--nproc", "2", "--json", "--target-accuracy", "0.99").expect(0, MINUTES)
    assert run.events("verified")[0]["seen"] == 10_000
    assert run.events("result")[0]["accuracy"] >= 0.99

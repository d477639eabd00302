"""What a run leaves behind: result line, summary, plot, termination message; and what it says without torch."""

from __future__ import annotations

import importlib.util
import json
import os
import pty
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.trainer.support import PYTHON, REPO, needs_torch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.trainer.support import Cluster

SMALL = ["--allow-unknown-data", "--batch", "128", "--epochs", "2", "--data-dir"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--bogus"], "--bogus"),
        (["--rank", "0"], "--rank and --world-size go together"),
        (["--nproc", "none"], "--nproc none"),
    ],
)
def test_mistakes_end_in_one_sentence(words: list[str], said: str, cluster: Cluster, tmp_path: Path) -> None:
    """Code 2, one sentence on stderr and in the termination message, before torch is even looked for."""
    log = tmp_path / "log"
    log.touch()
    run = cluster.start(
        [PYTHON, "-X", "importtime", "-m", "trainer", "--termination-log", str(log), *words], strict=False
    ).expect(2)
    assert said in run.sentence()
    assert not re.search(r"\| +torch$", run.complaint, re.MULTILINE)
    if words != ["--bogus"]:  # what can't be parsed can't say where the message goes
        assert log.read_text() == run.sentence() + "\n"


def test_script_is_the_module(cluster: Cluster) -> None:
    """What the image has as train.py is the same program."""
    run = cluster.start([PYTHON, str(REPO / "trainer" / "entry.py"), "--nproc", "x"]).expect(2)
    assert "--nproc x" in run.sentence()


def test_modules_that_need_no_torch_load_none() -> None:
    """Ranks, files and plans can be looked at where torch isn't."""
    code = "import sys, trainer.world, trainer.idx, trainer.plan, trainer.muster, trainer.spawn, trainer.settings"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print('torch' in sys.modules)"],
        env={"PYTHONPATH": str(REPO), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


@pytest.mark.timeout(400)
class TestARun:
    """One run of one rank, and all that it leaves."""

    pytestmark = needs_torch

    def test_leaves_result_summary_plot_and_message(self, cluster: Cluster, digits: Path, tmp_path: Path) -> None:
        """The last line is name=value; the summary has the course; the plot is SVG; the message has the result."""
        log, summary, plot = tmp_path / "log", tmp_path / "summary.json", tmp_path / "plot.svg"
        log.touch()
        drawn = importlib.util.find_spec("matplotlib") is not None
        options = ["--summary", str(summary), "--termination-log", str(log), *(["--plot", str(plot)] if drawn else [])]
        run = cluster.train(*SMALL, str(digits), *options, "--model", "linear", "--target-accuracy", "0.1").expect(0)
        last = run.said.splitlines()[-1]
        pairs = dict(pair.split("=") for pair in last.split())
        assert {
            "accuracy",
            "loss",
            "time_to_accuracy_s",
            "startup_s",
            "train_s",
            "evaluate_s",
            "total_s",
        } <= pairs.keys()
        assert (pairs["world"], pairs["backend"], pairs["steps"]) == ("1", "gloo", "8")
        assert "verified ranks=1 parameters=equal seen=200" in run.said.splitlines()
        assert log.read_text() == last + "\n"
        result = json.loads(summary.read_text())
        assert result["epochs"] == [1, 2]
        assert result["accuracy"] == pytest.approx(float(pairs["accuracy"]), abs=1e-4)
        if drawn:
            assert "<svg" in plot.read_text()
            assert "test accuracy" in plot.read_text()
        assert run.complaint == ""

    def test_below_target_is_code_4(self, digits: Path, tmp_path: Path) -> None:
        """The run is told in full, and then judged; on a terminal around a progress bar."""
        log = tmp_path / "log"
        log.touch()
        leader, follower = pty.openpty()
        words = [*SMALL, str(digits), "--target-accuracy", "1", "--termination-log", str(log)]
        process = subprocess.Popen(
            [PYTHON, "-m", "trainer", *words],
            env={"PYTHONPATH": str(REPO), "PATH": os.environ["PATH"], "TERM": "xterm", "PYTHONWARNINGS": "error"},
            stdin=subprocess.DEVNULL,
            stdout=follower,
            stderr=subprocess.PIPE,
        )
        os.close(follower)
        said = b""
        while True:
            try:
                said += os.read(leader, 4096)
            except OSError:  # the terminal is gone when its last writer is
                break
        os.close(leader)
        _, complaint = process.communicate(timeout=60)
        assert process.returncode == 4, (said, complaint)
        assert b"verified ranks=1 parameters=equal seen=200" in said
        assert b"training" in said
        assert complaint.startswith(b"rankfix-train: accuracy 0.")
        assert complaint.endswith(b" is below the target of 1.0\n")
        assert "is below the target of 1.0" in log.read_text()

    def test_plot_that_cannot_be_drawn_is_refused_first(self, cluster: Cluster, digits: Path) -> None:
        """Before training, not after it."""
        run = cluster.train(*SMALL, str(digits), "--plot", "course.png").expect(2)
        assert run.sentence() == "--plot course.png: the name must end in .svg"

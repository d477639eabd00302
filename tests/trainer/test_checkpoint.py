"""`trainer.checkpoint`: whole or not there, whatever happens."""

from __future__ import annotations

import importlib.util
import subprocess
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from tests.trainer.support import PYTHON, REPO, needs_torch
from trainer.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [*needs_torch, pytest.mark.timeout(400)]

if importlib.util.find_spec("torch") is not None:
    import torch

    from trainer import checkpoint


def state(step: int) -> dict[str, Any]:
    """As large as a real one is not, but of the same kinds of value."""
    return {"model": {"w": torch.arange(1000.0) + step}, "course": {"step": step, "finished": False, "losses": [0.5]}}


def test_what_was_saved_is_found(tmp_path: Path) -> None:
    """The newest one, bit for bit; the one before is kept, older ones go, and plain torch.load reads it too."""
    path = [checkpoint.save(tmp_path / "new" / "folder", step, state(step)) for step in (1, 2, 3)][-1]
    found = checkpoint.find(tmp_path / "new" / "folder")
    assert found.path == path
    assert found.damaged == ()
    assert found.content is not None
    loaded = checkpoint.decode(found.content)
    assert loaded["course"] == {"step": 3, "finished": False, "losses": [0.5]}
    assert torch.equal(loaded["model"]["w"], torch.arange(1000.0) + 3)
    assert sorted(file.name for file in path.parent.iterdir()) == ["checkpoint-00000002.pt", "checkpoint-00000003.pt"]
    assert torch.load(path, weights_only=True)["format"] == 1


def test_nothing_is_found_in_an_empty_folder(tmp_path: Path) -> None:
    """Nor in one that does not exist yet."""
    assert checkpoint.find(tmp_path).content is None
    assert checkpoint.find(tmp_path / "none").content is None


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut off": lambda content: content[: len(content) // 2],
    "without its end": lambda content: content[:-1],
    "first byte": lambda content: b"x" + content[1:],
    "a bit of the weights": lambda content: content[:2000] + bytes([content[2000] ^ 1]) + content[2001:],
    "a bit of the checksum": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "another program's file": lambda _: b"not a checkpoint" * 100,
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_one_is_passed_over(name: str, tmp_path: Path) -> None:
    """The one before is taken, and the damaged one is named."""
    checkpoint.save(tmp_path, 1, state(1))
    path = checkpoint.save(tmp_path, 2, state(2))
    path.write_bytes(DAMAGE[name](path.read_bytes()))
    found = checkpoint.find(tmp_path)
    assert found.content is not None
    assert checkpoint.decode(found.content)["course"]["step"] == 1
    assert found.damaged == (f"{path} is damaged: its checksum is wrong",)


def test_other_format_is_a_data_error() -> None:
    """A checkpoint of a later version is not half understood."""
    content = checkpoint.encode({**state(1), "format": 99})
    assert checkpoint.check(content)
    with pytest.raises(DataError, match="format 99"):
        checkpoint.decode(content)


def test_unwritable_folder_is_a_data_error(tmp_path: Path) -> None:
    """With the folder, and not a traceback in the middle of a run."""
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="can't save to"):
        checkpoint.save(tmp_path / "file", 1, state(1))
    (tmp_path / "checkpoint-00000001.pt").mkdir()
    with pytest.raises(DataError, match="can't read"):
        checkpoint.find(tmp_path)


KILLER = """
    import os, random, signal, sys, time
    from pathlib import Path
    import torch
    from trainer import checkpoint

    folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    weights = torch.arange(200_000.0)
    began = time.monotonic()
    checkpoint.save(folder, 1, {"model": {"w": weights}, "course": {"step": 1}})
    usual = time.monotonic() - began  # a busy machine takes longer, and is to be killed in the middle all the same
    last, interrupted = 1, 0
    for round in range(rounds):
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            step = last
            while True:
                step += 1
                os.write(theirs, b".")
                checkpoint.save(folder, step, {"model": {"w": weights + step}, "course": {"step": step}})
        os.read(ours, 1)  # it has begun
        time.sleep(random.uniform(0, 2.5 * usual))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ours), os.close(theirs)
        interrupted += any(folder.glob(".checkpoint-*"))
        found = checkpoint.find(folder)
        assert found.content is not None and not found.damaged, found
        state = checkpoint.decode(found.content)
        step = state["course"]["step"]
        assert step >= last and torch.equal(state["model"]["w"], weights + step if step > 1 else weights)
        last = step
    assert last > 1, "no save was ever finished"
    print(interrupted)
"""


@pytest.mark.parametrize("rounds", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_kill_at_any_moment_leaves_a_whole_one(rounds: int, tmp_path: Path) -> None:
    """Kill -9 in the middle of saving, again and again: the newest whole one is never older than the last known."""
    done = subprocess.run(
        [PYTHON, "-c", textwrap.dedent(KILLER), str(tmp_path), str(rounds)],
        env={"PYTHONPATH": str(REPO), "PATH": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0, "no save was interrupted, so the test has shown nothing"

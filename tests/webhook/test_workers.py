"""`webhook.workers`: who dies is replaced, who is stuck too, a signal reaches all, and all is done in time."""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from webhook import logs, workers
from webhook.workers import Supervisor, Worker


@dataclass
class Process:
    """A process that a test makes speak and die."""

    pid: int
    speaks: int
    returncode: int | None = None
    heard: list[str] = field(default_factory=list)

    def poll(self) -> int | None:
        return self.returncode

    def terminate(self) -> None:
        self.heard.append("term")

    def kill(self) -> None:
        self.heard.append("kill")
        self.returncode = -9

    def speak(self) -> None:
        os.write(self.speaks, b".")


@dataclass
class Scene:
    """A supervisor of two workers, whose time a test moves on."""

    now: float = 0
    exhausted: bool = False
    made: list[Process] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    log: io.StringIO = field(default_factory=io.StringIO)

    def __post_init__(self) -> None:
        self.workers = [Worker(slot) for slot in range(2)]
        self.supervisor = Supervisor(
            self.workers, self.start, self.ended.append, logs.make(self.log), patience=25, clock=lambda: self.now
        )

    def start(self, worker: Worker) -> None:
        if self.exhausted:
            raise OSError(11, "Resource temporarily unavailable")
        hears, speaks = os.pipe()
        os.set_blocking(hears, False)
        process = Process(100 + len(self.made), speaks)
        self.made.append(process)
        worker.process, worker.pulse = cast("Any", process), hears

    def step(self, seconds: float = 0.1, *, speak: bool = True) -> None:
        """Time goes by; all that live say so, unless they don't `speak`."""
        self.now += seconds
        for process in self.made if speak else []:
            if process.returncode is None:
                process.speak()
        self.supervisor.step()

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in map(json.loads, self.log.getvalue().splitlines()) if line["event"] == event]


@pytest.fixture(name="scene")
def _scene() -> Scene:
    made = Scene()
    made.step()
    return made


def test_each_slot_gets_a_process(scene: Scene) -> None:
    """At once, and no more than that."""
    scene.step()
    assert [worker.pid for worker in scene.workers] == [100, 101]
    assert [line["outcome"] for line in scene.said("worker")] == ["started", "started"]


def test_who_dies_is_replaced(scene: Scene) -> None:
    """After a tenth of a second; the other one isn't touched, and what the dead one showed is taken away."""
    scene.made[0].returncode = -9
    scene.step()
    assert scene.workers[0].process is None
    scene.step(0.05)
    assert len(scene.made) == 2
    scene.step(0.06)
    assert [worker.pid for worker in scene.workers] == [102, 101]
    assert (scene.ended, scene.workers[0].starts) == ([0], 2)
    assert {"outcome": "died", "code": -9, "worker": 0}.items() <= scene.said("worker")[2].items()


def test_who_dies_again_and_again_waits_longer(scene: Scene) -> None:
    """Twice as long each time, half a minute at most; who has lived for a minute begins anew."""
    waits: list[float] = []
    for _ in range(12):
        scene.made[-1 if waits else 0].returncode = 1
        scene.step()
        waits.append(scene.workers[0].due - scene.now)
        scene.step(waits[-1] + 0.01)
    assert [round(wait, 1) for wait in waits] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30]
    for _ in range(7):
        scene.step(10)
    scene.made[-1].returncode = 1
    scene.step()
    assert round(scene.workers[0].due - scene.now, 1) == 0.1


def test_who_can_not_be_started_is_tried_again(scene: Scene) -> None:
    """No process to be had just now: said, and tried again a little later; the others go on."""
    scene.made[0].returncode, scene.exhausted = 1, True
    scene.step()
    scene.step(0.2)
    assert scene.said("worker")[-1].items() >= {"outcome": "not started", "again_after": 0.2}.items()
    scene.exhausted = False
    scene.step(0.1)
    assert scene.workers[0].process is None
    scene.step(0.2)
    assert [worker.pid for worker in scene.workers] == [102, 101]


def test_who_says_nothing_is_stuck(scene: Scene) -> None:
    """Half a minute without a word: ended by force and replaced."""
    scene.step(29, speak=False)
    assert scene.made[0].heard == []
    scene.made[1].speak()
    scene.step(2, speak=False)
    assert [process.heard for process in scene.made] == [["kill"], []]
    assert scene.said("worker")[-1]["outcome"] == "stuck"
    scene.step()
    scene.step(0.2)
    assert scene.workers[0].pid == 102


def test_a_signal_reaches_all(scene: Scene) -> None:
    """Each signal once to each; nobody is started any more; when all have ended, it has."""
    scene.supervisor.handle(15, None)
    scene.step()
    scene.step()
    assert [process.heard for process in scene.made] == [["term"], ["term"]]
    scene.supervisor.handle(15, None)
    scene.step()
    assert [process.heard for process in scene.made] == [["term"] * 2, ["term"] * 2]
    for process in scene.made:
        process.returncode = 0
    scene.supervisor.run()
    assert len(scene.made) == 2
    assert len(scene.said("stopping")) == 1


def test_who_does_not_end_in_time_is_ended(scene: Scene) -> None:
    """Drain, grace and a margin, and not a second more."""
    scene.supervisor.handle(15, None)
    scene.step()
    scene.step(24, speak=False)
    assert scene.made[0].heard == ["term"]
    scene.step(2, speak=False)
    assert scene.made[0].heard == ["term", "kill"]


@pytest.mark.parametrize("there", [True, False])
def test_the_counters_folder(there: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory where there is such a folder, else where temporary files go; gone at the end."""
    memory = tmp_path if there else tmp_path / "absent"
    monkeypatch.setattr(workers, "_MEMORY", memory)
    with workers._folder() as folder:
        assert folder.is_dir()
        assert (folder.parent == tmp_path) is there
    assert not folder.exists()

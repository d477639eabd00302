"""`make demo`: true to the end, readable in a pipe, clean after Ctrl-C, and honest where a promise is broken."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from demo import __main__ as demo
from demo import acts, job, leftovers, net, server
from demo.acts import Limits, Stage
from demo.story import Story
from tests.support_edges import REPO

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from demo.job import Pod

HAS_TORCH = importlib.util.find_spec("torch") is not None
PICTURE = REPO / "docs" / "demo.svg"
GOOD_ROLL = "".join(f"roll rank={rank} host=h pid=1 local_rank=0 device=cpu\n" for rank in range(4))
GOOD = (
    f"{GOOD_ROLL}epoch epoch=1 epochs=2 step=1 loss=0.5\nepoch epoch=2 epochs=2 step=2 loss=0.1 accuracy=0.98\n"
    "verified ranks=4 parameters=equal seen=1000\naccuracy=0.9810 loss=0.1 world=4 total_s=9\n"
)


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(name="stage")
def _stage(tmp_path: Path) -> Stage:
    """A stage whose pods have loopback addresses and little patience."""
    story = Story(Console(file=io.StringIO(), width=100))
    return Stage(tmp_path, net.Loopback, story, Limits(fail=5, gather=2, silence=0.2, together=2, train=5))


def text(stage: Stage) -> str:
    file = stage.story.console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def made(*texts: str) -> list[Pod]:
    """The job's pods, each with a shell in place of its program."""
    pods = job.pods(job.load())
    for pod, script in zip(pods, texts, strict=True):
        pod["spec"]["containers"][0] |= {"command": ["sh", "-c", script], "args": []}
    return pods


def shown(*argv: str) -> tuple[int, str]:
    out = io.StringIO()
    return demo.main(list(argv), Console(file=out, width=100)), out.getvalue()


@pytest.mark.trainer
@pytest.mark.slow
@pytest.mark.skipif(not HAS_TORCH, reason="torch isn't installed")
@pytest.mark.timeout(400)
def test_the_whole_story(tmp_path: Path) -> None:
    """With torch: the failing half fails, the repaired half trains over 97 %, and the picture shows it."""
    env = {**os.environ, "DEMO_FAST": "1", "LC_ALL": "C", "PYTHONIOENCODING": "utf-8", "RANKFIX_PORT": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", "demo", "--svg", tmp_path / "demo.svg"],
        cwd=REPO,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "6 of 6 promises kept" in ran.stdout
    facts_of_a_picture(tmp_path / "demo.svg")


def test_without_torch_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The repair is shown, the training isn't, and the exit code tells the two apart."""
    monkeypatch.setattr(demo, "has_torch", lambda: False)
    code, out = shown()
    assert code == demo.NO_TORCH
    assert "RANK 1 → 2, LOCAL_WORLD_SIZE=2 is added" in out
    assert "1 of 1 promises kept" in out
    assert "torch isn't installed here, so nothing was trained" in out
    assert max(map(len, out.splitlines())) <= 100
    assert "\x1b" not in out


def test_a_story_is_told_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """With acts that only say that they were played: exit 0 if all promises are kept, 1 if one isn't."""
    played: list[str] = []

    def play(name: str, *, kept: bool) -> Any:
        def act(stage: Stage, pods: Sequence[Pod]) -> str:
            played.append(f"{name} {len(pods)} {pods[1]['spec']['containers'][0]['args'][-2:]}")
            stage.story.promise(name, kept=kept)
            return name

        return act

    monkeypatch.setattr(demo, "has_torch", lambda: True)
    monkeypatch.setenv("DEMO_FAST", "1")
    for broken in (None, "trains"):
        played.clear()
        for name in ("fails_with_a_reason", "hangs", "gets_together", "trains"):
            monkeypatch.setattr(acts, name, play(name, kept=name != broken))
        code, out = shown()
        assert code == (0 if broken is None else demo.BROKEN)
        assert [entry.split()[0] for entry in played] == ["fails_with_a_reason", "hangs", "gets_together", "trains"]
        assert played[-1].endswith("['--epochs', '8']")
        assert ("✗ BROKEN: trains" in out) == (broken is not None)


@pytest.mark.parametrize(
    ("scripts", "kept"),
    [
        (["echo 'the raw pair'; exit 2", "echo 'the raw pair'; exit 2"], True),
        (["echo 'the raw pair'; exit 2", "exit 0"], False),
        (["echo other; exit 2", "echo 'the raw pair'; exit 2"], False),
        (["", "echo 'the raw pair'; exit 2"], False),
    ],
)
def test_the_trainer_must_fail_with_its_reason(stage: Stage, scripts: list[str], kept: bool) -> None:
    """Another failure, or none, is no proof."""
    acts.fails_with_a_reason(stage, made(*scripts))
    assert stage.story.kept is kept


@pytest.mark.parametrize(
    ("script", "kept"),
    [
        ("print('rank 0 of 4 waits', flush=True); print('rank 1 of 4 waits', flush=True); time.sleep(60)", True),
        ("print('rank 0 of 4 waits', flush=True); time.sleep(60)", False),
        ("print('rank 0 of 4 waits'); print('rank 1 of 4 waits')", False),
    ],
)
def test_the_plain_script_must_hang(
    stage: Stage, script: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its processes wait, and none ends."""
    plain = tmp_path / "plain.py"
    plain.write_text(f"import time\n{script}\n")
    monkeypatch.setattr(acts, "PLAIN", plain)
    acts.hangs(stage, made("", ""))
    assert stage.story.kept is kept
    assert stage.left == 0


@pytest.mark.parametrize(("total", "code", "kept"), [(6, 0, True), (5, 0, False), (6, 1, False)])
def test_the_plain_script_must_find_together(  # noqa: PLR0917 - columns and fixtures
    stage: Stage, total: int, code: int, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four processes, and all of them agree on the sum of the ranks."""
    plain = tmp_path / "plain.py"
    line = f"together with all others: their ranks add up to {total}"
    plain.write_text(f"import sys\nprint({line!r})\nprint({line!r})\nsys.exit({code})\n")
    monkeypatch.setattr(acts, "PLAIN", plain)
    acts.gets_together(stage, made("", ""))
    assert stage.story.kept is kept


@pytest.mark.parametrize(
    ("log", "code", "kept"),
    [
        (GOOD, 0, True),
        (GOOD, 4, False),
        (GOOD.replace("0.9810", "0.9610"), 0, False),
        (GOOD.replace("ranks=4", "ranks=2"), 0, False),
        ("", 0, False),
    ],
)
def test_training_must_be_proved(stage: Stage, log: str, code: int, kept: bool, tmp_path: Path) -> None:
    """Exit codes, verified ranks and accuracy."""
    (tmp_path / "log").write_text(log)
    acts.trains(stage, made(f"cat {tmp_path}/log; exit {code}", f"exit {code}"))
    assert stage.story.kept is kept
    assert ("accuracy=0.9810 world=4 total_s=9" in text(stage)) == ("accuracy=0.9810" in log)


def test_the_server_must_repair(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer without a patch breaks the promise."""
    monkeypatch.setattr(server.Client, "ask", lambda *_: (200, b'{"response": {"allowed": true}}'))
    with server.running() as client:
        acts.repair(stage, made("", ""), client)
    assert not stage.story.kept


def test_a_server_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said is passed on in one line."""
    monkeypatch.setattr(demo, "has_torch", lambda: False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(server, "free_port", lambda: port)
        code, out = shown()
    assert code == demo.BROKEN
    assert "the server ended with code 2 and said: rankfix: 127.0.0.1 port" in out.replace("\n", " ")


def test_a_server_that_is_never_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience ends."""
    monkeypatch.setattr(demo, "has_torch", lambda: False)
    monkeypatch.setattr(server, "PATIENCE", 0.0)
    code, out = shown()
    assert (code, "wasn't ready within 0 s" in out) == (demo.BROKEN, True)


def test_a_server_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """An HTTP error is not taken for an answer."""
    monkeypatch.setattr(demo, "has_torch", lambda: False)
    monkeypatch.setattr(server.Client, "ask", lambda *_: (200 if _[2] == "/readyz" else 400, b"why"))
    code, out = shown()
    assert (code, "answered 400" in out) == (demo.BROKEN, True)


def test_a_server_that_hangs_is_killed() -> None:
    """Nothing is left running, whatever the child does with SIGTERM."""
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        server.stop(process, patience=0.2)
        assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cleans_up(tmp_path: Path, number: int) -> None:
    """Ctrl-C and kill end it with 130, in the middle of a run: no pod, no server, no folder is left."""
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    program = (
        "import signal, sys; from demo import __main__ as d, acts\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in what a shell runs in the background
        "d.has_torch = lambda: True\n"
        "pods = lambda s, p: d.job.with_command(p, 'sh', '-c', 'echo $RANKFIX_LOCAL_POD; setsid sleep 600')\n"
        "acts.fails_with_a_reason = lambda s, p: s.run(pods(s, p), 60, lambda pod, line: print('mark', line))\n"
        "sys.exit(d.main([]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=REPO, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        marks: list[str] = []
        while len(marks) < 2:
            marks += re.findall(r"^mark (\S+)", process.stdout.readline())
        time.sleep(0.1)
        assert leftovers.marked(marks[0])
        process.send_signal(number)
        assert process.wait(30) == demo.INTERRUPTED
    assert [leftovers.marked(mark) for mark in marks] == [[], []]
    assert list(tmp_path.glob("rankfix-demo-*")) == []


def test_its_job_is_one_that_explain_repairs() -> None:
    """The example in deploy/, as training-operator 1.9 makes its pods: two of them, half and half."""
    pods = job.pods(job.load())
    assert [job.name(pod) for pod in pods] == ["mnist-cpu-master-0", "mnist-cpu-worker-0"]
    assert [job.env(pod)["RANK"] for pod in pods] == ["0", "1"]
    assert {job.env(pod)["WORLD_SIZE"] for pod in pods} == {"4"}


def facts_of_a_picture(path: Path) -> None:
    """What a picture of a run must show, whatever its figures."""
    words = re.sub(r"<[^>]+>", "\n", path.read_text(encoding="utf-8")).replace("&#160;", " ")
    told = " ".join(words.split())
    assert "RANK 1 → 2, LOCAL_WORLD_SIZE=2 is added" in told
    assert re.search(r"verified ranks=4 parameters=equal", told)
    accuracy = re.search(r"accuracy=(0\.\d{4}) world=4", told)
    assert accuracy
    assert float(accuracy[1]) >= acts.TARGET
    assert "6 of 6 promises kept" in told
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", path.read_text(encoding="utf-8")).replace(
        "https://127", ""
    )


def test_the_picture_is_of_a_run_as_it_is_now() -> None:
    """docs/demo.svg, which the README shows, tells of today's demo; `make picture` draws it anew."""
    facts_of_a_picture(PICTURE)
    assert "docs/demo.svg" in (REPO / "README.md").read_text(encoding="utf-8")

"""The runner itself, on cases that need no torch: it runs them, and it fails where it has to."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from conformance import __main__ as runner
from conformance import arms, check, compare
from conformance.words import Arm
from tests.support_conformance import MEET, ROOT, SHARE, case, container, job, raw, written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHARED = {"expect": {"operator": "together", "rankfix": "together"}}
GPUS = job(container("python", "train.py", resources={"limits": {"nvidia.com/gpu": 2}}))
MEETING = {"job": job(container("python", "train.py"), nproc="2"), "files": {"train.py": MEET}, "status": "C1"}


@pytest.fixture(name="run")
def _run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run cases on loopback: the exit code, and what was printed."""

    def run(*entries: dict[str, Any], args: tuple[str, ...] = ()) -> tuple[int, str]:
        words = [str(written(tmp_path, *entries)), "--network=loopback", "-j", "8", *args]
        code = runner.main(words)
        return code, "".join(capsys.readouterr())

    return run


def test_all_as_foreseen(run: Callable[..., tuple[int, str]]) -> None:
    """Exit code 0, a line a run; arms with the same pods are one run."""
    code, shown = run(raw(**SHARED), args=("-v", "--arm", "operator", "--arm", "rankfix", "--arm", "naive"))
    assert code == 0, shown
    assert "ok         1/1 a-case [operator=rankfix=naive] together" in shown
    assert "job-worker-0/pytorch: RANK=1 WORLD_SIZE=2" in shown
    assert "operator   right in 1 of 1" in shown
    assert "regressions (right before, and not after): none" in shown


def test_what_the_naive_patch_breaks_is_a_fault_where_nobody_foresaw_it(run: Callable[..., tuple[int, str]]) -> None:
    """The runner can fail: the case, why, the logs, and the command that shows it again. Tried twice before."""
    entry = raw(job=GPUS, **{**SHARED, "expect": {"operator": "together", "rankfix": "together", "naive": "together"}})
    code, shown = run(entry, args=("--arm", "operator", "--arm", "naive", "--arm", "rankfix"))
    assert code == runner.FAILED
    assert "FAULT    again a-case [naive] partial" in shown
    assert "expected together, and it came to: partial" in shown
    assert "why: of 4 shards only these were read: 0, 2" in shown
    assert "regressions (right before, and not after): naive 1" in shown
    assert "again: make conformance ARGS='--case a-case --arm naive -v' CASES=" in shown


def test_a_regression_of_ours_fails_though_the_case_says_so(
    run: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rankfix that did what the naive patch does would break what works: nobody can write that into a case."""
    monkeypatch.setattr(arms, "answered", _as_naive)
    entry = raw(
        job=GPUS, expect={"operator": "together", "rankfix": "partial"}, remedy="Nothing helps here.", status="A1"
    )
    code, shown = run(entry, args=("--arm", "operator", "--arm", "rankfix"))
    assert code == runner.FAILED
    assert "a regression: without rankfix it is together, with it partial" in shown


def test_a_declared_regression_is_shown_and_no_fault(
    run: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the annotation that keeps the job right."""
    monkeypatch.setattr(arms, "answered", lambda pod: _as_naive(pod) if _bare(pod) else (pod, _answer(pod)))
    keys = {"known": "It looks like others.", "annotate": {"rankfix/mode": "off"}, "status": "A1"}
    expect = {"operator": "together", "rankfix": "partial", "annotated": "together"}
    code, shown = run(raw(job=GPUS, expect=expect, **keys), args=tuple(f"--arm={arm}" for arm in (*expect, "naive")))
    assert code == 0, shown
    assert "declared: a-case [rankfix]: It looks like others." in shown


def _bare(pod: dict[str, Any]) -> bool:
    return "annotations" not in pod["metadata"]


def _answer(pod: dict[str, Any]) -> Any:
    return _ANSWERED(pod)[1]


_ANSWERED = arms.answered


def _as_naive(pod: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    repaired, answer = _ANSWERED(pod)
    return arms.naive({**repaired}), answer


def test_processes_that_wait_for_ever_are_seen_soon(run: Callable[..., tuple[int, str]]) -> None:
    """Two processes were told that they are four: nothing moves, and nobody waits half an hour for it."""
    entry = raw(**MEETING, expect={"operator": "hang", "rankfix": "hang"}, quiet=1, remedy="Declare no processes.")
    began = time.monotonic()
    code, shown = run(entry, args=("--arm", "operator"))
    assert code == 0, shown
    assert "0 of 2 processes had joined a group; WORLD_SIZE 4, and 2 processes" in shown
    assert time.monotonic() - began < 30


def test_an_error_is_told_by_its_line(run: Callable[..., tuple[int, str]]) -> None:
    """The others are ended as soon as they only wait."""
    files = {"train.py": f"import os\nif os.environ['RANK'] == '1': raise ValueError('rank 1 of 1')\n{MEET}"}
    entry = raw(files=files, expect={"operator": "crash", "rankfix": "crash"}, remedy="Mend the script.", status="A1")
    code, shown = run(entry, args=("--arm", "operator"))
    assert code == 0, shown
    assert "job-worker-0: ValueError: rank 1 of 1" in shown


def test_a_pod_is_made_anew_with_its_ranks(run: Callable[..., tuple[int, str]]) -> None:
    """What dies of that is restarted in place, and all come together again."""
    entry = raw(files={"train.py": MEET}, recreate="worker-0", **SHARED)
    code, shown = run(entry, args=("--arm", "rankfix", "-v"))
    assert code == 0, shown
    assert "a-case [rankfix] together" in shown


def test_pods_that_do_not_come_together_again(run: Callable[..., tuple[int, str]]) -> None:
    """It is told at which stage they didn't."""
    mine = "os.environ['CONFORMANCE_OUT'] + '/' + os.environ['HOSTNAME'] + '.*.jsonl'"
    once = f"import glob, os\nif glob.glob({mine}): {SLEEP}\n{MEET}"
    entry = raw(files={"train.py": once}, recreate="worker-0", quiet=1, expect={"rankfix": "hang"}, remedy="None here.")
    code, shown = run(entry, args=("--arm", "rankfix"))
    assert code == 0, shown
    assert "job-worker-0 was made anew: nothing moves any more" in shown


SLEEP = "import time; time.sleep(600)"
SCALED = f"import os\nos.environ.update(RANK='0', WORLD_SIZE='1')\n{MEET}"


def test_what_fails_again_and_again_is_restarted_a_few_times(run: Callable[..., tuple[int, str]]) -> None:
    """As kubelet backs off; the error is what is told."""
    files = {"train.py": "raise SystemExit('ValueError: never')"}
    entry = raw(files=files, recreate="worker-0", quiet=1, expect={"rankfix": "crash"}, remedy="None here.")
    code, shown = run(entry, args=("--arm", "rankfix"))
    assert code == 0, shown
    assert "job-master-0: ValueError: never" in shown


@pytest.mark.parametrize(("scale", "outcome"), [([1], "together"), ([1, 2], "hang")])
def test_workers_are_scaled(scale: list[int], outcome: str, run: Callable[..., tuple[int, str]]) -> None:
    """Each number of Workers has to become one group; here two never do, since both have rank 0."""
    elastic = job(container("python", "train.py"), elasticPolicy={"minReplicas": 1, "maxReplicas": 3})
    del elastic["spec"]["pytorchReplicaSpecs"]["Master"]
    keys = {"files": {"train.py": SCALED}, "scale": scale, "quiet": 1, "truth": {"world": scale[-1]}}
    entry = raw(
        job=elastic, **keys, expect={"rankfix": outcome}, remedy="None is needed.", status="unchanged + elastic"
    )
    code, shown = run(entry, args=("--arm", "rankfix"))
    assert code == 0, shown
    assert ("2 Workers: nothing moves any more" in shown) is (outcome == "hang")


def test_init_containers_entrypoints_and_sidecars(run: Callable[..., tuple[int, str]]) -> None:
    """What an image brings: files, a command of its own, an entrypoint; and what runs before and beside it."""
    prepared = container("prepare", name="prepare", volumeMounts=[{"name": "v", "mountPath": "/data-of-a-test"}])
    main = {"name": "pytorch", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/data-of-a-test"}]}
    made = job({**main, "workingDir": "/work-of-a-test"})
    for replicas in made["spec"]["pytorchReplicaSpecs"].values():
        replicas["template"]["spec"] |= {"initContainers": [prepared], "volumes": [{"name": "v", "emptyDir": {}}]}
    files = {
        "/usr/local/bin/prepare": "#!/bin/sh\necho ready > /data-of-a-test/x\n",
        "/work-of-a-test/lib/train.py": SHARE,
    }
    entry = raw(
        job=made, files=files, entrypoint=["sh", "-c", "grep ready /data-of-a-test/x && exec python lib/train.py"]
    )
    code, shown = run({**entry, "change": "istio"}, args=("--arm", "rankfix"))
    assert code == 0, shown


def test_a_denied_pod_is_not_run(run: Callable[..., tuple[int, str]]) -> None:
    """Its outcome is the denial."""
    typo = job(container("python", "train.py"))
    for replicas in typo["spec"]["pytorchReplicaSpecs"].values():
        replicas["template"]["metadata"] = {"annotations": {"rankfix/mode": "proces"}}
    entry = raw(job=typo, expect={"rankfix": "denied"}, status="denied", remedy="Mend the typo.")
    code, shown = run(entry, args=("--arm", "rankfix"))
    assert code == 0, shown
    assert "1 denied" in shown


def test_cases_are_checked_without_a_run(run: Callable[..., tuple[int, str]]) -> None:
    """A wrong status is found, and a job that makes no pods, before anything is started."""
    assert run(raw(), args=("--check",)) == (0, "1 cases, 0 faults\n")
    code, shown = run(raw(status="C1"), args=("--check",))
    assert (code, "the rules are A1" in shown) == (runner.FAILED, True)
    code, shown = run(raw(job={"metadata": {"name": "x"}, "spec": {}}))
    assert (code, "spec.pytorchReplicaSpecs" in shown) == (runner.UNUSABLE, True)
    code, shown = run(raw(), args=("--case", "no-such-case"))
    assert (code, "no such case" in shown) == (runner.UNUSABLE, True)


def test_what_it_needs_is_told(run: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """That is torch or accelerate, where cases start them, and a control plane for the record; and nothing else is."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    for text in ("import torch\n", "exec torchrun x\n", "python -m torch.distributed.run x\n"):
        code, shown = run(raw(files={"train.py": text}))
        assert (code, "start it: torch; make conformance installs it" in shown) == (runner.UNUSABLE, True)
    code, shown = run(raw(**SHARED), args=("--arm", "operator"))
    assert code == 0, shown
    code, shown = run(raw(), args=("--record",))
    assert (code, "KUBEBUILDER_ASSETS" in shown) == (runner.UNUSABLE, True)


def test_the_fast_part_runs_what_proves_something(tmp_path: Path) -> None:
    """Pods that only the naive patch comes to are run where it breaks what works, and there only."""
    kept = {}
    for expected in ("partial", "together"):
        made = case(tmp_path, job=GPUS, expect={**SHARED["expect"], "naive": expected})
        todo, _ = compare.tasks(made, [Arm.OPERATOR, Arm.NAIVE], arms.left)
        kept[expected] = [task.arms for task in check.affordable(todo)]
    assert kept == {"partial": [[Arm.OPERATOR], [Arm.NAIVE]], "together": [[Arm.OPERATOR]]}


def test_each_arm_by_itself(run: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    """--no-sharing runs equal pods again, and --keep leaves what each run wrote."""
    keep = tmp_path / "kept"
    code, shown = run(
        raw(**SHARED), args=("--no-sharing", "--keep", str(keep), "--arm", "operator", "--arm", "rankfix")
    )
    assert code == 0, shown
    assert "1 cases, 2 arms, 2 runs" in shown
    assert {path.name for path in (keep / "a-case").iterdir()} == {"operator", "rankfix"}


def test_interrupted(tmp_path: Path) -> None:
    """Within seconds, and nothing runs on."""
    entry = raw(files={"train.py": "import time\nprint('up', flush=True)\nwhile True: pass\n"}, **SHARED)
    file = written(tmp_path, entry)
    keep = tmp_path / "kept"
    words = [sys.executable, "-m", "conformance", str(file), "--network=loopback", f"--keep={keep}", "--arm=operator"]
    done = subprocess.Popen([*words], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not [log for log in keep.rglob("*.log") if "up" in log.read_text()] and time.monotonic() < deadline:
        time.sleep(0.1)
    done.send_signal(signal.SIGINT)
    _, told = done.communicate(timeout=30)
    assert (done.returncode, "all pods are stopped" in told) == (runner.INTERRUPTED, True), told
    assert str(keep) not in "".join(_environments())


def _environments() -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - processes, not files
        try:
            with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - see above
                found.append(file.read())
        except OSError:
            continue
    return found

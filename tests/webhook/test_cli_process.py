"""`rankfix` as a process: pipes, terminals, locales, full disks."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.support_edges import REPO, body, pod, typo

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., tuple[int, str, str]]


def spawn(*argv: str | Path, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "webhook", *map(str, argv)], cwd=REPO, check=False, timeout=60,
        env={**os.environ, **(env or {})}, **options,
    )  # fmt: skip


def test_review_is_the_default_when_piped(file: Any) -> None:
    """Scripts get JSON, whatever the locale."""
    path = file(body(pod(("X", "é\ud800"))))
    ran = spawn("mutate", path, capture_output=True, env={"LC_ALL": "C", "PYTHONUTF8": "0", "FORCE_COLOR": "1"})
    assert json.loads(ran.stdout)["response"]["allowed"]
    ran = spawn("mutate", "-o", "pod", path, capture_output=True, env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii"})
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert yaml.safe_load(ran.stdout)["spec"]["containers"][0]["env"][-1] is not None


@pytest.mark.parametrize(("env", "colours"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_diff_is_the_default_on_a_terminal(file: Any, env: dict[str, str], colours: bool) -> None:
    """In colours there, unless NO_COLOR says otherwise."""
    mine, theirs = pty.openpty()
    ran = spawn("mutate", file(pod()), stdout=theirs, env={"TERM": "xterm", **env})
    os.close(theirs)
    shown = b""
    while not shown.endswith(b"\n") or b"@@" not in shown:
        shown += os.read(mine, 65536)
    os.close(mine)
    assert ran.returncode == 0
    assert b"rules C1" in shown
    assert (b"\x1b[32m" in shown) == colours


def test_a_reader_that_goes_away(file: Any) -> None:
    """`rankfix mutate ... | head -1` ends quietly."""
    files = f"{file(body(), 'p')} " * 500
    command = f"{sys.executable} -m webhook mutate -o review {files} | head -1"
    ran = subprocess.run(["/bin/sh", "-c", command], cwd=REPO, capture_output=True, check=False, timeout=60)
    assert ran.stderr == b""
    assert ran.stdout.count(b"\n") == 1


def test_a_full_disk(file: Any) -> None:
    """One line and code 2, no traceback at the end."""
    with Path("/dev/full").open("wb") as full:
        ran = spawn("mutate", "-o", "review", file(body()), stdout=full, stderr=subprocess.PIPE)
    assert (ran.returncode, ran.stderr) == (2, b"rankfix: output: no space left on device\n")


def test_closed_streams(file: Any) -> None:
    """A caller that closed stdout and stderr gets its exit code all the same."""
    command = f"exec {sys.executable} -m webhook mutate {file(body(typo()))} >&- 2>&-"
    assert subprocess.run(["/bin/sh", "-c", command], cwd=REPO, check=False, timeout=60).returncode == 1

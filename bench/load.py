"""Load by wrk on a core of its own: one body again and again, or a body that no request had before."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench import cases
from bench.servers import pinned

if TYPE_CHECKING:
    from pathlib import Path

    from bench.servers import Running

JOBS = 32  # that the new pods belong to, in turns

_HEAD = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
"""
_DONE = """
function done(summary, latency)
  local e = summary.errors
  io.write(string.format('\\n{"rps":%.1f,"p50_ms":%.3f,"p99_ms":%.3f,"max_ms":%.3f,"requests":%d,"failed":%d}\\n',
    summary.requests / summary.duration * 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    latency.max / 1e3, summary.requests, e.status + e.connect + e.read + e.write + e.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class Load:
    """Bodies to send. Of `changing`, the parts are Lua expressions, in which N counts requests."""

    name: str
    sample: bytes
    changing: tuple[str, ...] = field(default=())

    def script(self, start: int, *, close: bool = False) -> str:
        """Wrk's script, whose pods are numbered from `start`; `close` ends the connection with each answer."""
        head = _HEAD + ('wrk.headers["Connection"] = "close"\n' if close else "")
        if not self.changing:
            return f"{head}wrk.body = {quoted(self.sample.decode())}\n{_DONE}"
        body = f"table.concat({{{', '.join(self.changing)}}})"
        request = f"return wrk.format(nil, nil, nil, {body})"
        step = f"N = N + 1; local K = math.floor(N / {JOBS}); local J = N % {JOBS}"
        return f"{head}N = {start}\nfunction request() {step}; {request} end\n{_DONE}"


def quoted(text: str) -> str:
    """A Lua string."""
    return f"[==[{text}]==]"


def same(name: str, body: bytes) -> Load:
    """One pod again and again."""
    return Load(name, body)


def new_pods(name: str, form: str) -> Load:
    """Pods of 32 jobs in turns, of which no two are the same: uid, names, labels, ranks and job differ."""
    text = cases.body(cases.recorded(form)).decode()
    request = json.loads(text)["request"]
    job = request["object"]["metadata"]["labels"]["training.kubeflow.org/job-name"]
    text = text.replace(job, f"{job}\0J\0").replace(f"{job}\0J\0-worker-0", f"{job}\0J\0-worker-\0K\0")
    text = text.replace(request["uid"], "uid-\0N\0").replace('replica-index":"0"', 'replica-index":"\0K\0"')
    for name_, value in (("PET_NNODES", cases.PODS), ("WORLD_SIZE", cases.RANKS)):
        text = re.sub(rf'("name":"{name_}","value":)"\d+"', rf'\1"{value}"', text)
    text = re.sub(r'("name":"(?:PET_NODE_)?RANK","value":)"1"', '\\1"\0K+1\0"', text)
    parts = tuple(part if at % 2 else quoted(part) for at, part in enumerate(text.split("\0")))
    return Load(name, re.sub("\0(K[+]1|[JKN])\0", lambda slot: "1" if slot[1] == "K+1" else "0", text).encode(), parts)


def can() -> bool:
    """Whether there is a wrk."""
    return shutil.which("wrk") is not None


class Driver:
    """Sends loads to servers. Each run has new pods of its own."""

    def __init__(self, folder: Path) -> None:
        self._script = folder / "load.lua"
        self._runs = 0

    def run(
        self, server: Running, load: Load, connections: int, seconds: int, *, close: bool = False
    ) -> dict[str, float]:
        """What wrk measured, and the microseconds of CPU that the server took for each request.

        Raises:
            RuntimeError: wrk failed.
        """
        self._runs += 1
        self._script.write_text(load.script(self._runs * 10_000_000, close=close), encoding="utf-8")
        words = [
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{seconds}s",
            "--timeout",
            "10s",
            "-s",
            str(self._script),
            server.url,
        ]
        before = server.cpu()
        done = subprocess.run([*pinned(1), *words], capture_output=True, text=True, check=False)  # noqa: S603 - wrk
        used = server.cpu() - before
        if done.returncode:
            raise RuntimeError(f"wrk: {done.stdout[-500:]}{done.stderr[-500:]}")
        found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
        return {**found, "cpu_us": round(used / max(found["requests"], 1) * 1e6, 1)}

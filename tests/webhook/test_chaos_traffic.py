"""Chaos: replicas that roll, certificates that change, workers that are killed, a burst of pods. No call fails that a
server could have answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonpatch
import pytest
import uvloop

from tests.support_edges import Running, body, child, patch_of, pod
from tests.support_tls import authority, pair, volume
from tests.support_traffic import CALL, Load, Transport, load, told, transport

if TYPE_CHECKING:
    from collections.abc import Callable

    from certs.issue import Identity
    from tests.support_tls import Volume

END = ("--drain", "1", "--grace", "5")
SOAK = pytest.mark.soak


@pytest.fixture(name="ca")
def _ca() -> Identity:
    return authority()


@pytest.fixture(name="files")
def _files(tmp_path: Path, ca: Identity) -> Volume:
    made = volume(tmp_path / "tls", pair(ca))
    (made.path / "ca.crt").write_bytes(ca.certificate)
    return made


def roll(calls: Load, old: list[Running], start: Callable[[], Running]) -> list[Running]:
    """What a Deployment does with maxUnavailable 0: a new one joins, an old one leaves the Service, then it ends."""
    fresh = []
    for gone in old:
        fresh.append(start())
        calls.transport.ports = [port for port in calls.transport.ports if port != gone.port] + [fresh[-1].port]
        assert gone.stop() == 0
    return fresh


@pytest.mark.parametrize("calls", [2_000, pytest.param(20_000, marks=[SOAK, pytest.mark.timeout(600)])])
def test_bug_39_rolling_restart_and_a_new_certificate(files: Volume, ca: Identity, calls: int) -> None:
    """Bug 39: two replicas are replaced one by one and the certificate changes, under load: not one call fails."""
    with contextlib.ExitStack() as stack:

        def start() -> Running:
            return stack.enter_context(child(files.path, *END))

        replicas = [start(), start()]
        with load(files.path, *(one.port for one in replicas), clients=8, pause=0.004) as made:
            made.wait(calls // 4)
            replicas = roll(made, replicas, start)
            files.bring(pair(ca))
            made.wait(calls // 4)
            replicas = roll(made, replicas, start) if calls > 2_000 else replicas
            files.bring(pair(ca))
            made.wait(max(calls - made.calls, calls // 4), seconds=400)
    assert made.failed == {}
    assert made.calls >= calls
    told("rolling restart", made)


def busiest(supervisor: int) -> int:
    """The worker with the most connections."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return int(max(children, key=lambda child: len(list(Path(f"/proc/{child}/fd").iterdir()))))


def test_a_worker_that_is_killed_takes_no_more_than_its_own_calls(files: Volume) -> None:
    """Kill -9 under load: at most the calls that were on the dead one's connections are lost, and none after that."""
    with child(files.path, "--workers", "2") as running, load(files.path, running.port, clients=6) as made:
        assert running.process
        made.wait(300)
        assert made.failed == {}
        os.kill(busiest(running.process.pid), signal.SIGKILL)
        made.wait(300)
        lost = sum(made.failed.values())
        assert lost <= made.clients
        assert made.transport.opened > made.clients  # those who were on the dead one came back to the other
        made.wait(300)
        assert sum(made.failed.values()) == lost
        told("kill -9 of a worker", made)


@pytest.mark.parametrize(
    "seconds", [6, *(pytest.param(seconds, marks=[SOAK, pytest.mark.timeout(200)]) for seconds in (30, 89))]
)
def test_bug_40_a_connection_is_reused_after_a_pause(files: Volume, seconds: float) -> None:
    """Bug 40: what the API server has kept for so long is still there, and takes the call."""

    async def calls(port: int) -> int:
        async with transport(files.path, port) as made:
            await asyncio.gather(*(made.post(CALL) for _ in range(8)))
            opened = made.opened
            await asyncio.sleep(seconds)
            answers = await asyncio.gather(*(made.post(CALL) for _ in range(8)))
            assert [status for status, _ in answers] == [200] * 8
            return made.opened - opened

    with child(files.path) as running:
        assert uvloop.run(calls(running.port)) == 0


JOBS, PODS = 32, 1000
AT_ONCE = 200  # what an API server lets through by default


def burst() -> dict[str, tuple[int, int, dict[str, Any]]]:
    """1,000 pods of 32 jobs of all sizes: uid -> job, its processes in all, pod."""
    made: dict[str, tuple[int, int, dict[str, Any]]] = {}
    sizes = [PODS // JOBS + (job < PODS % JOBS) for job in range(JOBS)]
    for job, size in enumerate(sizes):
        count = (1, 2, 4, 8)[job % 4]
        for k in range(size):
            made[f"{job}-{k}"] = (job, size * count, _pod(f"job{job}", k, size, count))
    return made


def _pod(job: str, k: int, size: int, count: int) -> dict[str, Any]:
    name = f"{job}-worker-{k - 1}" if k else f"{job}-master-0"
    made = pod(name=name)
    values = {
        "MASTER_ADDR": f"{job}-master-0", "WORLD_SIZE": str(size * count), "RANK": str(k),
        "PET_NPROC_PER_NODE": str(count), "PET_NNODES": str(size), "PET_NODE_RANK": str(k),
    }  # fmt: skip
    for entry in made["spec"]["containers"][0]["env"]:
        entry["value"] = values.get(entry["name"], entry["value"])
    labels = made["metadata"]["labels"]
    labels["training.kubeflow.org/job-name"] = job
    labels["training.kubeflow.org/replica-index"] = str(max(k - 1, 0))
    labels["training.kubeflow.org/replica-type"] = "worker" if k else "master"
    return made


def test_a_thousand_pods_at_once(files: Volume) -> None:
    """32 jobs, shuffled, to three processes, as fast as they go: none fails, and the ranks of each job tile exactly."""
    pods = burst()
    order = list(pods)
    random.Random(8).shuffle(order)  # noqa: S311 - an order, no secret
    ranks: dict[int, list[int]] = {job: [] for job in range(JOBS)}

    def good(status: int, answer: Any) -> bool:
        job, world, raw = pods[answer["response"]["uid"]]
        mutated = jsonpatch.JsonPatch(patch_of(answer)).apply(raw)
        env = {entry["name"]: entry["value"] for entry in mutated["spec"]["containers"][0]["env"]}
        ranks[job] += range(int(env["RANK"]), int(env["RANK"]) + int(env["LOCAL_WORLD_SIZE"]))
        return status == 200 and env["WORLD_SIZE"] == str(world)

    async def all_of_them(made: Load) -> float:
        reviews = [body(pods[uid][2], uid=uid) for uid in order]
        room = asyncio.Semaphore(AT_ONCE)

        async def one(data: bytes) -> None:
            async with room:
                await made.call(data, good)

        start = time.monotonic()
        await asyncio.gather(*map(one, reviews))
        made.transport.close()
        return time.monotonic() - start

    with child(files.path, "--workers", "3") as running:
        context = ssl.create_default_context(cafile=files.path / "ca.crt")
        made = Load(Transport([running.port], context), 0)
        took = uvloop.run(all_of_them(made))
    assert made.failed == {}
    worlds = {job: world for job, world, _ in pods.values()}
    assert {job: sorted(found) for job, found in ranks.items()} == {
        job: list(range(world)) for job, world in worlds.items()
    }
    told(f"burst in {took:.2f} s", made)

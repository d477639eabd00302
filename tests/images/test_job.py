"""The whole path: the example job's pods through API server and webhook container, then run as containers."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

import pytest

from demo import job
from demo.server import Client
from tests.e2e import controlplane
from tests.images import cluster
from tests.images.kubelet import node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.images.engine import Container
    from tests.images.webhook_container import Webhook
    from tests.support_deploy import Object

pytestmark = [pytest.mark.image, pytest.mark.slow, pytest.mark.timeout(600)]

RANKS, TARGET, STOPPED = 4, 0.95, 143
# With the official files the job needs few epochs; without them it takes the packaged sample, and the default.
WORDS = ("--epochs=3",) if os.environ.get("MNIST_IDX_DIR") else ()
ROLL = [("0", "master-0"), ("1", "master-0"), ("2", "worker-0"), ("3", "worker-0")]
FIRST = "print(*open('/proc/1/cmdline').read().split(chr(0))[:3])"  # process 1: no init, no shell before it
REPAIRED = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR")


def made() -> list[Object]:
    """The example's pods as the operator makes them, shorter in training, and with a target to match."""
    pods = job.with_arguments(job.pods(job.load()), f"--target-accuracy={TARGET}", *WORDS, without="--target-accuracy")
    return pods if WORDS else job.with_arguments(pods, without="--data-dir")


@pytest.fixture(scope="module", name="answered")
def _answered(webhook: Webhook) -> list[Object]:
    """The pods as the webhook's container answers when it is asked directly."""
    client = Client(webhook.server.port, webhook.server.context())
    return [job.repair(pod, client).after for pod in made()]


@pytest.fixture(scope="module", name="stored")
def _stored(webhook_image: str, tmp_path_factory: pytest.TempPathFactory) -> list[Object]:
    """The pods as a real API server stored them, with the webhook's container registered by its own manifests."""
    if not controlplane.available():
        pytest.skip(controlplane.SKIP)
    with cluster.started(webhook_image, tmp_path_factory.mktemp("cluster")) as running:
        return running.stored(made())


def test_the_api_server_stores_what_the_container_answers(stored: list[Object], answered: list[Object]) -> None:
    """Manifests, certificate Job, Secret and Service lead to the same pods as a call of the container itself."""
    assert [job.env(pod) for pod in stored] == [job.env(pod) for pod in answered]
    assert [[job.env(pod)[name] for name in REPAIRED] for pod in stored] == [
        ["0", "4", "2", "0", "mnist-cpu-master-0"],
        ["2", "4", "2", "1", "mnist-cpu-master-0"],
    ]


@pytest.fixture(scope="module", name="pods")
def _pods(request: pytest.FixtureRequest) -> list[Object]:
    """The stored pods, or without a control plane the answered ones."""
    found: list[Object] = request.getfixturevalue("stored" if controlplane.available() else "answered")
    return found


@contextlib.contextmanager
def started(pods: list[Object], folder: Path) -> Iterator[list[Container]]:
    """The job as containers."""
    with node(folder) as here, contextlib.ExitStack() as ending:
        yield [here.start(pod, ending) for pod in pods]


def test_the_job_is_stopped_and_resumes(
    pods: list[Object], trainer_image: str, tmp_path: Path, figures: dict[str, str]
) -> None:
    """SIGTERM to one pod ends all with 143 and a checkpoint; started again they resume, and verify four ranks."""
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {f"{trainer_image.partition(':')[0]}:latest"}
    with started(pods, tmp_path) as (master, worker):
        log = master.says("epoch=1 ", within=240)
        assert re.findall(r"^roll rank=(\d) host=mnist-cpu-(\S+) ", log, re.MULTILINE) == ROLL
        assert [one.execute("python", "-c", FIRST) for one in (master, worker)] == ["python -m trainer"] * 2
        worker.signal("TERM")
        assert [worker.wait(60), master.wait(60)] == [STOPPED, STOPPED], master.log + worker.log
    with started(pods, tmp_path) as (master, worker):
        codes, log = [master.wait(300), worker.wait(60)], master.log
        assert codes == [0, 0], log + worker.log
        assert not master.state["OOMKilled"]
    assert "resuming from /checkpoints" in log
    assert re.search(rf"^verified ranks={RANKS} parameters=equal ", log, re.MULTILINE), log
    result = re.search(r"^accuracy=([0-9.]+) .*", log, re.MULTILINE)
    assert result
    assert float(result[1]) >= TARGET
    assert "accuracy=" in (tmp_path / "mnist-cpu-master-0.message").read_text()
    figures["job"] = result[0]

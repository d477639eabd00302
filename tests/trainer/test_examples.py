"""The example jobs and the image: what they promise must be what the trainer does."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.trainer.support import REPO
from trainer import settings

EXAMPLES = sorted((REPO / "deploy" / "examples").glob("pytorchjob-mnist-*.yaml"))


def replicas(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    job = yaml.safe_load((REPO / "deploy" / "examples" / name).read_text())
    return job["spec"], job["spec"]["pytorchReplicaSpecs"]


def test_there_are_the_four() -> None:
    """Plain python on GPUs and on CPUs, and the two commands that people paste."""
    assert [path.stem.removeprefix("pytorchjob-mnist-") for path in EXAMPLES] == [
        "constant-flags",
        "cpu",
        "gpu",
        "wrong-master",
    ]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_survives_what_clusters_do(path: Any) -> None:
    """A limit on retries, a policy that knows the exit codes, time to stop, memory for NCCL, no sidecar."""
    spec, kinds = replicas(path.name)
    assert spec["runPolicy"]["backoffLimit"] > 0
    for replica in kinds.values():
        assert replica["restartPolicy"] == "ExitCode"
        assert replica["template"]["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
        pod = replica["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] >= 10
        (container,) = pod["containers"]
        assert container["name"] == "pytorch"
        assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/dev/shm", "/checkpoints"}  # noqa: S108  # a mount
        assert any(volume.get("emptyDir", {}).get("medium") == "Memory" for volume in pod["volumes"])
        words = [str(word) for word in (*container["command"], *container.get("args", []))]
        script = next(index for index, word in enumerate(words) if word == "trainer" or word.endswith("train.py"))
        settings.parse(words[script + 1 :])


@pytest.mark.parametrize(
    ("name", "pods", "each"), [("gpu", 2, 4), ("cpu", 2, 2), ("constant-flags", 1, 4), ("wrong-master", 1, 2)]
)
def test_verified_line_counts_the_ranks(name: str, pods: int, each: int) -> None:
    """The line that the comment promises has as many ranks as the job has processes."""
    spec, kinds = replicas(f"pytorchjob-mnist-{name}.yaml")
    assert int(spec["nprocPerNode"]) == each
    assert sum(replica["replicas"] for replica in kinds.values()) == pods
    text = (REPO / "deploy" / "examples" / f"pytorchjob-mnist-{name}.yaml").read_text()
    assert re.findall(r"verified ranks=(\d+) parameters=equal seen=10000", text) == [str(pods * each)]


def test_image_has_the_script_where_jobs_look_for_it() -> None:
    """Base as argument, data baked in, not root, a stop signal, train.py at both places."""
    text = (REPO / "trainer" / "Dockerfile").read_text()
    for line in ("ARG BASE=", "FROM ${BASE}", "USER 1000", "STOPSIGNAL SIGTERM", "WORKDIR /workspace"):
        assert line in text
    assert "python -m trainer.download" in text
    for place in ("/workspace/train.py", "/home/pytorch/train.py"):
        assert f"cp trainer/entry.py /own{place}" in text

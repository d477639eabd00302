"""Recorded pods of six operator versions, created on a real API server with rankfix installed, and read back."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml

from tests.e2e.installation import REVIEWS, Installation, fresh, installation, recorded
from tests.support_edges import patch_of
from webhook import jsonpatch, mutate
from webhook.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.controlplane import ControlPlane, Reply
    from tests.support_deploy import Object

pytestmark = pytest.mark.e2e

VERSIONS = ("v1.3.0", "v1.5.0", "v1.6.0", "v1.7.0", "v1.8.1", "v1.9.0")
OLD = {"v1.3.0", "v1.5.0", "v1.6.0"}
VECTORS: dict[str, Any] = yaml.safe_load((REVIEWS.parent / "vectors.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", name="installed")
def _installed(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("tls")
    with installation(plane, folder, namespace="rankfix-repair") as made:
        made.apply()
        made.make_certificate()
        with made.server():
            made.await_repair()
            yield made


@pytest.mark.parametrize("version", VERSIONS)
def test_every_recorded_pod_is_repaired_as_the_vectors_say(installed: Installation, version: str) -> None:
    """What the cluster stores is what the contract's vectors and the command line say of the same pod."""
    installed.plane.namespace(namespace := "made-by-" + version.replace(".", "-"))
    reviews = [json.loads(path.read_bytes()) for path in sorted((REVIEWS / version).glob("*.json"))]
    assert reviews
    with ThreadPoolExecutor(4) as pool:
        replies = list(
            pool.map(lambda review: installed.create(fresh(review["request"]["object"]), namespace), reviews)
        )
    assert [wrong for pair in zip(reviews, replies, strict=True) for wrong in _wrong(*pair, version)] == []


def _wrong(review: Object, reply: Reply, version: str) -> Iterator[str]:
    """What differs between a stored pod and what was to be expected of it."""
    pod = review["request"]["object"]
    name = pod["metadata"]["name"]
    want = VECTORS[re.sub(r"-(master|worker)-[0-9]+$", "", name)]["old" if version in OLD else "modern"]
    if want.get("deny"):
        if reply.status != 400 or "rankfix/" not in reply.body["message"]:
            yield f"{name}: not refused: {reply.status} {reply.body}"
        return
    if reply.status != 201:
        yield f"{name}: refused: {reply.body}"
        return
    if _said(reply) != _to_be_said(want, worker=re.search("-worker-[0-9]+$", name) is not None):
        yield f"{name}: {_said(reply)} is not what the vectors say"
    if _containers(reply.body) != _containers(_offline(review)):
        yield f"{name}: env or words differ from the command line's"


def _said(reply: Reply) -> str:
    annotations = reply.body["metadata"].get("annotations", {})
    status = annotations.get("rankfix/status", "untouched")
    if status in {"untouched", "would-change"}:
        return str(status)
    return ",".join(sorted(filter(None, annotations.get("rankfix/rules", "").split(","))))


def _to_be_said(want: Object, *, worker: bool) -> str:
    if want.get("untouched"):
        return "untouched"
    if want.get("audit"):
        return "would-change"
    rules: list[str] = want["worker"] if worker and "worker" in want else want["rules"]
    return ",".join(sorted(rules))


def _offline(review: Object) -> Any:
    answer = json.loads(mutate.respond(json.dumps(review).encode(), Policy()).body)
    return jsonpatch.apply(review["request"]["object"], cast("Any", patch_of(answer)))


def _containers(pod: Any) -> Any:
    kept = ("name", "command", "args", "env")
    spec = pod["spec"]
    return [
        [{key: c.get(key) for key in kept} for c in spec.get(part) or []] for part in ("initContainers", "containers")
    ]


def test_dry_run_is_the_same_and_leaves_nothing(installed: Installation) -> None:
    """Bug 35: `--dry-run=server` shows the repaired pod, and creates none."""
    reply = installed.create(recorded("v1.9.0", "bare-n4-worker-0"), query="?dryRun=All")
    env = {entry["name"]: entry.get("value") for entry in reply.body["spec"]["containers"][0]["env"]}
    assert (reply.status, env["RANK"], env["WORLD_SIZE"], env["NODE_RANK"]) == (201, "4", "8", "1")
    assert installed.plane.request("GET", "/api/v1/namespaces/team-a/pods/bare-n4-worker-0").status == 404


def test_a_refusal_reads_well(installed: Installation) -> None:
    """What `kubectl` and the operator's Event show: which annotation of which job, what is allowed, code 400."""
    text = json.dumps({**recorded("v1.9.0", "ask-bad-n-master-0"), "apiVersion": "v1", "kind": "Pod"})
    ran = installed.plane.try_kubectl("create", "-n", "team-a", "-f", "-", stdin=text)
    assert ran.returncode == 1
    assert 'admission webhook "pods.rankfix.webhook" denied the request: ' in ran.stderr
    assert "BadRequest" in ran.stderr
    for word in ("rankfix/nproc-per-node", "ask-bad-n"):
        assert word in ran.stderr


def test_warnings_arrive(installed: Installation) -> None:
    """A pod whose command can't be read comes with a warning that names the annotation to set."""
    text = json.dumps({**recorded("v1.9.0", "script-file-worker-0"), "apiVersion": "v1", "kind": "Pod"})
    ran = installed.plane.try_kubectl("create", "-n", "team-a", "--dry-run=server", "-f", "-", stdin=text)
    assert ran.returncode == 0
    assert "Warning: " in ran.stderr
    assert "rankfix/mode" in ran.stderr


def test_duplicate_env(installed: Installation) -> None:
    """A pod with a name twice: the last one counts and is repaired, and server-side apply fails with or without us."""
    pod = recorded("v1.9.0", "user-env-dup-worker-0")
    made = installed.create(pod, query="?dryRun=All")
    assert made.status == 201
    ranks = [entry["value"] for entry in made.body["spec"]["containers"][0]["env"] if entry["name"] == "RANK"]
    with_us = _applied(installed, pod, "team-a")
    left_out = {"name": "no-rankfix", "labels": {"rankfix/inject": "disabled"}}
    installed.plane.request("POST", "/api/v1/namespaces", {"metadata": left_out})
    without = _applied(installed, pod, "no-rankfix")
    assert ranks[-1] == "2"
    assert with_us.returncode == without.returncode == 1
    assert with_us.stderr == without.stderr.replace("no-rankfix", "team-a")


def _applied(installed: Installation, pod: Object, namespace: str) -> Any:
    text = json.dumps({**pod, "apiVersion": "v1", "kind": "Pod"})
    words = ("apply", "--server-side", "-n", namespace, "--dry-run=server", "-f", "-")
    return installed.plane.try_kubectl(*words, stdin=text)


def test_a_namespace_can_stay_out(installed: Installation) -> None:
    """Label `rankfix/inject: disabled`: not even asked, so that no outage of ours reaches it."""
    labels = {"name": "left-out", "labels": {"rankfix/inject": "disabled"}}
    installed.plane.request("POST", "/api/v1/namespaces", {"metadata": labels})
    reply = installed.create(recorded("v1.9.0", "bare-n4-worker-0"), "left-out", "?dryRun=All")
    assert "rankfix/status" not in reply.body["metadata"].get("annotations", {})


def test_generated_names(installed: Installation) -> None:
    """Bug 26: a pod that has no name yet."""
    pod = recorded("v1.9.0", "bare-n4-worker-0")
    del pod["metadata"]["name"]
    pod["metadata"]["generateName"] = "job-"
    reply = installed.create(pod, query="?dryRun=All")
    assert (reply.status, reply.body["metadata"]["annotations"]["rankfix/rules"]) == (201, "C1")


def test_two_installations(installed: Installation, tmp_path: Path) -> None:
    """Bug 11: a second one has names of its own, repairs nothing twice, and its end leaves the first one whole."""
    first = installed.plane.get(installed.configuration)
    with installation(installed.plane, tmp_path, name="second", namespace="rankfix-second", alone=False) as other:
        other.apply()
        other.make_certificate()
        with other.server():
            other.await_repair()
            env = other.probe().body["spec"]["containers"][0]["env"]
            assert [entry["value"] for entry in env if entry["name"] == "RANK"] == ["4"]
            other.remove()
    assert installed.plane.get(installed.configuration)["metadata"]["uid"] == first["metadata"]["uid"]

"""`make demo-cluster`: the demo's pods through a real kube-apiserver, with rankfix registered as its webhook.

    python -m demo.cluster

Without etcd and kube-apiserver (see `demo.controlplane`) it says so and ends with 0. Nobody runs the pods here: what is
shown is what the API server stored of them.
"""

from __future__ import annotations

import base64
import contextlib
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from demo import controlplane, job, server
from demo.acts import short
from demo.story import WIDTH, Story

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demo.controlplane import Api
    from demo.job import Pod

BROKEN, INTERRUPTED = 1, 130
NAMESPACE = "demo"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def main(console: Console | None = None) -> int:
    """Exit code 0 if all promises were kept, or there is no control plane to show it with."""
    console = console or _console()
    programs = controlplane.assets()
    if programs is None:
        console.print("demo-cluster: skipped: KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver")
        console.print("(setup-envtest use -p path installs them)", markup=False)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="rankfix-cluster-") as folder:
            return tell(Story(console), Path(folder), programs)
    except KeyboardInterrupt:
        console.print("\ninterrupted; everything is stopped")
        return INTERRUPTED
    except (server.DemoError, OSError) as exc:
        console.print(f"demo-cluster: {exc}", markup=False)
        return BROKEN


def tell(story: Story, folder: Path, programs: Path) -> int:
    """The pods of the job, created without the webhook and with it, as the API server stores them."""
    pods = [_placed(pod) for pod in job.pods(job.load())]
    with contextlib.ExitStack() as ending:
        client = ending.enter_context(server.running())
        api = ending.enter_context(controlplane.running(folder, programs))
        _, version = api.ask("GET", "/version")
        story.act(f"kube-apiserver {version['gitVersion']} on 127.0.0.1:{api.port}")
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        without = _created(api, pods)
        for pod in pods:
            api.ask("DELETE", f"{PODS}/{job.name(pod)}", {"gracePeriodSeconds": 0})
        api.create(WEBHOOKS, configuration(client))
        story.say("rankfix is registered for CREATE of pods; the same pods are created again:")
        repaired = _registered(api, pods)
    _show(story, without, repaired)
    return 0 if story.kept else BROKEN


def configuration(client: server.Client) -> dict[str, Any]:
    """The registration: pods of the training-operator, by their labels' presence decided inside."""
    trust = client.authority
    hook = {
        "name": "mutate.rankfix.example.com",
        "clientConfig": {
            "url": f"https://127.0.0.1:{client.port}/mutate",
            "caBundle": base64.b64encode(trust).decode(),
        },
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "timeoutSeconds": 5,
    }
    return {"metadata": {"name": "rankfix"}, "webhooks": [hook]}


def _placed(pod: Pod) -> Pod:
    return {**pod, "metadata": {**pod["metadata"], "namespace": NAMESPACE}}


def _created(api: Api, pods: Sequence[Pod]) -> list[Pod]:
    return [api.create(PODS, pod) for pod in pods]


def _registered(api: Api, pods: Sequence[Pod]) -> list[Pod]:
    """The pods, created once the registration is in force, which takes the API server a moment."""
    for attempt in range(50):
        probe = {**pods[0], "metadata": {**pods[0]["metadata"], "name": f"probe-{attempt}"}}
        status, answer = api.ask("POST", f"{PODS}?dryRun=All", probe)
        if status < 300 and "rankfix/status" in answer["metadata"].get("annotations", {}):  # noqa: PLR2004 - HTTP: created, or accepted
            break
    return _created(api, pods)


def _show(story: Story, without: Sequence[Pod], repaired: Sequence[Pod]) -> None:
    rows = [
        (short(job.name(after)), *(_change(job.env(before), job.env(after), name) for name in job.SHOWN), _notes(after))
        for before, after in zip(without, repaired, strict=True)
    ]
    story.table(("pod", *job.SHOWN, "rankfix/ranks"), rows)
    ranks: list[int] = []
    for pod in repaired:
        env = job.env(pod)
        ranks += range(int(env["RANK"]), int(env["RANK"]) + int(env.get("LOCAL_WORLD_SIZE", "1")))
    world = {job.env(pod)["WORLD_SIZE"] for pod in repaired}
    story.promise(
        "as the API server stored them, the pods' ranks are 0 to 3 of 4, each once",
        kept=world == {str(len(ranks))} and sorted(ranks) == list(range(len(ranks))),
    )
    story.promise(
        "without the webhook they aren't", kept=all("rankfix/ranks" not in _annotations(pod) for pod in without)
    )


def _change(before: dict[str, str], after: dict[str, str], name: str) -> str:
    old, new = before.get(name, "-"), after.get(name, "-")
    return new if old == new else f"{old} → {new}"


def _notes(pod: Pod) -> str:
    return _annotations(pod).get("rankfix/ranks", "-")


def _annotations(pod: Pod) -> dict[str, str]:
    annotations: dict[str, str] = pod["metadata"].get("annotations") or {}
    return annotations


def _console() -> Console:
    console = Console(highlight=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


if __name__ == "__main__":
    sys.exit(main())

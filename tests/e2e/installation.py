"""rankfix as a cluster runs it: its rendered manifests on a real API server, and real server processes behind them.

Two things differ from a cluster with nodes. The Service is of type ExternalName to localhost, so that the API server
dials our processes as it dials a Service, by the Service's own name; and what kubelet and the Job controller do
(mounting the Secret, running the Job) is done here, with the ServiceAccount and the command that the manifests name.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import http.client
import json
import ssl
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
import yaml

from certs import __main__ as certs_main
from certs.issue import CertsError
from tests.e2e.forwarder import Forwarder, forwarder
from tests.support_deploy import Object, Objects, one, rendered
from tests.support_edges import Running, child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.controlplane import ControlPlane, Reply

PODS = "/api/v1/namespaces/{}/pods"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
REVIEWS = Path(__file__).parents[1] / "data" / "reviews"
SOON = 30.0
OTHERWISE_HERE = ("--port=", "--cert-dir=")  # of the Deployment's words
CLUSTER_WIDE = (
    "clusterroles", "clusterrolebindings", "priorityclasses", "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
)  # fmt: skip
LISTED = (
    "namespaces", "priorityclasses", "serviceaccounts", "services", "deployments", "poddisruptionbudgets",
    "networkpolicies", "roles", "rolebindings", "clusterroles", "clusterrolebindings", "jobs", "cronjobs", "secrets",
    "leases", "mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
)  # fmt: skip


def recorded(version: str, name: str) -> Object:
    """A pod as that operator's version made it, fit to be created once more."""
    return fresh(json.loads((REVIEWS / version / f"{name}.json").read_bytes())["request"]["object"])


def fresh(pod: Object, **metadata: object) -> Object:
    """The pod without what only an API server writes, which would refuse it or write it again."""
    kept = {key: value for key, value in pod["metadata"].items() if key not in {"namespace", "managedFields", "uid"}}
    return {**pod, "metadata": {**kept, **metadata}, "status": {}}


def stream(objects: Objects) -> str:
    """The objects as YAML for kubectl."""
    return yaml.safe_dump_all(objects.values())


def on_loopback(objects: Objects, port: int) -> Objects:
    """The same objects, for an API server on this machine: its calls go to `port`."""
    made = copy.deepcopy(objects)
    service = one(made, "Service")
    service["spec"] = {"type": "ExternalName", "externalName": "localhost", "ports": service["spec"]["ports"]}
    one(made, "MutatingWebhookConfiguration")["webhooks"][0]["clientConfig"]["service"]["port"] = port
    return made


@dataclass
class Installation:
    """The objects of one installation, on their way into and out of a cluster."""

    plane: ControlPlane
    objects: Objects
    front: Forwarder
    folder: Path
    servers: list[Running] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        return str(one(self.objects, "Service")["metadata"]["namespace"])

    @property
    def name(self) -> str:
        return str(one(self.objects, "Service")["metadata"]["name"])

    @property
    def configuration(self) -> str:
        return f"{CONFIGURATIONS}/{one(self.objects, 'MutatingWebhookConfiguration')['metadata']['name']}"

    def apply(self, objects: Objects | None = None) -> None:
        """Server-side apply of everything, as `kubectl apply --server-side` does."""
        self.objects = self.objects if objects is None else objects
        text = stream(on_loopback(self.objects, self.front.port))
        self.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    def run_job(self, kind: str, *more: str) -> str:
        """Run the command of the Job or CronJob; what it complains about."""
        return job(self.plane, self.objects, kind, *more)

    def make_certificate(self) -> None:
        """The first certificate, as the Job makes it, and in the folder of the servers."""
        assert self.run_job("Job", "--settle=0.1") == ""
        self.mount()

    def secret(self) -> dict[str, str]:
        """The Secret's data, as it is."""
        volume = one(self.objects, "Deployment")["spec"]["template"]["spec"]["volumes"][0]["secret"]
        found = self.plane.get(f"/api/v1/namespaces/{self.namespace}/secrets/{volume['secretName']}")
        data: dict[str, str] = found["data"]
        return data

    def mount(self, folder: Path | None = None) -> None:
        """Bring the Secret's files into a server's folder as kubelet does: all at once, by a swap of `..data`."""
        folder = folder or self.folder
        volume = one(self.objects, "Deployment")["spec"]["template"]["spec"]["volumes"][0]["secret"]
        data = {item["path"]: base64.b64decode(self.secret()[item["key"]]) for item in volume["items"]}
        version = folder / f"..{time.time_ns()}"
        version.mkdir(parents=True)
        for name, content in data.items():
            (version / name).write_bytes(content)
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(f"..data/{name}")
        (folder / "..fresh").symlink_to(version.name)
        (folder / "..fresh").replace(folder / "..data")

    def bundle(self) -> str:
        """The caBundle."""
        found: str = self.plane.get(self.configuration)["webhooks"][0]["clientConfig"]["caBundle"]
        return found

    @contextlib.contextmanager
    def server(self, *flags: str, folder: Path | None = None) -> Iterator[Running]:
        """One more server: the Deployment's words, its account, and in the Service's endpoints once it says so."""
        deployment = one(self.objects, "Deployment")["spec"]["template"]["spec"]
        words = [word for word in deployment["containers"][0]["args"][1:] if not word.startswith(OTHERWISE_HERE)]
        token = self.plane.token(self.namespace, deployment["serviceAccountName"])
        env = {"KUBECONFIG": str(self.plane.kubeconfig_for(token, f"server-{self.namespace}"))}
        with child(folder or self.folder, *words, *flags, env=env) as running:
            until(lambda: ready(running.port), "the server isn't ready")
            self.front.ports.append(running.port)
            try:
                yield running
            finally:
                if running.port in self.front.ports:
                    self.front.ports.remove(running.port)

    def create(self, pod: Object, namespace: str = "team-a", query: str = "") -> Reply:
        """Create a pod; the API server's answer, whatever it is."""
        return self.plane.request("POST", PODS.format(namespace) + query, pod)

    def probe(self, namespace: str = "team-a") -> Reply:
        """Whether a pod of a PyTorchJob would come through: dry-run."""
        return self.create(recorded("v1.9.0", "bare-n4-worker-0"), namespace, "?dryRun=All")

    def await_repair(self, namespace: str = "team-a") -> None:
        """Until the API server asks us: it learns of a configuration a moment after that is written."""
        until(lambda: repaired(self.probe(namespace)), "no pod is repaired")

    def await_absence(self) -> None:
        """Until the API server asks us no more."""
        until(lambda: (reply := self.probe()).status == 201 and not repaired(reply), "pods are still sent")

    def remove(self) -> None:
        """What docs/uninstall.md says: the configuration first, then everything, then what an earlier profile left."""
        words = ("delete", "--ignore-not-found", "--wait=false")
        self.plane.kubectl(*words, "mutatingwebhookconfiguration", self.configuration.rpartition("/")[2])
        self.plane.kubectl(*words, "-f", "-", stdin=stream(self.objects))
        self.plane.kubectl(*words, ",".join(CLUSTER_WIDE), "-l", f"app.kubernetes.io/instance={self.name}")
        _finish(self.plane, self.namespace)


def job(plane: ControlPlane, objects: Objects, kind: str, *more: str) -> str:
    """Run the command of the Job or CronJob of `objects` as its ServiceAccount; what it complains about."""
    spec = one(objects, kind)["spec"]
    pod = (spec["jobTemplate"]["spec"] if kind == "CronJob" else spec)["template"]["spec"]
    command, args = pod["containers"][0]["command"], pod["containers"][0]["args"]
    assert command == ["rankfix-certs"]
    token = plane.token(one(objects, "Deployment")["metadata"]["namespace"], pod["serviceAccountName"])
    return certs(*args, *more, f"--kubeconfig={plane.kubeconfig_for(token, 'jobs')}")


def certs(*words: str) -> str:
    """Run `rankfix-certs` in this process; what it can't do."""
    try:
        typer.main.get_command(certs_main.app).main([*words], standalone_mode=False)
    except CertsError as exc:
        return str(exc)
    return ""


def ready(port: int) -> bool:
    """What the kubelet's probe finds; it doesn't verify certificates either."""
    context = ssl._create_unverified_context()  # noqa: S323 - see above
    with contextlib.closing(http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)) as connection:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == HTTPStatus.OK


def repaired(reply: Reply) -> bool:
    """Whether a pod came back with our mark."""
    return reply.status == 201 and "rankfix/status" in reply.body["metadata"].get("annotations", {})


def until(holds: Callable[[], object], otherwise: str, within: float = SOON) -> None:
    """Wait for something that the cluster will see to; fail with `otherwise`."""
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.1)


def leftovers(plane: ControlPlane, namespace: str) -> list[str]:
    """What still carries our label, and isn't on its way out: no controller empties namespaces here."""
    found = json.loads(
        plane.kubectl("get", ",".join(LISTED), "-A", "-o", "json", "-l", "app.kubernetes.io/name=rankfix")
    )
    here = [item for item in found["items"] if "deletionTimestamp" not in item["metadata"]]
    return [f"{item['kind']}/{item['metadata']['name']}" for item in here if _of(item, namespace)]


def _finish(plane: ControlPlane, namespace: str) -> None:
    """What the namespace controller does at the end: nobody else would here, and the name could never be used again."""
    reply = plane.request("GET", f"/api/v1/namespaces/{namespace}")
    if reply.status == HTTPStatus.OK and "deletionTimestamp" in reply.body["metadata"]:
        path = f"/api/v1/namespaces/{namespace}/finalize"
        plane.request("PUT", path, {**reply.body, "spec": {"finalizers": []}}).must()


def _of(item: Any, namespace: str) -> bool:
    return bool(item["metadata"].get("namespace", namespace) == namespace)


@contextlib.contextmanager
def installation(
    plane: ControlPlane,
    folder: Path,
    values: Object | None = None,
    *,
    name: str = "rankfix",
    namespace: str,
    alone: bool = True,
) -> Iterator[Installation]:
    """An installation that isn't applied yet, and that is gone afterwards."""
    plane.namespace("team-a")
    with forwarder() as front:
        made = Installation(plane, rendered(values, name=name, namespace=namespace), front, folder)
        try:
            yield made
        finally:
            made.remove()
            if alone:
                made.await_absence()

"""k, P and N: each number's sources, and what makes them unknown or contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support_core import MODERN, OLD, Job, entries
from webhook import facts, notes, pod
from webhook.facts import Facts, Found, Trouble
from webhook.notes import Asked, Earlier, Procs
from webhook.policy import Reason

BAD_NUMBERS = ("", " 1", "1 ", "+1", "-1", "1_0", "1e3", "0x1", "1.0", "٣", "१", "²", "1\n", "9" * 10, "1" * 5000)


def read(raw: dict[str, Any], asked: Asked | None = None, before: Earlier | None = None) -> Facts:
    """The facts of a pod's first container."""
    view = pod.read(raw)
    return facts.read(view, view.containers[0], asked or Asked(), before, facts.gpu_limit(view.containers[0]))


def with_env(job: Job, k: int = 1, /, **values: Any) -> dict[str, Any]:
    """A pod of a job whose env has other values; None takes an entry away, a dict is a `valueFrom`."""
    raw = job.pod(k)
    container = raw["spec"]["containers"][0]
    kept = [entry for entry in container["env"] if entry["name"] not in values]
    given = {name: value for name, value in values.items() if value is not None}
    new = [{"name": n, "valueFrom": v} if isinstance(v, dict) else {"name": n, "value": v} for n, v in given.items()]
    container["env"] = kept + new
    return raw


def with_labels(job: Job, k: int = 1, /, **labels: Any) -> dict[str, Any]:
    """A pod of a job with other labels of the newest generation; None takes one away."""
    raw = job.pod(k)
    for key, value in labels.items():
        name = f"training.kubeflow.org/{key.replace('_', '-')}"
        raw["metadata"]["labels"].pop(name, None)
        if value is not None:
            raw["metadata"]["labels"][name] = value
    return raw


@pytest.mark.parametrize("text", ["0", "1", "007", "999999999"])
def test_plain_numbers_are_ascii_digits(text: str) -> None:
    """One to nine ASCII digits are a number, leading zeros or not."""
    assert facts.plain(text) == int(text)


@pytest.mark.parametrize("text", [*BAD_NUMBERS, None, 1, 1.0, True, [], {}], ids=lambda text: repr(text)[:12])
def test_nothing_else_is_a_number(text: object) -> None:
    """What Python's int() takes beyond that isn't a number here."""
    assert facts.plain(text) is None


@pytest.mark.parametrize("operator", ["0.7", "1.3", "1.5", "1.6", "1.7", "1.9"])
@pytest.mark.parametrize("k", [0, 1, 2])
def test_k_and_p_of_every_generation(operator: str, k: int) -> None:
    """The node rank and the number of pods are read from the pods of each operator generation."""
    seen = read(Job(pods=3, operator=operator).pod(k))
    assert (seen.at, seen.of, seen.trouble, seen.master) == (k, 3, None, True)
    modern = operator >= "1.7"
    assert seen.node == Found(k, "PET_NODE_RANK" if modern else "labels")
    assert seen.pods == Found(3, "PET_NNODES" if modern else "WORLD_SIZE")


@pytest.mark.parametrize("k", [0, 1])
def test_workers_without_a_master_count_from_zero(k: int) -> None:
    """In a job without Master the index of a worker is its node rank."""
    seen = read(Job(master=False).pod(k))
    assert (seen.at, seen.of, seen.master) == (k, 2, False)
    assert seen.trouble == Trouble(Reason.NO_RANK_ENV, "the operator wrote no RANK and WORLD_SIZE")
    assert seen.hard is None


def test_a_master_address_that_is_the_first_worker_is_no_master() -> None:
    """MASTER_ADDR that names the job's worker-0 (ours, at a second call) doesn't make worker-0 the second node."""
    for address in ("job-worker-0", "job-worker-0.team-a.svc"):
        assert read(with_env(Job(master=False), 0, MASTER_ADDR=address)).at == 0
    assert read(with_env(Job(master=False), 0, MASTER_ADDR="elsewhere")).at == 1


@pytest.mark.parametrize("text", BAD_NUMBERS, ids=lambda text: repr(text)[:12])
def test_a_bad_index_label_is_refused(text: str) -> None:
    """An index that isn't one to nine ASCII digits is a bad label, whatever PET_NODE_RANK says."""
    for job in (MODERN, OLD):
        raw = job.pod()
        key = next(name for name in raw["metadata"]["labels"] if name.endswith("replica-index"))
        raw["metadata"]["labels"][key] = text
        trouble = read(raw).trouble
        assert trouble is not None
        assert trouble.reason is Reason.BAD_LABEL


@pytest.mark.parametrize("kind", ["", "chief", "wor\u212aer", "workers", 1, [], {}])
def test_a_bad_type_label_is_refused(kind: object) -> None:
    """A type that is neither master nor worker in ASCII is a bad label (Python takes a Kelvin sign for a k)."""
    trouble = read(with_labels(MODERN, replica_type=kind)).trouble
    assert trouble is not None
    assert trouble.reason is Reason.BAD_LABEL


@pytest.mark.parametrize("kind", ["Worker", "WORKER", "worker"])
def test_the_type_label_may_have_any_case(kind: str) -> None:
    """Old operators and odd manifests write Worker."""
    assert read(with_labels(MODERN, replica_type=kind)).trouble is None


def test_labels_of_the_newest_generation_win() -> None:
    """Where two generations of labels differ, the newest is read."""
    raw = Job(operator="1.5", pods=3).pod(2)
    raw["metadata"]["labels"]["replica-index"] = "0"
    assert read(raw).at == 2


def test_without_labels_pet_node_rank_is_enough() -> None:
    """Missing labels matter only where nothing else tells the node rank."""
    assert read(with_labels(MODERN, replica_type=None, replica_index=None)).trouble is None
    trouble = read(with_labels(Job(operator="1.6"), replica_index=None)).trouble
    assert trouble is not None
    assert trouble.reason is Reason.BAD_LABEL


@pytest.mark.parametrize(
    "raw",
    [
        with_env(MODERN, PET_NODE_RANK="0"),
        with_env(MODERN, PET_NNODES="1"),
        with_env(MODERN, PET_NNODES="0"),
        with_env(MODERN, PET_NNODES="two"),
        with_env(MODERN, PET_NNODES=""),
        with_env(MODERN, PET_NPROC_PER_NODE="0"),
        with_env(OLD, WORLD_SIZE=""),
        with_env(OLD, WORLD_SIZE="1"),
        with_labels(MODERN, 0, replica_index="1"),
        with_labels(MODERN, 1, replica_index="3"),
    ],
)
def test_contradictions_are_inconsistent(raw: dict[str, Any]) -> None:
    """That is k >= P, N < 1, numbers that are none, and labels that disagree with PET_NODE_RANK change nothing."""
    trouble = read(raw).trouble
    assert trouble is not None
    assert trouble.reason is Reason.INCONSISTENT


def test_a_pet_node_rank_that_is_no_number_leaves_the_labels() -> None:
    """The labels give k where PET_NODE_RANK isn't a plain integer, or comes from elsewhere."""
    odd: list[Any] = ["one", {"fieldRef": {}}]
    for value in odd:
        assert read(with_env(MODERN, PET_NODE_RANK=value)).node == Found(1, "labels")


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "PET_NNODES"])
def test_values_from_elsewhere_are_left_alone(name: str) -> None:
    """A last entry with valueFrom can't be read before the pod runs."""
    trouble = read(with_env(MODERN, **{name: {"fieldRef": {"fieldPath": "x"}}})).trouble
    assert trouble is not None
    assert trouble.reason is Reason.VALUE_FROM


def test_an_old_operators_world_size_from_elsewhere() -> None:
    """Before 1.7 a WORLD_SIZE from elsewhere hides the number of pods, too."""
    seen = read(with_env(OLD, WORLD_SIZE={"fieldRef": {}}))
    assert (seen.pods, seen.trouble and seen.trouble.reason) == (None, Reason.VALUE_FROM)


@pytest.mark.parametrize("missing", ["RANK", "WORLD_SIZE"])
def test_half_a_pair_is_no_pair(missing: str) -> None:
    """Without RANK or without WORLD_SIZE there is nothing to repair."""
    trouble = read(with_env(OLD, **{missing: None})).trouble
    assert trouble is not None
    assert trouble.reason is Reason.NO_RANK_ENV


@pytest.mark.parametrize(
    ("job", "pods"),
    [
        (Job(pods=3, elastic="2:2"), 3),
        (Job(pods=3, elastic="2:2", operator="1.6"), 3),
        (Job(pods=3, elastic="1:2"), None),
        (Job(pods=2, elastic="2:2", master=False), None),
        (Job(pods=2, elastic="1:3", master=False), None),
    ],
)
def test_elastic_jobs(job: Job, pods: int | None) -> None:
    """a:a with a Master means a + 1 nodes, since the operator forgets the Master; other ranges are elastic."""
    seen = read(job.pod())
    assert (seen.pods.value if seen.pods else None) == pods
    assert (seen.trouble.reason if seen.trouble else None) == (None if pods else Reason.ELASTIC)


@pytest.mark.parametrize(("backend", "elastic"), [("c10d", True), ("etcd-v2", True), ("static", False), ("", False)])
def test_a_rendezvous_without_master_is_elastic(backend: str, *, elastic: bool) -> None:
    """An rdzv backend gives out ranks in a job without Master; static and an empty one don't."""
    trouble = read(with_env(Job(master=False), PET_RDZV_BACKEND=backend)).trouble
    assert trouble is not None
    assert (trouble.reason is Reason.ELASTIC) is elastic
    assert read(with_env(MODERN, PET_RDZV_BACKEND=backend)).trouble is None
    assert read(with_env(Job(master=False), PET_RDZV_BACKEND={"configMapKeyRef": {}})).hard is not None


@pytest.mark.parametrize(
    ("job", "asked", "nproc"),
    [
        (Job(nproc="4"), Asked(), Found(4, "PET_NPROC_PER_NODE")),
        (Job(nproc="auto"), Asked(), None),
        (Job(nproc=None), Asked(), None),
        (Job(nproc="4"), Asked(procs=Procs(2, 2)), Found(2, "rankfix/nproc-per-node")),
        (Job(gpus=8), Asked(), None),
        (Job(gpus=8), Asked(gpu=True), Found(8, "rankfix/nproc-per-node: gpu")),
        (Job(), Asked(procs=Procs(1, 2)), Found(2, "rankfix/nproc-per-node")),
    ],
)
def test_n_is_declared_and_never_guessed(job: Job, asked: Asked, nproc: Found | None) -> None:
    """N comes from the annotation, else from nprocPerNode; from GPU limits only where the annotation asks."""
    assert read(job.pod(), asked).nproc == nproc


def test_n_of_unequal_nodes_is_this_nodes() -> None:
    """`master=1,worker=2` gives the Master 1 and a worker 2; without Master every node is a worker."""
    asked = Asked(procs=Procs(1, 2))
    found = [read(job.pod(0), asked).nproc for job in (Job(), Job(master=False))]
    assert [one and one.value for one in found] == [1, 2]


@pytest.mark.parametrize(
    ("limits", "count"),
    [
        ({"nvidia.com/gpu": "4"}, 4),
        ({"amd.com/gpu": 2}, 2),
        ({"nvidia.com/mig-1g.5gb": "3", "cpu": "8"}, 3),
        ({"nvidia.com/gpu": "4", "amd.com/gpu": "4"}, None),
        ({"nvidia.com/gpu": "0"}, None),
        ({"nvidia.com/gpu": "500m"}, None),
        ({"nvidia.com/gpu": True}, None),
        ({"nvidia.com/gpu.shared": "4", "aws.amazon.com/neuron": "16"}, None),
        ({}, None),
        (None, None),
        ([], None),
    ],
)
def test_the_gpu_limit_is_that_of_one_resource(limits: object, count: int | None) -> None:
    """One resource that ends in /gpu, or one MIG profile, with a whole number above zero."""
    view = pod.read({"spec": {"containers": [{"resources": {"limits": limits}}]}})
    assert facts.gpu_limit(view.containers[0]) == count


@pytest.mark.parametrize("resources", [None, [], "4"])
def test_odd_resources_have_no_gpu_limit(resources: object) -> None:
    """Resources of another shape limit nothing."""
    assert facts.gpu_limit(pod.read({"spec": {"containers": [{"resources": resources}]}}).containers[0]) is None


def earlier(ranks: str, **env: str) -> Earlier | None:
    """The earlier results that an old operator's pod with this annotation and env is believed to have."""
    raw = with_env(OLD.but(annotations={notes.STATUS: "process", notes.RANKS: ranks}), 1, **env)
    view = pod.read(raw)
    return facts.believed(notes.earlier(view), view.containers[0].env)


def test_earlier_results_are_believed_where_the_env_shows_them() -> None:
    """`rankfix/ranks` tells P at a second call, when WORLD_SIZE is P * N by then."""
    mutated = {"RANK": "4", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
    before = earlier("k=1 P=2 N=4 ranks=4-7/8", **mutated)
    assert before is not None
    assert read(with_env(OLD, **mutated), before=before).pods == Found(2, "rankfix/ranks")
    assert read(with_env(Job(pods=3, elastic="2:2"), PET_NNODES="3:3"), before=before).pods == Found(2, "rankfix/ranks")


@pytest.mark.parametrize(
    ("ranks", "env"),
    [
        ("k=1 P=2 N=4 ranks=4-7/8", {}),
        ("k=1 P=2 N=4 ranks=4-7/8", {"WORLD_SIZE": "8", "RANK": "3", "LOCAL_WORLD_SIZE": "4"}),
        ("k=1 P=2 N=4 ranks=4-7/8", {"WORLD_SIZE": "8", "RANK": "4"}),
        ("k=1 P=2 N=4 ranks=4-7/8", {"WORLD_SIZE": "8", "RANK": "x", "LOCAL_WORLD_SIZE": "4"}),
        ("k=1 P=2 N=4 ranks=4-7/8", {"WORLD_SIZE": "x", "RANK": "4", "LOCAL_WORLD_SIZE": "4"}),
        ("k=1 P=2 N=4 ranks=4-7/8 ", {"WORLD_SIZE": "8", "RANK": "4", "LOCAL_WORLD_SIZE": "4"}),
        ("", {"WORLD_SIZE": "8", "RANK": "4", "LOCAL_WORLD_SIZE": "4"}),
    ],
)
def test_copied_results_are_not_believed(ranks: str, env: dict[str, str]) -> None:
    """Annotations that a user copied from another pod into the template don't change what the env says."""
    assert earlier(ranks, **env) is None


@pytest.mark.parametrize(
    ("sizes", "spans"),
    [
        (Procs(4, 4), [(0, 4, 12), (4, 4, 12), (8, 4, 12)]),
        (Procs(1, 2), [(0, 1, 5), (1, 2, 5), (3, 2, 5)]),
    ],
)
def test_spans_tile_the_ranks(sizes: Procs, spans: list[tuple[int, int, int]]) -> None:
    """The first rank of a node is the sum of the processes of all lower nodes."""
    assert [read(Job(pods=3).pod(k)).span(sizes) for k in range(3)] == spans
    assert [read(Job(pods=2, master=False).pod(k)).span(Procs(1, 2)) for k in range(2)] == [(0, 2, 4), (2, 2, 4)]


def test_unknown_facts_have_harmless_numbers() -> None:
    """Where k or P is unknown a rule never looks; what it would see is the first of one."""
    seen = read({"spec": {"containers": [{"env": entries({"RANK": "3"})}]}})
    assert (seen.at, seen.of) == (0, 1)

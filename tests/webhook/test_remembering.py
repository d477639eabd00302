"""A server's memory must not show: every answer is the one that `respond` gives, the first time and later."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support_core import MODERN, OLD, Job
from tests.support_edges import RECORDED, body, pod
from tests.webhook.test_commands import review as row_review
from tests.webhook.test_commands import rows
from tests.webhook.test_mutate import broken
from tests.webhook.test_properties import JSON, POLICIES, jobs, pods, quick
from webhook.errors import BadReview
from webhook.mutate import Answer, Remembering, remembering, respond
from webhook.policy import Mode, Policy, Reason
from webhook.review import review_of

if TYPE_CHECKING:
    from collections.abc import Iterable

POLICY = Policy()


def compact(document: Any) -> bytes:
    """The bytes that an API server would send."""
    return json.dumps(document, separators=(",", ":")).encode()


def said(answer: Any, data: bytes, policy: Policy) -> Answer | str:
    """An answer without its exception, which no two calls share; or what is said of a body that has none."""
    try:
        given_: Answer = answer(data, policy)
    except BadReview as problem:
        return str(problem)
    return replace(given_, bug=None)


def same(memory: Remembering, bodies: Iterable[bytes], policy: Policy = POLICY) -> None:
    """Whether it answers each of these as `respond` does, and does so again once it has seen all of them."""
    wanted = [(data, said(respond, data, policy)) for data in bodies]
    for data, expected in [*wanted, *reversed(wanted)]:
        assert said(memory, data, policy) == expected


def test_every_recorded_review() -> None:
    """The same bytes for the pods that real operators made, and for a second look at each."""
    memory = Remembering()
    same(memory, [path.read_bytes() for path in RECORDED])
    assert memory.verdicts.hits >= len(RECORDED)


def test_every_row_of_the_command_tables() -> None:
    """The same for each form of command, of two nodes each, in turns."""
    documents = [row_review(row.values[0]) for row in rows()]
    same(Remembering(), [compact(document) for document in documents])


def of_nodes(job: Job) -> list[bytes]:
    """Reviews of a job's pods."""
    return [compact(review_of(raw, uid=f"u-{k}", namespace="team")) for k, raw in enumerate(job.all_pods())]


@quick
@given(st.lists(jobs(pods=st.integers(1, 6)), min_size=1, max_size=3), POLICIES)
def test_the_pods_of_jobs_in_turns(some: list[Job], policy: Policy) -> None:
    """Pods of one job differ in little, and that little is seen."""
    every = [of_nodes(job) for job in some]
    same(Remembering(), [one for one in sum(every, []) for _ in range(2)], policy)  # noqa: RUF017 - a handful of lists


@quick
@given(st.data(), POLICIES)
def test_whatever_is_changed_in_a_pod(data: st.DataObject, policy: Policy) -> None:
    """Any value in the place of any other in a pod is seen, if it matters."""
    raw = data.draw(pods())
    changed = [raw]
    for _ in range(data.draw(st.integers(1, 4))):
        other = copy.deepcopy(changed[-1])
        parent, key = data.draw(st.sampled_from(list(places(other))))
        parent[key] = data.draw(JSON | st.integers(0, 5).map(str))
        changed.append(other)
    same(Remembering(), [compact(review_of(one, uid="u")) for one in changed], policy)


def places(value: Any) -> Iterable[tuple[Any, Any]]:
    """Each place in a JSON value where something stands: its container, and its key or index."""
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, item in list(inner):
        yield value, key
        yield from places(item)


@quick
@given(st.data())
def test_whatever_is_changed_in_a_review(data: st.DataObject) -> None:
    """Any value in the place of any other around the pod leads to the same answer, or the same refusal."""
    document = review_of(MODERN.pod(), uid="u")
    around = [*places({key: value for key, value in document.items() if key != "request"})]
    around = [(document, key) for key in document]
    around += [(document["request"], key) for key in (*document["request"], "subResource", "requestSubResource")]
    around += [*places(document["request"]["kind"]), *places(document["request"]["resource"])]
    for parent, key in data.draw(st.lists(st.sampled_from(around), min_size=1, max_size=3)):
        parent[key] = data.draw(JSON | st.sampled_from(["", "Pod", "pods", "CREATE", "\ud800", "é", None, True]))
    same(Remembering(), [compact(document)])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"team"', b'"te\xffam"'),
        (b'"extra"', b'"ex\xfftra"'),
        (b'"extra"', b'"\\ud800"'),
        (b'"extra"', '"é😀"'.encode()),
        (b'"extra"', b"1e400"),
        (b'"extra"', b"NaN"),
        (b'"extra"', b"01"),
        (b'"extra"', b"[" * 900 + b"]" * 900),
        (b'"extra"', b'"a","extra":"b"'),
        (b'"containers"', b'"containers":[],"containers"'),
        (b'"labels"', b'"labels":null,"labels"'),
        (b'"uid":"u"', b'"uid":"\\u0075"'),
        (b'"uid":"u"', b'"uid":"a\\"\\ud800"'),
        (b'"value":"4"', b'"value":"4","value":"2"'),
        (b'"CREATE"', b'"UPDATE"'),
        (b"}", b""),
    ],
)
def test_odd_bytes(old: bytes, new: bytes) -> None:
    """JSON that no API server sends is taken, or refused in the same words, as if all of it were decoded."""
    document = review_of(MODERN.pod(), uid="u", namespace="team")
    document["request"]["options"] = "extra"
    data = compact(document)
    assert old in data
    same(Remembering(), [data, data.replace(old, new), data.replace(old, new, 1)])


def test_policies_have_verdicts_of_their_own() -> None:
    """What was remembered under one policy is no answer under another."""
    memory, data = Remembering(), body()
    off = Policy(default_mode=Mode.OFF)
    for policy in (POLICY, off, POLICY, Policy(), off):
        assert memory(data, policy) == respond(data, policy)


def test_only_what_matters_is_looked_at() -> None:
    """Another name, uid, time or volume isn't another pod; another rank, command, label or annotation is."""
    memory = Remembering()
    same(memory, [body(pod(name=f"p-{n}"), uid=f"u-{n}", namespace=f"n-{n}") for n in range(5)])
    assert (len(memory.verdicts), memory.verdicts.misses) == (1, 1)
    raw = pod()
    same(memory, [body({**raw, "spec": {**raw["spec"], "volumes": [n]}}) for n in range(5)])
    assert len(memory.verdicts) == 1
    same(memory, [body(pod(annotations={"note": str(n)})) for n in range(5)])
    assert len(memory.verdicts) == 6


def test_pods_of_others_take_no_room() -> None:
    """A cluster's other pods would push out those that come in numbers."""
    memory = Remembering()
    same(memory, [body({"kind": "Pod", "metadata": {}, "spec": {"containers": [n]}}) for n in range(5)])
    assert (len(memory.verdicts), memory.verdicts.size) == (0, 0)


def test_memory_has_its_bounds() -> None:
    """By number and by bytes: the longest unused goes, and is judged anew."""
    few = Remembering(most=3)
    for number in range(10):
        few(body(pod(annotations={"n": str(number)})), POLICY)
    assert len(few.verdicts) == 3
    small = Remembering(most_bytes=100_000)
    for number in range(1_000):
        small(body(pod(annotations={"n": str(number)})), POLICY)
    assert 100_000 - 2_000 < small.verdicts.size <= 100_000
    before = len(small.verdicts)
    small(body(pod(annotations={"n": "x" * 2_000})), POLICY)
    assert len(small.verdicts) == before


def test_a_fault_of_ours_is_not_remembered() -> None:
    """A pod on which `decide` failed is judged anew each time, and reported each time."""
    failing = Remembering(broken)
    for _ in range(2):
        given_ = failing(body(), POLICY)
        assert isinstance(given_.bug, LookupError)
        assert given_.reason is Reason.BAD_REQUEST
    assert len(failing.verdicts) == 0


def test_servers_share_nothing() -> None:
    """Each call makes a memory of its own, and nothing is kept beside it."""
    one, other = remembering(), remembering()
    one(body(), POLICY)
    assert (len(one.verdicts), len(other.verdicts)) == (1, 0)


@pytest.mark.parametrize("job", [MODERN, OLD, Job(master=False), MODERN.but(ask={"mode": "typo"})])
def test_what_came_before_leaves_no_trace(job: Job) -> None:
    """Contract 9.6: a pod gets the same answer from a server that has seen a thousand others and from a new one."""
    old = Remembering()
    for path in RECORDED[::5]:
        old(path.read_bytes(), POLICY)
    for data in of_nodes(job):
        assert old(data, POLICY) == Remembering()(data, POLICY) == respond(data, POLICY)

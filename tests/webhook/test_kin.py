"""Pods of one job are decided on by what is known of the first: exactly as if each were the first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support_core import MODERN, OLD, Job, entries
from tests.webhook.test_properties import COMMANDS, POLICIES, jobs, quick
from tests.webhook.test_remembering import compact, of_nodes, same
from webhook import kin
from webhook.mutate import Remembering, patched, respond
from webhook.policy import Policy
from webhook.review import review_of

if TYPE_CHECKING:
    from webhook.envelope import Essence

MANY = MODERN.but(pods=9)
HIDDEN = ("bash", "run.sh")
FED = ("torchrun", "--nnodes=$(WORLD_SIZE)", "--node_rank=$(RANK)", "train.py")


@pytest.mark.parametrize(
    ("job", "hits"),
    [
        (MANY, 7),
        (MANY.but(nproc="1"), 7),
        (MANY.but(command=FED), 7),
        (MANY.but(command=HIDDEN), 7),
        (MANY.but(command=("composer", "train.py")), 7),
        (MANY.but(command=("torchrun", "train.py")), 7),
        (MANY.but(command=None, gpus=3), 7),
        (MANY.but(operator="1.5"), 7),
        (MANY.but(operator="0.7"), 7),
        (MANY.but(ask={"nproc_per_node": "master=2,worker=4"}), 7),
        (MANY.but(ask={"nproc_per_node": "master=1,worker=2"}), 7),
        (MANY.but(ask={"mode": "auto"}), 7),
        (MANY.but(env=tuple(entries({"RANK": "x", "MINE": "$(RANK)"}))), 7),
        (MANY.but(command=("torchrun", "--nnodes=9", "--node_rank=3", "train.py")), 0),
        (MANY.but(env=tuple(entries({"NODE_RANK": "4"}))), 0),
        (MANY.but(env=tuple(entries({"RANK": "2"}))), 0),
        (MANY.but(names=("pytorch", "pytorch-1")), 0),
        (MANY.but(master=False), 0),
        (MANY.but(elastic="8:8"), 0),
        (MANY.but(ask={"mode": "process"}), 0),
        (MANY.but(ask={"mode": "torchrun"}), 0),
        (MANY.but(ask={"mode": "audit"}), 0),
        (MANY.but(ask={"mode": "typo"}), 0),
        (MANY.but(ask={"init_containers": "true"}), 0),
        (MANY.but(ask={"status": "unchanged"}), 0),
        (MANY.but(command=HIDDEN, pods=1), 0),
        (OLD.but(pods=9, command=("torchrun", "train.py")), 0),
    ],
)
def test_which_pods_have_kin(job: Job, hits: int) -> None:
    """The workers after the first one, where nothing but numbers depends on the rank; with the same answers."""
    bodies = of_nodes(job)
    remembering = Remembering()
    for data in bodies:
        assert remembering(data, Policy()) == respond(data, Policy())
    assert remembering.kin.hits == hits
    same(remembering, bodies)


ODDITIES = st.fixed_dictionaries(
    {},
    optional={
        "NODE_RANK": st.sampled_from(["0", "1", "2"]),
        "RANK": st.sampled_from(["0", "1", "2", "x", ""]),
        "PET_NODE_RANK": st.sampled_from(["0", "1", "03"]),
        "LOCAL_WORLD_SIZE": st.sampled_from(["1", "2", "4"]),
        "WORLD_SIZE": st.sampled_from(["2", "4", "8"]),
        "MINE": st.sampled_from(["$(RANK)", "1"]),
    },
)


@quick
@given(
    jobs(
        pods=st.sampled_from([2, 3, 6, 10]),
        names=st.just(("pytorch",)),
        command=st.sampled_from(COMMANDS),
        annotations=st.fixed_dictionaries(
            {}, optional={"rankfix/nproc-per-node": st.sampled_from(["1", "2", "master=1,worker=2"]), "a": st.just("b")}
        ),
    ),
    ODDITIES,
    ODDITIES,
    POLICIES,
    st.randoms(use_true_random=False),
)
def test_kin_show_in_no_answer(
    job: Job, before: dict[str, str], after: dict[str, str], policy: Policy, order: Any
) -> None:
    """Whatever the job and whoever comes first, with entries of others around the operator's, and after our patch."""
    pods = job.all_pods()
    for raw in pods:
        (container,) = raw["spec"]["containers"]
        container["env"] = [*entries(before), *container["env"], *entries(after)]
    pods += [patched(raw, respond(compact(review_of(raw, uid="u")), policy).patch) for raw in pods]
    bodies = [compact(review_of(raw, uid="u")) for raw in pods]
    order.shuffle(bodies)
    same(Remembering(), bodies, policy)


def test_a_rank_that_cannot_be() -> None:
    """A number beyond the job's pods is inconsistent, however well its kin did."""
    remembering = Remembering()
    for data in of_nodes(MANY):
        remembering(data, Policy())
    raw = json.loads(json.dumps(MANY.pod(8)).replace('"8"', '"9"').replace('-index": "7"', '-index": "8"'))
    same(remembering, [compact(review_of(raw))])
    assert remembering(compact(review_of(raw)), Policy()).reason == "inconsistent"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"RANK","value":"4"', b'"RANK","value":"04"'),
        (b'"RANK","value":"4"', b'"RANK", "value":"4"'),
        (b'"RANK","value":"4"', b'"RANK","value":4'),
        (b'"RANK","value":"4"', b'"RANK","value":"4","value":"5"'),
        (b'"RANK","value":"4"', b'"RANK","value":"4","valueFrom":{}'),
        (b'"name":"RANK","value":"4"', b'"value":"4","name":"RANK"'),
        (b'"PET_NODE_RANK","value":"4"', b'"PET_NODE_RANK","value":"5"'),
        (b'replica-index":"3"', b'replica-index":"4"'),
        (b'replica-index":"3"', b'replica-index":"3","replica-index":"7"'),
        (b'replica-index":"3"', b'x":"3"'),
        (b'replica-index":"3"', b'replica-index":"03"'),
        (b'replica-index":"3"', b'replica\\u002dindex":"3"'),
        (b'"RANK","value":"4"', b'"R\\u0041NK","value":"4"'),
        (b'"name":"RANK","value":"4"', b'"n\\u0061me":"RANK","value":"4"'),
        (b'"PET_NODE_RANK","value":"4"', b'"PET_NODE_R\\u0041NK","value":"4"'),
        (b'"image":', b'"x":{"name":"RANK","value":"4"},"image":'),
        (b'"image":', b'"workingDir":"\\"name\\":\\"RANK\\",\\"value\\":\\"4\\"","image":'),
    ],
)
def test_odd_writing(old: bytes, new: bytes) -> None:
    """Ranks and indices that aren't written as an operator writes them lead to the answer that they would get alone."""
    bodies = of_nodes(MANY.but(nproc="1"))
    odd = [data.replace(old, new) for data in bodies]
    assert odd[4] != bodies[4]
    same(Remembering(), [*bodies[:4], *odd, *bodies[4:]])
    # what wasn't cut stays as it is while the other ranks go on
    rest = [odd[4].replace(b'"RANK","value":"4"', b'"RANK","value":"%d"' % k) for k in range(5, 8)]
    rest += [one.replace(b'replica-index":"3"', b'replica-index":"%d"' % (k - 1)) for k, one in enumerate(rest, 5)]
    rest += [
        one.replace(b'NODE_RANK","value":"4"', b'NODE_RANK","value":"%d"' % (4 + k % 4)) for k, one in enumerate(rest)
    ]
    same(Remembering(), [odd[4], *rest])


def test_what_is_cut() -> None:
    """Values only, and everything else is a part of the key."""
    parts: Essence = (b'{"replica-index":"0"}', b"", b"", b'[{"name":"RANK","value":"1"}]', b"")
    family, rank = kin.cut(parts)
    assert (family is not None, rank) == (True, 1)
    assert kin.cut((*parts[:3], parts[3].replace(b"1", b"2"), b"")) != (family, 2)  # the index differs by more
    assert kin.cut((parts[0].replace(b"0", b"1"), *parts[1:3], parts[3].replace(b"1", b"2"), b"")) == (family, 2)
    assert kin.cut((b"", b"", b"", b"[]", b"")) == (None, -1)

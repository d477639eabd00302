"""`webhook.siblings`: from the fourth pod of a job on nothing is decided again, and nobody can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support_core import MODERN, Job, entries
from tests.webhook.test_remembering import of_nodes
from webhook import kin
from webhook.mutate import Remembering, respond
from webhook.policy import Policy

if TYPE_CHECKING:
    from webhook.result import Decision

MANY = MODERN.but(pods=40)
FED = ("torchrun", "--nnodes=$(WORLD_SIZE)", "--node_rank=$(RANK)", "train.py")
TORCHRUN = ("torchrun", "train.py")


@pytest.mark.parametrize(
    ("job", "decisions"),
    [
        (MANY, 6),
        (MANY.but(nproc="1"), 6),
        (MANY.but(command=FED), 6),
        (MANY.but(command=("bash", "run.sh")), 6),
        (MANY.but(command=TORCHRUN), 6),
        (MANY.but(operator="1.5"), 6),
        (MANY.but(operator="0.7"), 6),
        (MANY.but(ask={"nproc_per_node": "master=2,worker=4"}), 6),
        (MANY.but(ask={"nproc_per_node": "master=4,worker=1"}), 6),
        (MANY.but(ask={"nproc_per_node": "master=1,worker=2"}), 41),  # the pair of rank 1 is right, and no other
        (MANY.but(env=tuple(entries({"MINE": "100%"}))), 6),
        (MANY.but(pods=8), 6),  # nothing is left that would make up for it
        (MANY.but(pods=9), 6),
        (MANY.but(pods=3), 1),
    ],
)
@pytest.mark.parametrize("step", [1, 2, 7, 39])
def test_nothing_is_decided_twice(job: Job, decisions: int, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three pods by the rules, three ranks to find what is common, and then the other forty; whoever comes first."""
    made, decided = [], kin.decided

    def counted(first: kin.Kin, rank: int) -> Decision | None:
        made.append(rank)
        return decided(first, rank)

    monkeypatch.setattr(kin, "decided", counted)
    bodies = [one for start in range(step) for one in of_nodes(job)[::-1][start::step]]
    memory = Remembering()
    for data in bodies:
        assert memory(data, Policy()) == respond(data, Policy())
    assert len(made) == decisions


def test_a_rank_that_the_job_cannot_have() -> None:
    """A pod that says that it's the fortieth of forty, counted from 0, is judged by itself."""
    bodies = of_nodes(MANY)
    memory = Remembering()
    for data in bodies[:9]:
        memory(data, Policy())
    for rank in (40, 41, 10**8):
        odd = bodies[5].replace(b'RANK","value":"5"', b'RANK","value":"%d"' % rank)
        odd = odd.replace(b'replica-index":"4"', b'replica-index":"%d"' % (rank - 1))
        assert odd != bodies[5]
        assert memory(odd, Policy()) == respond(odd, Policy())
        assert memory(odd, Policy()).reason == "inconsistent"

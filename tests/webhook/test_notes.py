"""The annotations: what users may ask for, what is refused, and what an earlier call wrote."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support_core import Job
from webhook import notes, pod
from webhook.errors import Refused
from webhook.notes import Asked, Earlier, Procs
from webhook.policy import Mode, Status


def asked(**ask: Any) -> Asked:
    """What a pod with these annotations asks for."""
    return notes.asked(pod.read(Job(names=("pytorch", "side")).but(ask=ask).pod()))


@pytest.mark.parametrize(
    ("ask", "found"),
    [
        ({}, Asked()),
        ({"mode": "process"}, Asked(mode=Mode.PROCESS)),
        ({"mode": "off"}, Asked(mode=Mode.OFF)),
        ({"nproc_per_node": "1"}, Asked(procs=Procs(1, 1))),
        ({"nproc_per_node": "9999"}, Asked(procs=Procs(9999, 9999))),
        ({"nproc_per_node": "gpu"}, Asked(gpu=True)),
        ({"nproc_per_node": "master=1,worker=2"}, Asked(procs=Procs(1, 2))),
        ({"containers": "pytorch"}, Asked(containers=frozenset({"pytorch"}))),
        ({"containers": "side, pytorch"}, Asked(containers=frozenset({"side", "pytorch"}))),
        ({"init_containers": "true"}, Asked(init_containers=True)),
        ({"init_containers": "false"}, Asked()),
        ({"status": "anything", "rules": "x", "ranks": 3, "reason": None}, Asked()),
    ],
)
def test_what_is_asked_is_read(ask: dict[str, Any], found: Asked) -> None:
    """Each annotation of ours has its values; the result annotations ask for nothing."""
    assert asked(**ask) == found


ODD: tuple[Any, ...] = (None, 4, [], {}, True)
BAD_MODES: tuple[Any, ...] = ("", "Auto", "proces", " auto", "auto ", "on", *ODD)
BAD_NAMES: tuple[Any, ...] = ("", ",", "pytorch,", "nobody", "pytorch,nobody", "PyTorch", *ODD)
BAD_N = ("0", "00", "01", "10000", "-1", "+1", "1.0", " 1", "1 ", "1\n", "٣", "1_0", "many", "GPU", "", "auto")
BAD_UNEQUAL = (
    "master=1",
    "worker=1",
    "master=0,worker=1",
    "master=1,worker=",
    "worker=2,master=1",
    "master=1, worker=2",
)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("mode", odd) for odd in BAD_MODES),
        *(("nproc_per_node", odd) for odd in (*BAD_N, *BAD_UNEQUAL, *ODD)),
        *(("containers", odd) for odd in BAD_NAMES),
        *(("init_containers", odd) for odd in ("True", "yes", "1", "", *ODD)),
        *((key, "x") for key in ("modes", "Mode", "", "nproc", "a~b/c")),
    ],
)
def test_what_cant_be_obeyed_is_refused(key: str, value: object) -> None:
    """The refusal names the annotation and says what is allowed."""
    with pytest.raises(Refused, match=r"allowed: ") as refusal:
        asked(**{key: value})
    assert f"rankfix/{key.replace('_', '-')}" in str(refusal.value)


def test_annotations_of_others_are_nobodys_business() -> None:
    """Only our prefix is read."""
    view = pod.read({"metadata": {"annotations": {"rankfix": "x", "rankfixed/mode": "y", "x/rankfix/mode": "z"}}})
    assert notes.asked(view) == Asked()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({}, Earlier()),
        ({notes.RULES: "C1"}, Earlier()),
        (
            {notes.STATUS: "process", notes.RULES: "C1,A1", notes.RANKS: "k=1 P=2 N=4 ranks=4-7/8"},
            Earlier(Status.PROCESS, ("C1", "A1"), 1, 2, 4, 7, 8),
        ),
        (
            {notes.STATUS: "environment", notes.RULES: "A1", notes.RANKS: "k=0 P=3 ranks=0-0/3"},
            Earlier(Status.ENVIRONMENT, ("A1",), 0, 3, 0, 0, 3),
        ),
        ({notes.STATUS: "unchanged", notes.REASON: "elastic"}, Earlier(Status.UNCHANGED)),
        ({notes.STATUS: "happy", notes.RULES: "", notes.RANKS: "k=x"}, Earlier()),
        ({notes.STATUS: [], notes.RULES: {}, notes.RANKS: 3}, Earlier()),
    ],
)
def test_earlier_results_are_read(written: dict[str, Any], read: Earlier) -> None:
    """What rankfix wrote is read back; anything else there counts as absent."""
    assert notes.earlier(pod.read({"metadata": {"annotations": written}})) == read


@pytest.mark.parametrize(("status", "changed"), [("process", True), ("environment", True), ("unchanged", False)])
def test_some_earlier_results_changed_the_pod(status: str, *, changed: bool) -> None:
    """A pod that was looked at and left alone has a status, too."""
    assert Earlier(Status(status)).changed is changed
    assert Earlier().changed is False


@pytest.mark.parametrize(("procs", "text"), [(4, "k=1 P=2 N=4 ranks=4-7/8"), (None, "k=1 P=2 ranks=4-7/8")])
def test_ranks_are_written_as_they_are_read(procs: int | None, text: str) -> None:
    """The annotation for people is also what the next call reads; an undeclared N isn't made up."""
    assert notes.ranks((1, 2), procs, (4, 7), 8) == text
    read = notes.earlier(pod.read({"metadata": {"annotations": {notes.STATUS: "process", notes.RANKS: text}}}))
    assert (read.node, read.pods, read.first, read.last, read.world) == (1, 2, 4, 7, 8)


def test_equal_sizes() -> None:
    """Equal means that Master and Workers run equally many."""
    assert Procs(2, 2).equal
    assert not Procs(1, 2).equal

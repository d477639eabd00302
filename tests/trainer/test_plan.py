"""`trainer.plan`: pure functions of seed, epoch, step and rank."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer import plan
from trainer.errors import LaunchError

WORLDS = st.integers(1, 40)


@given(st.integers(0, 500), st.integers(0, 500), WORLDS)
def test_shares_tile_the_whole(start: int, length: int, world: int) -> None:
    """The shares of all ranks are the whole, in order, none larger than another by more than one."""
    shares = [plan.share(start, start + length, rank, world) for rank in range(world)]
    assert [place for first, last in shares for place in range(first, last)] == list(range(start, start + length))
    sizes = [last - first for first, last in shares]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 400), st.integers(1, 50), st.integers(1, 5))
def test_batches_of_an_epoch_do_not_overlap(images: int, batch: int, epochs: int) -> None:
    """Each epoch takes whole batches from the start of its order, and no image twice."""
    if batch > images:
        return
    made = plan.make_plan(images, batch, epochs, 1)
    assert made.steps == made.steps_per_epoch * epochs
    for epoch in range(epochs):
        steps = [step for step in range(made.steps) if made.epoch_of(step) == epoch]
        places = [place for step in steps for place in range(*made.batch_of(step))]
        assert places == list(range(made.steps_per_epoch * batch))
        assert len(places) <= images < len(places) + batch


@pytest.mark.parametrize(("images", "batch", "world", "word"), [(100, 128, 1, "--batch"), (100, 2, 3, "--batch")])
def test_plans_without_work_for_all_are_refused(images: int, batch: int, world: int, word: str) -> None:
    """A batch larger than the data, or smaller than the world, is refused with what to change."""
    with pytest.raises(LaunchError, match=word):
        plan.make_plan(images, batch, 1, world)


def test_one_cycle_rises_and_falls() -> None:
    """The rate starts low, has its peak a quarter in, and ends near nothing."""
    rates = [plan.one_cycle(step, 401, 0.01) for step in range(401)]
    assert rates[0] == pytest.approx(0.0004)
    assert rates[100] == max(rates) == pytest.approx(0.01)
    assert rates[:101] == sorted(rates[:101])
    assert rates[100:] == sorted(rates[100:], reverse=True)
    assert 0 < rates[-1] < 2e-6
    assert plan.one_cycle(0, 1, 0.01) > 0


@given(st.integers(), st.integers(0, 1000), st.sampled_from(["order", "augment"]))
def test_streams_differ(seed: int, number: int, purpose: str) -> None:
    """Another seed, purpose or number is another stream; every one fits a torch generator."""
    own = plan.stream(seed, purpose, number)
    assert 0 <= own < 2**63
    others = {
        plan.stream(seed + 1, purpose, number),
        plan.stream(seed, purpose, number + 1),
        plan.stream(seed, "x", number),
    }
    assert own not in others
    assert own == plan.stream(seed, purpose, number)


@given(st.integers(1, 100))
def test_the_last_epoch_is_evaluated(epochs: int) -> None:
    """However many epochs: the end is always measured, and at most some dozen times in all."""
    made = plan.make_plan(10, 1, epochs, 1)
    evaluated = [epoch for epoch in range(epochs) if made.evaluates(epoch)]
    assert evaluated[-1] == epochs - 1
    assert len(evaluated) <= 12


@pytest.mark.parametrize(("images", "epochs"), [(60_000, 4), (10_000, 15), (5_000, 20), (64, 20)])
def test_small_sets_get_more_epochs(images: int, epochs: int) -> None:
    """Enough passes for 99 % where the images allow it."""
    assert plan.default_epochs(images) == epochs

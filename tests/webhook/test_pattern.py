"""`webhook.pattern`: numbers that go up by equal steps are seen as such, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.pattern import learn

LINES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10**6)), max_size=4)
WORDS = st.lists(
    st.text(st.characters(exclude_categories=["Nd", "Cs"]), min_size=1, max_size=5), min_size=5, max_size=5
)


@given(WORDS, LINES, st.sets(st.integers(1, 10**4), min_size=3, max_size=5), st.integers(1, 10**9))
def test_what_is_learnt_holds_for_every_rank(
    words: list[str], lines: list[tuple[int, int]], ranks: set[int], rank: int
) -> None:
    """Whatever stands around the numbers, a per cent sign too, and whichever ranks were looked at."""

    def text(k: int) -> bytes:
        numbers = [str(step * k + start) for step, start in lines]
        return "".join(word + number for word, number in zip(words, [*numbers, *"7%"], strict=False)).encode()

    found = learn([(k, text(k)) for k in ranks])
    assert found is not None
    assert found.at(rank) == text(rank)


@pytest.mark.parametrize(
    "texts",
    [
        [b"a1", b"a2", b"a4"],
        [b"a1", b"a2", b"a2"],
        [b"a1", b"b2", b"a3"],
        [b"a1", b"a2", b"b3"],
        [b"a1b", b"a2", b"a3"],
        [b"a1", b"a2b5", b"a3"],
        [b"a01", b"a02", b"a03"],
        [b"a1 5", b"a2 7", b"a3 8"],
    ],
)
def test_what_has_no_pattern(texts: list[bytes]) -> None:
    """Steps that differ, other words, more numbers, numbers with zeros ahead."""
    assert learn(list(enumerate(texts, 1))) is None

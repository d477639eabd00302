"""A bounded memory: what is found, what goes, and how large it gets."""

from __future__ import annotations

from webhook.recent import Recent


def test_what_is_kept_is_found() -> None:
    """A value by its key; hits and misses are counted."""
    recent: Recent[str, int] = Recent(most=10, most_size=1000)
    assert recent.get("a") is None
    recent.keep("a", 1, 10)
    assert (recent.get("a"), recent.hits, recent.misses) == (1, 1, 1)
    recent.keep("a", 2, 5)
    assert (recent.get("a"), len(recent), recent.size) == (2, 1, 5)


def test_the_longest_unused_goes_first() -> None:
    """By number: what was asked for lately stays."""
    recent: Recent[str, int] = Recent(most=2, most_size=1000)
    for key in "ab":
        recent.keep(key, 0, 1)
    recent.get("a")
    recent.keep("c", 0, 1)
    assert [recent.get(key) for key in "abc"] == [0, None, 0]


def test_the_size_is_bounded() -> None:
    """By size: several small ones go for a larger one, and what is too large for all of it is never kept."""
    recent: Recent[int, int] = Recent(most=10_000, most_size=1000)
    for key in range(500):
        recent.keep(key, key, 3)
    assert (len(recent), recent.size) == (333, 999)
    recent.keep(500, 500, 10)
    assert (recent.get(500), recent.size) == (500, 1000)
    assert recent.get(169) is None
    recent.keep(501, 501, 11)
    assert recent.get(501) is None


def test_forgetting() -> None:
    """Everything goes."""
    recent: Recent[str, int] = Recent(most=2, most_size=1000)
    recent.keep("a", 0, 1)
    recent.forget()
    assert (recent.get("a"), len(recent), recent.size) == (None, 0, 0)

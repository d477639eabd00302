"""From what the processes of all pods will be to a job's verdict: do they find together, without rankfix and with?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from webhook.explained import Outlook, Verdict, Word

_MOST = 4  # ranges in one sentence
_MOST_RANKS = 1_000_000  # of a world that is looked at rank by rank


@dataclass(frozen=True, slots=True)
class Terms:
    """What of the decisions a headline depends on; `unclear`: rankfix asks the owner for a word."""

    changed: bool = False
    refused: bool = False
    off: bool = False
    audit: bool = False
    unclear: bool = False


def of(before: Sequence[Outlook], after: Sequence[Outlook], terms: Terms) -> Verdict:
    """The verdict, from the outlook of each training container of each pod."""
    word, without = together(before)
    repaired_word, repaired = together(after)
    return {
        "before": word,
        "after": repaired_word,
        "without": without,
        "repaired": repaired,
        "headline": _headline(word, repaired_word, terms),
    }


def _headline(before: Word, after: Word, terms: Terms) -> str:
    if terms.refused:
        return "refused"
    if terms.off:
        return "left alone, as it asks"
    if terms.audit:
        return "only audited: would be repaired" if terms.changed and before != after else "only audited"
    if terms.unclear and after == "unknown":
        return "unclear, and needs a word from you"
    match before, after:
        case "works", "works":
            return "works without rankfix, too" if terms.changed else "right as it is"
        case _, "works":
            return "repaired"
        case _, "broken":
            return "broken, and rankfix can't repair it by itself"
    return "left to its own reading"


def together(outlooks: Sequence[Outlook]) -> tuple[Word, str]:
    """Whether processes with these outlooks form one group, and in words what becomes of them."""
    kinds = {outlook["kind"] for outlook in outlooks}
    for bad in ("fails", "waits"):
        found = next((outlook for outlook in outlooks if outlook["kind"] == bad), None)
        if found is not None:
            return "broken", found["text"]
    if not outlooks or "unknown" in kinds:
        return "unknown", next((o["text"] for o in outlooks if o["kind"] == "unknown"), "nothing in it trains")
    if kinds == {"alone"}:
        return ("broken", f"{_each(len(outlooks))} alone") if len(outlooks) > 1 else ("works", outlooks[0]["text"])
    if kinds == {"given"}:
        return "works", f"ranks are {outlooks[0]['text']}"
    if len(kinds) > 1:
        return "unknown", "its pods are started in different ways"
    return _counted(outlooks, "node" if "nodes" in kinds else "rank")


def _each(pods: int) -> str:
    return "both pods train" if pods == 2 else f"all {pods} pods train"  # noqa: PLR2004 - what "both" means


def _counted(outlooks: Sequence[Outlook], what: str) -> tuple[Word, str]:
    """Whether ranks (or node ranks) number 0..world-1, each once."""
    worlds = {outlook["world"] for outlook in outlooks}
    if len(worlds) > 1:
        return "broken", f"its pods disagree on how many {what}s there are"
    world = outlooks[0]["world"] or 0
    if world > _MOST_RANKS:
        return "unknown", f"more {what}s than are looked at"
    seen = Counter(rank for outlook in outlooks for rank in _range(outlook))
    beyond = [rank for rank in seen if rank >= world]
    if beyond:
        return "broken", f"{what}s up to {max(beyond)} in a world of {world}"
    twice = [rank for rank in sorted(seen) if seen[rank] > 1]
    missing = [rank for rank in range(world) if rank not in seen]
    if not (twice or missing):
        return "works", f"{what} 0 of 1" if world == 1 else f"{what}s 0-{world - 1} of {world}, each once"
    if not missing:
        return "broken", f"{_come(what, twice)} more than once"
    often = f"{_come('', twice)} more than once and " if twice else ""
    return "broken", f"of {what}s 0-{world - 1}, {often}{_numbers(missing)} never"


def _come(what: str, ranks: Sequence[int]) -> str:
    one = len(ranks) == 1
    return f"{what and f'{what} ' if one else what and f'{what}s '}{_numbers(ranks)} {'comes' if one else 'come'}"


def _range(outlook: Outlook) -> range:
    return range(outlook["first"] or 0, (outlook["last"] or 0) + 1)


def _numbers(ranks: Sequence[int]) -> str:
    runs = list(_runs(ranks))
    texts = [f"{first}" if first == last else f"{first}-{last}" for first, last in runs[:_MOST]]
    return f"{', '.join(texts)}{', ...' if len(runs) > _MOST else ''}"


def _runs(ranks: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = ranks[0]
    for rank in ranks[1:]:
        if rank != last + 1:
            yield first, last
            first = rank
        last = rank
    yield first, last

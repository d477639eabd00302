"""The closed sets of words that cases are written in, and results are told in."""

from __future__ import annotations

from enum import StrEnum

from webhook.launched import LaunchClass
from webhook.policy import Mode, Reason, Status
from webhook.rules import ALL_RULES


class Arm(StrEnum):
    """What is done to a job's pods before they start."""

    OPERATOR = "operator"
    RANKFIX = "rankfix"
    NAIVE = "naive"
    POLICY = "policy"
    ANNOTATED = "annotated"


class Outcome(StrEnum):
    """What becomes of a job, in the order of how it is decided: the first that holds counts."""

    DENIED = "denied"  # no pods: the API server refuses them
    CRASH = "crash"  # a container ended by itself with a code other than 0
    HANG = "hang"  # something waits that will never come, or gave up waiting
    TOGETHER = "together"  # every process in one group, every pod taking part, each rank once
    ALONE = "alone"  # each pod trained, but none with another
    DUPLICATE = "duplicate"  # a rank, or a shard of the data, was held by two
    PARTIAL = "partial"  # some took part


NOT_OURS = frozenset({"not-ours", "off"})  # reasons that leave no annotation
RULE_IDS = tuple(rule.id for rule in ALL_RULES)
STATUSES = tuple(status.value for status in Status)
REASONS = tuple(reason.value for reason in Reason)
WARNING = "warning"
# What `covers` may name, where the contract closes the set; other kinds (wrapper, family, change) are free.
COVERED = {
    "class": frozenset(cls.value for cls in LaunchClass),
    "rule": frozenset(RULE_IDS),
    "mode": frozenset(mode.value for mode in Mode),
}
FREE = frozenset({"wrapper", "family", "change", "form"})

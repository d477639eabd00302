"""What can be counted from outside. No label has values that users make up: no namespace, job, pod or image."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

BUCKETS = (0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The counters, on the registry that is handed in."""

    def __init__(self, registry: CollectorRegistry, *, version: str) -> None:
        self._registry = registry
        answers = Counter(
            "rankfix_requests", "Reviews answered, by outcome and reason.", ["outcome", "reason"], registry=registry
        )
        rules = Counter("rankfix_rules", "Rules of the rank contract that fired.", ["rule"], registry=registry)
        classes = Counter("rankfix_classes", "Managed containers, by how they start.", ["class"], registry=registry)
        self._refused = Counter(
            "rankfix_refused", "HTTP requests to /mutate that got no review, by cause.", ["cause"], registry=registry
        )
        self._bugs = Counter("rankfix_bugs", "Reviews on which rankfix itself failed.", registry=registry)
        self._duration = Histogram(
            "rankfix_duration_seconds", "From the whole body to the answer.", buckets=BUCKETS, registry=registry
        )
        # The sets of values are closed and small, and `labels` costs more than `inc`
        self._answer, self._rule, self._class = (functools.cache(family.labels) for family in (answers, rules, classes))
        self._reloads = Counter(
            "rankfix_certificate_reloads",
            "Changes of the certificate files, by outcome.",
            ["outcome"],
            registry=registry,
        )
        build = Gauge("rankfix_build_info", "Always 1; says which version runs.", ["version"], registry=registry)
        build.labels(version).set(1)

    def answered(
        self, *, outcome: str, reason: str, rules: Iterable[str], classes: Iterable[str], seconds: Sequence[float]
    ) -> None:
        """Count reviews that were alike, one for each of `seconds`: `outcome` is changed, unchanged or denied."""
        times = len(seconds)
        self._answer(outcome, reason).inc(times)
        for rule in rules:
            self._rule(rule).inc(times)
        for name in classes:
            self._class(name).inc(times)
        for each in seconds:
            self._duration.observe(each)

    def refused(self, cause: str) -> None:
        """Count a request that got no review."""
        self._refused.labels(cause).inc()

    def bug(self) -> None:
        """Count a fault of our own."""
        self._bugs.inc()

    def follow_certificate(self, seconds_left: Callable[[], float]) -> None:
        """Show how long the certificate that is served is still valid, and which changes of it there were."""
        left = Gauge(
            "rankfix_certificate_seconds_left",
            "Until the certificate that is served expires; negative when it has.",
            registry=self._registry,
        )
        left.set_function(seconds_left)
        for outcome in ("loaded", "refused"):
            self._reloads.labels(outcome)

    def certificate(self, outcome: str) -> None:
        """Count a change of the certificate files: `loaded` or `refused`."""
        self._reloads.labels(outcome).inc()

    def render(self) -> bytes:
        """Everything on the registry, in the Prometheus text format."""
        return generate_latest(self._registry)

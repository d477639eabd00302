"""What can be counted from outside. No label has values that users make up: no namespace, job, pod or image.

Several processes of one server count in files that they share, each in its own, and each can show the sum.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections import Counter as Places
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

BUCKETS = (0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (256, 512, 1024, 2048, 4096, 8192, 16_384, 65_536, 262_144, 1_048_576)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # by which prometheus-client is told, before it's imported, where to count


def share(slot: int) -> None:
    """Let this process count in the files of `slot` in the folder that VARIABLE names, where the one before in it left
    off. Called before there is any metric.
    """
    values.ValueClass = values.MultiProcessValue(lambda: slot)  # type: ignore[no-untyped-call] # as its documentation says


def gone(slot: int, folder: Path) -> None:
    """The process of `slot` has ended: what it had open is open no more."""
    multiprocess.mark_process_dead(slot, str(folder))  # type: ignore[no-untyped-call] # a library without its types


class _Histogram(Histogram):
    """A histogram that takes many values at once: the library's own takes locks, and goes through its bounds, for each.

    It counts where the library does, in the sum and in the bucket of the first bound that isn't below a value.
    """

    def observe_all(self, amounts: Sequence[float]) -> None:
        """As `observe` for each of them."""
        self._sum.inc(sum(amounts))
        for place, count in Places(bisect_left(self._upper_bounds, amount) for amount in amounts).items():
            self._buckets[place].inc(count)


class Metrics:
    """The counters, on the registry that is handed in; in the files of `shared`, where that is a folder."""

    def __init__(self, registry: CollectorRegistry, *, version: str, shared: Path | None = None) -> None:
        self._registry = registry
        self._shared = shared
        self._watched: list[Callable[[], None]] = []
        answers = self._counter("requests", "Reviews answered, by outcome and reason.", "outcome", "reason")
        rules = self._counter("rules", "Rules of the rank contract that fired.", "rule")
        classes = self._counter("classes", "Managed containers, by how they start.", "class")
        # The sets of values are closed and small, and `labels` costs more than `inc`
        self._answer, self._rule, self._class = (functools.cache(family.labels) for family in (answers, rules, classes))
        self._refused = self._counter("refused", "HTTP requests to /mutate that got no review, by cause.", "cause")
        self._ended = self._counter("connections_ended", "Connections that were ended early, by cause.", "cause")
        self._bugs = self._counter("bugs", "Reviews on which rankfix itself failed.")
        self._reloads = self._counter("certificate_reloads", "Changes of the certificate files, by outcome.", "outcome")
        self._hits = self._counter("cache_hits", "What was known already, by cache.", "cache")
        self._misses = self._counter("cache_misses", "What was worked out anew, by cache.", "cache")
        self._duration = self._histogram("duration_seconds", "From the whole body to the answer.", BUCKETS)
        self._patches = self._histogram("patch_bytes", "Size of answers that hold a patch.", SIZES)
        self._gauge("build_info", "Always 1; says which version runs.", "livemax", "version").labels(version).set(1)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"rankfix_{name}", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: Iterable[float]) -> _Histogram:
        return _Histogram(f"rankfix_{name}", text, buckets=tuple(buckets), registry=self._registry)

    def _gauge(self, name: str, text: str, over_all: str, *labels: str) -> Gauge:
        return Gauge(f"rankfix_{name}", text, labels, registry=self._registry, multiprocess_mode=over_all)  # type: ignore[arg-type] # one of its words

    def answered(  # noqa: PLR0913 - all that is counted of one review
        self,
        *,
        outcome: str,
        reason: str,
        rules: Iterable[str],
        classes: Iterable[str],
        seconds: Sequence[float],
        patch_bytes: Sequence[int] = (),
    ) -> None:
        """Count reviews that were alike, one for each of `seconds`: `outcome` is changed, unchanged or denied.

        `patch_bytes` are the sizes of those answers that hold a patch.
        """
        times = len(seconds)
        self._answer(outcome, reason).inc(times)
        for rule in rules:
            self._rule(rule).inc(times)
        for name in classes:
            self._class(name).inc(times)
        self._duration.observe_all(seconds)
        self._patches.observe_all(patch_bytes)

    def refused(self, cause: str) -> None:
        """Count a request that got no review."""
        self._refused.labels(cause).inc()

    def ended(self, cause: str) -> None:
        """Count a connection that was ended before its time."""
        self._ended.labels(cause).inc()

    def bug(self) -> None:
        """Count a fault of our own."""
        self._bugs.inc()

    def follow_certificate(self, seconds_left: Callable[[], float]) -> None:
        """Show how long the certificate that is served is still valid, and which changes of it there were."""
        self._follow(
            "certificate_seconds_left",
            "Until the certificate that is served expires; negative when it has.",
            "livemin",
            seconds_left,
        )
        for outcome in ("loaded", "refused"):
            self._reloads.labels(outcome)

    def certificate(self, outcome: str) -> None:
        """Count a change of the certificate files: `loaded` or `refused`."""
        self._reloads.labels(outcome).inc()

    def follow_load(self, *, requests: Callable[[], float], connections: Callable[[], float]) -> None:
        """Show how much there is at this moment."""
        self._follow("in_flight", "Requests to /mutate whose bodies are on their way.", "livesum", requests)
        self._follow("connections", "Open connections, handshakes included.", "livesum", connections)

    def follow_cache(self, cache: str, uses: Callable[[], tuple[int, int]]) -> None:
        """Count how often something was known already (hits) and not (misses), as `uses` says it over all time."""
        kinds = (self._hits.labels(cache), self._misses.labels(cache))
        seen = [0, 0]

        def refresh() -> None:
            for index, (kind, count) in enumerate(zip(kinds, uses(), strict=True)):
                kind.inc(count - seen[index])
                seen[index] = count

        self.watch(refresh)

    def restarted(self, times: int) -> None:
        """Count the processes that were started in place of one that had ended."""
        self._counter("worker_restarts", "Worker processes started in place of one that had ended.").inc(times)

    def _follow(self, name: str, text: str, over_all: str, read: Callable[[], float]) -> None:
        gauge = self._gauge(name, text, over_all)
        gauge.set(read())  # the others may show it from this moment
        self.watch(lambda: gauge.set(read()))

    def watch(self, look: Callable[[], None]) -> None:
        """Have `look` called before the figures are shown, and now and then."""
        self._watched.append(look)

    def refresh(self) -> None:
        """Look at all that is followed. Done when they are shown, and now and then for those who show them for us."""
        for look in self._watched:
            look()

    def render(self) -> bytes:
        """Everything on the registry, in the Prometheus text format."""
        self.refresh()
        registry = self._registry
        if self._shared:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry, str(self._shared))  # type: ignore[no-untyped-call] # see gone
        return generate_latest(registry)

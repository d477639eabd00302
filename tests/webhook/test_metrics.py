"""`webhook.metrics`: names, labels and buckets that dashboards and alerts depend on."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from tests.support_metrics import used
from webhook.metrics import BUCKETS, Metrics

LABELS = {
    "rankfix_requests": {"outcome", "reason"},
    "rankfix_rules": {"rule"},
    "rankfix_classes": {"class"},
    "rankfix_refused": {"cause"},
    "rankfix_bugs": set(),
    "rankfix_duration_seconds": {"le"},
    "rankfix_build_info": {"version"},
    "rankfix_certificate_seconds_left": set(),
    "rankfix_certificate_reloads": {"outcome"},
    "rankfix_connections_ended": {"cause"},
    "rankfix_patch_bytes": {"le"},
    "rankfix_in_flight": set(),
    "rankfix_connections": set(),
    "rankfix_cache_hits": {"cache"},
    "rankfix_cache_misses": {"cache"},
    "rankfix_worker_restarts": set(),
}


def test_names_and_labels() -> None:
    """Exactly these families with exactly these labels: none holds what a user makes up (bug 48)."""
    families = {
        family.name: set().union(*(sample.labels for sample in family.samples))
        for family in text_string_to_metric_families(used().render().decode())
        if not family.name.endswith("_created")
    }
    assert families == LABELS


def test_values() -> None:
    """Each call counts once, each container's class by itself."""
    text = used().render().decode()
    for line in (
        'rankfix_requests_total{outcome="changed",reason="patched"} 1.0',
        'rankfix_rules_total{rule="A1"} 1.0',
        'rankfix_classes_total{class="python"} 2.0',
        'rankfix_refused_total{cause="too-large"} 1.0',
        "rankfix_bugs_total 1.0",
        'rankfix_build_info{version="1.2.3"} 1.0',
        "rankfix_certificate_seconds_left 86400.0",
        'rankfix_certificate_reloads_total{outcome="loaded"} 0.0',
        'rankfix_certificate_reloads_total{outcome="refused"} 1.0',
        'rankfix_connections_ended_total{cause="full"} 1.0',
        'rankfix_patch_bytes_bucket{le="512.0"} 0.0',
        'rankfix_patch_bytes_bucket{le="1024.0"} 1.0',
        "rankfix_in_flight 2.0",
        "rankfix_connections 3.0",
        'rankfix_cache_hits_total{cache="text"} 7.0',
        'rankfix_cache_misses_total{cache="text"} 1.0',
        "rankfix_worker_restarts_total 1.0",
        'rankfix_duration_seconds_bucket{le="0.00025"} 0.0',
        'rankfix_duration_seconds_bucket{le="0.0005"} 1.0',
    ):
        assert line in text.splitlines()


def test_bug_49_buckets_see_a_fast_webhook() -> None:
    """Bug 49: others begin at 100 ms; ours begin at 0.25 ms and end with the API server's longest time-out."""
    assert BUCKETS[0] == 0.00025
    assert BUCKETS[-1] == 30
    assert list(BUCKETS) == sorted(BUCKETS)


def test_two_registries() -> None:
    """The registry is handed in: two servers in one process count apart, and no reset is ever needed."""
    one, two = used(), Metrics(CollectorRegistry(), version="x")
    assert b"rankfix_bugs_total 1.0" in one.render()
    assert b"rankfix_bugs_total 0.0" in two.render()


def test_what_is_followed_is_counted_once() -> None:
    """A cache says what it was used over all time; looking twice doesn't count twice."""
    metrics = used()
    metrics.refresh()
    metrics.refresh()
    assert b'rankfix_cache_hits_total{cache="text"} 7.0' in metrics.render()


def test_many_at_once_count_as_one_by_one() -> None:
    """A value on a bound belongs below it, and one beyond all bounds to the last bucket."""
    many, one = Metrics(CollectorRegistry(), version="1"), Metrics(CollectorRegistry(), version="1")
    seconds = [0.0, BUCKETS[0], BUCKETS[0] + 1e-9, BUCKETS[3], 29.0, 30.0, 31.0, 1e-9]
    told: dict[str, Any] = {"outcome": "changed", "reason": "patched", "rules": ("C1",), "classes": ("python",)}
    many.answered(**told, seconds=seconds, patch_bytes=[256, 257, 2_000_000])
    sizes = [[256], [257], [2_000_000], *[list[int]()] * 5]
    for each, size in zip(seconds, sizes, strict=True):
        one.answered(**told, seconds=[each], patch_bytes=size)
    name = "rankfix_duration_seconds_sum "  # many are added up more exactly by Python 3.12 and later
    (total,), (expected,) = ([line for line in figures(each) if line.startswith(name)] for each in (many, one))
    assert float(total.removeprefix(name)) == pytest.approx(float(expected.removeprefix(name)), rel=1e-12)
    assert [line for line in figures(many) if line != total] == [line for line in figures(one) if line != expected]
    assert 'rankfix_duration_seconds_bucket{le="0.00025"} 3.0' in figures(many)
    assert 'rankfix_duration_seconds_bucket{le="30.0"} 7.0' in figures(many)
    assert "rankfix_duration_seconds_count 8.0" in figures(many)


def figures(metrics: Metrics) -> list[str]:
    return [line for line in metrics.render().decode().splitlines() if "_created" not in line]

"""`webhook.metrics`: names, labels and buckets that dashboards and alerts depend on."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

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
}


def used() -> Metrics:
    metrics = Metrics(CollectorRegistry(), version="1.2.3")
    metrics.answered(
        outcome="changed", reason="patched", rules=("A1", "C1"), classes=("python", "python"), seconds=[0.0003]
    )
    metrics.refused("too-large")
    metrics.bug()
    metrics.follow_certificate(lambda: 86400.0)
    metrics.certificate("refused")
    return metrics


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
        'rankfix_duration_seconds_bucket{le="0.00025"} 0.0',
        'rankfix_duration_seconds_bucket{le="0.0005"} 1.0',
    ):
        assert line in text.splitlines()


def test_buckets_see_a_fast_webhook() -> None:
    """Bug 49: others begin at 100 ms; the API server's time-outs end at 30 s, ours at 10 s."""
    assert BUCKETS[0] == 0.00025
    assert BUCKETS[-1] == 10
    assert list(BUCKETS) == sorted(BUCKETS)


def test_two_registries() -> None:
    """The registry is handed in: two servers in one process count apart, and no reset is ever needed."""
    one, two = used(), Metrics(CollectorRegistry(), version="x")
    assert b"rankfix_bugs_total 1.0" in one.render()
    assert b"rankfix_bugs_total 0.0" in two.render()

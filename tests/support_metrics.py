"""Metrics of which each has been used once: all the names and labels that there are."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from webhook.metrics import Metrics


def used() -> Metrics:
    metrics = Metrics(CollectorRegistry(), version="1.2.3")
    metrics.answered(
        outcome="changed",
        reason="patched",
        rules=("A1", "C1"),
        classes=("python", "python"),
        seconds=[0.0003],
        patch_bytes=[900],
    )
    metrics.refused("too-large")
    metrics.bug()
    metrics.follow_certificate(lambda: 86400.0)
    metrics.certificate("refused")
    metrics.ended("full")
    metrics.follow_load(requests=lambda: 2, connections=lambda: 3)
    metrics.follow_cache("text", lambda: (7, 1))
    metrics.restarted(1)
    return metrics

"""deploy/monitoring: what dashboard and alerts ask for is there, and each alert fires when it should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support_deploy import DEPLOY, ROOT, kustomize, needs_kubectl, one, profile, rendered
from tests.support_metrics import used

if TYPE_CHECKING:
    from pathlib import Path

MONITORING = DEPLOY / "monitoring"
RULES = yaml.safe_load((MONITORING / "rules.yaml").read_text(encoding="utf-8"))["spec"]
ALERTS: list[dict[str, Any]] = RULES["groups"][0]["rules"]
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
TARGETS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool: it comes with the Debian package prometheus")
OF_THE_SCRAPE = {"namespace", "pod"}


def samples() -> dict[str, set[str]]:
    """The labels of each sample that the server can show."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(used().render().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize("expression", [*(alert["expr"] for alert in ALERTS), *TARGETS])
def test_what_is_asked_for_is_there(expression: str) -> None:
    """Each metric is one of the server's, and each label one of that metric's or of the scrape."""
    known = samples()
    names = set(re.findall(r"rankfix_\w+", expression))
    assert names
    assert names <= set(known)
    labels = set(re.findall(r"(\w+)=~?\"", expression))
    labels |= {label for group in re.findall(r"by \(([^)]*)\)", expression) for label in re.findall(r"\w+", group)}
    assert labels <= set().union(OF_THE_SCRAPE, *(known[name] for name in names))


def test_nothing_is_left_out() -> None:
    """The dashboard shows each metric that there is."""
    shown = {name for target in TARGETS for name in re.findall(r"rankfix_\w+", target)}
    counted = {name for name in samples() if not name.endswith(("_created", "_sum", "_count"))}
    assert counted - shown == set()


def test_causes_that_alerts_name_are_documented() -> None:
    """A cause that nobody counts would be an alert that never fires."""
    page = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
    named = {cause for alert in ALERTS for group in re.findall(r'cause=~?"([^"]+)"', alert["expr"])
             for cause in group.split("|")}  # fmt: skip
    assert {cause for cause in named if not re.search(rf"\b{cause}\b", page)} == set()


@pytest.mark.parametrize("alert", [alert["alert"] for alert in ALERTS])
def test_each_alert_says_what_to_do(alert: str) -> None:
    """docs/reliability.md has a section for it."""
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert f"\n### {alert}\n" in page


def test_panels_stand_beside_each_other() -> None:
    """Grafana shows what has an id, a title and a place of its own."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    cells = [(x, y) for panel in panels for place in [panel["gridPos"]]
             for x in range(place["x"], place["x"] + place["w"])
             for y in range(place["y"], place["y"] + place["h"])]  # fmt: skip
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_the_monitor_finds_the_pods() -> None:
    """Its labels are those of the server's pods, its port is one of theirs, with and without the port for metrics."""
    monitor = yaml.safe_load((MONITORING / "podmonitor.yaml").read_text(encoding="utf-8"))["spec"]
    (endpoint,) = monitor["podMetricsEndpoints"]
    template = one(profile("self-signed"), "Deployment")["spec"]["template"]
    assert monitor["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert endpoint["port"] in {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    own = one(rendered({"metricsPort": 9090}), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "metrics", "containerPort": 9090, "protocol": "TCP"} in own["ports"]
    assert "--metrics-port=9090" in own["args"]


@needs_kubectl
def test_kustomize_builds_it() -> None:
    """Three objects, the dashboard as Grafana's sidecar looks for it."""
    made = kustomize("monitoring")
    assert {kind for kind, _ in made} == {"PodMonitor", "PrometheusRule", "ConfigMap"}
    assert one(made, "ConfigMap")["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert json.loads(one(made, "ConfigMap")["data"]["dashboard.json"]) == DASHBOARD


def promtool(*words: str | Path, data: str | None = None) -> None:
    assert PROMTOOL
    ran = subprocess.run([PROMTOOL, *words], input=data, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@needs_promtool
def test_prometheus_takes_metrics_and_rules(tmp_path: Path) -> None:
    """No complaint about names, types or expressions."""
    promtool("check", "metrics", data=used().render().decode())
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))
    promtool("check", "rules", tmp_path / "rules.yaml")


# Alert, series with a value for each minute: after two hours it fires on the first ones, and not on the second ones
FIRES: list[tuple[str, dict[str, str], dict[str, str]]] = [
    ("RankfixDown", {"other": "1x120"}, {'rankfix_build_info{version="1"}': "1x120"}),
    (
        "RankfixSingleReplica",
        {'rankfix_build_info{pod="a"}': "1x120"},
        {'rankfix_build_info{pod="a"}': "1x120", 'rankfix_build_info{pod="b"}': "1x120"},
    ),
    ("RankfixBug", {"rankfix_bugs_total": "0x110 1+0x9"}, {"rankfix_bugs_total": "7x120"}),
    (
        "RankfixCertificateExpiring",
        {"rankfix_certificate_seconds_left": "400000-60x120"},
        {"rankfix_certificate_seconds_left": "500000-60x120"},
    ),
    (
        "RankfixCertificateExpired",
        {"rankfix_certificate_seconds_left": "8000-60x120"},
        {"rankfix_certificate_seconds_left": "90000-60x120"},
    ),
    (
        "RankfixCertificateRefused",
        {'rankfix_certificate_reloads_total{outcome="refused"}': "0+1x120"},
        {'rankfix_certificate_reloads_total{outcome="loaded"}': "0+1x120"},
    ),
    (
        "RankfixSlow",
        {
            'rankfix_duration_seconds_bucket{le="0.1"}': "0+90x120",
            'rankfix_duration_seconds_bucket{le="0.25"}': "0+100x120",
            'rankfix_duration_seconds_bucket{le="+Inf"}': "0+100x120",
        },
        {
            'rankfix_duration_seconds_bucket{le="0.1"}': "0+100x120",
            'rankfix_duration_seconds_bucket{le="+Inf"}': "0+100x120",
        },
    ),
    (
        "RankfixTurnsAway",
        {'rankfix_refused_total{cause="overload"}': "0+60x120"},
        {'rankfix_refused_total{cause="bad-review"}': "0+60x120"},
    ),
    (
        "RankfixStrangers",
        {'rankfix_refused_total{cause="caller"}': "0+60x120"},
        {'rankfix_refused_total{cause="caller"}': "60x120"},
    ),
    (
        "RankfixCrowded",
        {'rankfix_connections_ended_total{cause="full"}': "0+60x120"},
        {'rankfix_connections_ended_total{cause="tls"}': "0+60x120"},
    ),
    (
        "RankfixWorkersDie",
        {"rankfix_worker_restarts_total": "0+0.1x120"},
        {"rankfix_worker_restarts_total": "2x120"},
    ),
]


def test_each_alert_is_tried() -> None:
    """The table above has them all."""
    assert [row[0] for row in FIRES] == [alert["alert"] for alert in ALERTS]


@needs_promtool
def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    """Prometheus itself evaluates each on a series that is bad and on one that isn't."""
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})',
                    "eval_time": "119m",
                    "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
                }
            ],
        }
        for alert, bad, good in FIRES
        for series, fires in ((bad, True), (good, False))
    ]
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": tests}))
    promtool("test", "rules", tmp_path / "tests.yaml")

"""kustomize, the chart and `rankfix render` say the same; what is generated in deploy/ is current."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.support_deploy import (
    CHART,
    DEPLOY,
    chart,
    command,
    helm,
    kustomize,
    needs_helm,
    needs_kubectl,
    parsed,
    profile,
    rendered,
    try_chart,
    without_digest,
)
from tests.support_renderings import CASES
from tools import manifests
from webhook.manifests.values import SETTINGS, Values
from webhook.settings import Settings, dashed

if TYPE_CHECKING:
    from pathlib import Path

OVERLAYS = ["self-signed", "cert-manager", "fail-open", "policy"]


@pytest.mark.parametrize("name", manifests.files())
def test_generated_files_are_current(name: str) -> None:
    """Each is what `make manifests` would write."""
    assert (DEPLOY / name).read_text(encoding="utf-8") == manifests.files()[name]


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_is_what_render_prints(overlay: str) -> None:
    """`kubectl apply -k deploy/overlays/X` and `rankfix render --profile X | kubectl apply -f -` do the same."""
    code, out, _ = command("render", "--profile", overlay)
    assert code == 0
    assert kustomize(f"overlays/{overlay}") == parsed(out) == profile(overlay)


@needs_helm
@pytest.mark.parametrize("case", CASES)
def test_the_chart_is_what_render_prints(case: str, tmp_path: Path) -> None:
    """With the same values, but for the namespace, which Helm makes by itself or not at all."""
    mine = without_digest(rendered(CASES[case]))
    mine.pop(("Namespace", "rankfix-system"), None)
    assert without_digest(chart(tmp_path, CASES[case])) == mine


@needs_helm
def test_the_chart_under_another_name(tmp_path: Path) -> None:
    """Release and namespace are in all the names that must not clash."""
    mine = without_digest(rendered(name="second", namespace="ml-infra"))
    mine.pop(("Namespace", "ml-infra"))
    assert without_digest(chart(tmp_path, {}, name="second", namespace="ml-infra")) == mine


@needs_helm
def test_the_chart_is_clean() -> None:
    """`helm lint` has no complaint."""
    ran = helm("lint", "--strict", CHART)
    assert ran.returncode == 0, ran.stdout


def test_the_charts_defaults_are_the_models() -> None:
    """values.yaml lists each value there is, and means what its absence means."""
    stated = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert stated == Values().model_dump(mode="json", by_alias=True)


def test_the_chart_has_this_version() -> None:
    """The image that a chart asks for is the one that was released with it."""
    stated = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert stated["version"] == stated["appVersion"] == manifests.version()


def test_the_settings_that_may_be_given_are_settings() -> None:
    """All of the server's but those that the manifests decide themselves."""
    decided = {"host", "port", "metrics-port", "cert-dir", "plain-http", "drain", "grace"}
    assert set(SETTINGS) <= {dashed(name) for name in Settings.model_fields} - decided


REFUSED: dict[str, dict[str, Any]] = {
    "timeout 0": {"timeoutSeconds": 0},
    "timeout 31": {"timeoutSeconds": 31},
    "no replicas": {"replicas": 0},
    "unknown value": {"timeoutSecond": 3},
    "unknown value inside": {"image": {"name": "x"}},
    "unknown setting": {"settings": {"default-mod": "audit"}},
    "port": {"port": 70000},
    "failure policy": {"failurePolicy": "fail"},
    "digest": {"image": {"digest": "sha256:abc"}},
    "mode": {"certs": {"mode": "selfsigned"}},
    "names of nobody's CA": {"callers": {"names": ["kube-apiserver"]}},
    "two names in one": {"callers": {"configMap": "ca", "names": ["a,b"]}},
}


@needs_helm
@pytest.mark.parametrize("case", REFUSED)
def test_the_chart_refuses(case: str, tmp_path: Path) -> None:
    """Bug 46: the schema has the API server's bounds, and knows a typo."""
    ran = try_chart(tmp_path, REFUSED[case])
    assert ran.returncode != 0
    assert "values don't meet the specifications of the schema" in ran.stderr


@pytest.mark.parametrize("case", REFUSED)
def test_render_refuses(case: str, tmp_path: Path) -> None:
    """Bug 46: and so does the command line, with the name of the value."""
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(REFUSED[case]))
    code, out, err = command("render", "--values", str(file))
    assert (code, out) == (2, "")
    key = next(iter(REFUSED[case]))
    assert f"value {key}" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "timeoutSeconds=31"], "value timeoutSeconds: input should be less than or equal to 30"),
        (["--set", "timeoutSeconds"], "--set timeoutSeconds: write KEY=VALUE"),
        (["--set", "tolerations[0].key=a"], "lists are given whole"),
        (["--set", "tolerations=[{"], "neither YAML nor a plain word"),
        (["--profile", "selfsigned"], "choose one of self-signed, cert-manager"),
        (["--name", "Rank_Fix"], "--name Rank_Fix: is no name"),
        (["--values", "absent.yaml"], "absent.yaml: values file: No such file or directory"),
        (["--set", "callers.names=[a]"], "value callers: value error, names say who of a CA may call: give that CA as"),
        (["--set", "colour=red"], "value colour: nobody knows it"),
    ],
)
def test_render_says_what_is_wrong(words: list[str], said: str) -> None:
    """One line, and exit code 2."""
    code, out, err = command("render", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_render_takes_values_as_helm_does(tmp_path: Path) -> None:
    """Files over the profile, `--set` over files; dots in keys are escaped, plain words keep their spelling."""
    file = tmp_path / "values.yaml"
    file.write_text("replicas: 5\nimage: {repository: r.example/rankfix, tag: '9'}\n")
    sets = [
        "image.tag=1.10", "tolerations=[{operator: Exists}]", "networkPolicy=false", r"podLabels.example\.org/a=b",
    ]  # fmt: skip
    code, out, _ = command("render", "-f", str(file), *(word for words in sets for word in ("--set", words)))
    pods = parsed(out)["Deployment", "rankfix"]["spec"]
    assert (code, pods["replicas"]) == (0, 5)
    assert pods["template"]["metadata"]["labels"]["example.org/a"] == "b"
    assert pods["template"]["spec"]["containers"][0]["image"] == "r.example/rankfix:1.10"
    assert pods["template"]["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert ("NetworkPolicy", "rankfix") not in parsed(out)


def test_render_needs_nobody(tmp_path: Path) -> None:
    """Values that aren't a mapping, or no YAML, are refused by name; an empty file is fine."""
    for text, code in (("", 0), ("- a", 2), ("a: [", 2), ("a: b", 2)):
        file = tmp_path / "values.yaml"
        file.write_text(text)
        assert command("render", "-f", str(file))[0] == code

"""What the tests of deploy/ share: the three ways to render an installation, as objects by kind and name."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from webhook import cli
from webhook.manifests.offline import check
from webhook.manifests.place import Place
from webhook.manifests.render import PROFILES, render

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart"
ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
KUBECTL = shutil.which("kubectl", path=ASSETS) or shutil.which("kubectl")
HELM = shutil.which(os.environ.get("HELM", "helm"))
NO_KUBECTL = "no kubectl: put it into PATH, or set KUBEBUILDER_ASSETS as `setup-envtest use -p path` prints it"
NO_HELM = "no helm: put helm 3 into PATH (https://helm.sh/docs/intro/install), or set HELM to its path"
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason=NO_KUBECTL)
needs_helm = pytest.mark.skipif(HELM is None, reason=NO_HELM)

Object = dict[str, Any]
Objects = dict[tuple[str, str], Object]


def place(values: Object | None = None, *, name: str = "rankfix", namespace: str = "rankfix-system") -> Place:
    """An installation of this version with `values`."""
    return Place(check(values or {}), name, namespace, "0.1.0")


def rendered(values: Object | None = None, **names: str) -> Objects:
    """What the code makes of `values`."""
    return by_name(render(place(values, **names)))


def profile(name: str) -> Objects:
    """What the code makes of a profile."""
    return rendered(PROFILES[name])


def by_name(objects: list[Object]) -> Objects:
    """The objects, none of them twice."""
    named = {(item["kind"], item["metadata"]["name"]): item for item in objects}
    assert len(named) == len(objects)
    return named


def one(objects: Objects, kind: str) -> Object:
    """The only object of a kind."""
    (found,) = [item for (its_kind, _), item in objects.items() if its_kind == kind]
    return found


def parsed(text: str) -> Objects:
    """The objects of a YAML stream."""
    return by_name([item for item in yaml.safe_load_all(text) if item])


def kustomize(overlay: str) -> Objects:
    """What kubectl makes of an overlay."""
    assert KUBECTL
    ran = subprocess.run([KUBECTL, "kustomize", DEPLOY / overlay], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return parsed(ran.stdout)


def helm(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run helm."""
    assert HELM
    return subprocess.run([HELM, *words], capture_output=True, text=True, check=False)


def try_chart(
    folder: Path, values: Object, *words: str, name: str = "rankfix", namespace: str = "rankfix-system"
) -> subprocess.CompletedProcess[str]:
    """Let helm render the chart with `values`."""
    file = folder / "values.json"
    file.write_text(json.dumps(values))
    return helm("template", name, CHART, "--namespace", namespace, "--kube-version", "1.36.0", "--values", file, *words)


def chart(folder: Path, values: Object, **names: str) -> Objects:
    """What helm makes of the chart with `values`, without what is there for the end only."""
    ran = try_chart(folder, values, "--no-hooks", **names)
    assert ran.returncode == 0, ran.stderr
    return parsed(ran.stdout)


def hooks(folder: Path, values: Object) -> Objects:
    """What helm does beside that, and when."""
    ran = try_chart(folder, values)
    assert ran.returncode == 0, ran.stderr
    every = [item for item in yaml.safe_load_all(ran.stdout) if item]
    return by_name([item for item in every if "helm.sh/hook" in item["metadata"].get("annotations", {})])


def without_digest(objects: Objects) -> Objects:
    """The objects with the digest of a Job's spec taken out of its name: code and chart make it in their own ways."""
    cut: Objects = {}
    for (kind, name), item in objects.items():
        plain = re.sub(r"-[0-9a-f]{8}$", "", name) if kind == "Job" else name
        cut[kind, plain] = {**item, "metadata": {**item["metadata"], "name": plain}}
    return cut


def command(*words: str) -> tuple[int, str, str]:
    """Run `rankfix ...` in this process: its exit code, and what it wrote to both streams."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(words)
    out.seek(0)
    return code, out.read(), err.getvalue()


def python(*words: str) -> list[str]:
    """A command line of this project's own programs."""
    return [sys.executable, "-m", *words]

"""`make manifests`: write what is generated in deploy/: YAML, the chart's expressions and the schema of its values."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from webhook.manifests import admission, certificates, ours, policy, render, server, values
from webhook.manifests.place import Place

if TYPE_CHECKING:
    from webhook.manifests.place import Object

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
HEADER = (
    "# Written by `make manifests` from webhook/manifests: change it there, or patch it in an overlay of your own.\n"
)


def version() -> str:
    """The version of this checkout."""
    made: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return made


def place(profile: str) -> Place:
    """An installation as kustomize makes it."""
    return Place(values.Values.model_validate(render.PROFILES[profile]), "rankfix", "rankfix-system", version())


def files() -> dict[str, str]:
    """Each generated file below deploy/, and what must be in it."""
    plain, open_ = place("self-signed"), place("fail-open")
    made: dict[str, list[Object]] = {
        "base/namespace.yaml": [server.namespace(plain), server.priority_class(plain)],
        "base/server.yaml": [item for item in render.base(plain) if item["kind"] not in {"Namespace", "PriorityClass"}],
        "base/webhook.yaml": [admission.webhook(plain)],
        "overlays/self-signed/certificates.yaml": certificates.self_signed(plain),
        "overlays/cert-manager/certificates.yaml": certificates.cert_manager(place("cert-manager")),
        "overlays/fail-open/guard.yaml": admission.guard(open_),
        "overlays/policy/policy.yaml": policy.objects(place("policy")),
    }
    texts = {name: HEADER + render.as_yaml(objects) for name, objects in made.items()}
    return texts | {"chart/values.schema.json": values.schema(), "chart/files/admission.yaml": HEADER + expressions()}


def expressions() -> str:
    """What the chart shares with kustomize word for word: everything that is written in the API server's CEL."""
    parts: Object = {
        "rules": admission.rules(),
        "conditions": ours.conditions(),
        "guard": admission.guard_spec(),
        "policy": policy.mutating_spec(),
        "seen": policy.seen_spec(),
    }
    return render.as_yaml([parts])


def main() -> None:
    """Write them all."""
    for name, text in files().items():
        (DEPLOY / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

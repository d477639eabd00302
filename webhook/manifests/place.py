"""Where an installation stands: its names, labels and image, which all its objects share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webhook.manifests.values import Values

Object = dict[str, Any]
APP = "rankfix"
ENTRY = "pods.rankfix.webhook"  # the webhook's name within its configuration, which users read in refusals
OWNER_RUN_AS = 65532


@dataclass(frozen=True, slots=True)
class Place:
    """Release name, namespace and version of an installation, with the values it was given."""

    values: Values
    name: str
    namespace: str
    version: str

    @property
    def wide(self) -> str:
        """The name of cluster-wide objects: two installations never share one."""
        return f"{self.name}.{self.namespace}"

    @property
    def secret(self) -> str:
        """The Secret with the server's certificate."""
        suffix = "cm-tls" if self.values.certs.mode == "cert-manager" else "tls"
        return self.values.certs.secret_name or f"{self.name}-{suffix}"

    @property
    def image(self) -> str:
        """The image, by digest where one is given."""
        image = self.values.image
        return (
            f"{image.repository}@{image.digest}" if image.digest else f"{image.repository}:{image.tag or self.version}"
        )

    def selector(self, component: str) -> dict[str, str]:
        """The labels that tell a component's pods; they never change."""
        return {
            "app.kubernetes.io/component": component,
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/name": APP,
        }

    def make(
        self, version: str, kind: str, component: str, *, suffix: str = "", wide: bool = False, **rest: object
    ) -> Object:
        """An object with the metadata that all of ours have."""
        metadata: Object = {
            "name": (self.wide if wide else self.name) + suffix,
            "labels": {**self.selector(component), "app.kubernetes.io/version": self.version},
        }
        if not wide:
            metadata["namespace"] = self.namespace
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}

"""What an installation can be told. The chart's values are these, and its schema is made from this model.

Names are written as Helm charts write them (`timeoutSeconds`); a value that nobody knows is refused.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

Words = dict[str, str]
DnsName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
Port = Annotated[int, Field(ge=1, le=65535)]
SETTINGS = ("body-timeout", "default-mode", "entrypoint", "handshake-timeout", "header-timeout", "hidden", "keep-alive",
            "log-level", "max-bodies", "max-body", "max-connections", "max-requests", "on-bug", "workers")  # fmt: skip


# The same as Callers._of_a_ca, for Helm
_NAMES_NEED_A_CA: dict[str, Any] = {
    "if": {"properties": {"names": {"minItems": 1}}, "required": ["names"]},
    "then": {"properties": {"configMap": {"minLength": 1}}, "required": ["configMap"]},
}


class Part(BaseModel):
    """A group of values: frozen, strict about names."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class Image(Part):
    """The image of server and certificate jobs."""

    repository: Annotated[str, Field(min_length=1, description="Where your cluster pulls the image from.")] = "rankfix"
    tag: Annotated[str, Field(description="Empty: the version of the chart.")] = ""
    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$", description="Wins over the tag.")] = ""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    pull_secrets: Annotated[list[DnsName], Field(description="Names of Secrets in the namespace.")] = []


class Certs(Part):
    """The TLS identity of the server."""

    mode: Annotated[
        Literal["self-signed", "serve", "cert-manager", "files"],
        Field(description="Who makes the certificate: a CronJob, the server itself, cert-manager, or you."),
    ] = "self-signed"
    secret_name: Annotated[
        str, Field(max_length=253, description="Empty: NAME-tls, with cert-manager NAME-cm-tls.")
    ] = ""
    schedule: Annotated[str, Field(min_length=9, description="When the CronJob of mode self-signed looks.")] = (
        "*/10 * * * *"
    )
    extra_dns_names: Annotated[list[DnsName], Field(description="Further names of the server.")] = []
    ca_bundle: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9+/=]*$", description="Mode files: your CA's PEM in base64.")
    ] = ""
    issuer_ref: Annotated[
        Words, Field(description="Mode cert-manager: name, kind, group of your issuer. Empty: own CA.")
    ] = {}


class Service(Part):
    """The Service in front of the server."""

    ip_family_policy: Literal["SingleStack", "PreferDualStack", "RequireDualStack"] = "PreferDualStack"
    ip_families: list[Literal["IPv4", "IPv6"]] = []


class Resources(Part):
    """Requests and limits of the server; docs/install.md says what they were measured from."""

    requests: Words = {"cpu": "100m", "memory": "96Mi"}
    limits: Words = {"memory": "256Mi"}


class Callers(Part):
    """Who may send reviews, where the API server shows a client certificate (docs/server.md)."""

    model_config = ConfigDict(json_schema_extra=_NAMES_NEED_A_CA)

    config_map: Annotated[
        str, Field(max_length=253, description="With the CA in its key ca.crt. Empty: anybody may call.")
    ] = ""
    names: Annotated[
        list[Annotated[str, Field(pattern=r"^[^,]+$")]],
        Field(description="Of which a caller's certificate must hold one. Empty: each certificate of the CA will do."),
    ] = []

    @model_validator(mode="after")
    def _of_a_ca(self) -> Self:
        if self.names and not self.config_map:
            raise ValueError("names say who of a CA may call: give that CA as callers.configMap")
        return self


class Values(Part):
    """All of it."""

    serverless: Annotated[
        bool, Field(description="No server: a MutatingAdmissionPolicy (Kubernetes 1.36) with less reach.")
    ] = False
    image: Image = Image()
    certs: Certs = Certs()
    replicas: Annotated[int, Field(ge=1, le=99)] = 2
    failure_policy: Annotated[
        Literal["Fail", "Ignore"], Field(description="What happens to pods while no server answers.")
    ] = "Fail"
    guard: Annotated[
        Literal["off", "warn", "deny"], Field(description="With Ignore: what happens to pods that slipped through.")
    ] = "warn"
    timeout_seconds: Annotated[int, Field(ge=1, le=30, description="How long the API server waits.")] = 3
    excluded_namespaces: Annotated[list[DnsName], Field(description="Never looked at, beside our own.")] = []
    webhook_annotations: Annotated[Words, Field(description="On the MutatingWebhookConfiguration.")] = {}
    settings: Annotated[
        dict[str, str | int | float | bool], Field(description="Settings of the server, as in its settings file.",
                                                   json_schema_extra={"propertyNames": {"enum": list(SETTINGS)}})
    ] = {}  # fmt: skip
    port: Annotated[Port, Field(description="Of the pods: 10250 for private GKE clusters.")] = 8443
    metrics_port: Annotated[
        int, Field(ge=0, le=65535, description="Of metrics without TLS; 0: with TLS on the port of the pods only.")
    ] = 0
    host_network: Annotated[bool, Field(description="For control planes that can't reach pod addresses.")] = False
    service: Service = Service()
    callers: Callers = Callers()
    resources: Resources = Resources()
    network_policy: bool = True
    api_server_ports: Annotated[
        list[Port], Field(min_length=1, description="Where the NetworkPolicy lets our pods reach the API server.")
    ] = [443, 6443, 8443, 16443]
    priority_class_name: Annotated[str, Field(description="Empty: a PriorityClass of our own.")] = ""
    node_selector: Words = {}
    tolerations: list[dict[str, Any]] = []
    affinity: dict[str, Any] = {}
    pod_annotations: Words = {}
    pod_labels: Words = {}


class _Schema(GenerateJsonSchema):
    """JSON Schema as Helm's validator reads it, the same with each pydantic."""

    def get_title_from_name(self, name: str) -> str:
        del name
        return ""

    def generate(self, schema: Any, mode: Any = "validation") -> JsonSchemaValue:  # noqa: ANN401 - as the base class
        made = super().generate(schema, mode)
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_short(made)}


def _short(node: Any) -> Any:  # noqa: ANN401 - JSON of any kind
    if isinstance(node, dict):
        return {key: _short(value) for key, value in node.items() if not _says_nothing(key, value)}
    return [_short(item) for item in node] if isinstance(node, list) else node


def _says_nothing(key: str, value: Any) -> bool:  # noqa: ANN401 - see above
    """Titles repeat each name; anything more is welcome by default."""
    return (key == "title" and isinstance(value, str)) or (key == "additionalProperties" and value is True)


def schema() -> str:
    """The chart's values.schema.json. Helm puts `global` into the values by itself."""
    made = Values.model_json_schema(by_alias=True, schema_generator=_Schema)
    made["properties"]["global"] = {"type": "object"}
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"

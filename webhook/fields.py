"""What can be set, with its default, bounds and meaning; `settings` finds out who sets it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ByteSize, Field
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from webhook.policy import Mode, Policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.fields import FieldInfo

SECRET = "rankfix-tls"  # noqa: S105 - the name of a Secret, not what is in it
MIB = 2**20


class Settings(BaseSettings):
    """The server's settings, checked and frozen. A field `on_bug` is `--on-bug`, `RANKFIX_ON_BUG` or `on-bug:`."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", validate_default=False)

    host: Annotated[str, Field(min_length=1, description="Address to listen on; * is every IPv4 and IPv6 address.")] = (
        "*"
    )
    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen on; 0 takes a free one and logs it.")] = 8443
    metrics_port: Annotated[
        int, Field(ge=0, le=65535, description="Port of metrics and probes without TLS; 0: only beside the reviews.")
    ] = 0
    workers: Annotated[
        int, Field(ge=1, le=64, description="Processes that share the port; more than one have a supervisor.")
    ] = 1
    cert_dir: Annotated[Path, Field(description="Folder with tls.crt and tls.key.")] = Path("/etc/rankfix/tls")
    cert_wait: Annotated[
        float, Field(ge=0, le=3600, description="Seconds to wait at the start for a pair that can be served.")
    ] = 0
    plain_http: Annotated[bool, Field(description="Serve without TLS: behind an ingress, or to try things out.")] = (
        False
    )
    default_mode: Annotated[Mode, Field(description="Mode of pods without the annotation rankfix/mode.")] = Mode.AUTO
    hidden: Annotated[
        Literal["leave", "process"], Field(description="Pods whose command starts a file we can't read.")
    ] = "leave"
    entrypoint: Annotated[
        Literal["process", "leave"], Field(description="Pods without a command, whose image decides.")
    ] = "process"
    on_bug: Annotated[
        Literal["allow", "deny"], Field(description="A pod on which rankfix itself fails: unchanged, or refused.")
    ] = "allow"
    max_body: Annotated[
        ByteSize, Field(ge=1024, le=2**30, description="Largest request body, in bytes or like 20MiB.")
    ] = ByteSize(20 * MIB)
    body_timeout: Annotated[float, Field(gt=0, le=300, description="Seconds a client may take to send a body.")] = 10
    header_timeout: Annotated[
        float, Field(gt=0, le=300, description="Seconds a client may take to send the head of a request.")
    ] = 10
    handshake_timeout: Annotated[float, Field(gt=0, le=300, description="Seconds a TLS handshake may take.")] = 10
    max_connections: Annotated[
        int, Field(ge=8, le=65535, description="Connections at once; one more ends the one that is idle for longest.")
    ] = 1000
    max_requests: Annotated[
        int, Field(ge=1, le=65535, description="Requests at once; one more is told to come again.")
    ] = 500
    max_bodies: Annotated[
        ByteSize, Field(ge=1024, le=2**34, description="Size of all bodies that are being received at once.")
    ] = ByteSize(48 * MIB)
    client_ca: Annotated[
        str, Field(description="File with the CA of callers: who shows no certificate of it may not call; empty: all.")
    ] = ""
    client_name: Annotated[
        str, Field(description="Names of callers, one of which their certificate must hold; empty: any of that CA.")
    ] = ""
    keep_alive: Annotated[
        int, Field(ge=1, le=3600, description="Seconds an idle connection stays; the API server needs more than 90.")
    ] = 120
    drain: Annotated[
        float,
        Field(ge=0, le=300, description="Seconds to go on serving at the end, each answer ending its connection."),
    ] = 5
    grace: Annotated[int, Field(ge=0, le=300, description="Seconds that running requests get at the end.")] = 15
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="Least level that is logged.")
    ] = "info"
    webhook_config: Annotated[
        str, Field(description="MutatingWebhookConfiguration whose caBundle must verify our certificate; empty: any.")
    ] = ""
    webhook: Annotated[str, Field(description="Entry in it, by name; empty: each that calls our Service.")] = ""
    namespace: Annotated[str, Field(description="Namespace of our Service and Secret; empty: the pod's own.")] = ""
    service: Annotated[str, Field(min_length=1, description="Our Service.")] = "rankfix"
    secret: Annotated[str, Field(min_length=1, description="Secret that --manage-certs keeps.")] = SECRET
    dns_name: Annotated[str, Field(description="Further names for --manage-certs, comma between them.")] = ""
    manage_certs: Annotated[
        bool, Field(description="Make and renew the certificate in the cluster, in a process beside the server.")
    ] = False

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: object, **__: object
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # Only what `load` read: pydantic's own sources would take variables in any case and say nothing of unknown ones
        layers = init_settings.init_kwargs.get("layers", ()) if isinstance(init_settings, InitSettingsSource) else ()
        return tuple(_Source(settings_cls, layer) for layer in layers)

    @property
    def policy(self) -> Policy:
        """The part that decisions depend on."""
        return Policy(
            default_mode=self.default_mode, hidden=self.hidden, entrypoint=self.entrypoint, on_bug=self.on_bug
        )


@dataclass(frozen=True, slots=True)
class Layer:
    """What one place says: values by field name, and the words that name the place of each for a person."""

    values: Mapping[str, object]
    places: Mapping[str, str]


class _Source(PydanticBaseSettingsSource):
    """Hands a layer that was read already to pydantic-settings, which merges and checks."""

    def __init__(self, cls: type[BaseSettings], layer: Layer) -> None:
        super().__init__(cls)
        self.layer = layer

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Part of the base class's contract: value, key, whether it needs decoding."""
        del field
        return self.layer.values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        fields = self.settings_cls.model_fields
        return {name: self.get_field_value(fields[name], name)[0] for name in self.layer.values}

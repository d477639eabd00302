"""What the server can be told, and by whom: flags, then RANKFIX_* variables, then a YAML file, then the defaults.

The only module that reads the environment. A setting that nobody knows is an error that says where it stands and which
known one is nearest: a typo must not leave a cluster on a default.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import ByteSize, Field, ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from webhook.errors import RankfixError
from webhook.policy import Mode, Policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.fields import FieldInfo

PREFIX = "RANKFIX_"
SECRET = "rankfix-tls"  # noqa: S105 - the name of a Secret, not what is in it
CONFIG_VARIABLE = "RANKFIX_CONFIG"

# Kubernetes tells each pod of each Service in its namespace by variables named after the Service. One called "rankfix"
# or "rankfix-webhook" gives RANKFIX_PORT=tcp://10.0.0.1:443 and its like: nobody set them, so they are no settings.
_SERVICE_LINK = re.compile(
    r"RANKFIX_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)\Z"
)
_SERVICE_PORT = re.compile(r"(?:tcp|udp|sctp)://")


class BadSettings(RankfixError):
    """Settings that can't be obeyed; the message has one line for each of them."""


class Settings(BaseSettings):
    """The server's settings, checked and frozen. A field `on_bug` is `--on-bug`, `RANKFIX_ON_BUG` or `on-bug:`."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", validate_default=False)

    host: Annotated[str, Field(min_length=1, description="Address to listen on; * is every IPv4 and IPv6 address.")] = (
        "*"
    )
    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen on; 0 takes a free one and logs it.")] = 8443
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
    ] = ByteSize(20 * 2**20)
    body_timeout: Annotated[float, Field(gt=0, le=300, description="Seconds a client may take to send a body.")] = 10
    keep_alive: Annotated[
        int, Field(ge=1, le=3600, description="Seconds an idle connection stays; the API server needs more than 90.")
    ] = 120
    drain: Annotated[
        float,
        Field(ge=0, le=300, description="Seconds to go on serving at the end, each answer ending its connection."),
    ] = 0
    grace: Annotated[int, Field(ge=0, le=300, description="Seconds that running requests get at the end.")] = 20
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
class Loaded:
    """Settings, and for each name of a field who gave it: `--flag`, `RANKFIX_NAME`, a file's path, or `default`."""

    settings: Settings
    sources: Mapping[str, str]

    def as_yaml(self) -> str:
        """A settings file that says the same, each line with its source as a comment."""
        values = self.settings.model_dump(mode="json")
        lines = [_line(dashed(name), value) for name, value in values.items()]
        width = max(map(len, lines))
        return "".join(
            f"{line:<{width}}  # {source}\n" for line, source in zip(lines, map(self.sources.get, values), strict=True)
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


def load(
    flags: Mapping[str, object], *, config: Path | None = None, environ: Mapping[str, str] | None = None
) -> Loaded:
    """The effective settings: `flags` by field name (None: not given) over `environ` over the file.

    The file is `config`, else what RANKFIX_CONFIG names, else there is none. Raises `BadSettings`.
    """
    environ = os.environ if environ is None else environ
    path = config or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    layers = [_flags(flags), _environment(environ), _file(path) if path else Layer({}, {})]
    places = {name: place for layer in reversed(layers) for name, place in layer.places.items()}
    try:
        settings = Settings.model_validate({"layers": layers})
    except ValidationError as exc:
        raise BadSettings("\n".join(_problem(error["loc"], error["msg"], places) for error in exc.errors())) from None
    return Loaded(settings, {name: places.get(name, "default") for name in Settings.model_fields})


def dashed(name: str) -> str:
    """The name of a field as flags and files write it."""
    return name.replace("_", "-")


def describe(name: str) -> str:
    """What a field means and what it is by default, for help texts."""
    field = Settings.model_fields[name]
    return f"{field.description} [default: {str(field.default).lower()}]"


def _flags(flags: Mapping[str, object]) -> Layer:
    given = {name: value for name, value in flags.items() if value is not None}
    return Layer(given, {name: f"--{dashed(name)}" for name in given})


def _environment(environ: Mapping[str, str]) -> Layer:
    values: dict[str, object] = {}
    unknown = []
    for variable in sorted(environ):
        if (
            not variable.startswith(PREFIX)
            or variable == CONFIG_VARIABLE
            or _is_service_link(variable, environ[variable])
        ):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in Settings.model_fields and variable == PREFIX + name.upper():
            values[name] = environ[variable]
        else:
            known = {field.upper(): PREFIX + field.upper() for field in (*Settings.model_fields, "config")}
            unknown.append(f"environment: unknown variable {variable}{_nearest(name.upper(), known)}")
    if unknown:
        raise BadSettings("\n".join(unknown))
    return Layer(values, {name: PREFIX + name.upper() for name in values})


def _is_service_link(variable: str, value: str) -> bool:
    if _SERVICE_LINK.match(variable):
        return True
    return variable.endswith("_PORT") and _SERVICE_PORT.match(value) is not None


def _file(path: Path) -> Layer:
    content = _read_yaml(path)
    known = {field: dashed(field) for field in Settings.model_fields}
    values: dict[str, object] = {}
    problems = []
    for key, value in content.items():
        name = str(key).replace("-", "_")
        if name not in Settings.model_fields:
            problems.append(f"{path}: unknown setting {key}{_nearest(name, known)}")
        elif name in values:
            problems.append(f"{path}: setting {dashed(name)} stands there twice: keep one")
        else:
            values[name] = value
    if problems:
        raise BadSettings("\n".join(problems))
    return Layer(values, dict.fromkeys(values, str(path)))


def _read_yaml(path: Path) -> dict[object, object]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise BadSettings(f"{path}: settings file: {exc.strerror}: correct --config or {CONFIG_VARIABLE}") from None
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
        raise BadSettings(f"{path}: settings file: not YAML at {where}") from None
    except (ValueError, yaml.YAMLError, RecursionError):
        raise BadSettings(f"{path}: settings file: not YAML text in UTF-8") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise BadSettings(f"{path}: settings file: not a mapping: write lines like `port: 8443`")
    return content


def _nearest(name: str, known: Mapping[str, str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f": did you mean {known[close[0]]}?" if close else ": see rankfix serve --help"


def _problem(location: tuple[int | str, ...], message: str, places: Mapping[str, str]) -> str:
    # pydantic's message, never its input: a file given by mistake may hold a secret
    name = str(location[0])
    return f"{places.get(name, 'default')}: setting {dashed(name)}: {message[:1].lower()}{message[1:]}"


def _line(name: str, value: object) -> str:
    return yaml.safe_dump({name: value}, default_flow_style=False, allow_unicode=True, width=10**6).strip()

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
from typing import TYPE_CHECKING

import yaml
from pydantic import ValidationError

from webhook.errors import RankfixError
from webhook.fields import Layer
from webhook.fields import Settings as Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "RANKFIX_"
CONFIG_VARIABLE = "RANKFIX_CONFIG"

# Kubernetes tells each pod of each Service in its namespace by variables named after the Service. One called "rankfix"
# or "rankfix-webhook" gives RANKFIX_PORT=tcp://10.0.0.1:443 and its like: nobody set them, so they are no settings.
_SERVICE_LINK = re.compile(
    r"RANKFIX_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)\Z"
)
_SERVICE_PORT = re.compile(r"(?:tcp|udp|sctp)://")


class BadSettings(RankfixError):
    """Settings that can't be obeyed; the message has one line for each of them."""


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


def without_ours(more: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process that is told its settings in another way, and `more`."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)} | dict(more)


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

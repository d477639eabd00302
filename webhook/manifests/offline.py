"""`rankfix render`: the words of the command line -> values -> objects. Reads the files it is told to, asks nobody."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from webhook.errors import RankfixError
from webhook.manifests.place import Place
from webhook.manifests.render import PROFILES, render
from webhook.manifests.values import SETTINGS, Values

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from webhook.manifests.place import Object

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?\Z")


class BadValues(RankfixError):
    """Values that no installation can be made of; the message has a line for each."""


def objects(  # noqa: PLR0913 - one parameter an option
    *, profile: str, files: Sequence[Path], sets: Sequence[str], name: str, namespace: str, version: str
) -> list[Object]:
    """The objects of `profile` with the values of `files` over it and `sets` over those. Raises `BadValues`."""
    if profile not in PROFILES:
        raise BadValues(f"--profile {profile}: is none: choose one of {', '.join(PROFILES)}")
    for option, word in (("--name", name), ("--namespace", namespace)):
        if not _NAME.match(word):
            raise BadValues(f"{option} {word}: is no name: take up to 53 lower-case letters, digits and -")
    merged: Object = copy.deepcopy(PROFILES[profile])
    for path in files:
        _merge(merged, _read(path))
    for words in sets:
        _merge(merged, _set(words))
    return render(Place(check(merged), name, namespace, version))


def check(values: Object) -> Values:
    """The values as a model. Raises `BadValues`."""
    try:
        made = Values.model_validate(values)
    except ValidationError as exc:
        raise BadValues("\n".join(_problem(error) for error in exc.errors())) from None
    unknown = sorted(set(made.settings) - set(SETTINGS))
    if unknown:
        raise BadValues(f"value settings.{unknown[0]}: is no setting to give here: choose one of {', '.join(SETTINGS)}")
    return made


def _problem(error: Any) -> str:  # noqa: ANN401 - a TypedDict that pydantic doesn't export
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"value {where}: nobody knows it: see deploy/chart/values.yaml for those there are"
    message = error["msg"]
    return f"value {where}: {message[:1].lower()}{message[1:]}"


def _read(path: Path) -> Object:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise BadValues(f"{path}: values file: {exc.strerror}: correct --values") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadValues(f"{path}: values file: not YAML") from None
    if content is not None and not isinstance(content, dict):
        raise BadValues(f"{path}: values file: not a mapping: write lines like `replicas: 3`")
    return content or {}


def _set(words: str) -> Object:
    path, equals, text = words.partition("=")
    keys = [key.replace("\0", ".") for key in path.replace(r"\.", "\0").split(".")]
    if not equals or not all(keys):
        raise BadValues(f"--set {words}: write KEY=VALUE, as in timeoutSeconds=5 or image.tag=1.2")
    if "[" in path:
        raise BadValues(
            f"--set {words}: lists are given whole, as in tolerations=[{{operator: Exists}}], or by --values"
        )
    value: Any = _value(words, text)
    for key in reversed(keys):
        value = {key: value}
    made: Object = value
    return made


def _value(words: str, text: str) -> object:
    # Plain words stay text: the model knows which of them are numbers, and no tag 1.10 becomes 1.1
    if not text.startswith(("[", "{")):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise BadValues(f"--set {words}: the value is neither YAML nor a plain word") from None


def _merge(into: Object, new: Object) -> None:
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value

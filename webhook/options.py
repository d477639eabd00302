"""The settings as options of a command: one for each, made from its field, so that none can be forgotten."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from webhook import settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.models import OptionInfo

REPEATED = {"client_name", "dns_name"}  # may be given several times; the setting has commas between them


def flag(name: str, *words: str, metavar: str | None = "VALUE") -> OptionInfo:
    """The option of a setting."""
    option: OptionInfo = typer.Option(
        *(words or (f"--{settings.dashed(name)}",)), help=settings.describe(name), show_default=False, metavar=metavar
    )
    return option


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """`command`, which takes the settings by name as its first argument, as one that takes each as an option."""

    @functools.wraps(command)
    def flat(**words: Any) -> None:  # noqa: ANN401 - what typer has parsed
        given = {name: words.pop(name) for name in settings.Settings.model_fields}
        command({name: ",".join(one) if isinstance(one, list) else one for name, one in given.items()}, **words)

    hints = get_type_hints(command, include_extras=True)
    _, *own = inspect.signature(command).parameters.values()
    parameters = [
        *(one.replace(annotation=hints[one.name], kind=one.KEYWORD_ONLY) for one in own),
        *(_parameter(name) for name in settings.Settings.model_fields),
    ]
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # how a function says it has another
    flat.__annotations__ = {one.name: one.annotation for one in parameters}
    return flat


def _parameter(name: str) -> inspect.Parameter:
    kind: Any = str | None  # words as typed: the settings check them, and say the same of variables and files
    option = flag(name)
    if settings.Settings.model_fields[name].annotation is bool:
        dashed = settings.dashed(name)
        kind, option = bool | None, flag(name, f"--{dashed}/--no-{dashed}", metavar=None)
    elif name in REPEATED:
        kind = list[str] | None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option])

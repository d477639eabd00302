"""`rankfix` and its words: usage, help, flags, and --print-settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import typer
import yaml

from webhook import cli
from webhook.settings import Settings, dashed

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["mutate"], "FILE"),
        (["mutate", "-o", "x", "f"], "'x' is not one of"),
        (["mutate", "--default-mode", "atuo", "f"], "--default-mode: setting default-mode: input should be 'auto'"),
        (["mutate", "--hiden", "x"], "--hidden"),
        (["serve", "--prot", "1"], "--port"),
        (["serve", "--port", "x"], "--port: setting port: "),
        (["serve", "--config", "/nowhere"], "/nowhere: settings file: No such file"),
        (["serve", "--cert-dir", "/nowhere"], "/nowhere/tls.crt: No such file or directory: point --cert-dir"),
        (["serve", "extra"], "extra"),
        (["mutat"], "mutat"),
    ],
)
def test_usage_errors(run: Run, argv: list[str], said: str) -> None:
    """One line, no frame, exit code 2."""
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert said in err
    assert re.fullmatch(r"rankfix: [^\n]+\n", err)


def test_version_and_help(run: Run) -> None:
    """--version, --help, and the same help for no words at all."""
    assert run("--version")[:2] == (0, f"rankfix {cli.version()}\n")
    assert "mutate" in run("--help")[1]
    code, out, _ = run()
    assert (code, "serve" in out) == (0, True)
    assert "--default-mode" in run("mutate", "--help")[1]


def test_flags_are_the_settings() -> None:
    """`serve` has a flag for each setting and no other."""
    command: Any = typer.main.get_command(cli.app)
    flags = {option for param in command.commands["serve"].params for option in param.opts}
    assert flags == {f"--{dashed(name)}" for name in Settings.model_fields} | {"--config", "--print-settings"}


def test_print_settings(run: Run, monkeypatch: pytest.MonkeyPatch, file: Any) -> None:
    """Each with its source; nothing is started."""
    monkeypatch.setenv("RANKFIX_PORT", "1234")
    config = file("hidden: process\n", "c.yaml")
    code, out, _ = run("serve", "--print-settings", "--plain-http", "--config", config)
    assert code == 0
    assert yaml.safe_load(out)["port"] == 1234
    assert re.search(r"^port: 1234 +# RANKFIX_PORT$", out, re.MULTILINE)
    assert re.search(rf"^hidden: process +# {re.escape(str(config))}$", out, re.MULTILINE)
    assert re.search(r"^plain-http: true +# --plain-http$", out, re.MULTILINE)

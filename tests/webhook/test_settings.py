"""`webhook.settings`: who wins, what is refused and in which words, and what --print-settings says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from webhook.policy import Mode, Policy
from webhook.settings import BadSettings, Settings, dashed, describe, load

FLAG, VARIABLE, FILE = 1111, "2222", 3333


@pytest.mark.parametrize(
    ("flag", "variable", "file", "port", "source"),
    [
        (None, None, None, 8443, "default"),
        (None, None, FILE, 3333, "file"),
        (None, VARIABLE, None, 2222, "RANKFIX_PORT"),
        (None, VARIABLE, FILE, 2222, "RANKFIX_PORT"),
        (FLAG, None, None, 1111, "--port"),
        (FLAG, None, FILE, 1111, "--port"),
        (FLAG, VARIABLE, None, 1111, "--port"),
        (FLAG, VARIABLE, FILE, 1111, "--port"),
    ],
)
def test_precedence(  # noqa: PLR0917 - the table's columns
    tmp_path: Path, flag: int | None, variable: str | None, file: int | None, port: int, source: str
) -> None:
    """A flag beats a variable beats the file beats the default, and the winner is named."""
    path = tmp_path / "settings.yaml"
    path.write_text(f"port: {file}\n" if file else "# nothing\n")
    environ = {"RANKFIX_PORT": variable} if variable else {}
    loaded = load({"port": flag}, config=path, environ=environ)
    assert loaded.settings.port == port
    assert loaded.sources["port"] == (str(path) if source == "file" else source)


def test_each_setting_from_its_own_place(tmp_path: Path) -> None:
    """Places mix: what one doesn't say, the next one does."""
    path = tmp_path / "settings.yaml"
    path.write_text("on-bug: deny\nmax_body: 1MiB\n")
    loaded = load({"hidden": "process"}, config=path, environ={"RANKFIX_DEFAULT_MODE": "audit"})
    assert loaded.settings.policy == Policy(Mode.AUDIT, "process", "process", "deny")
    assert loaded.settings.max_body == 2**20
    assert {name: where for name, where in loaded.sources.items() if where != "default"} == {
        "hidden": "--hidden",
        "default_mode": "RANKFIX_DEFAULT_MODE",
        "on_bug": str(path),
        "max_body": str(path),
    }


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    """RANKFIX_CONFIG names a file; --config names another one and wins."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("port: 1\n")
    two.write_text("port: 2\n")
    assert load({}, environ={"RANKFIX_CONFIG": str(one)}).settings.port == 1
    assert load({}, config=two, environ={"RANKFIX_CONFIG": str(one)}).settings.port == 2


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the caller doesn't hand in comes from the process."""
    monkeypatch.setenv("RANKFIX_GRACE", "7")
    assert load({}).settings.grace == 7


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"RANKFIX_PROT": "1"}, "environment: unknown variable RANKFIX_PROT: did you mean RANKFIX_PORT?"),
        ({"RANKFIX_ONBUG": "deny"}, "did you mean RANKFIX_ON_BUG?"),
        ({"RANKFIX_CONFIGG": "x"}, "did you mean RANKFIX_CONFIG?"),
        ({"RANKFIX_": "x"}, "unknown variable RANKFIX_"),
        ({"RANKFIX_port": "1"}, "did you mean RANKFIX_PORT?"),
        ({"RANKFIX_ZZZZZZ": "1"}, "see rankfix serve --help"),
        ({"RANKFIX_PORT": "x"}, "RANKFIX_PORT: setting port: input should be a valid integer"),
        ({"RANKFIX_PORT": ""}, "RANKFIX_PORT: setting port: input should be a valid integer"),
        ({"RANKFIX_PORT": "65536"}, "RANKFIX_PORT: setting port: input should be less than or equal to 65535"),
        ({"RANKFIX_DEFAULT_MODE": "atuo"}, "RANKFIX_DEFAULT_MODE: setting default-mode: input should be 'auto'"),
        ({"RANKFIX_PLAIN_HTTP": "maybe"}, "RANKFIX_PLAIN_HTTP: setting plain-http:"),
        ({"RANKFIX_MAX_BODY": "many"}, "RANKFIX_MAX_BODY: setting max-body:"),
        ({"RANKFIX_MAX_BODY": "12"}, "greater than or equal to 1024"),
        ({"RANKFIX_HOST": ""}, "RANKFIX_HOST: setting host:"),
        ({"RANKFIX_CONFIG": "/nowhere/x.yaml"}, "/nowhere/x.yaml: settings file: No such file or directory"),
    ],
)
def test_bad_variables(environ: dict[str, str], said: str) -> None:
    """The variable, the rule and the nearest known name, in one line."""
    with pytest.raises(BadSettings) as caught:
        load({}, environ=environ)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "environ",
    [
        {"RANKFIX_PORT": "tcp://10.96.0.1:443"},
        {"RANKFIX_SERVICE_HOST": "10.96.0.1", "RANKFIX_SERVICE_PORT": "443", "RANKFIX_SERVICE_PORT_HTTPS": "443"},
        {"RANKFIX_PORT_443_TCP": "tcp://10.96.0.1:443", "RANKFIX_PORT_443_TCP_ADDR": "10.96.0.1"},
        {"RANKFIX_WEBHOOK_SERVICE_HOST": "10.96.0.1", "RANKFIX_WEBHOOK_PORT": "tcp://10.96.0.1:443"},
        {"RANKFIX_WEBHOOK_PORT_443_TCP_PROTO": "tcp", "RANKFIX_WEBHOOK_SERVICE_PORT_HTTPS": "443"},
    ],
)
def test_service_links_are_no_settings(environ: dict[str, str]) -> None:
    """Kubernetes writes such variables into each pod beside a Service called rankfix; nobody has set anything."""
    loaded = load({}, environ=environ)
    assert loaded.settings == load({}, environ={}).settings
    assert set(loaded.sources.values()) == {"default"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot: 1\n", "settings.yaml: unknown setting prot: did you mean port?"),
        ("port: 1\nPORT: 2\n", "unknown setting PORT"),
        ("max-body: 1MiB\nmax_body: 2MiB\n", "setting max-body stands there twice"),
        ("port: [1]\n", "settings.yaml: setting port: input should be a valid integer"),
        ("- port\n", "not a mapping"),
        ("3\n", "not a mapping"),
        ("a: b: c\n", "not YAML at line 1, column 5"),
        ("a: 'x\n", "not YAML at line 2, column 1"),
        ("a: \x01\n", "not YAML text"),
        ("a: !!python/object:os.system x\n", "not YAML at line 1"),
        ("1: 2\n", "unknown setting 1"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, said: str) -> None:
    """The file, the key or the line, and what to do."""
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    with pytest.raises(BadSettings) as caught:
        load({}, config=path, environ={})
    assert said in str(caught.value)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"\x80"])
def test_binary_files(tmp_path: Path, data: bytes) -> None:
    """A certificate given by mistake is no reason for a traceback."""
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(BadSettings, match="not YAML text in UTF-8"):
        load({}, config=tmp_path / "x", environ={})


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    """One line each, so that a person mends them in one go."""
    with pytest.raises(BadSettings) as caught:
        load({"port": "x", "hidden": "y"}, environ={"RANKFIX_GRACE": "z"})
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["--port", "--hidden", "RANKFIX_GRACE"]
    (tmp_path / "x").write_text("foo: 1\nbar: 2\n")
    with pytest.raises(BadSettings, match=r"foo(.|\n)*bar"):
        load({}, config=tmp_path / "x", environ={})


def test_values_of_a_wrong_file_are_not_shown(tmp_path: Path) -> None:
    """Bug 47: --config on a file of secrets names keys at most."""
    (tmp_path / "x").write_text("port: hunter2\n")
    with pytest.raises(BadSettings) as caught:
        load({}, config=tmp_path / "x", environ={})
    assert "hunter2" not in str(caught.value)


def test_printed_settings_are_a_settings_file(tmp_path: Path) -> None:
    """--print-settings gives YAML with each source as a comment, and loading it gives the same settings."""
    loaded = load({"port": "1234"}, environ={"RANKFIX_MAX_BODY": "3MiB", "RANKFIX_HOST": "::1"})
    text = loaded.as_yaml()
    lines = {line.split(":")[0]: line for line in text.splitlines()}
    assert lines["port"].endswith("# --port")
    assert lines["max-body"].endswith("# RANKFIX_MAX_BODY")
    assert lines["grace"].endswith("# default")
    assert list(lines) == [dashed(name) for name in Settings.model_fields]
    (tmp_path / "x").write_text(text)
    assert load({}, config=tmp_path / "x", environ={}).settings == loaded.settings
    assert yaml.safe_load(text)["host"] == "::1"


def test_settings_are_frozen() -> None:
    """Nobody changes them on the way."""
    made: Any = load({}, environ={}).settings
    with pytest.raises(ValueError, match="frozen"):
        made.port = 1


def test_defaults_keep_what_the_api_server_needs() -> None:
    """Bug 40: idle connections outlive the API server's 90 s. Bug 37: the cap is above the largest legal review."""
    made = load({}, environ={}).settings
    assert made.keep_alive > 90
    assert made.max_body >= 9 * 2**20
    assert not made.plain_http
    assert made.policy == Policy()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_each_setting_is_described(name: str) -> None:
    """Help says what each one means and what it is by default."""
    assert describe(name).endswith("]")
    assert len(describe(name)) > 30


def test_nobody_else_reads_the_environment() -> None:
    """The rule of the architecture page."""
    readers = {
        path.name
        for path in Path(__file__).parents[2].glob("webhook/**/*.py")
        if re.search(r"os\.environ|getenv|from os import", path.read_text())
    }
    assert readers == {"settings.py"}


@pytest.mark.parametrize("name", Settings.model_fields)
def test_the_page_is_true(name: str) -> None:
    """docs/settings.md has a row for each setting, with its default."""
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()
    default = yaml.safe_load(load({}, environ={}).as_yaml())[dashed(name)]
    text = f"{default:g}" if isinstance(default, float) else str(default)
    shown = {str(20 * 2**20): "20MiB", str(48 * 2**20): "48MiB", "False": "false", "": '""'}.get(text, text)
    assert f"\n| `{dashed(name)}` | `{shown}` |" in page

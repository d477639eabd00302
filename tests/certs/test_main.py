"""`rankfix-certs issue`: the files it writes, who may read them, and what it says when it can't."""

from __future__ import annotations

import ssl
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from certs import __main__ as command

if TYPE_CHECKING:
    from pathlib import Path


def run(monkeypatch: pytest.MonkeyPatch, *argv: str) -> int:
    monkeypatch.setattr(sys, "argv", ["rankfix-certs", *argv])
    with pytest.raises(SystemExit) as ended:
        command.main()
    return int(ended.value.code or 0)


def issue(monkeypatch: pytest.MonkeyPatch, out: Path, *more: str) -> int:
    return run(monkeypatch, "issue", "--out", str(out), *more)


def test_writes_a_usable_pair(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folder is made; tls.crt and tls.key belong together, and ca.crt is an authority."""
    out = tmp_path / "made" / "here"
    assert issue(monkeypatch, out, "--name", "rankfix.ml.svc", "--name", "localhost", "--ip", "127.0.0.1") == 0
    assert sorted(path.name for path in out.iterdir()) == ["ca.crt", "tls.crt", "tls.key"]
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(out / "tls.crt", out / "tls.key")
    assert ssl.create_default_context(cafile=out / "ca.crt").cert_store_stats()["x509_ca"] == 1


def test_nobody_else_reads_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """0600 on the key even where an older one was open to all; certificates are public whatever the umask."""
    (tmp_path / "tls.key").write_text("old")
    (tmp_path / "tls.key").chmod(0o666)
    assert issue(monkeypatch, tmp_path, "--name", "a") == 0
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"tls.key": 0o600, "tls.crt": 0o644, "ca.crt": 0o644}


def test_what_a_crash_left_is_no_obstacle(tmp_path: Path) -> None:
    """A half-written file of an earlier run is replaced."""
    for _ in range(2):
        command.write(tmp_path / "x", b"new", mode=0o600)
    assert (tmp_path / "x").read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "at least one --name or --ip"),
        (("--name", "a b"), "is no DNS name"),
        (("--ip", "x"), "is no IP address"),
        (("--name", "a", "--days", "0"), "days"),
        (("--nam", "a"), "--nam"),
    ],
)
def test_refusals(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str], more: tuple[str, ...], said: str
) -> None:
    """What can't be obeyed ends with 2, a reason, and no file."""
    assert issue(monkeypatch, tmp_path / "out", *more) == 2
    assert said in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_impossible_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file in the way is named."""
    (tmp_path / "file").write_text("")
    assert issue(monkeypatch, tmp_path / "file", "--name", "a") == 2
    assert str(tmp_path / "file") in capfd.readouterr().err


def test_runs_as_a_module(tmp_path: Path) -> None:
    """`python -m certs` is the same command."""
    ran = subprocess.run(
        [sys.executable, "-m", "certs", "issue", "--out", tmp_path, "--ip", "::1"], capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    assert (tmp_path / "tls.key").exists()

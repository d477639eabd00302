"""`webhook.tls`: which folders make a server, and what is said of the others."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import serialization

from tests.support_edges import certificate_folder
from webhook import tls

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_good_folder(tmp_path: Path) -> None:
    """1.2 at least, forward secrecy and AEAD only."""
    context = tls.context(certificate_folder(tmp_path))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    old = [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.2"]
    assert old
    assert all(name.startswith("ECDHE-") and ("GCM" in name or "CHACHA20" in name) for name in old)


def _absent_key(folder: Path) -> None:
    (folder / "tls.key").unlink()


def _empty_certificate(folder: Path) -> None:
    (folder / "tls.crt").write_bytes(b"")


def _cut_key(folder: Path) -> None:
    (folder / "tls.key").write_bytes((folder / "tls.key").read_bytes()[:80])


def _foreign_key(folder: Path) -> None:
    (folder / "tls.key").write_bytes((certificate_folder(folder / "other") / "tls.key").read_bytes())


def _locked_key(folder: Path) -> None:
    key = serialization.load_pem_private_key((folder / "tls.key").read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    (folder / "tls.key").write_bytes(locked)


def _folder_as_certificate(folder: Path) -> None:
    (folder / "tls.crt").unlink()
    (folder / "tls.crt").mkdir()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_absent_key, "tls.key: No such file or directory: point --cert-dir"),
        (_folder_as_certificate, "tls.crt: Is a directory"),
        (_empty_certificate, "no usable PEM pair"),
        (_cut_key, "no usable PEM pair"),
        (_locked_key, "no usable PEM pair"),
        (_foreign_key, "is not the key of"),
    ],
)
def test_bad_folders(tmp_path: Path, spoil: Callable[[Path], None], said: str) -> None:
    """Bug 6: absent, empty, cut, mismatched and locked files are told in one line that holds nothing of them."""
    spoil(certificate_folder(tmp_path))
    with pytest.raises(tls.BadCertificate, match=said) as caught:
        tls.context(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_bug_6_files_that_vanish_between_two_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A swap may come at any moment: that is a reason to look again, not to stop looking."""
    folder = certificate_folder(tmp_path)
    must_be_readable = tls._must_be_readable

    def then_gone(path: Path) -> None:
        must_be_readable(path)
        if path.name == "tls.key":
            path.unlink()

    monkeypatch.setattr(tls, "_must_be_readable", then_gone)
    with pytest.raises(tls.BadCertificate, match="changed while it was read"):
        tls.context(folder)


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), (b"x", "holds no certificate of a CA")])
def test_bad_authority_of_callers(tmp_path: Path, content: bytes | None, said: str) -> None:
    """The file and the setting are named: nobody could call otherwise, or everybody."""
    callers = tmp_path / "callers.pem"
    if content is not None:
        callers.write_bytes(content)
    with pytest.raises(tls.BadCertificate, match=f"callers.pem: {said}.*: correct --client-ca"):
        tls.load(certificate_folder(tmp_path), str(callers))

"""The server's side of TLS: 1.2 at least, 1.3 where the client can, forward secrecy always."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from webhook.errors import RankfixError

if TYPE_CHECKING:
    from pathlib import Path

CERTIFICATE = "tls.crt"
KEY = "tls.key"
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2; those of 1.3 are all good


class BadCertificate(RankfixError):
    """A certificate folder that no server can be started with."""


def context(folder: Path) -> ssl.SSLContext:
    """A server context from the pair in `folder`; raises `BadCertificate` with the file and the remedy."""
    for name in (CERTIFICATE, KEY):
        _must_be_readable(folder / name)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_ciphers(_CIPHERS)
    made.set_alpn_protocols(["http/1.1"])
    made.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        made.load_cert_chain(folder / CERTIFICATE, folder / KEY, password=_no_password)
    except ssl.SSLError as exc:
        raise BadCertificate(_explain(folder, exc)) from None
    return made


def _must_be_readable(path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as exc:
        raise BadCertificate(
            f"{path}: {exc.strerror}: point --cert-dir at a folder with {CERTIFICATE} and {KEY} "
            f"(rankfix-certs issue makes one), or use --plain-http"
        ) from None


def _no_password() -> str:
    return ""  # without this OpenSSL would ask on the terminal, and a pod would wait for ever


def _explain(folder: Path, exc: ssl.SSLError) -> str:
    if exc.reason == "KEY_VALUES_MISMATCH":
        return f"{folder / KEY}: is not the key of {folder / CERTIFICATE}: renew both together"
    return (
        f"{folder}: {CERTIFICATE} and {KEY} are no usable PEM pair ({exc.reason or 'unreadable'}): renew both together"
    )

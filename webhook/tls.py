"""The server's side of TLS: 1.2 at least, 1.3 where the client can, forward secrecy always."""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from webhook.errors import RankfixError

if TYPE_CHECKING:
    from datetime import datetime

CERTIFICATE = "tls.crt"
KEY = "tls.key"
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2; those of 1.3 are all good


class BadCertificate(RankfixError):
    """A certificate folder that no server can be started with."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its key, ready to serve; `digest` is of both files."""

    context: ssl.SSLContext = field(repr=False)
    digest: bytes
    leaf: bytes = field(repr=False)  # DER
    begins: datetime
    ends: datetime

    def time_fault(self, now: datetime) -> str | None:
        """Why it isn't valid now."""
        if now < self.begins:
            return f"valid only from {self.begins:%Y-%m-%d %H:%M} UTC"
        if now >= self.ends:
            return f"expired at {self.ends:%Y-%m-%d %H:%M} UTC"
        return None


def load(folder: Path, callers: str = "") -> Pair:
    """The pair in `folder`; raises `BadCertificate` with the file and the remedy, also where it changes meanwhile.

    `callers` is the file with the CA of the clients' certificates, empty where they need none.
    """
    for name in (CERTIFICATE, KEY):
        _must_be_readable(folder / name)
    before = digest(folder, callers)
    made = context(folder)
    if callers:
        _ask_for_certificate(made, callers)
    leaf = _leaf(folder)
    if digest(folder, callers) != before:
        raise BadCertificate(f"{folder}: changed while it was read: looked at again")
    return Pair(made, before, leaf.public_bytes(Encoding.DER), leaf.not_valid_before_utc, leaf.not_valid_after_utc)


def digest(folder: Path, callers: str = "") -> bytes:
    """Of the content of the files: a changed link, time or inode alone is no change. Empty if one can't be read."""
    found = hashlib.sha256()
    for path in (folder / CERTIFICATE, folder / KEY, *([Path(callers)] if callers else [])):
        try:
            data = path.read_bytes()
        except OSError:
            return b""
        found.update(b"%d:%b" % (len(data), data))
    return found.digest()


def context(folder: Path) -> ssl.SSLContext:
    """A server context from the pair in `folder`; raises `BadCertificate` with the file and the remedy."""
    for name in (CERTIFICATE, KEY):
        _must_be_readable(folder / name)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_ciphers(_CIPHERS)
    made.set_alpn_protocols(["http/1.1"])
    made.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    made.options |= ssl.OP_NO_TICKET  # who resumes a session never sees that the certificate has changed
    made.num_tickets = 0
    try:
        made.load_cert_chain(folder / CERTIFICATE, folder / KEY, password=_no_password)
    except ssl.SSLError as exc:
        raise BadCertificate(_explain(folder, exc)) from None
    except OSError as exc:  # it was there a moment ago
        raise BadCertificate(f"{folder}: {exc.strerror}: changed while it was read: looked at again") from None
    return made


def _ask_for_certificate(made: ssl.SSLContext, callers: str) -> None:
    """Of each client, and verify what it shows; to show none is no fault yet, since probes have none."""
    try:
        made.load_verify_locations(callers)
    except ssl.SSLError:
        raise BadCertificate(f"{callers}: holds no certificate of a CA in PEM: correct --client-ca") from None
    except OSError as exc:
        raise BadCertificate(f"{callers}: {exc.strerror}: correct --client-ca") from None
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # any certificate of the file is trusted, as in Go
    made.verify_mode = ssl.CERT_OPTIONAL


def _must_be_readable(path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as exc:
        raise BadCertificate(
            f"{path}: {exc.strerror}: point --cert-dir at a folder with {CERTIFICATE} and {KEY} "
            f"(rankfix-certs issue makes one), or use --plain-http"
        ) from None


def _leaf(folder: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificates((folder / CERTIFICATE).read_bytes())[0]
    except (OSError, ValueError, x509.InvalidVersion):
        raise BadCertificate(f"{folder / CERTIFICATE}: holds no certificate that can be read: renew it") from None


def _no_password() -> str:
    return ""  # without this OpenSSL would ask on the terminal, and a pod would wait for ever


def _explain(folder: Path, exc: ssl.SSLError) -> str:
    if exc.reason == "KEY_VALUES_MISMATCH":
        return f"{folder / KEY}: is not the key of {folder / CERTIFICATE}: renew both together"
    return (
        f"{folder}: {CERTIFICATE} and {KEY} are no usable PEM pair ({exc.reason or 'unreadable'}): renew both together"
    )

"""What certificates say of themselves: PEM in, facts and faults out. No clock, no file, no network.

A *fault* is a sentence that says why something can't be used any longer; None means that it can.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

_UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that could be read. Two are equal when their bytes are."""

    der: bytes = field(repr=False)
    x509: x509.Certificate = field(compare=False)

    @property
    def pem(self) -> bytes:
        return self.x509.public_bytes(serialization.Encoding.PEM)

    @property
    def begins(self) -> datetime:
        return self.x509.not_valid_before_utc

    @property
    def ends(self) -> datetime:
        return self.x509.not_valid_after_utc

    @property
    def fingerprint(self) -> str:
        """SHA-256, as hexadecimal digits."""
        return self.x509.fingerprint(hashes.SHA256()).hex()

    @property
    def short(self) -> str:
        """Enough of the fingerprint to tell a few apart."""
        return self.fingerprint[:8]


@dataclass(frozen=True, slots=True)
class Names:
    """What a server is called: DNS names in lower case, and addresses, each in one spelling."""

    dns: frozenset[str]
    ips: frozenset[str]

    @classmethod
    def of(cls, dns: Iterable[str], ips: Iterable[str]) -> Names:
        """Names as people write them, in the one spelling; an impossible address stays as it is."""
        return cls(frozenset(name.lower() for name in dns), frozenset(map(_address, ips)))

    def __str__(self) -> str:
        return ", ".join([*sorted(self.dns), *sorted(self.ips)]) or "none"


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text


def certificates(pem: bytes) -> tuple[Certificate, ...]:
    """Each certificate in `pem` that can be read, in order and once; whatever else stands there is passed over."""
    found: dict[bytes, Certificate] = {}
    for block in _BLOCK.findall(pem):
        try:
            read = _parsed(block)
        except _UNREADABLE:
            continue
        certificate = Certificate(read.public_bytes(serialization.Encoding.DER), read)
        found.setdefault(certificate.der, certificate)
    return tuple(found.values())


def _parsed(block: bytes) -> x509.Certificate:
    """With what is read of it only when it's asked for: what can't be parsed can't be judged."""
    read = x509.load_pem_x509_certificate(block)
    read.extensions, read.public_key(), read.not_valid_after_utc
    return read


def bundle(found: Iterable[Certificate]) -> bytes:
    """PEM of each, once, in order."""
    return b"".join(certificate.pem for certificate in dict.fromkeys(found))


def alive(found: Iterable[Certificate], now: datetime) -> tuple[Certificate, ...]:
    """Those that haven't ended."""
    return tuple(certificate for certificate in found if certificate.ends > now)


def names(certificate: Certificate) -> Names:
    """The subject's alternative names; nobody looks at the common name any more (bug 7)."""
    try:
        found = certificate.x509.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Names(frozenset(), frozenset())
    return Names.of(found.get_values_for_type(x509.DNSName), map(str, found.get_values_for_type(x509.IPAddress)))


def is_authority(certificate: Certificate) -> bool:
    """Whether it may sign others."""
    try:
        constraints = certificate.x509.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return False
    return constraints.ca


def is_server(certificate: Certificate) -> bool:
    """Whether it may be a TLS server's."""
    try:
        usages = certificate.x509.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return False
    return ExtendedKeyUsageOID.SERVER_AUTH in usages


def issued(certificate: Certificate, by: Certificate) -> bool:
    """Whether `by` signed it."""
    try:
        certificate.x509.verify_directly_issued_by(by.x509)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def trusted(certificate: Certificate, roots: Iterable[Certificate], now: datetime) -> bool:
    """Whether one of `roots`, alive, signed it, and it is valid now itself."""
    return certificate.begins <= now < certificate.ends and any(
        issued(certificate, by=root) for root in alive(roots, now)
    )


def strictly_trusted(certificate: Certificate, roots: Sequence[Certificate], name: str, now: datetime) -> str | None:
    """The fault that a strict verifier (RFC 5280, as X509_STRICT) finds when it asks for DNS `name`."""
    if not roots:
        return "nothing is trusted"
    store = Store([root.x509 for root in roots])
    try:
        verifier = PolicyBuilder().store(store).time(now).build_server_verifier(x509.DNSName(name))
        verifier.verify(certificate.x509, [])
    except (VerificationError, ValueError) as exc:
        return f"not trusted as {name}: {exc}"
    return None


def key_fault(certificate: Certificate, key: bytes) -> str | None:
    """Why `key` (PEM) isn't the private key of `certificate`."""
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        return f"the private key can't be read ({type(exc).__name__})"
    if private.public_key() != certificate.x509.public_key():
        return "the private key belongs to another certificate"
    return None


def time_fault(certificate: Certificate, now: datetime) -> str | None:
    """Why it isn't valid now."""
    if now < certificate.begins:
        return f"valid only from {certificate.begins:%Y-%m-%d %H:%M} UTC"
    if now >= certificate.ends:
        return f"expired at {certificate.ends:%Y-%m-%d %H:%M} UTC"
    return None


def left(certificate: Certificate, now: datetime) -> float:
    """The share of its life that is left: 1 at its beginning, 0 at its end and after."""
    whole: timedelta = certificate.ends - certificate.begins
    return max(0.0, (certificate.ends - now) / whole) if whole else 0.0


def due_fault(certificate: Certificate, now: datetime, renew_at: float) -> str | None:
    """Whether less than the share `renew_at` of its life is left."""
    share = left(certificate, now)
    if share > renew_at:
        return None
    return f"{share:.0%} of its life is left, renewed at {renew_at:.0%}"


def authority_fault(found: Sequence[Certificate], key: bytes, now: datetime, renew_at: float) -> str | None:
    """Why the first of `found` with `key` can't sign any more (or shouldn't, since its end is near)."""
    if not found:
        return "there is no authority"
    signer = found[0]
    if not is_authority(signer):
        return "the authority isn't one (basicConstraints)"
    if not key:
        return "the authority's private key isn't there"
    if not _is_of_our_make(signer):
        return f"authority {signer.short}: made by something else, which may still use it"
    fault = key_fault(signer, key) or time_fault(signer, now) or due_fault(signer, now, renew_at)
    return fault and f"authority {signer.short}: {fault}"


def _is_of_our_make(authority: Certificate) -> bool:
    """What `issue` can sign with: an elliptic key, and an identifier for leaves to name it by."""
    try:
        authority.x509.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except x509.ExtensionNotFound:
        return False
    return isinstance(authority.x509.public_key(), ec.EllipticCurvePublicKey)


def pair_fault(found: Sequence[Certificate], key: bytes, now: datetime) -> str | None:
    """Why the first of `found` with `key` can't serve now, whoever signed it."""
    if not found:
        return "there is no certificate"
    leaf = found[0]
    if not is_server(leaf):
        return "the certificate isn't a server's (extendedKeyUsage)"
    return key_fault(leaf, key) or time_fault(leaf, now)


def leaf_fault(  # noqa: PLR0913 - all that a leaf is judged by
    found: Sequence[Certificate], key: bytes, *, signer: Certificate, wanted: Names, now: datetime, renew_at: float
) -> str | None:
    """Why the first of `found` with `key` must be made anew; where its names aren't the `wanted`, too."""
    fault = pair_fault(found, key, now)
    if fault:
        return fault
    leaf = found[0]
    if not issued(leaf, by=signer):
        return f"the certificate isn't of authority {signer.short}"
    if names(leaf) != wanted:
        return f"the certificate is for {names(leaf)}, wanted: {wanted}"
    return due_fault(leaf, now, renew_at)

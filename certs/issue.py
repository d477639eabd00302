"""Make a certificate authority and a server certificate: P-256, PEM out, no clock and no file of its own.

Every certificate carries the whole set of extensions that OpenSSL's X509_STRICT (Python 3.13's default) and Go ask for:
basicConstraints and keyUsage (both critical), the key identifiers of itself and of its issuer, and on the leaf
subjectAltName and extendedKeyUsage serverAuth. Nobody looks at the common name any more; it says what the thing is.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence

BACKDATE = timedelta(hours=1)  # clocks of nodes differ: a certificate from "the future" is an outage

_DNS = re.compile(r"(?=.{1,253}\Z)(?:\*\.)?(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?\.)*"
                  r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?\Z")  # fmt: skip


class CertsError(Exception):
    """The root of this package's errors; the message is one line for a person."""


class BadSubject(CertsError):
    """A name, an address or a lifetime that no certificate can carry."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its private key, both PEM (the key PKCS #8, unencrypted). The key stays out of `repr`."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"Identity(certificate={self.certificate!r}, key=<hidden>)"


def make_ca(*, now: datetime, lifetime: timedelta, common_name: str = "rankfix CA") -> Identity:
    """A self-signed authority that may sign leaves only (path length 0); `now` must know its time zone."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
    builder = (
        _builder(name, name, key.public_key(), now, now + _positive(lifetime))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return _signed(builder, key, key)


def make_leaf(
    ca: Identity, *, names: Sequence[str] = (), ips: Sequence[str] = (), now: datetime, lifetime: timedelta
) -> Identity:
    """A server certificate for DNS `names` and IP addresses `ips`, signed by `ca` and never valid longer than it.

    Raises `BadSubject` for an empty or impossible list, and `CertsError` for an authority that can't be read.
    """
    ca_certificate, ca_key = _load(ca)
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + _positive(lifetime), ca_certificate.not_valid_after_utc)
    issuer_id = ca_certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(_name("rankfix webhook"), ca_certificate.subject, key.public_key(), now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id),
            critical=False,
        )
        .add_extension(x509.SubjectAlternativeName(_alternatives(names, ips)), critical=False)
    )
    return _signed(builder, key, ca_key)


def service_names(service: str, namespace: str, cluster_domain: str = "cluster.local") -> tuple[str, ...]:
    """The DNS names of a Service, shortest first; the API server asks for `service.namespace.svc`."""
    return (
        service,
        f"{service}.{namespace}",
        f"{service}.{namespace}.svc",
        f"{service}.{namespace}.svc.{cluster_domain}",
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _positive(lifetime: timedelta) -> timedelta:
    if lifetime <= timedelta(0):
        raise BadSubject(f"lifetime {lifetime} is over before it begins: give a positive one")
    return lifetime


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    if now >= end:
        raise BadSubject(f"the authority ended at {end:%Y-%m-%d %H:%M} UTC: make a new one before the leaf")
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,  # an EC key signs; it never wraps a key
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _alternatives(names: Sequence[str], ips: Sequence[str]) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = [_dns(name) for name in dict.fromkeys(names)]
    found += [_ip(text) for text in dict.fromkeys(ips)]
    if not found:
        raise BadSubject("a server certificate without names fits no server: give at least one --name or --ip")
    return found


def _dns(name: str) -> x509.DNSName:
    if not _DNS.match(name):
        raise BadSubject(
            f"{name[:80]!r} is no DNS name: labels of ASCII letters, digits, - and _, 253 characters in all"
        )
    return x509.DNSName(name)


def _ip(text: str) -> x509.IPAddress:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        raise BadSubject(f"{text[:80]!r} is no IP address: write it like 10.0.0.7 or fd00::7") from None


def _load(ca: Identity) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate(ca.certificate)
        key = serialization.load_pem_private_key(ca.key, password=None)
    except (ValueError, TypeError) as exc:
        raise CertsError(f"the authority's PEM can't be read ({type(exc).__name__}): make a new one") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise CertsError("the authority's key doesn't belong to its certificate: make a new one")
    return certificate, key


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> Identity:
    certificate = builder.sign(signer, hashes.SHA256())
    return Identity(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )

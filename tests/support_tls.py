"""What the tests of the server's certificate share: pairs of any age and kind, and a volume as the kubelet fills it."""

from __future__ import annotations

import itertools
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.issue import BACKDATE, Identity, make_ca, make_leaf

if TYPE_CHECKING:
    from pathlib import Path

DAY = timedelta(days=1)
NAMES = ["localhost", "rankfix.ml.svc"]


def now() -> datetime:
    return datetime.now(UTC)


def authority(*, age: timedelta = timedelta(0)) -> Identity:
    return make_ca(now=now() - age, lifetime=300 * DAY)


def pair(ca: Identity | None = None, *, age: timedelta = timedelta(0), life: timedelta = DAY) -> Identity:
    """An elliptic pair, made `age` ago to live for `life`."""
    ca = ca or authority(age=max(age, timedelta(0)))
    return make_leaf(ca, names=NAMES, ips=["127.0.0.1", "::1"], now=now() - age, lifetime=life)


def rsa_pair() -> Identity:
    """A self-signed pair of the other kind."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "rsa")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7, now() - BACKDATE, now() + DAY)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return Identity(
        certificate,
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def leaf(identity: Identity) -> bytes:
    """Its certificate as DER, as a handshake shows it."""
    return ssl.PEM_cert_to_DER_cert(identity.certificate.decode())


@dataclass
class Volume:
    """A Secret as the kubelet mounts it: links to files in `..data`, which is a link to a folder that it swaps."""

    path: Path
    turns: itertools.count[int] = field(default_factory=itertools.count)

    def bring(self, identity: Identity) -> None:
        self.bring_files(identity.certificate, identity.key)

    def bring_files(self, certificate: bytes, key: bytes) -> None:
        turn = self.path / f"..2026_{next(self.turns)}"
        turn.mkdir(parents=True)
        for name, data in (("tls.crt", certificate), ("tls.key", key)):
            (turn / name).write_bytes(data)
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(f"..data/{name}")
        fresh = self.path / "..data_tmp"
        fresh.symlink_to(turn.name)
        fresh.rename(self.path / "..data")


def volume(path: Path, identity: Identity) -> Volume:
    made = Volume(path)
    made.bring(identity)
    return made


def client(ca: Identity, name: str) -> Identity:
    """What an API server shows of itself."""
    authority_ = x509.load_pem_x509_certificate(ca.certificate)
    signer = serialization.load_pem_private_key(ca.key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(authority_.subject, subject, key.public_key(), 9, now() - BACKDATE, now() + DAY)
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(usage, critical=False).add_extension(issuer, critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    return Identity(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )

"""`certs.issue`: what the certificates must carry, and what can't be asked for."""

from __future__ import annotations

import ipaddress
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from certs.issue import BACKDATE, BadSubject, CertsError, Identity, make_ca, make_leaf

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
YEAR = timedelta(days=365)
NAMES = ["rankfix", "rankfix.ml", "rankfix.ml.svc", "rankfix.ml.svc.cluster.local", "*.example.org"]
IPS = ["10.0.0.7", "fd00::7"]


@pytest.fixture(scope="module", name="ca")
def _ca() -> Identity:
    return make_ca(now=NOW, lifetime=5 * YEAR)


@pytest.fixture(scope="module", name="leaf")
def _leaf(ca: Identity) -> Identity:
    return make_leaf(ca, names=NAMES, ips=IPS, now=NOW, lifetime=timedelta(days=90))


def read(identity: Identity) -> x509.Certificate:
    return x509.load_pem_x509_certificate(identity.certificate)


def test_subject_alternative_names(leaf: Identity) -> None:
    """Every name and address asked for is in the certificate, in order, and no other."""
    names = read(leaf).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == NAMES
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address(text) for text in IPS]


def test_a_name_asked_for_twice_is_there_once(ca: Identity) -> None:
    """Names are a set to a verifier."""
    leaf = make_leaf(ca, names=["a", "b", "a"], ips=["::1", "::1"], now=NOW, lifetime=YEAR)
    assert len(read(leaf).extensions.get_extension_for_class(x509.SubjectAlternativeName).value) == 3


def test_bug_8_whole_extension_set(ca: Identity, leaf: Identity) -> None:
    """Bug 8: X509_STRICT wants key identifiers, key usage and basic constraints, the last two critical."""
    root, server = read(ca), read(leaf)
    for certificate, is_ca in ((root, True), (server, False)):
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
        assert constraints.critical
        assert usage.critical
        assert constraints.value == x509.BasicConstraints(ca=is_ca, path_length=0 if is_ca else None)
        assert (usage.value.key_cert_sign, usage.value.crl_sign, usage.value.digital_signature) == (
            is_ca,
            is_ca,
            not is_ca,
        )
        own = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        assert own == x509.SubjectKeyIdentifier.from_public_key(certificate.public_key())
        issuer = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
        assert issuer.key_identifier == root.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    usages = server.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_keys_are_p256_and_fresh(ca: Identity, leaf: Identity) -> None:
    """Signing by RSA costs 73 s under load elsewhere (bug 38); no two identities share a key or a serial number."""
    other = make_ca(now=NOW, lifetime=YEAR)
    keys = [serialization.load_pem_private_key(identity.key, None) for identity in (ca, leaf, other)]
    assert all(isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1) for key in keys)
    assert len({identity.key for identity in (ca, leaf, other)}) == 3
    serials = {read(identity).serial_number for identity in (ca, leaf, other)}
    assert len(serials) == 3
    assert all(serial.bit_length() > 64 for serial in serials)


def test_bug_2_not_before_is_back_dated(ca: Identity, leaf: Identity) -> None:
    """Bug 2: a node whose clock is behind must take the certificate at once."""
    for certificate in (read(ca), read(leaf)):
        assert certificate.not_valid_before_utc == NOW - timedelta(hours=1) == NOW - BACKDATE


def test_lifetimes_are_arguments(ca: Identity, leaf: Identity) -> None:
    """They count from now, not from the back-dated beginning."""
    assert read(ca).not_valid_after_utc == NOW + 5 * YEAR
    assert read(leaf).not_valid_after_utc == NOW + timedelta(days=90)


def test_a_leaf_never_outlives_its_authority() -> None:
    """A longer life would be a promise that no verifier keeps."""
    ca = make_ca(now=NOW, lifetime=timedelta(days=10))
    assert read(make_leaf(ca, names=["a"], now=NOW, lifetime=YEAR)).not_valid_after_utc == NOW + timedelta(days=10)


def test_an_expired_authority_signs_nothing() -> None:
    """What it would sign could be verified by nobody."""
    ca = make_ca(now=NOW, lifetime=timedelta(days=1))
    with pytest.raises(BadSubject, match="ended at 2026-12-01"):
        make_leaf(ca, names=["a"], now=NOW + timedelta(days=2), lifetime=YEAR)


@pytest.mark.parametrize("name", NAMES[:4])
def test_verifies_by_an_independent_path_builder(ca: Identity, leaf: Identity, name: str) -> None:
    """A strict RFC 5280 verifier takes leaf and authority for each name."""
    verifier = PolicyBuilder().store(Store([read(ca)])).time(NOW).build_server_verifier(x509.DNSName(name))
    assert verifier.verify(read(leaf), []) == [read(leaf), read(ca)]


@pytest.mark.parametrize("name", ["rankfix.ml.svc", "a.example.org"])
def test_bug_8_verifies_under_openssl_strict(tmp_path: Path, name: str) -> None:
    """Bug 8: `openssl verify -x509_strict` takes it."""
    ca = make_ca(now=datetime.now(UTC), lifetime=YEAR)
    leaf = make_leaf(ca, names=NAMES, now=datetime.now(UTC), lifetime=YEAR)
    (tmp_path / "ca.crt").write_bytes(ca.certificate)
    (tmp_path / "tls.crt").write_bytes(leaf.certificate)
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", name]
    ran = subprocess.run(
        [*command, "-CAfile", tmp_path / "ca.crt", tmp_path / "tls.crt"], capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def test_a_handshake_under_strict_flags(tmp_path: Path) -> None:
    """Python 3.13's default flags, set by hand, take the pair in a real handshake."""
    ca = make_ca(now=datetime.now(UTC), lifetime=YEAR)
    leaf = make_leaf(ca, names=["rankfix.ml.svc"], now=datetime.now(UTC), lifetime=YEAR)
    (tmp_path / "tls.crt").write_bytes(leaf.certificate)
    (tmp_path / "tls.key").write_bytes(leaf.key)
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client_side = ssl.create_default_context(cadata=ca.certificate.decode())
    client_side.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    client = client_side.wrap_bio(to_client, to_server, server_hostname="rankfix.ml.svc")
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert client.getpeercert()


@pytest.mark.parametrize(
    ("names", "ips", "problem"),
    [
        ([], [], "at least one"),
        (["a b"], [], "no DNS name"),
        ([""], [], "no DNS name"),
        (["-a"], [], "no DNS name"),
        (["a-"], [], "no DNS name"),
        (["a..b"], [], "no DNS name"),
        (["a."], [], "no DNS name"),
        (["é.example"], [], "no DNS name"),
        (["a.*.b"], [], "no DNS name"),
        (["a" * 64], [], "no DNS name"),
        ([".".join(["a" * 60] * 5)], [], "no DNS name"),
        (["a\n"], [], "no DNS name"),
        ([], ["10.0.0"], "no IP address"),
        ([], ["10.0.0.0/8"], "no IP address"),
        ([], [""], "no IP address"),
    ],
)
def test_impossible_subjects(ca: Identity, names: list[str], ips: list[str], problem: str) -> None:
    """What can't be a name of a server is refused in one line, not written into a certificate."""
    with pytest.raises(BadSubject, match=problem) as caught:
        make_leaf(ca, names=names, ips=ips, now=NOW, lifetime=YEAR)
    assert "\n" not in str(caught.value)


def test_bug_7_a_long_service_name_fits() -> None:
    """The common name holds 64 characters at most; names of Services may be longer (bug 7: they are SANs)."""
    name = f"{'r' * 63}.{'n' * 63}.svc"
    leaf = make_leaf(make_ca(now=NOW, lifetime=YEAR), names=[name], now=NOW, lifetime=YEAR)
    names = read(leaf).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [name]


@pytest.mark.parametrize("days", [0, -1])
def test_lifetimes_must_be_positive(ca: Identity, days: int) -> None:
    """Neither kind of certificate is made for a life that is over."""
    with pytest.raises(BadSubject, match="positive"):
        make_ca(now=NOW, lifetime=timedelta(days=days))
    with pytest.raises(BadSubject, match="positive"):
        make_leaf(ca, names=["a"], now=NOW, lifetime=timedelta(days=days))


def test_an_authority_that_cannot_be_read(ca: Identity, leaf: Identity) -> None:
    """Corrupt PEM, a foreign key and a key of another kind are told apart from a bad request."""
    other = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for broken in (Identity(b"", ca.key), Identity(ca.certificate, b"junk"), Identity(ca.certificate, ca.key[:60])):
        with pytest.raises(CertsError, match="can't be read"):
            make_leaf(broken, names=["a"], now=NOW, lifetime=YEAR)
    for broken in (Identity(ca.certificate, leaf.key), Identity(ca.certificate, other)):
        with pytest.raises(CertsError, match="doesn't belong"):
            make_leaf(broken, names=["a"], now=NOW, lifetime=YEAR)


def test_the_key_stays_out_of_repr(ca: Identity) -> None:
    """Bug 47: what gets printed by accident holds no secret."""
    assert "PRIVATE" not in repr(ca)
    assert "hidden" in repr(ca)

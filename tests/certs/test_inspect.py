"""`certs.inspect`: facts and faults of certificates, good and bad."""

from __future__ import annotations

import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from certs import inspect
from certs.issue import Identity, make_ca, make_leaf
from tests.support_certs import NAMES, NOW

if TYPE_CHECKING:
    from pathlib import Path

DAY = timedelta(days=1)


@pytest.fixture(scope="module", name="ca")
def _ca() -> Identity:
    return make_ca(now=NOW, lifetime=1000 * DAY)


@pytest.fixture(scope="module", name="leaf")
def _leaf(ca: Identity) -> Identity:
    return make_leaf(ca, names=NAMES, now=NOW, lifetime=90 * DAY)


def read(identity: Identity) -> inspect.Certificate:
    return inspect.certificates(identity.certificate)[0]


def test_a_bundle_is_read_as_far_as_it_can_be(ca: Identity, leaf: Identity) -> None:
    """In order, each once; text, garbage, keys and cut certificates between them are passed over."""
    broken = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    pem = b"text\n" + leaf.certificate + broken + leaf.key + ca.certificate + b"\xff\n" + leaf.certificate
    assert inspect.certificates(pem) == (read(leaf), read(ca))
    assert inspect.certificates(b"") == ()
    assert inspect.bundle([read(ca), read(leaf), read(ca)]) == ca.certificate + leaf.certificate


def test_a_certificate_whose_extensions_are_broken(ca: Identity) -> None:
    """It parses, but nothing in it can be judged: it counts as unreadable."""
    der = ssl.PEM_cert_to_DER_cert(ca.certificate.decode())
    broken = der.replace(bytes.fromhex("0603551d13"), bytes.fromhex("0603551d0f"))  # keyUsage twice
    assert broken != der
    assert inspect.certificates(ssl.DER_cert_to_PEM_cert(broken).encode()) == ()


def test_trust_is_signature_and_time(ca: Identity, leaf: Identity) -> None:
    """Another authority with the same name doesn't do."""
    other = make_ca(now=NOW, lifetime=1000 * DAY)
    assert inspect.trusted(read(leaf), [read(other), read(ca)], NOW)
    assert not inspect.trusted(read(leaf), [read(other)], NOW)
    assert not inspect.trusted(read(leaf), [], NOW)
    assert not inspect.trusted(read(leaf), [read(ca)], NOW + 91 * DAY)
    assert not inspect.trusted(read(leaf), [read(ca)], NOW - DAY)
    assert not inspect.issued(read(ca), by=read(leaf))


@pytest.mark.parametrize("behind", [timedelta(minutes=5), timedelta(minutes=59)])
def test_bug_2_a_verifier_whose_clock_is_behind(ca: Identity, leaf: Identity, behind: timedelta) -> None:
    """Bug 2: nodes' clocks differ; a certificate made just now verifies where it's an hour ago."""
    assert inspect.strictly_trusted(read(leaf), [read(ca)], "rankfix.ml.svc", NOW - behind) is None


@pytest.mark.parametrize("bundled", [1, 2, 3])
@pytest.mark.parametrize("signer", [0, 1, 2])
def test_bug_8_leaves_verify_strictly_among_authorities_of_one_name(tmp_path: Path, bundled: int, signer: int) -> None:
    """Bugs 3 and 8: in the midst of a rotation a bundle holds authorities with one and the same name and several keys;
    Python with VERIFY_X509_STRICT and openssl find the one that signed by its key identifier, in any order.
    """
    now = datetime.now(UTC)
    authorities = [make_ca(now=now, lifetime=DAY) for _ in range(3)]
    leaf = make_leaf(authorities[signer], names=NAMES, now=now, lifetime=DAY)
    pem = b"".join(one.certificate for one in authorities[:bundled])
    good = signer < bundled
    assert handshake(tmp_path, leaf, pem) is good
    (tmp_path / "ca.crt").write_bytes(pem)
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", "rankfix.ml.svc"]
    ran = subprocess.run(
        [*command, "-CAfile", tmp_path / "ca.crt", tmp_path / "tls.crt"], capture_output=True, check=False
    )
    assert (ran.returncode == 0) is good
    found = inspect.strictly_trusted(read(leaf), inspect.certificates(pem), "rankfix.ml.svc", now)
    assert (found is None) is good


def handshake(folder: Path, leaf: Identity, pem: bytes) -> bool:
    """Whether a strict client that trusts `pem` takes a server with `leaf`."""
    (folder / "tls.crt").write_bytes(leaf.certificate)
    (folder / "tls.key").write_bytes(leaf.key)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    asking = ssl.create_default_context(cadata=pem.decode())
    asking.verify_flags |= ssl.VERIFY_X509_STRICT
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(up, down, server_side=True)
    client = asking.wrap_bio(down, up, server_hostname="rankfix.ml.svc")
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError:
            return False
    return True


def test_strict_faults(ca: Identity, leaf: Identity) -> None:
    """The sentence says for which name."""
    assert inspect.strictly_trusted(read(leaf), [], "rankfix", NOW) == "nothing is trusted"
    fault = inspect.strictly_trusted(read(leaf), [read(ca)], "other.ml.svc", NOW)
    assert fault
    assert fault.startswith("not trusted as other.ml.svc: ")


def test_life(leaf: Identity) -> None:
    """A share of the whole life, the back-dated hour included; nothing after its end."""
    assert inspect.left(read(leaf), read(leaf).begins) == 1
    assert inspect.left(read(leaf), read(leaf).ends) == inspect.left(read(leaf), NOW + 900 * DAY) == 0
    assert inspect.due_fault(read(leaf), NOW + 59 * DAY, 0.33) is None
    assert inspect.due_fault(read(leaf), NOW + 61 * DAY, 0.33) == "32% of its life is left, renewed at 33%"


def test_names_have_one_spelling() -> None:
    """Case and the spelling of addresses are no difference; what is no address stays as it is."""
    assert inspect.Names.of(["A.b"], ["fd00:0::1"]) == inspect.Names.of(["a.B"], ["FD00::1"])
    assert str(inspect.Names.of(["b", "a"], ["::1", "x"])) == "a, b, ::1, x"
    assert str(inspect.Names.of([], [])) == "none"


def test_keys(ca: Identity, leaf: Identity) -> None:
    """Unreadable, and another's, in words that hold nothing of the key."""
    assert inspect.key_fault(read(leaf), leaf.key) is None
    assert inspect.key_fault(read(leaf), b"x") == "the private key can't be read (ValueError)"
    assert inspect.key_fault(read(leaf), ca.key) == "the private key belongs to another certificate"


def test_printing_a_certificate_is_short(leaf: Identity) -> None:
    """Neither its bytes nor its PEM."""
    assert len(repr(read(leaf))) < 300
    assert read(leaf).fingerprint.startswith(read(leaf).short)

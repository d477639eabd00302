"""`certs.rotate` with `certs.drive`: what happens to an identity in a cluster, and that trust never has a gap."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from certs import inspect
from certs.drive import Issuer, Unfinished, finish
from certs.issue import BACKDATE, make_ca, make_leaf, service_names
from tests.support_certs import (
    CONFIGURATION,
    NAMES,
    NOW,
    PLACE,
    SECRET,
    Crash,
    Replica,
    World,
    configuration,
    encoded,
    entry,
    installed,
    settled,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certs.rotate import Action

DAY = timedelta(days=1)
LONG = timedelta(seconds=20)
FULL = ["NewAuthority", "Publish", "Settle", "NewLeaf", "AwaitReplicas", "Forget", "Publish", "Done"]


def fresh(**more: Any) -> World:
    world = World(replicas=[Replica("10.0.0.1:8443"), Replica("10.0.0.2:8443")], **more)
    world.api.put(CONFIGURATION, configuration())
    return world


def without_repeats(said: list[str]) -> list[str]:
    return [name for index, name in enumerate(said) if index == 0 or said[index - 1] != name]


def test_a_first_install() -> None:
    """Authority into the Secret, published, leaf: three writes, no waiting, and everything verifies."""
    world = fresh()
    settled(world, world.run())
    assert world.said == ["NewAuthority", "Publish", "NewLeaf", "Done"]
    assert world.clock.now == NOW
    assert len(world.api.writes()) == 3
    assert world.bundle() == world.data("ca.crt") == world.signer().pem
    assert inspect.trusted(world.leaf(), [world.signer()], NOW)
    assert inspect.names(world.leaf()) == inspect.Names.of(NAMES, ())
    secret = world.api.objects[SECRET]
    assert secret["type"] == "kubernetes.io/tls"
    assert sorted(secret["data"]) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]


def test_nothing_to_do_writes_nothing() -> None:
    """A second run reads two objects, asks nobody, and says until when all is well."""
    world = installed()
    done = settled(world, world.run())
    assert world.said == ["Done"]
    assert world.api.writes() == []
    assert len(world.api.calls) == 2
    ends = world.leaf().ends
    assert done.until == ends - (ends - world.leaf().begins) / 3  # type: ignore[union-attr] # settled gives Done
    assert world.leaf().short in done.why


def test_bug_1_a_leaf_is_renewed_when_a_third_is_left() -> None:
    """Bug 1: well ahead of its end; the authority stays, so nobody has to wait for anybody."""
    world = installed()
    before, signer = world.leaf(), world.signer()
    world.clock.now = before.ends - (before.ends - before.begins) / 3 - timedelta(seconds=1)
    settled(world, world.run())
    assert world.leaf() == before
    world.clock.now += timedelta(seconds=1)
    world.said.clear()
    settled(world, world.run())
    assert world.said == ["NewLeaf", "Done"]
    assert world.leaf().ends > before.ends
    assert world.signer() == signer


@pytest.mark.parametrize("way", ["due", "force"])
def test_bug_3_an_authority_is_replaced_without_a_gap(way: str) -> None:
    """Bug 3: both published, then the leaf, then each replica, then the old one goes; trust holds at each write."""
    world = installed()
    old, leaf = world.signer(), world.leaf()
    gaps: list[list[str]] = []
    world.api.after = lambda _method, _path: gaps.append(world.untrusted())
    if way == "due":
        world.clock.now = old.ends - (old.ends - old.begins) / 3
        world.replicas[0].certificate = world.replicas[1].certificate = b""  # they have ended long before
    run = world.run(replace=old.fingerprint if way == "force" else None)
    settled(world, run)
    assert not any(gaps)
    assert without_repeats(world.said) == FULL
    assert world.signer() != old
    assert world.leaf() != leaf
    assert world.bundle() == world.data("ca.crt") == world.signer().pem
    assert [one.leaf for one in world.replicas] == [world.leaf(), world.leaf()]


def test_bug_3_both_are_published_while_both_are_served() -> None:
    """Bug 3: the caBundle holds old and new for as long as one replica serves the old leaf."""
    world = installed()
    old = world.signer()
    run = world.run(replace=old.fingerprint)
    with pytest.raises(Unfinished, match=r"10\.0\.0\.2"):
        finish(run, sleep=lambda seconds: slow(world, seconds), timeout=LONG)
    assert inspect.certificates(world.bundle()) == (world.signer(), old)
    assert inspect.certificates(world.data("ca.crt")) == (world.signer(), old)
    assert not world.untrusted()
    settled(world, world.run())
    assert inspect.certificates(world.bundle()) == (world.signer(),)


def slow(world: World, seconds: float) -> None:
    """Only the first replica gets what is new."""
    world.clock.sleep(seconds)
    world.replicas[0].take(world.data("tls.crt"), world.data("tls.key"), world.clock.now)


@pytest.mark.parametrize(
    ("ready", "leaf", "waits"),
    [(True, True, False), (True, False, True), (False, False, False), (False, True, False)],
)
def test_who_is_waited_for(*, ready: bool, leaf: bool, waits: bool) -> None:
    """A replica that is ready must show the new leaf; one that isn't may be silent, but not serve the old one."""
    world = installed(replicas=1)
    run = world.run(replace=world.signer().fingerprint)
    world.replicas[0].ready = ready

    def sleep(seconds: float) -> None:
        world.sleep(seconds)
        world.replicas[0].certificate = world.data("tls.crt") if leaf else b""

    if waits:
        with pytest.raises(Unfinished, match="not yet served"):
            finish(run, sleep=sleep, timeout=LONG)
    else:
        assert finish(run, sleep=sleep, timeout=LONG)


def test_an_unready_replica_with_the_old_leaf_is_waited_for() -> None:
    """It may be ready the next moment."""
    world = installed(replicas=1)
    world.replicas[0].ready = False
    with pytest.raises(Unfinished, match="not yet served"):
        finish(world.run(replace=world.signer().fingerprint), sleep=world.clock.sleep, timeout=LONG)


def test_an_authority_stands_before_it_is_used() -> None:
    """API servers learn of a caBundle one after another: the leaf waits for the time that is set."""
    world = installed()
    settled(world, world.run(replace=world.signer().fingerprint, settle=timedelta(seconds=20)))
    assert timedelta(seconds=20) <= world.clock.now - NOW < timedelta(seconds=30)


def test_time_begins_anew_when_the_bundle_changes_meanwhile() -> None:
    """What counts is how long these very bundles have stood."""
    world = installed()
    run = world.run(replace=world.signer().fingerprint, settle=timedelta(seconds=20))
    steps = run.steps()
    while world.said[-1:] != ["Settle"]:
        next(steps)
    world.clock.sleep(19)
    blank(world)
    while world.said[-1:] != ["NewLeaf"]:
        next(steps)
        if world.said[-1:] == ["Settle"]:
            world.clock.sleep(1)
    assert world.clock.now - NOW >= timedelta(seconds=39)


def blank(world: World) -> None:
    def change(found: dict[str, Any]) -> None:
        for one in found["webhooks"]:
            one["clientConfig"].pop("caBundle", None)

    world.edit(CONFIGURATION, change)


def test_bug_1_an_expired_pair_is_replaced_at_once() -> None:
    """Bug 1: the cluster was off while the certificate ended; the next run makes a new one, and waits for nothing."""
    world = installed()
    world.clock.now = world.leaf().ends + DAY
    start = world.clock.now
    settled(world, world.run())
    assert world.said == ["NewLeaf", "Done"]
    assert world.clock.now == start
    assert world.leaf().ends > start


def test_bug_1_an_expired_authority_is_replaced_at_once() -> None:
    """Bug 1: also where the authority has ended; nothing that has ended is kept, so there is nothing to wait for."""
    world = installed()
    old = world.signer()
    world.clock.now = old.ends + DAY
    settled(world, world.run())
    assert world.said == ["NewAuthority", "Publish", "NewLeaf", "Done"]
    assert old not in inspect.certificates(world.bundle() + world.data("ca.crt"))


def test_bug_1_a_life_of_five_seconds() -> None:
    """Bug 1: a pair that lives for seconds is renewed again and again, never late."""
    world = World(replicas=[Replica()])
    world.api.put(CONFIGURATION, configuration())
    issuer = Issuer(NAMES, leaf_lifetime=timedelta(seconds=5))
    leaves = set()
    for _ in range(20):
        settled(world, world.run(issuer=issuer, renew_at=0.0005))  # of its whole life, the back-dated hour included
        assert inspect.time_fault(world.leaf(), world.clock.now) is None
        leaves.add(world.leaf().fingerprint)
        world.sleep(1)
    assert len(leaves) > 4


@pytest.mark.parametrize(
    "damage",
    [
        {"tls_crt": b""},
        {"tls_key": b""},
        {"tls_crt": b"garbage"},
        {"tls_key": b"garbage"},
        {"tls_crt": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
        {"ca_key": b""},
        {"ca_key": b"garbage"},
        {"ca_crt": b""},
        {"ca_crt": b"garbage"},
        {"ca_crt": b"", "ca_key": b"", "tls_crt": b"", "tls_key": b""},
    ],
    ids=str,
)
def test_a_corrupt_secret_is_mended(damage: dict[str, bytes]) -> None:
    """Whatever is broken is made anew in one run, and what replicas still serve is trusted all the while."""
    world = installed()
    world.set(**damage)
    gaps: list[list[str]] = []
    world.api.after = lambda _method, _path: gaps.append(world.untrusted())
    settled(world, world.run())
    assert not any(gaps)
    assert inspect.pair_fault(inspect.certificates(world.data("tls.crt")), world.data("tls.key"), NOW) is None
    assert inspect.authority_fault(inspect.certificates(world.data("ca.crt")), world.data("ca.key"), NOW, 0.3) is None
    assert inspect.trusted(world.leaf(), inspect.certificates(world.bundle()), world.clock.now)


@pytest.mark.parametrize("key", ["tls_key", "ca_key"])
def test_bug_6_a_key_of_another_certificate(key: str) -> None:
    """Bug 6: a mismatched pair in the Secret is no pair."""
    world = installed()
    other = make_ca(now=NOW, lifetime=DAY)
    world.set(**{key: other.key})
    settled(world, world.run())
    assert world.said[0] == ("NewLeaf" if key == "tls_key" else "NewAuthority")
    assert inspect.pair_fault(inspect.certificates(world.data("tls.crt")), world.data("tls.key"), NOW) is None


def test_a_secret_that_was_deleted() -> None:
    """What replicas serve from memory stays trusted: the old authority is taken from the caBundle."""
    world = installed()
    old = world.signer()
    del world.api.objects[SECRET]
    gaps: list[list[str]] = []
    world.api.after = lambda _method, _path: gaps.append(world.untrusted())
    settled(world, world.run())
    assert not any(gaps)
    assert without_repeats(world.said) == FULL
    assert old not in inspect.certificates(world.bundle())


def test_bug_7_the_names_are_the_services() -> None:
    """Bug 7: each form of the Service's name is in the certificate, for clients that look at nothing else."""
    world = installed()
    assert inspect.names(world.leaf()).dns == {
        "rankfix",
        "rankfix.ml",
        "rankfix.ml.svc",
        "rankfix.ml.svc.cluster.local",
    }


@pytest.mark.parametrize(
    ("issuer", "again"),
    [
        (Issuer(tuple(reversed(NAMES))), False),
        (Issuer(tuple(name.upper() for name in NAMES)), False),
        (Issuer((*NAMES, "more.example.org")), True),
        (Issuer(NAMES[1:]), True),
        (Issuer(NAMES, ("10.0.0.9",)), True),
        (Issuer(service_names("rankfix", "ml", "corp.example")), True),
    ],
)
def test_bug_7_a_change_of_names_makes_a_new_leaf(*, issuer: Issuer, again: bool) -> None:
    """Bug 7: names that were added or taken away count, their order and spelling don't."""
    world = installed()
    before = world.leaf()
    settled(world, world.run(issuer=issuer))
    assert (world.leaf() != before) is again
    assert inspect.names(world.leaf()) == inspect.Names.of(issuer.names, issuer.ips)


def test_addresses_have_one_spelling() -> None:
    """fd00:0:0::7 and fd00::7 are the same address: no drift."""
    world = installed(issuer=Issuer(NAMES, ("fd00:0:0::7",)))
    settled(world, world.run(issuer=Issuer(NAMES, ("fd00::7",))))
    assert world.said == ["Done"]


def test_bug_4_five_installs_at_once_give_one_authority() -> None:
    """Bug 4: whoever writes first wins; the others read again, and find nothing left to do."""
    world = fresh()
    runs = [world.run().steps() for _ in range(5)]
    while runs:
        for run in list(runs):
            if next(run, "over") == "over":
                runs.remove(run)
    assert world.said.count("Conflict") >= 4
    assert world.bundle() == world.data("ca.crt") == world.signer().pem
    assert inspect.trusted(world.leaf(), [world.signer()], NOW)
    assert world.said.count("Done") == 5
    assert len([call for call in world.api.calls if call[0] == "POST"]) == 5


def test_bug_4_five_forced_rotations_at_once_replace_the_authority_once() -> None:
    """Bug 4: each was asked to replace the same authority, and it is gone after the first."""
    world = installed()
    old = world.signer()
    runs = [world.run(replace=old.fingerprint).steps() for _ in range(5)]
    seen = {world.signer()}
    while runs:
        for run in list(runs):
            if next(run, "over") == "over":
                runs.remove(run)
            seen.add(world.signer())
            assert not world.untrusted()
        world.sleep(1)
    assert len(seen) == 2
    assert len(inspect.certificates(world.bundle())) == 1


def writes_of_a_rotation() -> int:
    world = installed()
    settled(world, world.run(replace=world.signer().fingerprint))
    return len(world.api.calls)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_bug_3_a_crash_at_any_call_is_continued_by_the_next_run(moment: str) -> None:
    """After each call to the API (whose answer may be lost), trust holds and the next run ends what this one began."""
    calls = writes_of_a_rotation()
    assert calls > 20
    for number in range(calls):
        world = installed()
        old, left = world.signer(), [number]

        def crash(_method: str, _path: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                raise Crash

        setattr(world.api, moment, crash)
        with pytest.raises(Crash):
            settled(world, world.run(replace=old.fingerprint))
        world.api.before = world.api.after = lambda _method, _path: None
        assert not world.untrusted()
        settled(world, world.run())
        assert world.bundle() == world.data("ca.crt") == world.signer().pem
        assert [one.leaf for one in world.replicas] == [world.leaf(), world.leaf()]
        assert not world.untrusted()


def advance(world: World, steps: Iterator[Action | None], count: int) -> None:
    """So many steps; the kubelets are quick, and trust is looked at after each."""
    for _ in range(count):
        next(steps, None)
        world.sync()
        assert not world.untrusted()


@pytest.mark.parametrize("began", ["at rest", "before the old one is taken out"])
@pytest.mark.parametrize("paused", [1, 2, 3])
def test_bug_3_a_run_with_an_old_view_takes_nothing_away(began: str, paused: int) -> None:
    """Of two runs the one stops after some calls, for as long as the other needs to do some or all of a rotation, and
    goes on with what it had read. For each place to stop and each length of the other's work, trust has no gap.
    """
    for length in range(2, 28, 3):  # after it has read both objects, where it is most in danger of knowing too little
        world = installed()
        quick = timedelta(0)
        if began != "at rest":
            run = world.run(replace=world.signer().fingerprint, settle=quick).steps()
            while world.said[-1:] != ["Forget"]:
                advance(world, run, 1)
        slow, other = (
            world.run(settle=quick).steps(),
            world.run(replace=world.signer().fingerprint, settle=quick).steps(),
        )
        advance(world, slow, paused)
        advance(world, other, length)
        advance(world, slow, 12)
        advance(world, other, 40)


def test_bug_9_a_blanked_bundle_is_filled_again() -> None:
    """Bug 9: the next look puts it back, and does nothing else."""
    world = installed()
    before = world.bundle()
    blank(world)
    settled(world, world.run())
    assert world.said == ["Publish", "Done"]
    assert world.bundle() == before


def test_bug_9_a_bundle_blanked_in_the_midst_of_a_rotation() -> None:
    """Bug 9: all that is in use is published again, not only the newest."""
    world = installed()
    old = world.signer()
    with pytest.raises(Unfinished):
        finish(world.run(replace=old.fingerprint), sleep=world.clock.sleep, timeout=LONG)
    blank(world)
    with pytest.raises(Unfinished):
        finish(world.run(), sleep=world.clock.sleep, timeout=LONG)
    assert inspect.certificates(world.bundle()) == (world.signer(), old)
    assert not world.untrusted()


@pytest.mark.parametrize("present", [None, "", encoded(b"garbage")])
def test_bug_10_entries_are_found_by_their_names(present: str | None) -> None:
    """Bug 10: entries in another order, others' between them, and a caBundle that is absent, empty or garbage."""
    client = {} if present is None else {"caBundle": present}
    world = fresh()
    world.api.put(
        CONFIGURATION,
        configuration(
            entry("other", service="other", caBundle="x"),
            entry("b", **client),
            entry("elsewhere", namespace="prod"),
            entry("a", **client),
        ),
    )
    settled(world, world.run())
    assert world.bundle(1) == world.bundle(3) == world.data("ca.crt")
    webhooks = world.api.objects[CONFIGURATION]["webhooks"]
    assert webhooks[0]["clientConfig"]["caBundle"] == "x"
    assert "caBundle" not in webhooks[2]["clientConfig"]


def test_what_others_trusted_stays_until_nobody_needs_it() -> None:
    """Coming from another issuer: its authority is kept while its leaf is served, in the Secret and in the caBundle."""
    ca = make_ca(now=NOW, lifetime=1000 * DAY, common_name="theirs")
    leaf = make_leaf(ca, names=NAMES, now=NOW, lifetime=90 * DAY)
    world = fresh()
    world.api.put(CONFIGURATION, configuration(entry("pods.rankfix", caBundle=encoded(ca.certificate))))
    data = {"tls.crt": encoded(leaf.certificate), "tls.key": encoded(leaf.key), "ca.crt": encoded(ca.certificate)}
    world.api.put(SECRET, {"metadata": {"name": "rankfix-tls"}, "type": "kubernetes.io/tls", "data": data})
    world.sync()
    gaps: list[list[str]] = []
    world.api.after = lambda _method, _path: gaps.append(world.untrusted())
    settled(world, world.run())
    assert not any(gaps)
    assert without_repeats(world.said) == FULL
    assert world.bundle() == world.signer().pem


def test_further_authorities_stay() -> None:
    """--trust: published beside our own, before a move to another issuer, and never dropped."""
    world = installed()
    (theirs,) = inspect.certificates(make_ca(now=NOW, lifetime=DAY).certificate)
    for _ in range(2):
        settled(world, world.run(trust=(theirs,)))
        assert inspect.certificates(world.bundle()) == (world.signer(), theirs)
    settled(world, world.run())
    assert inspect.certificates(world.bundle()) == (world.signer(),)


def test_without_a_configuration_the_secret_is_made_all_the_same() -> None:
    """The configuration may come later: the Secret is ready, the run says what it waits for."""
    world = World()
    with pytest.raises(Unfinished, match="isn't there yet"):
        finish(world.run(), sleep=world.sleep, timeout=LONG)
    assert inspect.trusted(world.leaf(), [world.signer()], world.clock.now)
    world.api.put(CONFIGURATION, configuration())
    settled(world, world.run())
    assert world.bundle() == world.data("ca.crt")


def test_nothing_is_published_where_nobody_asked_for_it() -> None:
    """Without a configuration's name a run ends with the Secret."""
    world = World(place=PLACE.__class__("ml", "rankfix-tls", "rankfix"))
    settled(world, world.run(publish=False))
    assert world.said == ["NewAuthority", "NewLeaf", "Done"]
    settled(world, world.run(publish=False, replace=world.signer().fingerprint))
    assert inspect.certificates(world.data("ca.crt")) == (world.signer(),)


def test_without_asking_replicas_a_run_ends_before_them() -> None:
    """`issue` at an install: no replica can serve before it ends."""
    world = installed()
    assert finish(world.run(), sleep=world.sleep, timeout=LONG, ask=False)
    run = world.run(replace=world.signer().fingerprint)
    assert finish(run, sleep=world.sleep, timeout=LONG, ask=False) is None
    assert world.said[-1] == "NewLeaf"


def test_a_leaf_never_begins_before_the_last_one() -> None:
    """Two nodes' clocks differ: a server takes a pair that begins earlier for an old one."""
    world = installed()
    begins = world.leaf().begins
    world.clock.now -= timedelta(minutes=2)
    settled(world, world.run(names=[*NAMES, "more"]))
    assert world.leaf().begins == begins == NOW - BACKDATE


def test_bug_2_a_leaf_of_the_future_is_replaced() -> None:
    """Bug 2: a Secret from a clock that ran far ahead can't be served now."""
    world = installed()
    world.clock.now -= 2 * DAY
    settled(world, world.run())
    assert inspect.time_fault(world.leaf(), world.clock.now) is None


@pytest.mark.parametrize(
    "kind", ["no extensions", "an authority as leaf", "a leaf as authority", "RSA", "no identifier"]
)
def test_certificates_of_other_makes(kind: str) -> None:
    """What stands in the Secret may be anybody's; it is replaced, or kept as trusted, but it breaks nothing."""
    world = installed()
    ca = make_ca(now=NOW, lifetime=DAY)
    if kind == "an authority as leaf":
        world.set(tls_crt=ca.certificate, tls_key=ca.key)
    elif kind == "a leaf as authority":
        world.set(ca_crt=world.data("tls.crt"), ca_key=world.data("tls.key"))
    elif kind == "no identifier":
        key, certificate = elliptic_without_identifier()
        world.set(ca_crt=certificate + world.data("ca.crt"), ca_key=key)
    else:
        key, certificate = rsa_without_extensions(bare=kind == "no extensions")
        world.set(tls_crt=certificate, tls_key=key, ca_crt=certificate + world.data("ca.crt"), ca_key=key)
    settled(world, world.run())
    assert inspect.issued(world.leaf(), by=world.signer())
    assert len(inspect.certificates(world.bundle())) == 1


def elliptic_without_identifier() -> tuple[bytes, bytes]:
    """An authority with an elliptic key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "old")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW - DAY, NOW + DAY)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return pem(key), builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def rsa_without_extensions(*, bare: bool) -> tuple[bytes, bytes]:
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "old")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW - DAY, NOW + DAY)
    if not bare:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    return pem(key), certificate.public_bytes(serialization.Encoding.PEM)


def test_other_keys_of_the_secret_stay() -> None:
    """Labels, annotations and data that are somebody else's survive a renewal."""
    world = installed()

    def change(secret: dict[str, Any]) -> None:
        secret["metadata"]["labels"] = {"team": "ml"}
        secret["data"]["extra"] = encoded(b"theirs")

    world.edit(SECRET, change)
    settled(world, world.run(names=[*NAMES, "more"]))
    assert world.data("extra") == b"theirs"
    assert world.api.objects[SECRET]["metadata"]["labels"] == {"team": "ml"}


def test_actions_hold_no_key() -> None:
    """Bug 47: what is said of an action can be printed."""
    world = installed()
    actions: list[Action] = []
    run = world.run(replace=world.signer().fingerprint)
    run.say = actions.append  # type: ignore[assignment]  # no conflicts here
    settled(world, run)
    assert len(actions) > 5
    assert "PRIVATE" not in repr(actions) + repr(world.cluster.held())

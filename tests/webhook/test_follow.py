"""`webhook.follow`: which changes of the files are taken, and what is said of the others."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from tests.support_tls import DAY, Volume, authority, leaf, now, pair, rsa_pair, volume
from webhook import logs, tls
from webhook.follow import Follower
from webhook.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from certs.issue import Identity


@dataclass
class Seat:
    """A follower, its folder, and all that it says."""

    folder: Volume
    follower: Follower
    metrics: Metrics
    log: io.StringIO
    moment: list[datetime] = field(default_factory=list)

    def metric(self, sample: str) -> float:
        lines = self.metrics.render().decode().splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(sample + " ")), -1.0)

    def outcomes(self) -> list[str]:
        return [json.loads(line)["outcome"] for line in self.log.getvalue().splitlines()]


@pytest.fixture(name="first")
def _first() -> Identity:
    return pair()


@pytest.fixture(name="seat")
def _seat(tmp_path: Path, first: Identity) -> Seat:
    return seat(tmp_path, first)


def seat(path: Path, identity: Identity) -> Seat:
    stream, metrics = io.StringIO(), Metrics(CollectorRegistry(), version="1")
    folder, moment = volume(path / "tls", identity), [now()]
    follower = Follower(folder.path, metrics, logs.make(stream, "debug"), clock=lambda: moment[-1])
    return Seat(folder, follower, metrics, stream, moment)


def test_bug_5_a_swap_of_the_link_is_noticed(seat: Seat) -> None:
    """Bug 5: the kubelet swaps `..data`; nothing that has the files' names is touched."""
    second = pair()
    assert not seat.follower.look()
    seat.folder.bring(second)
    assert seat.follower.look()
    assert seat.follower.pair.leaf == leaf(second)
    assert not seat.follower.look()
    assert seat.metric('rankfix_certificate_reloads_total{outcome="loaded"}') == 1
    assert seat.outcomes() == ["reloaded"]


def test_bug_5_the_same_content_elsewhere_is_no_change(seat: Seat, first: Identity) -> None:
    """Bug 5: what counts is content: a new folder with the same pair loads nothing."""
    seat.folder.bring(first)
    assert not seat.follower.look()
    assert seat.follower.refused is None


def test_bug_5_files_written_in_place_are_noticed(seat: Seat) -> None:
    """Bug 5: without a volume, too; and between the two files the old pair stays."""
    second = pair()
    (seat.folder.path / "tls.crt").write_bytes(second.certificate)
    assert not seat.follower.look()
    assert "is not the key of" in (seat.follower.note() or "")
    (seat.folder.path / "tls.key").write_bytes(second.key)
    assert seat.follower.look()
    assert seat.follower.note() is None
    assert seat.outcomes() == ["refused", "reloaded"]


def test_bug_6_another_kind_of_key(seat: Seat, first: Identity) -> None:
    """Bug 6: elliptic to RSA and back."""
    for identity in (rsa_pair(), pair()):
        seat.folder.bring(identity)
        assert seat.follower.look()
        assert seat.follower.pair.leaf == leaf(identity) != leaf(first)


def _empty(_: Identity) -> tuple[bytes, bytes]:
    return b"", b""


def _mismatched(first: Identity) -> tuple[bytes, bytes]:
    return pair().certificate, first.key


def _truncated_certificate(_: Identity) -> tuple[bytes, bytes]:
    second = pair()
    return second.certificate[:200], second.key


def _truncated_key(_: Identity) -> tuple[bytes, bytes]:
    second = pair()
    return second.certificate, second.key[:80]


def _older(_: Identity) -> tuple[bytes, bytes]:
    second = pair(age=timedelta(minutes=5))
    return second.certificate, second.key


def _expired(_: Identity) -> tuple[bytes, bytes]:
    second = pair(age=2 * DAY)
    return second.certificate, second.key


def _of_the_future(_: Identity) -> tuple[bytes, bytes]:
    second = pair(age=-2 * DAY)
    return second.certificate, second.key


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (_empty, "no usable PEM pair"),
        (_mismatched, "is not the key of"),
        (_truncated_certificate, "no usable PEM pair"),
        (_truncated_key, "no usable PEM pair"),
        (_older, "is older"),
        (_expired, "is expired at"),
        (_of_the_future, "is valid only from"),
    ],
)
def test_bug_6_what_is_refused(
    seat: Seat, first: Identity, made: Callable[[Identity], tuple[bytes, bytes]], said: str
) -> None:
    """Bug 6: the old pair stays, /readyz says why, and it is counted and logged once however often it's looked at."""
    seat.folder.bring_files(*made(first))
    for _ in range(3):
        assert not seat.follower.look()
    assert seat.follower.pair.leaf == leaf(first)
    assert said in (seat.follower.note() or "")
    assert "still serving" in (seat.follower.note() or "")
    assert seat.follower.not_ready() is None
    assert seat.metric('rankfix_certificate_reloads_total{outcome="refused"}') == 1
    assert seat.outcomes() == ["refused"]


def test_files_that_vanish(seat: Seat, first: Identity) -> None:
    """The volume is gone: what was loaded is served on."""
    (seat.folder.path / "..data").unlink()
    assert not seat.follower.look()
    assert not seat.follower.look()
    assert "No such file" in (seat.follower.note() or "")
    assert seat.follower.pair.leaf == leaf(first)
    assert seat.outcomes() == ["refused"]


def test_what_was_refused_is_forgotten_when_the_files_are_good_again(seat: Seat, first: Identity) -> None:
    """Back to what is served: nothing to say any more."""
    seat.folder.bring_files(b"", b"")
    seat.follower.look()
    seat.folder.bring(first)
    assert not seat.follower.look()
    assert seat.follower.note() is None


def test_a_pair_of_the_future_is_taken_when_its_time_comes(seat: Seat) -> None:
    """Refusing isn't for ever: the same files are judged anew."""
    later = pair(age=-2 * DAY, life=9 * DAY)
    seat.folder.bring(later)
    assert not seat.follower.look()
    seat.moment.append(now() + 2 * DAY)
    assert seat.follower.look()


def test_bug_1_an_expired_pair_begins_but_is_not_ready(tmp_path: Path) -> None:
    """Bug 1: a cluster that was off: the server starts, says why nobody can call it, and takes the new pair, even one
    that isn't newer, as soon as it's there.
    """
    ca = authority(age=9 * DAY)
    place = seat(tmp_path, pair(ca, age=3 * DAY, life=DAY))
    assert "the certificate is expired at" in (place.follower.not_ready() or "")
    assert place.metric("rankfix_certificate_seconds_left") < 0
    place.folder.bring(pair(ca, age=4 * DAY, life=90 * DAY))
    assert place.follower.look()
    assert place.follower.not_ready() is None
    assert place.metric("rankfix_certificate_seconds_left") > 80 * 86400


def test_bug_1_expiry_while_it_runs(seat: Seat) -> None:
    """Bug 1: readiness follows the clock, not only the files."""
    assert seat.follower.not_ready() is None
    assert 0 < seat.metric("rankfix_certificate_seconds_left") <= 86400
    seat.moment.append(now() + 2 * DAY)
    assert "expired" in (seat.follower.not_ready() or "")


def test_a_certificate_that_only_openssl_can_read(tmp_path: Path) -> None:
    """What can't be judged isn't served."""
    identity = pair()
    folder = volume(tmp_path / "tls", identity)
    odd = identity.certificate.replace(b"BEGIN CERTIFICATE", b"BEGIN TRUSTED CERTIFICATE")
    folder.bring_files(odd.replace(b"END CERTIFICATE", b"END TRUSTED CERTIFICATE"), identity.key)
    with pytest.raises(tls.BadCertificate):
        tls.load(folder.path)


def test_bug_6_files_that_change_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug 6: half old, half new is no pair, even where both halves could be read."""
    folder = volume(tmp_path / "tls", pair())
    digests = iter([b"one", b"two"])
    monkeypatch.setattr(tls, "digest", lambda *_: next(digests))
    with pytest.raises(tls.BadCertificate, match="changed while it was read"):
        tls.load(folder.path)

"""`certs.report`: what `check` and `show` say."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from certs import inspect, report
from certs.issue import make_ca, make_leaf
from certs.rotate import Answer, Held, Observed, Published, Wish
from tests.support_certs import NAMES, NOW, installed

DAY = timedelta(days=1)
WISH = Wish(names=inspect.Names.of(NAMES, ()))


def seen() -> Observed:
    """All is well."""
    world = installed()
    cluster = world.cluster
    return Observed(NOW, cluster.held(), cluster.published(), cluster.served())


def faults(observed: Observed, wish: Wish = WISH) -> list[str]:
    return [finding.text for finding in report.findings(observed, wish) if not finding.ok]


def held(observed: Observed) -> Held:
    assert observed.held
    return observed.held


def test_all_is_well() -> None:
    """Each thing that was looked at is named."""
    found = list(report.findings(seen(), WISH))
    assert all(finding.ok for finding in found)
    assert [finding.text.split(":")[0].split(" ")[0] for finding in found] == [
        "certificate", "certificate", "names", "ca.crt", "authority", "caBundle", "replica", "replica",
    ]  # fmt: skip


def test_no_secret() -> None:
    """One line, with the remedy."""
    assert faults(Observed(NOW, None, None)) == ["the Secret isn't there: run rankfix-certs issue"]


def test_an_empty_secret() -> None:
    """There's nothing more to look at."""
    assert faults(Observed(NOW, Held("1"), None)) == ["certificate and key: there is no certificate"]


def test_each_fault_is_found() -> None:
    """Expired, due, drifted, of another authority, not published, not served."""
    good = seen()
    (life,) = faults(replace(good, now=NOW + 61 * DAY))
    assert "29.0 days left (32% of its life is left, renewed at 33%)" in life
    assert any("expired" in text for text in faults(replace(good, now=NOW + 91 * DAY)))
    (drift,) = faults(good, Wish(names=inspect.Names.of(["other"], ())))
    assert drift.startswith("names: rankfix, rankfix.ml")
    assert drift.endswith("wanted: other")
    other = make_ca(now=NOW, lifetime=1000 * DAY)
    (chain,) = faults(replace(good, held=replace(held(good), authorities=other.certificate)))
    assert chain.startswith("ca.crt: not trusted as rankfix.ml.svc: ")
    (blank,) = faults(replace(good, published=Published("1", {"pods.rankfix": b""})))
    assert blank == "caBundle of pods.rankfix: nothing is trusted"
    served = (Answer("a", ready=True, leaf=b"other"), Answer("b", ready=True, leaf=None, why="refused"))
    assert faults(replace(good, served=served)) == [
        "replica a: serves another certificate",
        "replica b: refused",
    ]
    assert not faults(replace(good, served=(Answer("c", ready=False, leaf=None, why="refused"),)))


def test_no_authority() -> None:
    """A leaf alone: nothing verifies it."""
    good = seen()
    assert faults(replace(good, held=replace(held(good), authorities=b""))) == ["ca.crt: nothing is trusted"]


@pytest.mark.parametrize("own", [True, False])
def test_a_certificate_for_addresses_only(*, own: bool) -> None:
    """There's no name to ask a strict verifier for: signature and time are looked at."""
    ca = make_ca(now=NOW, lifetime=1000 * DAY)
    signer = ca if own else make_ca(now=NOW, lifetime=1000 * DAY)
    leaf = make_leaf(signer, ips=["10.0.0.7"], now=NOW, lifetime=90 * DAY)
    found = Observed(NOW, Held("1", leaf.certificate, leaf.key, ca.certificate), None)
    assert faults(found, Wish(names=inspect.Names.of([], []))) == (
        [] if own else ["ca.crt: doesn't verify the certificate"]
    )


def test_facts_are_json_without_keys() -> None:
    """Bug 47: everything that is public, nothing that isn't."""
    good = seen()
    assert good.published
    text = json.dumps(report.facts(held(good), good.published.bundles, NOW))
    assert "PRIVATE" not in text
    found = json.loads(text)
    assert found["certificate"]["names"] == sorted(NAMES)
    assert found["certificate"]["seconds_left"] == 90 * 86400
    assert found["certificate"]["begins"] == "2026-12-01T11:00:00+00:00"
    assert found["authorities"] == found["published"]["pods.rankfix"]
    assert found["authorities"][0]["subject"] == "CN=rankfix CA"
    assert report.facts(Held(""), {}, NOW) == {"certificate": None, "authorities": [], "published": {}}

"""What `show` and `check` say of an identity: facts and findings, as data. No key is ever among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from certs import inspect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from certs.inspect import Certificate
    from certs.rotate import Held, Observed, Wish


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and whether it is as it should be."""

    ok: bool
    text: str


def facts(held: Held, bundles: Mapping[str, bytes], now: datetime) -> dict[str, object]:
    """The certificates of the Secret and of each caBundle."""
    leaf, own = inspect.certificates(held.certificate), inspect.certificates(held.authorities)
    return {
        "certificate": _facts(leaf[0], now) if leaf else None,
        "authorities": [_facts(one, now) for one in own],
        "published": {name: [_facts(one, now) for one in inspect.certificates(pem)] for name, pem in bundles.items()},
    }


def _facts(certificate: Certificate, now: datetime) -> dict[str, object]:
    found = inspect.names(certificate)
    return {
        "fingerprint": certificate.fingerprint,
        "subject": certificate.x509.subject.rfc4514_string(),
        "begins": certificate.begins.isoformat(),
        "ends": certificate.ends.isoformat(),
        "seconds_left": round((certificate.ends - now).total_seconds()),
        "names": [*sorted(found.dns), *sorted(found.ips)],
    }


def findings(seen: Observed, wish: Wish) -> Iterator[Finding]:
    """All that `check` looks at; parts that can't be had aren't among them."""
    if seen.held is None:
        yield Finding(ok=False, text="the Secret isn't there: run rankfix-certs issue")
        return
    found, own = inspect.certificates(seen.held.certificate), inspect.certificates(seen.held.authorities)
    fault = inspect.pair_fault(found, seen.held.key, seen.now)
    yield Finding(ok=not fault, text=f"certificate and key: {fault or 'belong together, valid now'}")
    if not found:
        return
    leaf = found[0]
    yield _life("certificate", leaf, seen.now, wish)
    if wish.names.dns or wish.names.ips:
        same = inspect.names(leaf) == wish.names
        yield Finding(ok=same, text=f"names: {inspect.names(leaf)}" + ("" if same else f"; wanted: {wish.names}"))
    name = min(inspect.names(leaf).dns, key=lambda dns: (not dns.endswith(".svc"), dns), default="")
    yield _verified("ca.crt", leaf, own, name, seen.now)
    if own:
        yield _life("authority", own[0], seen.now, wish)
    yield from _outside(seen, leaf, name)


def _outside(seen: Observed, leaf: Certificate, name: str) -> Iterator[Finding]:
    for entry, pem in (seen.published.bundles if seen.published else {}).items():
        yield _verified(f"caBundle of {entry}", leaf, inspect.certificates(pem), name, seen.now)
    for answer in seen.served or ():
        same = answer.leaf == leaf.der
        said = answer.why or ("serves the certificate" if same else "serves another certificate")
        yield Finding(ok=same or not answer.ready, text=f"replica {answer.address}: {said}")


def _life(what: str, certificate: Certificate, now: datetime, wish: Wish) -> Finding:
    due = inspect.due_fault(certificate, now, wish.renew_at)
    days = (certificate.ends - now).total_seconds() / 86400
    text = f"{what} {certificate.short}: {days:.1f} days left"
    return Finding(ok=not due, text=text + (f" ({due})" if due else ""))


def _verified(by: str, leaf: Certificate, roots: tuple[Certificate, ...], name: str, now: datetime) -> Finding:
    if name:
        fault = inspect.strictly_trusted(leaf, roots, name, now)
    else:
        fault = None if inspect.trusted(leaf, roots, now) else "doesn't verify the certificate"
    return Finding(ok=not fault, text=f"{by}: {fault or 'verifies the certificate'}")

"""Rotation with no trust gap, as a state machine without a state of its own: what is seen -> what to do next, as data.

    NewAuthority   a CA and its key go into the Secret, in front of the old one; the leaf stays
    Publish        old and new CA into the caBundle of the webhook configuration
    Settle         seen there (read back), and for long enough that each API server has seen it as well
    NewLeaf        a leaf of the new CA into the Secret, from where the replicas take it
    AskReplicas    which leaf does each of them serve?
    AwaitReplicas  not all of them the new one
    Forget         the old CA leaves the Secret ...
    Publish        ... and then the caBundle
    Done

All that `next_action` knows is read from the cluster, so a run that ended anywhere is continued by the next one, and
any number of runs may be at it. Two rules make that safe; who carries actions out must keep them:

1. Read the webhook configuration *before* the Secret. Write each with the resourceVersion that was read.
   An authority is in the Secret before it is published. So a run that saw an old Secret saw an older configuration yet,
   and its wish to take a newer authority out of the caBundle ends in a conflict.
2. A leaf goes into the Secret only when its authority was seen in the caBundle, and an authority leaves only when each
   replica was seen to serve a leaf of another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from certs import inspect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from certs.inspect import Certificate, Names


@dataclass(frozen=True, slots=True)
class Wish:
    """What should be: the server's names, when to renew, and what is trusted beside our own authority."""

    names: Names
    renew_at: float = 1 / 3
    settle: timedelta = timedelta(seconds=5)
    replace: str | None = None  # fingerprint of an authority that must go though nothing is wrong with it
    trust: tuple[Certificate, ...] = ()
    publish: bool = True  # whether there is a webhook configuration to wait for


@dataclass(frozen=True, slots=True)
class Held:
    """The Secret: leaf and key, the authorities (the first one signs) and its key. `version` is its resourceVersion."""

    version: str
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    authorities: bytes = b""
    authority_key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Published:
    """The caBundle of each of our entries in the webhook configuration, by the entry's name."""

    version: str
    bundles: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a replica showed in a TLS handshake; `leaf` None: none came about, for the reason `why`."""

    address: str
    ready: bool
    leaf: bytes | None  # DER
    why: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """All that counts, read in this order: configuration, Secret, replicas. None is absent or, of served, not asked."""

    now: datetime
    held: Held | None
    published: Published | None
    served: tuple[Answer, ...] | None = None
    standing: timedelta = timedelta(0)  # how long these very bundles have been seen


@dataclass(frozen=True, slots=True)
class NewAuthority:
    """Make an authority, and put it in front of `keep`."""

    why: str
    keep: tuple[Certificate, ...]


@dataclass(frozen=True, slots=True)
class NewLeaf:
    """Make a leaf by the authority that is held; it may not begin before `after`."""

    why: str
    after: datetime | None


@dataclass(frozen=True, slots=True)
class Publish:
    """Write `bundle` into the caBundle of `entries`."""

    why: str
    bundle: bytes
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """Leave only `authorities` in the Secret."""

    why: str
    authorities: bytes


@dataclass(frozen=True, slots=True)
class AskReplicas:
    """Look which leaf each replica serves, then ask again what to do."""

    why: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Wait for `seconds`, then look again."""

    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class AwaitReplicas:
    """Look again in a while."""

    why: str


@dataclass(frozen=True, slots=True)
class AwaitConfiguration:
    """The Secret is as it should be, and there is nothing yet to publish its authority in."""

    why: str


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing to do until `until`."""

    why: str
    until: datetime


Write = NewAuthority | NewLeaf | Publish | Forget
Wait = Settle | AwaitReplicas | AwaitConfiguration
Action = Write | Wait | AskReplicas | Done


def next_action(seen: Observed, wish: Wish) -> Action:
    """The one next step; see the module for their order and why it leaves no gap."""
    held = seen.held or Held("")
    own = inspect.certificates(held.authorities)
    fault = inspect.authority_fault(own, held.authority_key, seen.now, wish.renew_at)
    if not fault and own[0].fingerprint == wish.replace:
        fault = f"authority {own[0].short}: asked to replace it"
    if fault:
        return NewAuthority(fault, _kept(seen, own))
    return _published(seen, wish, own) or _leaf(seen, wish, own) or _dropped(seen, wish, own) or _end(seen, wish, own)


def _kept(seen: Observed, own: tuple[Certificate, ...]) -> tuple[Certificate, ...]:
    """Everything that a leaf may still be verified by."""
    return inspect.alive(dict.fromkeys([*own, *_elsewhere(seen)]), seen.now)


def _elsewhere(seen: Observed) -> tuple[Certificate, ...]:
    bundles = seen.published.bundles.values() if seen.published else ()
    return tuple(certificate for pem in bundles for certificate in inspect.certificates(pem))


def _published(seen: Observed, wish: Wish, own: tuple[Certificate, ...]) -> Action | None:
    """Each of our authorities must stand in each of our entries; what else stands there may be in use, and stays."""
    if seen.published is None:
        return None
    needed = {*inspect.alive(own, seen.now), *wish.trust}
    short = [name for name, pem in seen.published.bundles.items() if not needed <= {*inspect.certificates(pem)}]
    if not short:
        return None
    whole = inspect.bundle([*inspect.alive(own, seen.now), *wish.trust, *inspect.alive(_elsewhere(seen), seen.now)])
    return Publish(f"caBundle of {', '.join(short)} lacks an authority", whole, tuple(short))


def _leaf(seen: Observed, wish: Wish, own: tuple[Certificate, ...]) -> Action | None:
    held = seen.held or Held("")
    found = inspect.certificates(held.certificate)
    fault = inspect.leaf_fault(found, held.key, signer=own[0], wanted=wish.names, now=seen.now, renew_at=wish.renew_at)
    if not fault:
        return None
    older = {*_elsewhere(seen)} - {own[0], *wish.trust}
    if older and seen.standing < wish.settle:  # a leaf of an older authority may be in use, and must be until then
        rest = (wish.settle - seen.standing).total_seconds()
        return Settle(f"until each API server knows authority {own[0].short}", rest)
    return NewLeaf(fault, after=found[0].begins if found else None)


def _dropped(seen: Observed, wish: Wish, own: tuple[Certificate, ...]) -> Action | None:
    """Take out what no replica needs any longer: of the Secret first, else the caBundle would be filled up from it."""
    exact = inspect.bundle([own[0], *wish.trust])
    bundles = seen.published.bundles if seen.published else {}
    more = tuple(name for name, pem in bundles.items() if pem != exact)
    if len(own) == 1 and not more:
        return None
    if seen.served is None:
        return AskReplicas(f"are all others than authority {own[0].short} out of use?")
    late = _late(seen)
    if late:
        return AwaitReplicas(f"not yet served by {', '.join(late)}")
    why = f"each replica serves a leaf of authority {own[0].short}"
    return Forget(why, own[0].pem) if len(own) > 1 else Publish(why, exact, more)


def _late(seen: Observed) -> list[str]:
    """The replicas that don't serve the leaf of the Secret. Of one that isn't ready, a silence is no objection."""
    held = seen.held or Held("")
    leaf = inspect.certificates(held.certificate)[0].der
    late = [answer for answer in seen.served or () if answer.leaf != leaf and (answer.leaf or answer.ready)]
    return [answer.address + (f" ({answer.why})" if answer.why else "") for answer in late]


def _end(seen: Observed, wish: Wish, own: tuple[Certificate, ...]) -> Action:
    if wish.publish and seen.published is None:
        return AwaitConfiguration("the webhook configuration isn't there yet")
    leaf = inspect.certificates((seen.held or Held("")).certificate)[0]
    until = min(one.ends - (one.ends - one.begins) * wish.renew_at for one in (leaf, own[0]))
    return Done(f"certificate {leaf.short} of authority {own[0].short} is good", until)

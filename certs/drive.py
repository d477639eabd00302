"""Carry out what `rotate` decides: read, decide, write, again. Cluster, maker of keys and clock are handed in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from certs import inspect, rotate
from certs.issue import BACKDATE, CertsError, Identity, make_ca, make_leaf
from certs.rotate import Action, Done, Held, Observed, Published, Settle, Wish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from certs.rotate import Answer


class Conflict(CertsError):
    """Somebody else wrote first: read again."""


class Cluster(Protocol):
    """Where the identity lives. Writes are refused with `Conflict` where `version` isn't the newest."""

    def published(self) -> Published | None: ...
    def held(self) -> Held | None: ...
    def served(self) -> tuple[Answer, ...]: ...
    def write(self, held: Held) -> None: ...
    def publish(self, bundle: bytes, entries: Sequence[str], version: str) -> None: ...


class Maker(Protocol):
    """Makes keys and certificates."""

    def authority(self, now: datetime) -> Identity: ...
    def leaf(self, ca: Identity, now: datetime) -> Identity: ...


@dataclass(frozen=True, slots=True)
class Issuer:
    """The maker that isn't a test's."""

    names: tuple[str, ...]
    ips: tuple[str, ...] = ()
    ca_lifetime: timedelta = timedelta(days=5 * 365)
    leaf_lifetime: timedelta = timedelta(days=90)

    def authority(self, now: datetime) -> Identity:
        return make_ca(now=now, lifetime=self.ca_lifetime)

    def leaf(self, ca: Identity, now: datetime) -> Identity:
        return make_leaf(ca, names=self.names, ips=self.ips, now=now, lifetime=self.leaf_lifetime)


@dataclass
class Run:
    """One run: what it needs, and how long it has seen the same bundles."""

    cluster: Cluster
    wish: Wish
    maker: Maker
    clock: Callable[[], datetime]
    say: Callable[[Action | Conflict], None] = lambda _: None
    _bundles: dict[str, bytes] = field(default_factory=dict)
    _since: datetime | None = None

    def steps(self) -> Iterator[Action | None]:
        """Go on until done. Yields None between two calls to the cluster, and each action: after it was carried out, or
        for whoever runs this to wait in. May be dropped at each yield, as a crash would.
        """
        while True:
            published = self.cluster.published()
            yield None
            seen = Observed(self.clock(), self.cluster.held(), published, standing=self._standing(published))
            yield None
            action = rotate.next_action(seen, self.wish)
            if isinstance(action, rotate.AskReplicas):
                yield action
                seen = replace(seen, served=self.cluster.served(), now=self.clock())
                action = rotate.next_action(seen, self.wish)
            self.say(action)
            try:
                self._do(action, seen)
            except Conflict as lost:
                self.say(lost)
            yield action
            if isinstance(action, Done):
                return

    def _standing(self, published: Published | None) -> timedelta:
        now = self.clock()
        bundles = dict(published.bundles) if published else {}
        if self._since is None or bundles != self._bundles:
            self._bundles, self._since = bundles, now
        return now - self._since

    def _do(self, action: Action, seen: Observed) -> None:
        held = seen.held or Held("")
        match action:
            case rotate.NewAuthority(keep=keep):
                made = self.maker.authority(seen.now)
                authorities = made.certificate + inspect.bundle(keep)
                self.cluster.write(replace(held, authorities=authorities, authority_key=made.key))
            case rotate.NewLeaf(after=after):
                signer = Identity(inspect.certificates(held.authorities)[0].pem, held.authority_key)
                leaf = self.maker.leaf(signer, _moment(seen.now, after))
                self.cluster.write(replace(held, certificate=leaf.certificate, key=leaf.key))
            case rotate.Forget(authorities=authorities):
                self.cluster.write(replace(held, authorities=authorities))
            case rotate.Publish(bundle=bundle, entries=entries):
                assert seen.published  # noqa: S101 - there is nothing to publish in otherwise
                self.cluster.publish(bundle, entries, seen.published.version)


def _moment(now: datetime, after: datetime | None) -> datetime:
    """When a leaf is made: now, but so that it doesn't begin before the last one though that one's clock was ahead.

    A server takes a pair that begins earlier for an old one that came back, and refuses it.
    """
    return max(now, after + BACKDATE) if after and after <= now else now


class Unfinished(CertsError):
    """Time is up; the message says what was waited for."""


def finish(
    run: Run, *, sleep: Callable[[float], None], timeout: timedelta, poll: float = 1.0, ask: bool = True
) -> Done | None:
    """Step until done. Without `ask`, stop (None) where only replicas are left to be asked. Raises `Unfinished`."""
    deadline = run.clock() + timeout
    for action in run.steps():
        match action:
            case Done():
                return action
            case rotate.AskReplicas() if not ask:
                return None
            case Settle() | rotate.AwaitReplicas() | rotate.AwaitConfiguration():
                if run.clock() >= deadline:
                    raise Unfinished(f"not finished after {timeout}: {action.why}: the next run goes on from here")
                sleep(min(action.seconds, poll) if isinstance(action, Settle) else poll)
    raise AssertionError("steps end with Done")

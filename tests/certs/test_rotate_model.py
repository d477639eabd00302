"""Any number of runs, step by step between each other, crashes, kubelets at their own pace, people who break things:
whatever the order, each leaf that is served verifies under each caBundle that an API server may still use.
"""

from __future__ import annotations

import functools
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from certs import inspect
from tests.support_certs import CONFIGURATION, SECRET, Replica, installed, settled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certs.rotate import Action


@functools.cache
def verifies(bundle: bytes, leaf: inspect.Certificate) -> bool:
    """Asked for the same few again and again."""
    return any(inspect.issued(leaf, by=root) for root in inspect.certificates(bundle))


SETTLE = timedelta(seconds=5)
PIECES = ("tls_crt", "tls_key", "ca_crt", "ca_key")


class Rotations(RuleBasedStateMachine):
    """One cluster."""

    runs: Bundle[Iterator[Action | None]] = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.world = installed(replicas=3)
        self.current = self.world.bundle()
        self.past: list[tuple[bytes, datetime]] = []  # bundles that were replaced, and when
        self.broken = False  # somebody took the caBundle away, and no run has put it back yet

    @rule(target=runs, force=st.booleans())
    def start(self, *, force: bool) -> Iterator[Action | None]:
        """Another CronJob, another replica, a person at a terminal."""
        secret = self.world.data("ca.crt")
        signer = inspect.certificates(secret)[0].fingerprint if force and inspect.certificates(secret) else None
        return self.world.run(replace=signer, settle=SETTLE).steps()

    @rule(run=runs, count=st.integers(1, 12))
    def step(self, run: Iterator[Action | None], count: int) -> None:
        """A run does some calls; what it has read meanwhile may be old by then."""
        for _ in range(count):
            next(run, None)
            self.trust_has_no_gap()

    @rule(run=consumes(runs))
    def crash(self, run: Iterator[Action | None]) -> None:
        """A run is never heard of again."""

    @rule(seconds=st.integers(1, 8))
    def time_passes(self, seconds: int) -> None:
        self.world.clock.sleep(seconds)

    @rule(share=st.floats(0.05, 0.4))
    def much_time_passes(self, share: float) -> None:
        """Certificates come near to their end, or pass it."""
        leaf = self.world.replicas[0].leaf
        assert leaf
        self.world.clock.now += (leaf.ends - leaf.begins) * share

    @rule(number=st.integers(0, 2))
    def kubelet(self, number: int) -> None:
        """One node's kubelet brings what the Secret holds."""
        data = self.world.data
        self.world.replicas[number].take(data("tls.crt"), data("tls.key"), self.world.clock.now)

    @rule(number=st.integers(0, 2))
    def readiness(self, number: int) -> None:
        self.world.replicas[number].ready ^= True

    @precondition(lambda self: SECRET in self.world.api.objects)
    @rule(pieces=st.sets(st.sampled_from(PIECES), min_size=1), data=st.sampled_from([b"", b"garbage"]))
    def corrupt(self, pieces: set[str], data: bytes) -> None:
        self.world.set(**dict.fromkeys(pieces, data))

    @precondition(lambda self: SECRET in self.world.api.objects)
    @rule()
    def delete(self) -> None:
        del self.world.api.objects[SECRET]

    @rule()
    def blank(self) -> None:
        """A GitOps tool takes the caBundle away: that is a gap, which isn't ours; it must be mended, and not grow."""

        def change(found: dict[str, list[dict[str, dict[str, str]]]]) -> None:
            found["webhooks"][0]["clientConfig"].pop("caBundle", None)

        self.world.edit(CONFIGURATION, change)
        self.broken = True

    @invariant()
    def trust_has_no_gap(self) -> None:
        now, bundle = self.world.clock.now, self.world.bundle()
        if bundle != self.current:
            self.past.append((self.current, now))
            self.current = bundle
        if self.broken:  # and with it what was in use is known to nobody but the Secret
            self.past = []
            self.broken = any(not self.verified(replica, bundle) for replica in self.world.replicas)
            return
        self.past = [(old, until) for old, until in self.past if now - until < SETTLE]
        for replica in self.world.replicas:
            assert self.verified(replica, bundle), f"{replica.address} isn't trusted"
            for old, _ in self.past:
                assert self.verified(replica, old), f"{replica.address} isn't trusted by an API server that lags"

    def verified(self, replica: Replica, bundle: bytes) -> bool:
        """Time apart: what has ended is unusable whatever the caBundle says."""
        leaf, now = replica.leaf, self.world.clock.now
        assert leaf
        return leaf.ends <= now or verifies(bundle, leaf)

    def teardown(self) -> None:
        """Left alone, one run brings everything in order."""
        settled(self.world, self.world.run(settle=SETTLE))
        self.world.sync()
        assert self.world.bundle() == self.world.data("ca.crt") == self.world.signer().pem
        assert not self.world.untrusted()


TestRotations = Rotations.TestCase
TestRotations.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)

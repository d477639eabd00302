"""`certs.lease` and `certs.watch`: of several that keep the certificates, one does the work."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from certs import rotate, store, watch
from certs.lease import Lease
from tests.support_certs import CONFIGURATION, Clock, MemoryApi, World, configuration, installed

if TYPE_CHECKING:
    from certs.issue import CertsError

PATH = "/apis/coordination.k8s.io/v1/namespaces/ml/leases/rankfix-certs"
HALF = timedelta(seconds=15)


def lease(api: MemoryApi, clock: Clock, holder: str) -> Lease:
    return Lease(api, "ml", "rankfix-certs", holder, clock)


def test_one_has_it() -> None:
    """The first takes it, renews it, and the second waits until it has been silent for its duration."""
    api, clock = MemoryApi(), Clock()
    first, second = lease(api, clock, "a"), lease(api, clock, "b")
    assert first.hold()
    assert not second.hold()
    clock.now += HALF
    assert first.hold()
    assert not second.hold()
    clock.now += HALF
    assert not second.hold()
    clock.now += HALF
    assert second.hold()
    assert not first.hold()
    spec = api.objects[PATH]["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("b", 1, 30)
    assert spec["renewTime"] == spec["acquireTime"] == "2026-12-01T12:00:45.000000Z"


def test_clocks_may_differ() -> None:
    """What counts is how long *we* have seen no renewal: a holder whose clock is a day behind keeps it."""
    api, behind, clock = MemoryApi(), Clock(), Clock()
    behind.now -= timedelta(days=1)
    first, second = lease(api, behind, "a"), lease(api, clock, "b")
    for _ in range(5):
        assert first.hold()
        assert not second.hold()
        clock.now += HALF


def test_who_lets_go_is_followed_at_once() -> None:
    """A replica that ends well leaves no pause; one that doesn't have it can't let it go."""
    api, clock = MemoryApi(), Clock()
    first, second = lease(api, clock, "a"), lease(api, clock, "b")
    second.release()
    assert first.hold()
    second.release()
    assert not second.hold()
    first.release()
    assert second.hold()


def test_of_two_that_write_at_once_one_wins() -> None:
    """Taking is guarded by the version, creating by the name."""
    api, clock = MemoryApi(), Clock()
    first, second = lease(api, clock, "a"), lease(api, clock, "b")

    def other(method: str, _path: str) -> None:
        if method in {"POST", "PUT"}:
            api.before = lambda _method, _path: None
            assert second.hold()

    api.before = other
    assert not first.hold()
    second.release()
    api.before = other
    assert not first.hold()


def test_a_lease_without_a_spec_is_free() -> None:
    """As an empty one in a manifest is."""
    api, clock = MemoryApi(), Clock()
    api.put(PATH, {"metadata": {"name": "rankfix-certs"}})
    assert lease(api, clock, "a").hold()


def keep(world: World, holder: Lease | None, looks: int) -> list[str]:
    """So many looks, ten seconds between them; what was complained about."""
    complaints: list[CertsError] = []
    left = [looks]

    def pause() -> bool:
        world.sleep(10)
        left[0] -= 1
        return left[0] == 0

    watch.keep(world.run(), holder, pause=pause, complain=complaints.append)
    return [str(one) for one in complaints]


def test_bug_9_a_watch_mends_what_breaks_between_two_looks() -> None:
    """Bug 9: a caBundle that is blanked again and again is back after each look."""
    world = installed()
    good = world.bundle()

    def blank(method: str, path: str) -> None:
        if (method, path) == ("GET", CONFIGURATION) and world.said[-1:] == ["Done"]:
            world.said.clear()
            world.api.put(CONFIGURATION, configuration())

    world.api.before = blank
    assert keep(world, None, 4) == []
    assert world.bundle() == good
    assert world.api.writes() == [("PATCH", CONFIGURATION)] * 3


def test_a_watch_waits_from_look_to_look() -> None:
    """What there is to wait for doesn't hold it: the Lease is renewed, and the next look goes on."""
    world = installed()
    run = world.run(replace=world.signer().fingerprint)
    kinds = []
    for _ in range(4):
        kinds.append(type(watch.look(run)))
        world.sleep(10)
    assert kinds == [rotate.Settle, rotate.AwaitReplicas, rotate.Done, rotate.Done]


def test_a_watch_without_the_lease_only_looks_at_it() -> None:
    """No write, and no look at the Secret."""
    world = installed()
    assert lease(world.api, world.clock, "other").hold()
    world.api.calls.clear()
    assert keep(world, lease(world.api, Clock(), "me"), 2) == []
    assert {path for _, path in world.api.calls} == {PATH}


def test_a_watch_gives_the_lease_back() -> None:
    """At its end."""
    world = installed()
    keep(world, lease(world.api, world.clock, "me"), 1)
    assert world.api.objects[PATH]["spec"]["holderIdentity"] == ""


def test_a_watch_outlives_a_cluster_that_fails() -> None:
    """It complains at each look, and goes on, also where it can't give its Lease back."""
    world = installed()

    def fail(_method: str, _path: str) -> None:
        raise store.ApiError("the API server doesn't answer")

    world.api.before = fail
    assert keep(world, lease(world.api, world.clock, "me"), 3) == ["the API server doesn't answer"] * 4


@pytest.mark.parametrize("looks", [1, 3])
def test_a_watch_makes_the_first_install(looks: int) -> None:
    """Without Jobs and CronJobs: from nothing to a trusted certificate."""
    world = World()
    world.api.put(CONFIGURATION, configuration())
    assert keep(world, lease(world.api, world.clock, "me"), looks) == []
    assert world.bundle() == world.data("ca.crt") == world.signer().pem

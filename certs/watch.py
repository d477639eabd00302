"""Keep the identity as it should be for as long as this runs: one look each interval, by whoever holds the Lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certs import rotate
from certs.issue import CertsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from certs.drive import Run
    from certs.lease import Lease


def keep(
    run: Run,
    lease: Lease | None,
    *,
    pause: Callable[[], bool],
    complain: Callable[[CertsError], None],
) -> None:
    """Look, `pause`, look again, until `pause` says that it's over (True). A cluster that fails is asked again."""
    while True:
        try:
            if lease is None or lease.hold():
                look(run)
        except CertsError as exc:
            complain(exc)
        if pause():
            break
    try:
        if lease is not None:
            lease.release()
    except CertsError as exc:
        complain(exc)


def look(run: Run) -> rotate.Action | None:
    """Do what can be done now; what there is to wait for is left to the next look."""
    for action in run.steps():
        if isinstance(action, rotate.Settle | rotate.AwaitReplicas | rotate.AwaitConfiguration | rotate.Done):
            return action
    return None  # pragma: no cover - steps end with Done

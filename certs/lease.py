"""A Lease, so that of several replicas that keep the certificates one does the work.

It saves work and noise, no more: what is written is guarded by resourceVersions, with or without a Lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from certs.drive import Conflict
from certs.store import ask, change, look

if TYPE_CHECKING:
    from collections.abc import Callable

    from certs.store import Api


@dataclass
class Lease:
    """The Lease `name`, as `holder` sees it. A holder that is silent for `duration` on *our* clock has lost it."""

    api: Api
    namespace: str
    name: str
    holder: str
    clock: Callable[[], datetime]
    duration: timedelta = timedelta(seconds=30)
    _seen: tuple[str, datetime] | None = None  # the version that was seen, and since when: clocks of nodes differ

    def hold(self) -> bool:
        """Take it or renew it; False where another one has it."""
        found = look(self.api, self._path)
        if found and not self._is_mine(found) and not self._has_lapsed(found):
            return False
        try:
            if found is None:
                ask(self.api, "POST", self._collection, {"metadata": {"name": self.name}, "spec": self._spec({})})
            else:
                change(self.api, "PUT", self._path, {**found, "spec": self._spec(found.get("spec") or {})})
        except Conflict:
            return False
        return True

    def release(self) -> None:
        """Let the next one have it at once."""
        found = look(self.api, self._path)
        if found and self._is_mine(found):
            change(self.api, "PUT", self._path, {**found, "spec": {**found["spec"], "holderIdentity": ""}})

    def _is_mine(self, found: dict[str, Any]) -> bool:
        return bool((found.get("spec") or {}).get("holderIdentity") == self.holder)

    def _has_lapsed(self, found: dict[str, Any]) -> bool:
        if not (found.get("spec") or {}).get("holderIdentity"):
            return True
        version, now = found["metadata"]["resourceVersion"], self.clock()
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, now)
        return now - self._seen[1] >= self.duration

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        now = self.clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        changes = {"leaseDurationSeconds": round(self.duration.total_seconds()), "renewTime": now}
        if before.get("holderIdentity") == self.holder:
            return {**before, **changes}
        transitions = int(before.get("leaseTransitions") or 0) + bool(before)
        return {
            **before,
            **changes,
            "holderIdentity": self.holder,
            "acquireTime": now,
            "leaseTransitions": transitions,
        }

    @property
    def _collection(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    @property
    def _path(self) -> str:
        return f"{self._collection}/{self.name}"

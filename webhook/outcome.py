"""What becomes of a pod, for all who tell it: the server, its log and metrics, the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from webhook import review
from webhook.edits import to_patch
from webhook.policy import Reason

if TYPE_CHECKING:
    from webhook.jsonpatch import Patch
    from webhook.pod import Pod
    from webhook.result import Decision

SILENT = (Reason.NOT_OURS, Reason.NOT_CREATE)


class Outcome(Struct, frozen=True, kw_only=True):
    """What becomes of a pod, whoever asks, as logs, metrics and the command line tell it.

    `job` is the PyTorchJob's name or "", `classes` has one class for each managed container, `env` the names of the
    variables that change, `patch` the operations, `message` what a denied pod hears.
    """

    allowed: bool
    job: str
    reason: Reason
    status: str | None = None
    rules: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: Patch = msgspec.field(default_factory=list)
    message: str | None = None


class Verdict(Outcome, frozen=True, kw_only=True):
    """An outcome that can be told to anybody: `told` is the response's JSON without a uid."""

    told: bytes


def on(pod: Pod, decision: Decision) -> Verdict:
    """The verdict on the pod that was decided on."""
    return verdict(decision, pod.job, to_patch(pod, decision.edits))


def verdict(decision: Decision, job: str = "", patch: Patch | None = None) -> Verdict:
    """The verdict that a decision comes to; without a patch where there is no pod to change."""
    patch = patch or []
    return Verdict(
        told=review.verdict(patch=patch, warnings=decision.warnings, audit=_audit(decision), denial=decision.denial),
        allowed=decision.denial is None,
        job=job,
        reason=decision.reason,
        status=str(decision.status) if decision.status is not None else None,
        rules=decision.rules,
        classes=tuple(map(str, decision.classes)),
        env=decision.env,
        warnings=decision.warnings,
        patch=patch,
        message=decision.denial,
    )


def _audit(decision: Decision) -> dict[str, str]:
    """Audit annotations: names and rules, never a value; nothing on the pods of others."""
    if decision.reason in SILENT:
        return {}
    status = str(decision.status) if decision.status is not None else ""
    told = {
        "status": status,
        "rules": ",".join(decision.rules),
        "reason": str(decision.reason),
        "env": ",".join(decision.env),
    }
    return {key: value for key, value in told.items() if value}

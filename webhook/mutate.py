"""AdmissionReview in, answer out: all that the server and the command line need of the core."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from webhook import decide as deciding
from webhook import jsonpatch, pod, review, wire
from webhook.decide import Decision, Policy, Reason
from webhook.edits import to_patch
from webhook.errors import BadReview
from webhook.launch import Classifier
from webhook.review import Review, review_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from webhook.jsonpatch import Patch
    from webhook.pod import Pod

__all__ = ["Answer", "BadReview", "Decide", "patched", "remembering", "respond", "review_of"]

_SILENT = (Reason.NOT_OURS, Reason.NOT_CREATE)


class Decide(Protocol):
    """`decide.decide`, or what a test puts in its place."""

    def __call__(self, pod: Pod, policy: Policy, /) -> Decision:
        """The decision on a pod."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer's bytes, and what logs, metrics and the command line tell about it.

    `job` is the PyTorchJob's name or "", `classes` has one class for each managed container, `env` the names of the
    variables that change, `patch` the operations, `message` what a denied pod hears. `bug` is the exception of a
    decision that failed: the pod is then allowed as it is, or denied where the policy says so.
    """

    body: bytes
    allowed: bool
    uid: str
    namespace: str
    job: str
    operation: str
    dry_run: bool
    reason: Reason
    status: str | None = None
    rules: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: Patch = field(default_factory=list)
    message: str | None = None
    bug: Exception | None = None


def respond(body: bytes, policy: Policy, *, decide: Decide = deciding.decide) -> Answer:
    """The answer to the body of an admission request; the same one for the same body.

    Raises:
        BadReview: no answer could name the request, since its version or uid can't be read.
    """
    request = review.parse(body)
    if not request.known_version:
        return _answer(request, "", Decision(Reason.BAD_REQUEST))
    if not request.creates:
        return _answer(request, "", Decision(Reason.NOT_CREATE))
    if request.pod is None:
        return _answer(request, "", Decision(Reason.NOT_OURS))
    try:
        view = pod.read(request.pod)
        decision = decide(view, policy)
        return _answer(request, view.job, decision, to_patch(view, decision.edits))
    except Exception as bug:  # noqa: BLE001 - the core's one net: whatever fails in here, the pod must not wait for us
        return _failed(request, policy, bug)


def remembering(classify: Classifier | None = None) -> Callable[[bytes, Policy], Answer]:
    """A `respond` that judges a command text once: what a server keeps, since the pods of a job share theirs."""
    return partial(respond, decide=partial(deciding.decide, classify=classify or Classifier()))


def _failed(request: Review, policy: Policy, bug: Exception) -> Answer:
    """A fault of ours. Its text may quote the pod, so nobody outside hears it."""
    what = f"rankfix failed on this pod ({type(bug).__name__}; uid {request.uid[:40]} in its log)"
    if policy.on_bug == "deny":
        return _answer(request, "", Decision(Reason.DENIED, denial=what), bug=bug)
    decision = Decision(Reason.BAD_REQUEST, warnings=(f"{what}: the pod was left as it is",))
    return _answer(request, "", decision, bug=bug)


def _answer(
    request: Review, job: str, decision: Decision, patch: Patch | None = None, bug: Exception | None = None
) -> Answer:
    patch = patch or []
    reply = review.answer(
        request, patch=patch, warnings=decision.warnings, audit=_audit(decision), denial=decision.denial
    )
    return Answer(
        body=wire.encode(reply),
        allowed=decision.denial is None,
        uid=request.uid,
        namespace=request.namespace,
        job=job,
        operation=request.operation,
        dry_run=request.dry_run,
        reason=decision.reason,
        status=decision.status.value if decision.status is not None else None,
        rules=decision.rules,
        classes=tuple(cls.value for cls in decision.classes),
        env=decision.env,
        warnings=decision.warnings,
        patch=patch,
        message=decision.denial,
        bug=bug,
    )


def _audit(decision: Decision) -> dict[str, str]:
    """Audit annotations: names and rules, never a value; nothing on the pods of others."""
    if decision.reason in _SILENT:
        return {}
    status = decision.status.value if decision.status is not None else ""
    told = {
        "status": status,
        "rules": ",".join(decision.rules),
        "reason": decision.reason.value,
        "env": ",".join(decision.env),
    }
    return {key: value for key, value in told.items() if value}


def patched(obj: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """An object with the answer's patch applied; the one handed in stays as it is."""
    result: dict[str, Any] = jsonpatch.apply(dict(obj), patch)
    return result

"""AdmissionReview in, answer out: all that the server and the command line need of the core."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from webhook import decide as deciding
from webhook import envelope, jsonpatch, kin, outcome, pod, review
from webhook.decide import Decision, Policy, Reason
from webhook.errors import BadReview
from webhook.launch import Classifier
from webhook.outcome import Outcome
from webhook.recent import Recent
from webhook.review import Review, review_of
from webhook.siblings import Siblings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webhook.envelope import Envelope, Essence
    from webhook.jsonpatch import Patch
    from webhook.outcome import Verdict
    from webhook.pod import Pod

__all__ = ["Answer", "BadReview", "Decide", "Remembering", "patched", "remembering", "respond", "review_of"]

_MOST, _MOST_BYTES = 1024, 8 * 2**20  # pods remembered, and the JSON they are known by


class Decide(Protocol):
    """`decide.decide`, or what a test puts in its place."""

    def __call__(self, pod: Pod, policy: Policy, /) -> Decision:
        """The decision on a pod."""


class Answer(Outcome, frozen=True, kw_only=True):
    """An outcome as the answer to one request: its bytes, and whose they are.

    `bug` is the exception of a decision that failed: the pod is then allowed as it is, or denied where the policy says
    so.
    """

    body: bytes
    uid: str
    namespace: str
    operation: str
    dry_run: bool
    bug: Exception | None = None


def respond(body: bytes, policy: Policy, *, decide: Decide = deciding.decide) -> Answer:
    """The answer to the body of an admission request; the same one for the same body.

    Raises:
        BadReview: no answer could name the request, since its version or uid can't be read.
    """
    request = review.parse(body)
    if not request.known_version:
        return _answer(request, outcome.verdict(Decision(Reason.BAD_REQUEST)))
    if not request.creates:
        return _answer(request, outcome.verdict(Decision(Reason.NOT_CREATE)))
    if request.pod is None:
        return _answer(request, outcome.verdict(Decision(Reason.NOT_OURS)))
    try:
        view = pod.read(request.pod)
        return _answer(request, outcome.on(view, decide(view, policy)))
    except Exception as bug:  # noqa: BLE001 - the core's one net: whatever fails in here, the pod must not wait for us
        return _failed(request, policy, bug)


class Remembering:
    """`respond` that does nothing twice: it judges a command text once, and gives a pod that differs from one that it
    has seen in nothing that matters the same verdict.

    What matters is all that `decide` is shown then, byte for byte. A pod whose review hasn't the usual form, and one
    on which `decide` fails, goes the way of `respond`.
    """

    def __init__(self, decide: Decide | None = None, *, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        self.classifier = Classifier()
        self._decide = decide or partial(deciding.decide, classify=self.classifier)
        self._policy: Policy | None = None
        self.verdicts: Recent[Essence, Verdict] = Recent(most, most_bytes)
        self.kin: Recent[kin.Family, Siblings] = Recent(most // 4, most_bytes // 4)

    def __call__(self, body: bytes, policy: Policy) -> Answer:
        """The same answer as `respond`'s."""
        seen = envelope.opened(body)
        if seen is None:
            return respond(body, policy, decide=self._decide)
        if policy is not self._policy and policy != self._policy:
            self.verdicts.forget()
            self.kin.forget()
            self._policy = policy
        essence = envelope.essence(seen)
        try:
            verdict = self.verdicts.get(essence) or self._judge(essence, policy)
        except Exception:  # noqa: BLE001 - as in `respond`, which meets it again and says what it is
            return respond(body, policy, decide=self._decide)
        return _opened_answer(seen, verdict)

    def _judge(self, essence: Essence, policy: Policy) -> Verdict:
        """The verdict on a pod that wasn't seen before: by what is known of its kin, or by itself."""
        family, rank = kin.cut(essence)
        siblings = self.kin.get(family) if family is not None else None
        known = siblings.verdict(rank) if siblings is not None else None
        if known is not None:  # there may be thousands of those, so it isn't remembered
            return known
        view = pod.read(envelope.pod_of(essence))
        decision = self._decide(view, policy)
        verdict = outcome.on(view, decision)
        if verdict.reason not in outcome.SILENT:
            size = sum(map(len, essence))
            self.verdicts.keep(essence, verdict, size)
            first = kin.of(view, decision, family, rank) if family is not None else None
            if first is not None and family is not None:
                self.kin.keep(family, Siblings(first), size)
        return verdict


def remembering() -> Remembering:
    """What a server answers with, since the pods of a job share their text, and callers ask more than once."""
    return Remembering()


def _failed(request: Review, policy: Policy, bug: Exception) -> Answer:
    """A fault of ours. Its text may quote the pod, so nobody outside hears it."""
    what = f"rankfix failed on this pod ({type(bug).__name__}; uid {request.uid[:40]} in its log)"
    if policy.on_bug == "deny":
        return _answer(request, outcome.verdict(Decision(Reason.DENIED, denial=what)), bug)
    decision = Decision(Reason.BAD_REQUEST, warnings=(f"{what}: the pod was left as it is",))
    return _answer(request, outcome.verdict(decision), bug)


def _opened_answer(seen: Envelope, verdict: Verdict) -> Answer:
    request = seen.request
    return _named(verdict, seen.api_version, request.uid, request.namespace, request.operation, dry_run=request.dry_run)


def _answer(request: Review, verdict: Verdict, bug: Exception | None = None) -> Answer:
    return _named(
        verdict, request.version, request.uid, request.namespace, request.operation, dry_run=request.dry_run, bug=bug
    )


def _named(  # noqa: PLR0913 - what names a request
    verdict: Verdict,
    version: str,
    uid: str,
    namespace: str,
    operation: str,
    *,
    dry_run: bool,
    bug: Exception | None = None,
) -> Answer:
    """A verdict as the answer to one request."""
    return Answer(
        body=review.answer(version, uid, verdict.told),
        allowed=verdict.allowed,
        uid=uid,
        namespace=namespace,
        job=verdict.job,
        operation=operation,
        dry_run=dry_run,
        reason=verdict.reason,
        status=verdict.status,
        rules=verdict.rules,
        classes=verdict.classes,
        env=verdict.env,
        warnings=verdict.warnings,
        patch=verdict.patch,
        message=verdict.message,
        bug=bug,
    )


def patched(obj: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """An object with the answer's patch applied; the one handed in stays as it is."""
    result: dict[str, Any] = jsonpatch.apply(dict(obj), patch)
    return result

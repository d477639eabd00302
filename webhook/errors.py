"""Every error that rankfix raises on purpose.

    RankfixError                  the root: its text is one line, for a person, without any env value of a pod
    ├── BadReview                 bytes that are no AdmissionReview            -> HTTP 400; exit code 2
    ├── BadPatch                  a JSON Patch that doesn't fit its document   -> a fault of ours, or of another webhook
    ├── Refused                   an annotation of ours that can't be obeyed   -> the pod is denied with code 400
    ├── settings.BadSettings      settings that can't be obeyed                -> exit code 2
    └── ...                       the edges' own (`tls`, `cli`), each beside the code that raises it

`Refused` never leaves the core: `decide` makes a denial of it.
"""

from __future__ import annotations


class RankfixError(Exception):
    """Something that a person can put right; the text says what, and how."""


class BadReview(RankfixError):
    """The body is no AdmissionReview whose version and uid can be read, so no answer could name them."""


class BadPatch(RankfixError):
    """An operation of a JSON Patch points at nothing."""


class Refused(RankfixError):
    """An annotation of ours that can't be obeyed; the text names it, its value and what is allowed, but not the job."""

"""What an operator of the webhook may choose, and the closed sets of words that decisions are told in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Mode(StrEnum):
    """Values of the annotation `rankfix/mode` and of the server's default mode (rank contract, section 5)."""

    AUTO = "auto"
    PROCESS = "process"
    NODE = "node"
    TORCHRUN = "torchrun"
    AUDIT = "audit"
    OFF = "off"


class Reason(StrEnum):
    """Why an answer is what it is (rank contract, section 8). Closed, so that it can be a metric's label."""

    PATCHED = "patched"
    NOT_OURS = "not-ours"
    OFF = "off"
    AUDIT = "audit"
    ELASTIC = "elastic"
    NO_RANK_ENV = "no-rank-env"
    VALUE_FROM = "value-from"
    BAD_LABEL = "bad-label"
    INCONSISTENT = "inconsistent"
    UNCLEAR_LAUNCH = "unclear-launch"
    ALREADY_RIGHT = "already-right"
    DENIED = "denied"
    BAD_REQUEST = "bad-request"
    NOT_CREATE = "not-create"


class Status(StrEnum):
    """Values of the annotation `rankfix/status`."""

    PROCESS = "process"
    NODE = "node"
    ARGUMENTS = "arguments"
    ENVIRONMENT = "environment"
    UNCHANGED = "unchanged"
    WOULD_CHANGE = "would-change"


@dataclass(frozen=True, slots=True)
class Policy:
    """The server's settings that decisions depend on.

    `hidden` and `entrypoint` say what mode `auto` does where it can't see the start of training: give the process
    contract, or leave the container's pair alone. `on_bug` is about a failure of rankfix itself.
    """

    default_mode: Mode = Mode.AUTO
    hidden: Literal["leave", "process"] = "leave"
    entrypoint: Literal["process", "leave"] = "process"
    on_bug: Literal["allow", "deny"] = "allow"

"""Every way a training process can end badly, and the exit code of each.

TrainerError
├── LaunchError    2    arguments or rank environment: restarting can't help
│   └── RollCallError   2    the processes of the job disagree on who they are
├── DataError      3    the data is missing, damaged or not what it claims to be
├── TargetMissed   4    finished, but below the target or unverified
├── PeerLost     134    another process died or went silent: a restart may help
└── Stopped      143    told to stop (SIGTERM); everything worth keeping is saved

Codes of 128 and above are the ones that the training operator retries under restartPolicy ExitCode.
"""

from __future__ import annotations

from typing import ClassVar

FINISHED = 0


class TrainerError(Exception):
    """Ends the process with `code` after its one sentence has gone to stderr."""

    code: ClassVar[int] = 1


class LaunchError(TrainerError):
    """The arguments or the rank environment can't be right."""

    code = 2


class RollCallError(LaunchError):
    """The roll call found that the processes of the job don't fit together."""


class DataError(TrainerError):
    """The data set is missing, damaged, or not the one expected."""

    code = 3


class TargetMissed(TrainerError):  # see PeerLost
    """Training finished below the target accuracy, or the ranks failed the final verification."""

    code = 4


class PeerLost(TrainerError):  # names what happened, which need not be a mistake
    """Another process of the job died, or did not answer in time."""

    code = 134


class Stopped(TrainerError):  # see PeerLost
    """All ranks agreed to stop because one of them got SIGTERM."""

    code = 143


def error_for(code: int, message: str) -> TrainerError:
    """The error of this tree that carries `code`, for verdicts that travelled as numbers."""
    kinds: tuple[type[TrainerError], ...] = (RollCallError, DataError, TargetMissed, PeerLost, Stopped)
    return next((kind for kind in kinds if kind.code == code), TrainerError)(message)

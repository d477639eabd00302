"""`python -m trainer`, `rankfix-train`: from argv and environment to an exit code."""

from __future__ import annotations

import os
import sys
import time
import traceback
from typing import TYPE_CHECKING

from trainer import settings, spawn, world
from trainer.errors import FINISHED, TrainerError
from trainer.report import leave_message
from trainer.stop import StopSignal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.settings import Options


def main() -> None:
    """The console script: the exit code is that of `run`."""
    code = run(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of a broken process group would keep a normal exit waiting, or abort it.
    os._exit(code)


def run(words: Sequence[str]) -> int:
    """Runs one process of a job, or the parent of a pod's processes; says in one sentence why if it fails."""
    options, started = None, time.monotonic()
    try:
        options = settings.parse(words)
        launch = world.resolve(os.environ, options.flags, _gpus)
        seat = world.seat_of(launch)
        if seat is None:
            return _report_pod(spawn.run_all(launch, words), options)
        stop = StopSignal(parent=_parent())
        stop.install()  # before torch is loaded, which takes seconds
        # torch's C++ warnings (of names without reverse entry, of every closed connection) would bury the one sentence.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        from trainer import process  # noqa: PLC0415  # loads torch, which the parent of a pod does without

        return process.run(seat, options, stop, started)
    except TrainerError as error:
        return _end(error.code, str(error), options)
    except Exception:  # noqa: BLE001  # the outermost edge: whatever this is, it's a bug of ours
        traceback.print_exc()
        return _end(1, "internal error, see the traceback above; please report it", options)


def _report_pod(outcome: spawn.Outcome, options: Options) -> int:
    if outcome.sentence is not None:
        return _end(outcome.code, outcome.sentence, options)
    return outcome.code


def _end(code: int, sentence: str, options: Options | None) -> int:
    if code != FINISHED and sentence:
        sys.stderr.write(f"rankfix-train: {sentence}\n")
        if options is not None:
            leave_message(options.termination_log, sentence)
    return code


def _parent() -> int | None:
    number = os.environ.get(spawn.PARENT_FD)
    return int(number) if number else None


def _gpus() -> int:
    import torch  # noqa: PLC0415  # slow, and only wanted for --nproc gpu

    return torch.cuda.device_count()


if __name__ == "__main__":
    main()

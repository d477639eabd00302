"""Loaded by each Python in a local pod: what it takes for the number of CPUs doesn't depend on the machine.

`nprocPerNode: auto` means as many processes as there are GPUs, or else CPUs; a case says how many in CONFORMANCE_GPUS.
"""

import os

_UNSAID = 2


def _count() -> int:
    return int(os.environ.get("CONFORMANCE_GPUS", _UNSAID))


def _affinity(_: int) -> set[int]:
    return set(range(_count()))


os.cpu_count = _count
os.sched_getaffinity = _affinity  # what newer versions of torch count

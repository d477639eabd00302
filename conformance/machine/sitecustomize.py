"""Loaded by each Python in a local pod: the number of CPUs is the same wherever the cases run.

`nprocPerNode: auto` means as many processes as the host has CPUs, so the truth of a case would depend on the machine.
"""

import os

_CPUS = 2


def _count() -> int:
    return _CPUS


os.cpu_count = _count

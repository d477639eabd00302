"""A script of the real accelerate library, on CPUs: PartialState decides whether it is distributed, and joins."""

import report
from accelerate import PartialState

if __name__ == "__main__":
    report.started()
    state = PartialState(cpu=True)
    if state.num_processes > 1:
        report.joined()
    else:
        report.alone()

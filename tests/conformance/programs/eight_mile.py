"""Stand-in for mead-baseline's device choice: LOCAL_RANK, else RANK; but GPU 0 where only one is visible.

The same order of look-ups as eight_mile's `get_num_gpus_multiworker` and its device set-up, in own words.
"""

import os

import report

if __name__ == "__main__":
    local = int(os.environ.get("LOCAL_RANK", os.environ["RANK"]))
    report.device(0 if report.gpus() == 1 else local)
    report.train()

"""Takes `cuda:RANK`, which only exists where the ranks of a pod are below its GPUs; then the plain env:// script.

With `--modulo` it takes RANK modulo the GPUs, as old mmcv and fairseq do.
"""

import os
import sys

import report

if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    report.device(rank % report.gpus() if "--modulo" in sys.argv else rank)
    report.train()

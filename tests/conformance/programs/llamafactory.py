#!/usr/bin/env python
"""Stand-in for `llamafactory-cli train`: torchrun if FORCE_TORCHRUN is set or there are several GPUs, in own words.

The node's rank is NODE_RANK, as from 0.9.1 on; with LLAMAFACTORY=0.9.0 it is RANK, as it was until then. Nodes from
NNODES, processes from NPROC_PER_NODE, else one a GPU.
"""

import os
import sys

import report

if __name__ == "__main__":
    env = os.environ
    words = [sys.executable]
    if env.get("FORCE_TORCHRUN", "").lower() in ("1", "true") or report.gpus() > 1:
        node = env.get("RANK" if env.get("LLAMAFACTORY") == "0.9.0" else "NODE_RANK", "0")
        words += ["-m", "torch.distributed.run", "--nnodes", env.get("NNODES", "1"), "--node_rank", node]
        words += ["--nproc_per_node", env.get("NPROC_PER_NODE", str(report.gpus()))]
        words += ["--master_addr", env.get("MASTER_ADDR", "127.0.0.1")]
        words += ["--master_port", env.get("MASTER_PORT", "29514")]
    os.execv(sys.executable, [*words, "train.py"])  # noqa: S606 - becomes torchrun, with its exit code

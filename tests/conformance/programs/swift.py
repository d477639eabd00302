#!/usr/bin/env python
"""Stand-in for the `swift` command of ms-swift: torchrun with flags from five variables, in own words.

NPROC_PER_NODE, NNODES, NODE_RANK, MASTER_ADDR, MASTER_PORT; plain python where neither of the first two is set. The
script of the image is `train.py`.
"""

import os
import sys

_FLAGS = {
    "NPROC_PER_NODE": "--nproc_per_node",
    "MASTER_PORT": "--master_port",
    "NNODES": "--nnodes",
    "NODE_RANK": "--node_rank",
    "MASTER_ADDR": "--master_addr",
}

if __name__ == "__main__":
    words = [sys.executable]
    if "NPROC_PER_NODE" in os.environ or "NNODES" in os.environ:
        words += ["-m", "torch.distributed.run"]
        words += [word for name, flag in _FLAGS.items() if name in os.environ for word in (flag, os.environ[name])]
    os.execv(sys.executable, [*words, "train.py", *sys.argv[1:]])  # noqa: S606 - becomes torchrun, as the original does

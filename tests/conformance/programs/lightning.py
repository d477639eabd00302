"""Stand-in for a Lightning Trainer(num_nodes, devices) in its default environment: the same look-ups, in own words.

Under torchrun (TORCHELASTIC_RUN_ID is there) a process takes its place from RANK. Else LOCAL_RANK says that somebody
has started the processes already; without it this is local rank 0, and starts the others of its node. The node is
NODE_RANK, else GROUP_RANK, else 0; RANK and WORLD_SIZE aren't read. `trainer.num_nodes=2`, `--num_nodes=2` and
NUM_NODES say how many nodes there are, `trainer.devices=2` and `--devices=2` how many processes on each (else one a
GPU).
"""

import os
import re
import subprocess
import sys

import report


def _option(name: str, fallback: int) -> int:
    found = re.search(rf"(?:^|\s)(?:--|trainer\.){name}[= ](\d+)", " ".join(sys.argv[1:]))
    return int(found[1]) if found else fallback


def fit() -> None:
    """Train on all devices of all nodes."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        report.train()
        return
    nodes, many = _option("num_nodes", int(os.environ.get("NUM_NODES", "1"))), _option("devices", report.gpus())
    node = int(os.environ.get("NODE_RANK", os.environ.get("GROUP_RANK", "0")))
    if nodes * many == 1:
        report.alone()
        return
    others = [] if "LOCAL_RANK" in os.environ else [_start(local) for local in range(1, many)]
    url = f"tcp://{os.environ.get('MASTER_ADDR', '127.0.0.1')}:{os.environ.get('MASTER_PORT', '29400')}"
    try:
        report.train(node * many + int(os.environ.get("LOCAL_RANK", "0")), nodes * many, url)
    except BaseException:
        for other in others:
            other.kill()
        raise
    if any(other.wait() for other in others):
        sys.exit("a process of this node failed")


def _start(local: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "LOCAL_RANK": str(local)})


if __name__ == "__main__":
    fit()

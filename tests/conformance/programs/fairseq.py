"""Stand-in for fairseq-train: how it decides whether somebody has started its processes, the same look-ups.

MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK all there: a launcher did; one process, on GPU RANK modulo the GPUs. Else,
with `--distributed-init-method`, it spawns one process a GPU from `--distributed-rank` on.
"""

import argparse
import os

import report

_FOUR = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--distributed-world-size", type=int, default=report.gpus(), dest="world")
    parser.add_argument("--distributed-rank", type=int, default=0, dest="rank")
    parser.add_argument("--distributed-init-method", default=None, dest="url")
    return parser.parse_known_args()[0]


def spawned(local: int) -> None:
    """One of the processes that it starts itself."""
    args = _arguments()
    report.device(local)
    report.train(args.rank + local, args.world, args.url or "tcp://127.0.0.1:29512")


if __name__ == "__main__":
    if all(name in os.environ for name in _FOUR) and _arguments().url is None:
        report.device(int(os.environ["RANK"]) % report.gpus())
        report.train()
    else:
        report.spawn(report.gpus(), spawned)

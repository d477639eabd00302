"""Stand-in for pytorch/examples imagenet and the trainers made after it: the same arithmetic, in own words.

With `--multiprocessing-distributed` it spawns one process a GPU from a node pair: world = WORLD_SIZE * GPUs, rank =
RANK * GPUs + local; `--rank` and `--world-size` are the node pair where they are given. Without, it is one process.
"""

import argparse
import os

import report


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--world-size", type=int, default=-1)
    parser.add_argument("--rank", type=int, default=-1)
    parser.add_argument("--dist-url", default="env://")
    parser.add_argument("--multiprocessing-distributed", action="store_true")
    return parser.parse_known_args()[0]


def main(local: int) -> None:
    """One process."""
    args, many = _arguments(), report.gpus()
    rank = int(os.environ["RANK"]) if args.dist_url == "env://" and args.rank == -1 else args.rank
    world = int(os.environ["WORLD_SIZE"]) if args.dist_url == "env://" and args.world_size == -1 else args.world_size
    if args.multiprocessing_distributed:
        rank, world = rank * many + local, world * many
    report.train(rank, world, args.dist_url)


if __name__ == "__main__":
    report.spawn(report.gpus() if _arguments().multiprocessing_distributed else 1, main)

"""The script of many a tutorial: starts its processes, and each joins by RANK and WORLD_SIZE. It checks nothing.

With ranks that are wrong it waits, without a word, for half an hour.
"""

from __future__ import annotations

import multiprocessing
import os
import sys

import torch
from torch import distributed


def train(local: int) -> None:
    """One process of the job."""
    rank, world = int(os.environ["RANK"]) + local, int(os.environ["WORLD_SIZE"])
    say(f"rank {rank} of {world} waits for the others")
    distributed.init_process_group("gloo", rank=rank, world_size=world)
    total = torch.tensor([rank])
    distributed.all_reduce(total)
    say(f"rank {rank} of {world} is together with all others: their ranks add up to {total.item()}")
    distributed.destroy_process_group()


def say(line: str) -> None:
    """Print a line, in one write: unbuffered, as the operator has it, `print` makes two, between which the pod's other
    process may say something.
    """
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Start this pod's processes."""
    fork = multiprocessing.get_context("fork")  # torch is loaded once a pod that way
    processes = [fork.Process(target=train, args=(local,)) for local in range(int(os.environ["PET_NPROC_PER_NODE"]))]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return max(abs(process.exitcode or 0) for process in processes)


if __name__ == "__main__":
    sys.exit(main())

"""Spawns the pod's processes itself: RANK is the rank of the first of them, WORLD_SIZE counts processes.

As many as LOCAL_WORLD_SIZE says, else one a GPU.
"""

import os

import report


def main(local: int) -> None:
    """One process."""
    url = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    rank, world = int(os.environ["RANK"]) + local, int(os.environ["WORLD_SIZE"])
    if rank >= world:
        message = f"rank {rank} is not below the world size {world}"
        raise ValueError(message)
    report.train(rank, world, url)


if __name__ == "__main__":
    report.spawn(int(os.environ.get("LOCAL_WORLD_SIZE", report.gpus())), main)

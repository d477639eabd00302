"""Spawns one process a GPU, and was written around the operator's pair: RANK counts pods, WORLD_SIZE processes."""

import os

import report


def main(local: int) -> None:
    """One process."""
    url = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    report.train(int(os.environ["RANK"]) * report.gpus() + local, int(os.environ["WORLD_SIZE"]), url)


if __name__ == "__main__":
    report.spawn(report.gpus(), main)

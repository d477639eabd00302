"""Reads its place itself, and hands it to torch: rank, world and address from the operator's four variables."""

import os

import report

if __name__ == "__main__":
    url = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    report.train(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), url)

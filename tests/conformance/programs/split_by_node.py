"""Splits its data by the environment itself, as `split_dataset_by_node` is called with RANK and WORLD_SIZE."""

import os

import report

if __name__ == "__main__":
    report.train(shard=(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])))

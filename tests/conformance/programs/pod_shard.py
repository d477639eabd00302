"""No group: works through one part of the data a pod, `--shard K --of P`, and ends (embeddings, tokenising)."""

import argparse

import report

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--shard", type=int, required=True)
    parser.add_argument("--of", type=int, required=True)
    args = parser.parse_args()
    report.alone(shard=(args.shard, args.of))

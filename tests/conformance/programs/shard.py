"""Fetches its part of the data: `--shard K --of P`, kept in `shard.txt` beside it for `with_shard.py`."""

import argparse
from pathlib import Path

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--shard", type=int, required=True)
    parser.add_argument("--of", type=int, required=True)
    args = parser.parse_args()
    if args.shard >= args.of:
        parser.error(f"there is no shard {args.shard} of {args.of}")
    Path("shard.txt").write_text(f"{args.shard} {args.of}", encoding="utf-8")

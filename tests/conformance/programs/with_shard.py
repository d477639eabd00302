"""The plain env:// script on data that `shard.py` has fetched into its folder: fails where the group lacks a part."""

from pathlib import Path

import report

if __name__ == "__main__":
    number, of = map(int, Path("shard.txt").read_text(encoding="utf-8").split())
    report.train(shard=(number, of))

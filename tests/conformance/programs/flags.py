"""Takes its place from flags: `--rank`, `--world-size`, `--dist-url`, and spawns `--spawn` processes from that rank.

Also by the names that fairseq gives them (`--distributed-rank` is the rank of a pod's first process).
"""

import argparse

import report


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", "--distributed-rank", type=int, dest="rank")
    parser.add_argument("--world-size", "--distributed-world-size", type=int, dest="world")
    parser.add_argument("--dist-url", "--distributed-init-method", default="env://", dest="url")
    parser.add_argument("--spawn", type=int, default=1)
    return parser.parse_known_args()[0]


def main(local: int) -> None:
    """One process."""
    args = _arguments()
    report.train(args.rank + local, args.world, args.url)


if __name__ == "__main__":
    report.spawn(_arguments().spawn, main)

"""Stand-in for the `launch()` of detectron2 and YOLOX: a script that spawns from flags, the same arithmetic.

`--num-gpus`, `--num-machines`, `--machine-rank`, `--dist-url`: world = machines * GPUs, rank = machine * GPUs + local.
"""

import argparse
import sys

import report


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-gpus", "-d", "--devices", type=int, default=1, dest="many")
    parser.add_argument("--num-machines", "--num_machines", type=int, default=1, dest="machines")
    parser.add_argument("--machine-rank", "--machine_rank", type=int, default=0, dest="machine")
    parser.add_argument("--dist-url", "--dist_url", default="auto", dest="url")
    return parser.parse_known_args()[0]


def main(local: int) -> None:
    """One process."""
    args = _arguments()
    report.train(args.machine * args.many + local, args.machines * args.many, args.url)


if __name__ == "__main__":
    given = _arguments()
    if given.url == "auto":
        if given.machines > 1:
            sys.exit("AssertionError: dist_url=auto not supported in multi-machine jobs.")
        sys.argv += ["--dist-url", "tcp://127.0.0.1:29511"]
    report.spawn(given.many, main)

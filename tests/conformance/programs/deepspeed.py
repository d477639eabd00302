#!/usr/bin/env python
"""Stand-in for the `deepspeed` launcher: where its processes run, and what they are told, in own words.

Without a hostfile it runs one process a GPU in this pod, with 127.0.0.1 as master, whatever RANK and WORLD_SIZE say.
With `--hostfile F --no_ssh --node_rank K --master_addr A` it starts this node's processes of all hosts in F.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import report


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="deepspeed")
    parser.add_argument("--hostfile", default="/job/hostfile")
    parser.add_argument("--no_ssh", action="store_true")
    parser.add_argument("--node_rank", type=int, default=-1)
    parser.add_argument("--num_gpus", type=int, default=report.gpus())
    parser.add_argument("--master_addr", default="")
    parser.add_argument("--master_port", default="29500")
    parser.add_argument("script", nargs=argparse.REMAINDER)
    return parser.parse_args()


def main() -> int:
    """Start this node's processes, and wait."""
    args = _arguments()
    file = Path(args.hostfile)
    slots = [int(found) for found in re.findall(r"slots=(\d+)", file.read_text())] if file.is_file() else []
    if not slots:
        sys.stderr.write("[WARNING] Unable to find hostfile, will proceed with training with local resources only.\n")
        slots, args.node_rank, args.master_addr = [args.num_gpus], 0, "127.0.0.1"
    elif not args.no_ssh:
        sys.exit("RuntimeError: Using hostfile at launch but ssh to the hosts failed: pdsh is not installed")
    first = sum(slots[: args.node_rank])
    children = [
        subprocess.Popen(
            [sys.executable, "-u", args.script[0], f"--local_rank={local}", *args.script[1:]],
            env={
                **os.environ,
                "RANK": str(first + local),
                "LOCAL_RANK": str(local),
                "WORLD_SIZE": str(sum(slots)),
                "LOCAL_SIZE": str(slots[args.node_rank]),
                "CROSS_RANK": str(args.node_rank),
                "MASTER_ADDR": args.master_addr,
                "MASTER_PORT": args.master_port,
            },
        )
        for local in range(slots[args.node_rank])
    ]
    return max((abs(child.wait()) for child in children), default=0)


if __name__ == "__main__":
    sys.exit(main())

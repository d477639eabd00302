#!/usr/bin/env python
"""Stand-in for mosaicml's `composer` launcher: its arithmetic and its checks, in own words.

`composer [-n N] [--world_size W] [--node_rank K] SCRIPT ...`: N also from LOCAL_WORLD_SIZE, else one a GPU; W (total)
from WORLD_SIZE, else N; the node from NODE_RANK, else BASE_RANK / N, else 0 where W == N, else an error.
"""

import argparse
import os
import subprocess
import sys

import report


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="composer")
    env = os.environ
    parser.add_argument("-n", "--nproc", type=int, default=int(env.get("LOCAL_WORLD_SIZE", report.gpus())))
    parser.add_argument("--world_size", type=int, default=int(env.get("WORLD_SIZE", "-1")))
    parser.add_argument("--node_rank", type=int, default=int(env.get("NODE_RANK", "-1")))
    parser.add_argument("--base_rank", type=int, default=int(env.get("BASE_RANK", "-1")))
    parser.add_argument("--master_addr", default=env.get("MASTER_ADDR", "127.0.0.1"))
    parser.add_argument("--master_port", default=env.get("MASTER_PORT", "29513"))
    parser.add_argument("script", nargs=argparse.REMAINDER)
    return parser.parse_args()


def _placed(args: argparse.Namespace) -> argparse.Namespace:
    if args.world_size == -1:
        args.world_size = args.nproc
    if args.world_size < args.nproc:
        raise ValueError(f"world_size({args.world_size}) cannot be less than nproc({args.nproc})")
    if args.world_size % args.nproc:
        raise ValueError(f"world_size({args.world_size}) % nproc({args.nproc}) != 0")
    if args.world_size == args.nproc:
        if args.node_rank > 0 or args.base_rank > 0:
            raise ValueError("node_rank and base_rank must be 0 on a single node")
        args.node_rank = 0
    if args.node_rank == -1 and args.base_rank == -1:
        raise ValueError(f"in a multi-node job (world_size({args.world_size}) > nproc({args.nproc})) set node_rank")
    if args.node_rank == -1:
        args.node_rank = args.base_rank // args.nproc
    return args


def main() -> int:
    """Start the processes of this node, and wait; the exit code is the first that isn't 0."""
    args = _placed(_arguments())
    shared = {
        "WORLD_SIZE": str(args.world_size),
        "LOCAL_WORLD_SIZE": str(args.nproc),
        "NODE_RANK": str(args.node_rank),
        "MASTER_ADDR": args.master_addr,
        "MASTER_PORT": args.master_port,
    }
    children = [
        subprocess.Popen(
            [sys.executable, *args.script],
            env={
                **os.environ,
                **shared,
                "LOCAL_RANK": str(local),
                "RANK": str(args.node_rank * args.nproc + local),
            },
        )
        for local in range(args.nproc)
    ]
    return max((abs(child.wait()) for child in children), default=0)


if __name__ == "__main__":
    sys.exit(main())

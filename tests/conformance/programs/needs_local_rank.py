"""Stand-ins for libraries that want LOCAL_RANK, too: `mmengine`, `deepspeed`, `deepspeed-mpi` or `hf` as first word.

- mmengine's `init_dist(launcher="pytorch")` looks LOCAL_RANK up, and fails without it.
- deepspeed's `init_distributed` wants all five variables, else it asks mpi4py; where that is installed, it overwrites
  RANK and WORLD_SIZE by what MPI says of a process that nobody started with mpirun.
- transformers and accelerate on a GPU take a process without LOCAL_RANK for one that trains alone.
"""

import os
import sys

import report

_FIVE = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK")


def _deepspeed(*, mpi: bool) -> None:
    if any(name not in os.environ for name in _FIVE):
        if not mpi:
            raise ModuleNotFoundError("No module named 'mpi4py'")
        os.environ.update({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"})
    report.device(int(os.environ["LOCAL_RANK"]))
    report.train()


def _mmengine() -> None:
    report.device(int(os.environ["LOCAL_RANK"]))
    report.train()


def _hf() -> None:
    if int(os.environ.get("LOCAL_RANK", "-1")) == -1:
        report.alone()
    else:
        _mmengine()


if __name__ == "__main__":
    library = sys.argv[1]
    if library == "mmengine":
        _mmengine()
    elif library == "hf":
        _hf()
    else:
        _deepspeed(mpi=library == "deepspeed-mpi")

"""Who am I: reads the rank environment of every launch form. A pure function of its arguments; imports no torch.

One process environment can be meant in several ways, and the first that fits wins:

1. LOCAL_RANK is there: somebody has already started one process a rank (torchrun, torch.distributed.launch,
   twin containers, or this program itself). RANK is this process's own.
2. LOCAL_WORLD_SIZE is there: rankfix's process contract. This process starts LOCAL_WORLD_SIZE others, from RANK on.
3. The operator's raw pair: RANK counts pods while WORLD_SIZE counts processes. Refused, since it can't be obeyed.
4. --rank and --world-size, or RANK and WORLD_SIZE: the first rank of the --nproc that this process starts.
5. Nothing: this process, or its --nproc, are the whole world.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trainer.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SPAWNED = "RANKFIX_TRAINER_SPAWNED"  # what a parent of this program has made of its own environment
DIGITS = re.compile(r"[0-9]{1,9}")  # int() would also take "+1", " 1", "1_0" and digits of other scripts


@dataclass(frozen=True, slots=True)
class Flags:
    """What the command line says about ranks; None and False where it says nothing."""

    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    nproc: str | None = None  # a number, `gpu` or `auto`
    init_method: str | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """Where rank 0 keeps the store that all ranks meet at."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Launch:
    """The ranks that this process answers for.

    `local_rank` is None where they are still to be started: ranks first_rank .. first_rank + nproc - 1.
    Where it is a number this process is one rank, `first_rank`, and nproc is what its node runs in all.
    """

    first_rank: int
    world_size: int
    nproc: int
    local_rank: int | None
    node_rank: int | None
    master: Address | None
    origin: str
    attempt: str | None = None  # a launcher's agent keeps the store: which of its attempts this is
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seat:
    """The place of one process in the job."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int | None
    master: Address | None  # None: alone in the world
    origin: str
    attempt: str | None = None
    notes: tuple[str, ...] = ()


def seat_of(launch: Launch) -> Seat | None:
    """The seat of this very process, or None where it has to start a process for each of its ranks."""
    if launch.local_rank is None and launch.nproc > 1:
        return None
    return Seat(
        rank=launch.first_rank,
        world_size=launch.world_size,
        local_rank=launch.local_rank or 0,
        local_world_size=launch.nproc,
        node_rank=launch.node_rank,
        master=launch.master,
        origin=launch.origin,
        attempt=launch.attempt,
        notes=launch.notes,
    )


def child_env(launch: Launch, index: int, master: Address) -> dict[str, str]:
    """What the `index`-th process of a pod gets on top of the pod's environment: what torchrun would give it."""
    return {
        "RANK": str(launch.first_rank + index),
        "WORLD_SIZE": str(launch.world_size),
        "LOCAL_RANK": str(index),
        "LOCAL_WORLD_SIZE": str(launch.nproc),
        "MASTER_ADDR": master.host,
        "MASTER_PORT": str(master.port),
        # The parent has read --init-method already; were it still here, its children would read it again.
        "PYTORCH_DIST_INIT_METHOD": "env://",
        SPAWNED: json.dumps([launch.origin, *launch.notes]),
    }


def resolve(env: Mapping[str, str], flags: Flags, gpus: Callable[[], int]) -> Launch:
    """The launch that environment and flags describe, or a LaunchError naming what contradicts what.

    `gpus` is called only where `--nproc gpu` or `auto` has to be answered.
    """
    if "LOCAL_RANK" in env or flags.local_rank is not None:
        return _started(env, flags)
    if "LOCAL_WORLD_SIZE" in env:
        return _contract(env, flags)
    return _plain(env, flags, gpus)


def _started(env: Mapping[str, str], flags: Flags) -> Launch:
    """Case 1: a launcher, or twin containers."""
    launched = "TORCHELASTIC_RUN_ID" in env
    origin, *said = json.loads(env[SPAWNED]) if SPAWNED in env else ("launcher" if launched else "LOCAL_RANK",)
    notes = tuple(said) if SPAWNED in env else _ignored(env, flags)
    local_rank = _number(env, "LOCAL_RANK")
    if local_rank is None:
        local_rank = flags.local_rank or 0
    elif flags.local_rank not in (None, local_rank):
        notes = (*notes, f"--local-rank {flags.local_rank} is ignored: the environment says LOCAL_RANK={local_rank}")
    rank, world_size = _pair(env, "a process with LOCAL_RANK")
    agent = env.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return Launch(
        first_rank=rank,
        world_size=world_size,
        nproc=_number(env, "LOCAL_WORLD_SIZE") or 1,
        local_rank=local_rank,
        node_rank=_first(env, "GROUP_RANK", "NODE_RANK"),
        # A launcher has chosen the address itself; the pod's PYTORCH_DIST_INIT_METHOD is older than that.
        master=_master(env, flags, launched=launched, alone=world_size == 1),
        origin=origin,
        attempt=env.get("TORCHELASTIC_RESTART_COUNT", "0") if agent else None,
        notes=notes,
    )


def _contract(env: Mapping[str, str], flags: Flags) -> Launch:
    """Case 2: RANK is the first of LOCAL_WORLD_SIZE ranks."""
    nproc = _number(env, "LOCAL_WORLD_SIZE")
    if not nproc:
        raise LaunchError("LOCAL_WORLD_SIZE is 0; it must be the number of processes of this pod")
    rank, world_size = _pair(env, "LOCAL_WORLD_SIZE")
    return Launch(
        first_rank=rank,
        world_size=world_size,
        nproc=nproc,
        local_rank=None,
        node_rank=_number(env, "NODE_RANK"),
        master=_master(env, flags, alone=nproc == world_size),
        origin="process contract",
        notes=_ignored(env, flags),
    )


def _plain(env: Mapping[str, str], flags: Flags, gpus: Callable[[], int]) -> Launch:
    """Cases 3 to 5: nobody has said how many processes this pod has, except perhaps --nproc."""
    if (flags.rank is None) != (flags.world_size is None):
        raise LaunchError("--rank and --world-size go together; pass both or neither")
    nproc = _nproc(flags, gpus)
    notes: tuple[str, ...] = ()
    if flags.rank is not None and flags.world_size is not None and not _repeats(env, flags):
        rank, world_size, origin = flags.rank, flags.world_size, "--rank and --world-size"
        if "RANK" in env:
            notes = (f"--rank {rank} --world-size {world_size} go before RANK={env['RANK']} of the environment",)
    elif "RANK" in env or "WORLD_SIZE" in env:
        rank, world_size = _pair(env, "RANK or WORLD_SIZE")
        _refuse_raw_pair(env, rank, world_size)
        origin = "RANK and WORLD_SIZE"
    else:
        rank, world_size, origin = 0, nproc, "alone"
        if "PET_NNODES" in env:
            notes = (
                "PET_NNODES is set but RANK is not: this pod trains alone; start it with torchrun to join the others",
            )
    if world_size < 1:
        raise LaunchError("the world size is 0; it must count all processes of the job")
    return Launch(
        first_rank=rank,
        world_size=world_size,
        nproc=nproc,
        local_rank=None,
        node_rank=_number(env, "NODE_RANK"),
        master=_master(env, flags, alone=nproc == world_size),
        origin=origin,
        notes=notes,
    )


def _refuse_raw_pair(env: Mapping[str, str], rank: int, world_size: int) -> None:
    """Case 3: the training operator's own values, WORLD_SIZE = pods x processes but RANK = number of the pod."""
    pods, each = env.get("PET_NNODES", ""), env.get("PET_NPROC_PER_NODE", "")
    if not (DIGITS.fullmatch(pods) and DIGITS.fullmatch(each)) or int(each) == 1:
        return
    if world_size == int(pods) * int(each) and rank < int(pods):
        raise LaunchError(
            f"RANK={rank} numbers the pod (of {pods}) while WORLD_SIZE={world_size} counts processes ({pods} pods x "
            f"{each}): the training operator's raw pair, which leaves ranks unanswered under plain python; install the "
            f"rankfix webhook, which repairs it, or start this job with torchrun, which ignores it"
        )


def _repeats(env: Mapping[str, str], flags: Flags) -> bool:
    """Flags fed from the environment, as in `--rank=$(RANK)`, say nothing that it does not."""
    return (env.get("RANK"), env.get("WORLD_SIZE")) == (str(flags.rank), str(flags.world_size))


def _ignored(env: Mapping[str, str], flags: Flags) -> tuple[str, ...]:
    """One note about constant flags that contradict an environment which knows better."""
    pairs = (
        ("--rank", flags.rank, "RANK"),
        ("--world-size", flags.world_size, "WORLD_SIZE"),
        ("--nproc", flags.nproc, "LOCAL_WORLD_SIZE"),
    )
    wrong = [(flag, value, name) for flag, value, name in pairs if value is not None and str(value) != env.get(name)]
    if not wrong:
        return ()
    said = ", ".join(f"{flag} {value}" for flag, value, _ in wrong)
    return (f"{said} ignored: the environment that this process was launched with goes first",)


def _nproc(flags: Flags, gpus: Callable[[], int]) -> int:
    text = flags.nproc or "1"
    if text in ("gpu", "auto"):
        found = gpus()
        if found == 0 and text == "gpu":
            raise LaunchError("--nproc gpu: no GPU is visible here; pass a number to train on CPUs")
        return max(1, found)
    if not DIGITS.fullmatch(text) or int(text) == 0:
        raise LaunchError(f"--nproc {text}: must be a number from 1 on, `gpu` or `auto`")
    return int(text)


def _pair(env: Mapping[str, str], context: str) -> tuple[int, int]:
    rank, world_size = _number(env, "RANK"), _number(env, "WORLD_SIZE")
    if rank is None or world_size is None:
        missing = "RANK" if rank is None else "WORLD_SIZE"
        raise LaunchError(f"{missing} is not set, and {context} needs both RANK and WORLD_SIZE")
    return rank, world_size


def _master(env: Mapping[str, str], flags: Flags, *, launched: bool = False, alone: bool) -> Address | None:
    """Where to meet. None: all ranks are this process's own, so any free port of this host will do."""
    method = None if launched else flags.init_method or env.get("PYTORCH_DIST_INIT_METHOD")
    if method and method != "env://":
        return _address(method)
    host, port = env.get("MASTER_ADDR"), _number(env, "MASTER_PORT")
    if host and port:
        return Address(host, port)
    if alone and not host:
        return None
    missing = "MASTER_PORT" if host else "MASTER_ADDR"
    raise LaunchError(
        f"{missing} is not set; set it, or pass --init-method tcp://HOST:PORT, so that the ranks can meet"
    )


def _address(method: str) -> Address:
    parts = urlsplit(method)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "tcp" or not parts.hostname or not port:
        raise LaunchError(f"init method {method!r}: must be env:// or tcp://HOST:PORT with a port from 1 to 65535")
    return Address(parts.hostname, port)


def _number(env: Mapping[str, str], name: str) -> int | None:
    text = env.get(name)
    if text is None:
        return None
    if not DIGITS.fullmatch(text):
        raise LaunchError(f"{name}={text!r} is not a plain number")
    return int(text)


def _first(env: Mapping[str, str], *names: str) -> int | None:
    return next((number for name in names if (number := _number(env, name)) is not None), None)

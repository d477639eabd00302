"""What this process's machine says of itself: names, CPUs, and the environment that all ranks should share."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainer.world import Address

SHARED_PREFIXES = ("NCCL_", "TORCH_NCCL_", "GLOO_", "HOROVOD_TIMELINE")
QUOTA = Path("/sys/fs/cgroup/cpu.max")


def name(env: Mapping[str, str]) -> str:
    """The pod's name: Kubernetes puts it into HOSTNAME."""
    return env.get("HOSTNAME") or socket.gethostname()


def address(master: Address | None) -> str:
    """The address that this pod has towards the master; pods differ in it even where host names don't."""
    if master is None:
        return "127.0.0.1"
    try:
        family, _, _, _, target = socket.getaddrinfo(master.host, master.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)  # sends nothing: only asks the kernel for a route
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def cpus(quota: Path = QUOTA) -> int:
    """The CPUs that this container may use: os.cpu_count() is the whole node's, whatever the pod's limit."""
    allowed = len(os.sched_getaffinity(0))
    try:
        limit, period = quota.read_text().split()
        return max(1, min(allowed, int(limit) // int(period)))
    except (OSError, ValueError):  # no cgroup v2 here, or "max": no limit
        return allowed


def shared_environment(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The variables that change how ranks talk, and are expected to be equal on all of them."""
    return tuple((key, env[key]) for key in sorted(env) if key.startswith(SHARED_PREFIXES))

"""`trainer.host`: what a pod says of itself."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from trainer import host
from trainer.world import Address

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("quota", "most"), [("200000 100000", 2), ("50000 100000", 1), ("max 100000", None), ("x", None)]
)
def test_cpus_are_those_of_the_container(quota: str, most: int | None, tmp_path: Path) -> None:
    """A CPU limit of two on a node of sixty-four means two threads, not sixty-four."""
    path = tmp_path / "cpu.max"
    path.write_text(quota)
    everything = host.cpus(tmp_path / "none")
    assert host.cpus(path) == min(everything, most or everything)
    assert everything >= 1


def test_name_and_address() -> None:
    """HOSTNAME is the pod's name; the address is that of the way to the master, or unknown."""
    assert host.name({"HOSTNAME": "job-worker-0"}) == "job-worker-0"
    assert host.name({}) == socket.gethostname()
    assert host.address(None) == "127.0.0.1"
    assert host.address(Address("127.0.0.1", 1)).startswith("127.")
    assert host.address(Address("no-such-host.invalid", 1)) == ""


def test_shared_environment_is_what_changes_how_ranks_talk() -> None:
    """NCCL's, torch's and gloo's variables and Horovod's timeline; nobody's secrets."""
    env = {"NCCL_DEBUG": "1", "TORCH_NCCL_X": "2", "GLOO_Y": "3", "HOROVOD_TIMELINE": "/t", "TOKEN": "x", "RANK": "0"}
    assert [name for name, _ in host.shared_environment(env)] == [
        "GLOO_Y",
        "HOROVOD_TIMELINE",
        "NCCL_DEBUG",
        "TORCH_NCCL_X",
    ]

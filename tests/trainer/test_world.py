"""`trainer.world`: what each rank environment means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer import world
from trainer.errors import LaunchError
from trainer.world import Address, Flags, Launch

if TYPE_CHECKING:
    from collections.abc import Mapping

AT = {"MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"}
MASTER = Address("job-master-0", 23456)
CONTRACT = {**AT, "RANK": "4", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "NODE_RANK": "1"}
TORCHRUN = {
    **AT,
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RESTART_COUNT": "2",
}
RAW = {**AT, "RANK": "1", "WORLD_SIZE": "8", "PET_NNODES": "2", "PET_NPROC_PER_NODE": "4", "PET_NODE_RANK": "1"}
GONE = "ignored: the environment that this process was launched with goes first"


def resolve(env: Mapping[str, str], gpus: int = 0, **flags: Any) -> Launch:
    """What the environment and flags mean on a machine with so many GPUs."""
    return world.resolve(env, Flags(**flags), lambda: gpus)


MEANINGS: dict[str, tuple[dict[str, str], dict[str, Any], Launch]] = {
    "process contract": (CONTRACT, {}, Launch(4, 8, 4, None, 1, MASTER, "process contract")),
    "process contract beside PET_*": ({**RAW, **CONTRACT}, {}, Launch(4, 8, 4, None, 1, MASTER, "process contract")),
    "contract with the address it also gets": (
        {**CONTRACT, "PYTORCH_DIST_INIT_METHOD": "tcp://job-master-0:23456"},
        {},
        Launch(4, 8, 4, None, 1, MASTER, "process contract"),
    ),
    "constant flags under the contract": (
        CONTRACT,
        {"rank": 0, "world_size": 4, "nproc": "2"},
        Launch(4, 8, 4, None, 1, MASTER, "process contract", notes=(f"--rank 0, --world-size 4, --nproc 2 {GONE}",)),
    ),
    "torchrun": (TORCHRUN, {}, Launch(5, 8, 4, 1, 1, MASTER, "launcher", attempt="2")),
    "torchrun in a pod with an older address": (
        {**TORCHRUN, "PYTORCH_DIST_INIT_METHOD": "tcp://elsewhere:1"},
        {"init_method": "tcp://elsewhere:2"},
        Launch(5, 8, 4, 1, 1, MASTER, "launcher", attempt="2"),
    ),
    "torch.distributed.launch with constant flags": (
        TORCHRUN,
        {"rank": 0, "world_size": 8, "local_rank": 1},
        Launch(5, 8, 4, 1, 1, MASTER, "launcher", attempt="2", notes=(f"--rank 0 {GONE}",)),
    ),
    "old launcher, which passes only a flag": (
        {**AT, "RANK": "1", "WORLD_SIZE": "2"},
        {"local_rank": 1},
        Launch(1, 2, 1, 1, None, MASTER, "LOCAL_RANK"),
    ),
    "twin container": (
        {**AT, "RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0", "NODE_RANK": "3"},
        {},
        Launch(3, 4, 1, 0, 3, MASTER, "LOCAL_RANK"),
    ),
    "operator, one process a pod": (
        {**RAW, "WORLD_SIZE": "2", "PET_NPROC_PER_NODE": "auto"},
        {},
        Launch(1, 2, 1, None, None, MASTER, "RANK and WORLD_SIZE"),
    ),
    "flags alone": (
        AT,
        {"rank": 2, "world_size": 4, "nproc": "2"},
        Launch(2, 4, 2, None, None, MASTER, "--rank and --world-size"),
    ),
    "flags before an environment without launcher": (
        {**AT, "RANK": "1", "WORLD_SIZE": "2"},
        {"rank": 0, "world_size": 3},
        Launch(
            0,
            3,
            1,
            None,
            None,
            MASTER,
            "--rank and --world-size",
            notes=("--rank 0 --world-size 3 go before RANK=1 of the environment",),
        ),
    ),
    "URL in a flag": (
        {},
        {"rank": 0, "world_size": 2, "init_method": "tcp://[fd00::1]:29500"},
        Launch(0, 2, 1, None, None, Address("fd00::1", 29500), "--rank and --world-size"),
    ),
    "URL in the environment": (
        {"RANK": "0", "WORLD_SIZE": "2", "PYTORCH_DIST_INIT_METHOD": "tcp://h:1"},
        {},
        Launch(0, 2, 1, None, None, Address("h", 1), "RANK and WORLD_SIZE"),
    ),
    "env:// as flag": (
        {**AT, "RANK": "0", "WORLD_SIZE": "2", "PYTORCH_DIST_INIT_METHOD": "tcp://h:1"},
        {"init_method": "env://"},
        Launch(0, 2, 1, None, None, MASTER, "RANK and WORLD_SIZE"),
    ),
    "nothing": ({}, {}, Launch(0, 1, 1, None, None, None, "alone")),
    "nothing but --nproc": ({}, {"nproc": "3"}, Launch(0, 3, 3, None, None, None, "alone")),
    "nothing but --nproc gpu": ({}, {"nproc": "gpu"}, Launch(0, 2, 2, None, None, None, "alone")),
    "Worker-only job under plain python": (
        {"PET_NNODES": "1:2"},
        {},
        Launch(
            0,
            1,
            1,
            None,
            None,
            None,
            "alone",
            notes=(
                "PET_NNODES is set but RANK is not: this pod trains alone; start it with torchrun to join the others",
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_environment_means(name: str) -> None:
    """Each launch form gives its ranks, its address, and its notes."""
    env, flags, expected = MEANINGS[name]
    assert resolve(env, gpus=2, **flags) == expected


REFUSALS: dict[str, tuple[dict[str, str], dict[str, Any], tuple[str, ...]]] = {
    "raw pair": (RAW, {}, ("RANK=1", "WORLD_SIZE=8", "2 pods x 4", "rankfix", "torchrun")),
    "raw pair fed to flags": (RAW, {"rank": 1, "world_size": 8}, ("raw pair",)),
    "raw pair with --nproc": (RAW, {"nproc": "4"}, ("raw pair",)),
    "raw pair of one pod": ({**RAW, "RANK": "0", "WORLD_SIZE": "4", "PET_NNODES": "1"}, {}, ("raw pair",)),
    "RANK alone": ({**AT, "RANK": "0"}, {}, ("WORLD_SIZE is not set",)),
    "WORLD_SIZE alone": ({**AT, "WORLD_SIZE": "2"}, {}, ("RANK is not set",)),
    "LOCAL_WORLD_SIZE alone": ({"LOCAL_WORLD_SIZE": "2"}, {}, ("RANK is not set", "LOCAL_WORLD_SIZE")),
    "LOCAL_RANK alone": ({"LOCAL_RANK": "0"}, {}, ("RANK is not set", "LOCAL_RANK")),
    "LOCAL_WORLD_SIZE 0": ({**CONTRACT, "LOCAL_WORLD_SIZE": "0"}, {}, ("LOCAL_WORLD_SIZE is 0",)),
    "no address": ({"RANK": "0", "WORLD_SIZE": "2"}, {}, ("MASTER_ADDR is not set", "--init-method")),
    "no port": ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "h"}, {}, ("MASTER_PORT is not set",)),
    "--rank alone": (AT, {"rank": 0}, ("--rank and --world-size go together",)),
    "world of 0": (AT, {"rank": 0, "world_size": 0}, ("world size is 0",)),
    "file URL": ({**AT, "RANK": "0", "WORLD_SIZE": "2"}, {"init_method": "file:///x"}, ("'file:///x'", "tcp://")),
    "URL without port": ({**AT, "RANK": "0", "WORLD_SIZE": "2"}, {"init_method": "tcp://h"}, ("'tcp://h'",)),
    "URL with a bad port": ({**AT, "RANK": "0", "WORLD_SIZE": "2"}, {"init_method": "tcp://h:x"}, ("'tcp://h:x'",)),
    "--nproc 0": ({}, {"nproc": "0"}, ("--nproc 0",)),
    "--nproc cpu": ({}, {"nproc": "cpu"}, ("--nproc cpu",)),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_environment_is_refused(name: str) -> None:
    """A contradiction is a LaunchError, code 2, that names what contradicts what."""
    env, flags, words = REFUSALS[name]
    with pytest.raises(LaunchError) as caught:
        resolve(env, gpus=2, **flags)
    assert caught.value.code == 2
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("value", ["", "-1", "+1", " 1", "1_0", "٣", "1.0", "x", "1234567890"])
@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_PORT"])
def test_only_plain_numbers_are_numbers(name: str, value: str) -> None:
    """What int() would take and a rank must not be is refused by name and value."""
    with pytest.raises(LaunchError, match=f"{name}=.* is not a plain number"):
        resolve({**CONTRACT, name: value})


def test_gpu_count_is_refused_where_there_is_none() -> None:
    """`--nproc gpu` without a GPU is an error; `auto` then means one process."""
    with pytest.raises(LaunchError, match="no GPU is visible"):
        resolve({}, nproc="gpu")
    assert resolve({}, nproc="auto").nproc == 1


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_contract_seats_every_rank_once(sizes: list[int]) -> None:
    """Over the pods of any job, equal or not, the seats of all children are the ranks 0..W-1, each once."""
    seats = []
    for pod, size in enumerate(sizes):
        env = {
            **AT,
            "RANK": str(sum(sizes[:pod])),
            "WORLD_SIZE": str(sum(sizes)),
            "LOCAL_WORLD_SIZE": str(size),
            "NODE_RANK": str(pod),
        }
        launch = resolve(env)
        whole = world.seat_of(launch)
        if whole is not None:
            assert size == 1
            seats.append(whole)
            continue
        for index in range(size):
            child = world.seat_of(resolve({**env, **world.child_env(launch, index, MASTER)}))
            assert child is not None
            assert (child.local_rank, child.local_world_size) == (index, size)
            assert (child.node_rank, child.master, child.origin) == (pod, MASTER, "process contract")
            seats.append(child)
    assert [seat.rank for seat in seats] == list(range(sum(sizes)))
    assert {seat.world_size for seat in seats} == {sum(sizes)}


@given(st.integers(1, 50), st.integers(2, 16), st.data())
def test_raw_pair_is_always_refused(pods: int, each: int, data: st.DataObject) -> None:
    """Whatever the job's size, no pod of it starts with the operator's own pair."""
    pod = data.draw(st.integers(0, pods - 1))
    env = {**RAW, "RANK": str(pod), "WORLD_SIZE": str(pods * each)}
    with pytest.raises(LaunchError, match="raw pair"):
        resolve({**env, "PET_NNODES": str(pods), "PET_NPROC_PER_NODE": str(each)})


def test_notes_of_a_parent_are_its_childrens() -> None:
    """A child neither loses what its parent has noticed nor notices its own flags again."""
    parent = resolve(CONTRACT, rank=0, world_size=4)
    child = resolve({**CONTRACT, **world.child_env(parent, 0, MASTER)}, rank=0, world_size=4)
    assert child.notes == parent.notes
    assert child.origin == "process contract"


def test_addresses_are_written_as_people_do() -> None:
    """IPv6 addresses are bracketed."""
    assert str(Address("fd00::1", 1)) == "[fd00::1]:1"
    assert str(MASTER) == "job-master-0:23456"

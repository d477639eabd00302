"""Every way that people launch a PyTorchJob ends in the same verified line: real processes, a network address a pod."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.trainer.support import PYTHON, REPO, Run, contract, free_port, needs_torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.trainer.support import Cluster

pytestmark = [*needs_torch, pytest.mark.timeout(400)]

TORCHRUN = [PYTHON, "-m", "torch.distributed.run"]
LAUNCH = [PYTHON, "-m", "torch.distributed.launch"]
AT = ["--master_addr={host}", "--master_port={port}"]
PET_AT = {"PET_MASTER_ADDR": "{host}", "PET_MASTER_PORT": "{port}"}
OURS = ["--allow-unknown-data", "--epochs", "1", "--batch", "128", "--json", "--start-timeout", "120", "--data-dir"]


@dataclass(frozen=True)
class Pod:
    """What the template of one pod says; `{...}` are its place and the job's address."""

    before: Sequence[str]
    after: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Form:
    """A launch form, and what the ranks must say of themselves."""

    world: int
    pods: Sequence[Pod]
    launch: str
    local_ranks: Sequence[int]
    note: str | None = None
    slow: bool = False
    operator: bool = True  # MASTER_ADDR and MASTER_PORT are set, as the operator does


MODULE = [PYTHON, "-m", "trainer"]

FORMS = {
    # 1. The process contract: one process a pod starts the others.
    "contract": Form(4, [Pod(MODULE, env=contract(k, 2, 2)) for k in (0, 1)], "process contract", [0, 1, 0, 1]),
    "contract, unequal pods": Form(
        3,
        [
            Pod(MODULE, env={"RANK": "0", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "1", "NODE_RANK": "0"}),
            Pod(MODULE, env={"RANK": "1", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "2", "NODE_RANK": "1"}),
        ],
        "process contract",
        [0, 0, 1],
    ),
    "contract, one process a pod, constant flags": Form(
        2,
        [Pod(MODULE, ["--world-size", "2", "--rank", "0"], contract(k, 2, 1)) for k in (0, 1)],
        "process contract",
        [0, 0],
        note="rank 1: --rank 0 ignored: the environment that this process was launched with goes first",
    ),
    # 2. Launchers.
    "torchrun, static": Form(
        2,
        [
            Pod([*TORCHRUN, "-m", "trainer"], env={**contract(k, 2, 1), **PET_AT, "RANK": str(k), "WORLD_SIZE": "2"})
            for k in (0, 1)
        ],
        "launcher",
        [0, 0],
    ),
    "torchrun, c10d": Form(
        2,
        [
            Pod(
                [
                    *TORCHRUN,
                    "--nnodes=2",
                    "--nproc-per-node=1",
                    "--rdzv-backend=c10d",
                    "--rdzv-endpoint={host}:{port}",
                    "-m",
                    "trainer",
                ]
            )
            for _ in (0, 1)
        ],
        "launcher",
        [0, 0],
        slow=True,
    ),
    # 3. Every process is told rank 0; torch.distributed.launch also adds --local-rank to each.
    "launch, constant flags": Form(
        4,
        [Pod([*LAUNCH, "--nproc_per_node=4", "{script}"], ["--world-size", "4", "--rank", "0"])],
        "launcher",
        [0, 1, 2, 3],
        note="ranks 1-3: --rank 0 ignored: the environment that this process was launched with goes first",
        slow=True,
    ),
    # 4. What rankfix makes of the well-known broken command.
    "launch, repaired": Form(
        2,
        [
            Pod(
                [*LAUNCH, "--nproc_per_node=2", "--nnodes=1", "--node_rank=0", *AT, "{script}"],
                env={**contract(0, 1, 2), "PYTORCH_DIST_INIT_METHOD": "tcp://{host}:1"},
            )
        ],
        "launcher",
        [0, 1],
        slow=True,
    ),
    # Both at once, for the quick suite.
    "launch, repaired, constant flags": Form(
        2,
        [
            Pod(
                [*LAUNCH, "--nproc_per_node=2", "--nnodes=1", "--node_rank=0", *AT, "{script}"],
                ["--world-size", "4", "--rank", "0"],
                {**contract(0, 1, 2), "PYTORCH_DIST_INIT_METHOD": "tcp://{host}:1"},
            )
        ],
        "launcher",
        [0, 1],
        note="rank 0: --world-size 4 ignored: the environment that this process was launched with goes first",
    ),
    # An old launcher: the environment has no LOCAL_RANK, the command line has --local_rank.
    "old launcher": Form(
        2,
        [Pod(MODULE, ["--local_rank=0"], {"RANK": str(k), "WORLD_SIZE": "2"}) for k in (0, 1)],
        "LOCAL_RANK",
        [0, 0],
        slow=True,
    ),
    # 5. Addresses by URL; flags alone; nothing at all.
    "tcp URL in flag and environment": Form(
        2,
        [
            Pod(MODULE, ["--rank", "0", "--world-size", "2", "--dist-url", "tcp://{host}:{port}"]),
            Pod(MODULE, ["--rank", "1", "--world-size", "2"], {"PYTORCH_DIST_INIT_METHOD": "tcp://{host}:{port}"}),
        ],
        "--rank and --world-size",
        [0, 0],
        operator=False,
    ),
    "flags, several processes a pod": Form(
        3,
        [
            Pod(MODULE, ["--rank", "0", "--world-size", "3", "--nproc", "2", "--init-method", "env://"]),
            Pod(MODULE, ["--rank", "2", "--world-size", "3"]),
        ],
        "--rank and --world-size",
        [0, 1, 0],
        slow=True,
    ),
    "alone": Form(1, [Pod(MODULE)], "alone", [0], operator=False, slow=True),
    "alone, two processes": Form(2, [Pod(MODULE, ["--nproc", "2"])], "alone", [0, 1], operator=False),
    # 6. Twin containers: one pod, one host name, each container its own GPU and hence local rank 0.
    "twins": Form(
        2,
        [
            Pod(MODULE, env={**contract(o, 2, 1), "LOCAL_RANK": "0", "PET_NNODES": "1", "PET_NODE_RANK": "0"})
            for o in (0, 1)
        ],
        "LOCAL_RANK",
        [0, 0],
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if form.slow else ()) for name, form in FORMS.items()]
)
def test_form_ends_in_the_verified_line(name: str, cluster: Cluster, digits: Path, tmp_path: Path) -> None:
    """All ranks of the form find each other, train, and agree; the roll is as the form demands."""
    form, port = FORMS[name], free_port()
    cluster.measured = name == "contract"  # the others run the same lines, and tracing makes them slow to start
    host = cluster.master()["MASTER_ADDR"]
    script = shutil.copy(REPO / "trainer" / "entry.py", tmp_path / "train.py")
    fill = {"host": host, "port": str(port), "script": str(script)}
    runs = []
    for index, pod in enumerate(form.pods):
        env = {key: value.format(**fill) for key, value in pod.env.items()}
        operator = cluster.master(port) if form.operator else {}
        argv = [word.format(**fill) for word in (*pod.before, *pod.after)]
        where = 0 if name == "twins" else index
        quiet = pod.before[: len(LAUNCH)] == LAUNCH  # it announces its own deprecation
        runs.append(cluster.start([*argv, *OURS, str(digits)], {**operator, **env}, pod=where, strict=not quiet))
    for run in runs:
        run.expect(0)
    _check_roll(runs, form)


def _check_roll(runs: Sequence[Run], form: Form) -> None:
    first = runs[0] if runs[0].events("start") else runs[-1]  # under c10d any pod may get rank 0
    (verified,) = first.events("verified")
    assert (verified["ranks"], verified["parameters"], verified["seen"]) == (form.world, "equal", 200)
    roll = first.events("roll")
    assert [entry["rank"] for entry in roll] == list(range(form.world))
    assert [entry["local_rank"] for entry in roll] == list(form.local_ranks)
    assert first.events("start")[0]["launch"] == form.launch
    assert [note["message"] for note in first.events("note")][:1] == ([form.note] if form.note else [])
    assert first.events("warning") == []


def test_raw_pair_of_the_operator_is_refused(cluster: Cluster) -> None:
    """Without rankfix, the operator's half-and-half pair ends at once, with what it is and what to do."""
    env = {key: value for key, value in contract(1, 2, 4).items() if key.startswith("PET_")}
    sentence = cluster.train(env={**env, **cluster.master(), "RANK": "1", "WORLD_SIZE": "8"}).expect(2).sentence()
    for word in ("RANK=1", "WORLD_SIZE=8", "2 pods x 4", "raw pair", "rankfix", "torchrun"):
        assert word in sentence

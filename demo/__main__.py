"""Start the server, send it recorded pods, show each before and after, and check what is promised of them."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from demo import pods, server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from demo.pods import Seen

DATA = Path(__file__).parent / "data" / "v1.9.0"
WIDTH = 100
BROKEN, INTERRUPTED = 1, 130


@dataclass(frozen=True, slots=True)
class Job:
    """A recorded job, what is wrong with it, and what must be true once its pods are repaired."""

    name: str
    story: str
    promise: str
    kept: Callable[[Sequence[Seen]], bool]


JOBS = (
    Job(
        "bare-n4",
        "2 pods, 4 processes each, started by plain python: ranks 0 and 1 in a world of 8",
        "the processes number 0 to 7, each once",
        pods.ranks_tile,
    ),
    Job(
        "torchrun-shell-n8",
        "3 pods, torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK: it waits for 24 nodes",
        "the pair counts the 3 nodes",
        pods.pair_is_of_nodes,
    ),
    Job(
        "launch-seed-one-two-nodes",
        "2 pods, torch.distributed.launch: both say node 0, and look for the master at the API server",
        "each has a node rank of its own and asks the job's Master",
        pods.nodes_find_their_master,
    ),
)


def main(console: Console | None = None) -> int:
    """Exit code 0 if every promise was kept, 1 if one wasn't or nothing could be shown, 130 after Ctrl-C."""
    console = console or _console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a `kill` cleans up as Ctrl-C does
    try:
        with server.running() as client:
            console.print(f"rankfix serves https://127.0.0.1:{client.port}/mutate", style="bold")
            kept = [show(job, client, console) for job in JOBS]
    except KeyboardInterrupt:
        console.print("interrupted; the server is stopped")
        return INTERRUPTED
    except server.DemoError as exc:
        console.print(f"demo: {exc}", markup=False)
        return BROKEN
    console.print(f"{sum(kept)} of {len(kept)} promises kept; the server is stopped", style="bold")
    return 0 if all(kept) else BROKEN


def show(job: Job, client: server.Client, console: Console) -> bool:
    """Send the job's pods, print them, and say whether the promise was kept."""
    reviews = pods.recorded(DATA, job.name)
    found = [pods.seen(name, review, client.review(review)) for name, review in reviews]
    second = [
        pods.patch(client.review(pods.again(review, pod))) for (_, review), pod in zip(reviews, found, strict=True)
    ]
    console.print(f"\n{job.name}: {job.story}", markup=False, highlight=False)
    console.print(table(job.name, found))
    kept = bool(found) and job.kept(found) and not any(second)
    console.print(f"  {'kept' if kept else 'BROKEN'}: {job.promise}; a second call changes nothing", highlight=False)
    return kept


def table(job: str, found: Sequence[Seen]) -> Table:
    """A row a pod; `before -> after` where something changed."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("pod", "RANK", "WORLD_SIZE", "arguments", "rules"):
        made.add_column(heading, overflow="fold")
    for pod in found:
        words = "\n".join(_change(*pair) for pair in pod.words()) or "as written"
        name = pod.name.removeprefix(f"{job}-")
        cells = (name, _change(*pod.env("RANK")), _change(*pod.env("WORLD_SIZE")), words, pod.rules)
        made.add_row(*map(Text, cells))  # Text: what a pod says is no markup
    return made


def _change(before: str, after: str) -> str:
    if before == after:
        return after
    name, equals, value = after.partition("=")
    if equals and before.startswith(f"{name}="):
        return f"{before} -> {value}"
    return f"{before} -> {after}"


def _console() -> Console:
    console = Console(highlight=False)
    # A pipe has no width of its own, and rich would take 80 columns
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


if __name__ == "__main__":
    sys.exit(main())

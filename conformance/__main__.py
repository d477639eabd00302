"""`make conformance`: launch cases as real processes, without rankfix, with it, and with what else there is.

    python -m conformance [PATH...] [--case NAME] [--only WORD] [--arm ARM] [--fast] [-j N] [-v]

Exit codes: 0 all came out as foreseen and nothing that worked is broken, 1 something didn't, 2 a case can't be used,
130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from conformance import arms, cases, check, outcomes, policies, show
from conformance.budget import Budget
from conformance.cases import BadCase
from conformance.compare import THREADS, Place, Result, foreseen, perform, results, tasks
from conformance.watch import Sampler
from conformance.words import Arm
from demo import net
from demo.server import DemoError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from conformance.arms import Treat
    from conformance.compare import Task

FAILED, UNUSABLE, INTERRUPTED = 1, 2, 130
_STARTS = {  # what starts what; every job has a container `pytorch`, which is no torch
    "torch": re.compile(rf'(?<![a-z])torch|"{cases.PROGRAM}'),
    "accelerate": re.compile(rf'accelerate|"{cases.PROGRAM}'),
}
EACH_CPU = 4  # processes at once for each CPU: most of a process's time is waiting


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for; an exit code."""
    options = _options(argv)
    for number in (signal.SIGINT, signal.SIGTERM):  # a `kill` cleans up as Ctrl-C does, also behind a shell's `&`
        signal.signal(number, signal.default_int_handler)
    try:
        found = cases.load(options.paths or [cases.CASES])
        chosen = cases.selected(found, names=options.case, only=options.only, fast=options.fast)
        return _do(chosen, options)
    except BadCase as bad:
        show.problems(bad.problems)
        return UNUSABLE
    except (DemoError, OSError) as exc:
        show.problems([str(exc)])
        return UNUSABLE
    except KeyboardInterrupt:
        show.problems(["interrupted; all pods are stopped"])
        return INTERRUPTED


def _do(chosen: Sequence[cases.Case], options: argparse.Namespace) -> int:
    if options.check:
        return _check(chosen)
    if fatal := [problem for case in chosen for problem in check.unusable(case)]:
        raise BadCase(fatal)
    return _record(chosen) if options.record else _run(chosen, options)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m conformance", description=str(__doc__).partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files and folders of cases")
    parser.add_argument("--case", action="append", default=[], metavar="NAME", help="this case; may be repeated")
    parser.add_argument("--only", default="", metavar="WORD", help="cases with this in their name, family or covers")
    parser.add_argument("--arm", action="append", default=[], choices=[arm.value for arm in Arm], help="this arm only")
    parser.add_argument("--fast", action="store_true", help="the cases and arms of the fast part")
    parser.add_argument("--check", action="store_true", help="check the cases, and start nothing")
    parser.add_argument("--no-sharing", action="store_true", help="run equal pods once for each arm")
    parser.add_argument("--network", choices=["best", "loopback"], default="best", help="how pods reach each other")
    parser.add_argument("-j", "--jobs", type=int, default=0, metavar="N", help="processes at once (4 a CPU)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep each run's files below this new folder")
    parser.add_argument("--results", action="store_true", help="note what came out in tests/conformance/results.json")
    parser.add_argument("--record", action="store_true", help="ask an API server what its policy does to all pods")
    parser.add_argument("-v", "--verbose", action="store_true", help="env, ranks and logs of each run")
    return parser.parse_args(argv)


def _check(chosen: Sequence[cases.Case]) -> int:
    problems = [problem for case in chosen for problem in check.problems(case)]
    show.problems(problems)
    show.line(f"{len(chosen)} cases, {len(problems)} faults")
    return FAILED if problems else 0


def _record(chosen: Sequence[cases.Case]) -> int:
    programs = policies.programs()
    if programs is None:
        raise DemoError("--record needs a control plane: set KUBEBUILDER_ASSETS (setup-envtest use -p path)")
    with tempfile.TemporaryDirectory(prefix="rankfix-policy-") as folder, policies.live(Path(folder), programs) as live:
        for case in chosen:
            for workers in case.scale or (None,):
                arms.made(case, Arm.POLICY, live, workers=workers)
        policies.record(live.changes)
    show.line(
        f"{len(live.changes)} pods of {len(chosen)} cases: {policies.RECORD.name} says what the policy makes of each"
    )
    return 0


def _run(chosen: Sequence[cases.Case], options: argparse.Namespace) -> int:
    if lacking := missing(chosen):
        show.problems([f"not installed here, and cases start it: {', '.join(lacking)}; make conformance installs it"])
        return UNUSABLE
    began = time.monotonic()
    with _policy(options) as policy:
        todo, done = _planned(chosen, options, policy)
        show.line(f"{len(chosen)} cases, {sum(len(t.arms) for t in todo) + len(done)} arms, {len(todo)} runs")
        with Sampler() as sampler:
            done += _performed(todo, _place(sampler, options), verbose=options.verbose)
    if options.results:
        outcomes.note(done)
    return FAILED if show.summary(chosen, done, time.monotonic() - began) else 0


def missing(chosen: Sequence[cases.Case]) -> list[str]:
    """What these cases start that isn't here: a program of the corpus starts torch, and may start accelerate."""
    texts = [json.dumps([case.job, case.files]) for case in chosen]
    needed = [name for name, starts in _STARTS.items() if any(starts.search(text) for text in texts)]
    return [name for name in needed if importlib.util.find_spec(name) is None]


def _place(sampler: Sampler, options: argparse.Namespace) -> Place:
    jobs = options.jobs or EACH_CPU * (os.cpu_count() or 1)
    network = _network(loopback=options.network == "loopback")
    # On loopback whoever listens on all addresses listens for all jobs, so there is one job at a time.
    threads = THREADS if network is not _loopback else 1
    return Place(sampler, network, Budget(jobs), options.keep, threads)


def _network(*, loopback: bool) -> Callable[[Path], net.Network]:
    """What this machine lets each run have; tried once."""
    with tempfile.TemporaryDirectory(prefix="rankfix-net-") as folder:
        return net.Namespaces if not loopback and isinstance(net.best(Path(folder)), net.Namespaces) else _loopback


def _loopback(_: Path) -> net.Network:
    return net.Loopback()


@contextlib.contextmanager
def _policy(options: argparse.Namespace) -> Iterator[Treat]:
    """A control plane where there is one and all is run; the record otherwise."""
    programs = policies.programs()
    if options.fast or programs is None or (options.arm and Arm.POLICY.value not in options.arm):
        yield policies.recorded()
        return
    with tempfile.TemporaryDirectory(prefix="rankfix-policy-") as folder, policies.live(Path(folder), programs) as live:
        yield live


def _planned(
    chosen: Sequence[cases.Case], options: argparse.Namespace, policy: Treat
) -> tuple[list[Task], list[Result]]:
    todo, done = [], []
    for case in chosen:
        which = [arm for arm in check.arms_of(case) if not options.arm or arm.value in options.arm]
        more, settled = tasks(case, which, policy, share=not options.no_sharing)
        todo += check.affordable(more) if options.fast else more
        done += settled
    return todo, done


def _performed(todo: Sequence[Task], place: Place, *, verbose: bool) -> list[Result]:
    """All runs; what wasn't foreseen is run once more at the end, when the machine has time for it."""
    done, again = [], {}
    for number, (task, ran) in enumerate(perform(todo, place), 1):
        came = results(task, ran)
        show.ran(task, came, f"{number}/{len(todo)}", verbose=verbose)
        if any(not foreseen(result) for result in came):
            again[id(task)] = (task, ran)
        else:
            done += came
    for task, ran in perform([task for task, _ in again.values()], place):
        came = results(task, ran, before=again[id(task)][1])
        show.ran(task, came, "again", verbose=verbose)
        done += came
    return done


if __name__ == "__main__":
    sys.exit(main())

"""One rank from start to end: data, roll call, training, result."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from trainer import checkpoint, corpus, data, dist, download, host, muster, plan, plot, report, train
from trainer.errors import FINISHED, DataError, LaunchError, PeerLost, TargetMissed, TrainerError
from trainer.meet import meet
from trainer.muster import Entry
from trainer.rollcall import Meeting
from trainer.settings import Options, Settings, from_json, settle
from trainer.spawn import LISTEN_FD
from trainer.train import Course, Job

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trainer.corpus import Corpus
    from trainer.dist import Device
    from trainer.report import Report, Value
    from trainer.rollcall import Roll
    from trainer.stop import StopSignal
    from trainer.world import Seat


@dataclass(frozen=True, slots=True)
class Rank:
    """One process, and what it was started with."""

    seat: Seat
    options: Options
    stop: StopSignal
    out: Report
    started: float  # by the monotonic clock


TELL_FAULT = 20.0  # seconds that a process which can't take part tries to tell the others


@dataclass(frozen=True, slots=True)
class Ready:
    """What a rank has before it meets the others."""

    corpus: Corpus
    settings: Settings
    device: Device
    resumed: bytes | None = None
    remarks: tuple[str, ...] = ()


def run(seat: Seat, options: Options, stop: StopSignal, started: float) -> int:
    """The exit code of this rank; its errors are raised, but for those that local rank 0 speaks of for its pod."""
    with report.choose(seat.rank, as_json=options.json) as out:
        try:
            return _run(Rank(seat, options, stop, out, started))
        except PeerLost as error:  # everybody says it: local rank 0 may be the one that is gone
            raise PeerLost(f"rank {seat.rank} {error}") from error
        except TrainerError as error:
            if seat.local_rank == 0:
                raise
            return error.code


def _run(me: Rank) -> int:
    dist.set_threads(me.seat, host.cpus())
    ready = _prepare(me.seat, me.options)
    if isinstance(ready, Course):
        me.out.event("note", message="the checkpoint is of a finished run; nothing is left to train")
        return _finish(me, ready, "none")
    roll, ready = _answer(me, ready)
    settings = from_json(roll.verdict.settings)  # rank 0's, whatever this process was started with
    _introduce(me, ready, settings, roll)
    dist.open_group(me.seat, roll, ready.device, me.options.start_timeout)
    with dist.peers(lambda: "while the checkpoint was shared"):
        content = dist.share_bytes(ready.resumed if me.seat.rank == 0 else None)
    job = _job(me, ready, settings, roll)
    course = train.run(job, checkpoint.decode(content) if content is not None else None)
    dist.close_group()
    if me.options.plot is not None and me.seat.rank == 0:
        plot.draw(me.options.plot, course.epochs, course.losses, course.accuracies)
    return _finish(me, course, ready.device.backend)


def _prepare(seat: Seat, options: Options) -> Ready | Course | TrainerError:
    """Data, settings, device and checkpoint; a Course if training was finished before; else what is wrong."""
    try:
        if options.plot is not None and seat.rank == 0:
            plot.check(options.plot)
        if options.download and options.data_dir is not None:
            download.fetch_missing(options.data_dir, options.mirrors or download.MIRRORS)
        found = corpus.load(options.data_dir, allow_unknown=options.allow_unknown_data)
        settings = settle(options, len(found.train))
        plan.make_plan(len(found.train), settings.batch, settings.epochs, seat.world_size)
        device = dist.choose_device(seat, options.device, options.backend)
        if options.deterministic:
            torch.use_deterministic_algorithms(True)
        return _resume(seat, options, Ready(found, settings, device))
    except TrainerError as error:
        return error


def _resume(seat: Seat, options: Options, fresh: Ready) -> Ready | Course:
    """With the newest checkpoint that is whole, if there is one. Only rank 0's will count, the rest may not see it."""
    if options.checkpoint_dir is None:
        return fresh
    found = checkpoint.find(options.checkpoint_dir)
    if found.content is None:
        afresh = ("no checkpoint is whole; training starts afresh",) if found.damaged else ()
        return replace(fresh, remarks=(*found.damaged, *afresh))
    state = checkpoint.decode(found.content)
    differing = _compare(state, seat, fresh.settings, fresh.corpus)
    course = Course(**state["course"])
    if course.finished:
        return course
    resuming = f"resuming from {found.path}, step {course.step}"
    return replace(fresh, resumed=found.content, remarks=(*found.damaged, *differing, resuming))


def _compare(state: dict[str, Any], seat: Seat, settings: Settings, found: Corpus) -> tuple[str, ...]:
    """Refuses a checkpoint of another training; tells what differs otherwise."""
    there, here = state["settings"], asdict(settings)
    if differing := [name for name in here if there.get(name) != here[name]]:
        said = ", ".join(f"{name} {there.get(name)}" for name in differing)
        raise LaunchError(f"the checkpoint was trained with {said}; use those, or another --checkpoint-dir")
    remarks: tuple[str, ...] = ()
    if state["world_size"] != seat.world_size:
        remarks += (f"the checkpoint is of {state['world_size']} ranks: rounding will differ with {seat.world_size}",)
    if state["data"] != found.checksum:
        remarks += ("the checkpoint was trained on other data",)
    return remarks


def _answer(me: Rank, ready: Ready | TrainerError) -> tuple[Roll, Ready]:
    """Takes part in the roll call, if only to tell the others why this process can't go on."""
    seat, options = me.seat, me.options
    fault = ready if isinstance(ready, TrainerError) else None
    if fault is not None and seat.world_size == 1:
        raise fault
    listen_fd = os.environ.get(LISTEN_FD)
    meeting = Meeting(
        seat=seat,
        stop=me.stop,
        timeout=options.start_timeout if fault is None else min(TELL_FAULT, options.start_timeout),
        strict=options.strict,
        say=report.choose(seat.local_rank, as_json=options.json).event if seat.rank else me.out.event,
        listen_fd=int(listen_fd) if listen_fd else None,
    )
    try:
        roll = meet(meeting, _entry(seat, ready))
    except TrainerError as error:
        raise fault or error from error
    if isinstance(ready, TrainerError):
        raise ready
    return roll, ready


def _entry(seat: Seat, ready: Ready | TrainerError) -> Entry:
    entry = Entry(
        rank=seat.rank,
        world_size=seat.world_size,
        host=host.name(os.environ),
        pid=os.getpid(),
        address=host.address(seat.master),
        local_rank=seat.local_rank,
        torch=str(torch.__version__),
        environment=host.shared_environment(os.environ),
        notes=seat.notes,
    )
    if isinstance(ready, TrainerError):
        return replace(entry, fault=(ready.code, str(ready)))
    return replace(
        entry,
        device=ready.device.name,
        gpu=ready.device.unique,
        backend=ready.device.backend,
        data=ready.corpus.checksum,
        images=len(ready.corpus.train),
        settings=ready.settings.to_json(),
    )


def _introduce(me: Rank, ready: Ready, settings: Settings, roll: Roll) -> None:
    """The roll, and everything odd about it, before training starts."""
    seat, out = me.seat, me.out
    out.event(
        "start",
        torch=str(torch.__version__),
        world=seat.world_size,
        launch=seat.origin,
        backend=ready.device.backend,
        data=ready.corpus.source,
        train_images=len(ready.corpus.train),
        test_images=len(ready.corpus.test),
        **asdict(settings),
    )
    for entry in roll.entries:
        fields: dict[str, Value] = {"rank": entry.rank, "host": entry.host, "pid": entry.pid}
        out.event("roll", **fields, local_rank=entry.local_rank, device=entry.device)
    if shared := host.shared_environment(os.environ):
        out.event("environment", **dict(shared))
    for note, who in muster.notes(roll.entries).items():
        out.event("note", message=f"{who}: {note}")
    for warning in (*roll.verdict.warnings, *ready.remarks):
        out.event("warning", message=warning)


def _job(me: Rank, ready: Ready, settings: Settings, roll: Roll) -> Job:
    seat, options = me.seat, me.options
    digits, test = data.load(ready.corpus, ready.device.torch)
    return Job(
        seat=seat,
        roll=roll,
        device=ready.device,
        settings=settings,
        plan=plan.make_plan(len(digits), settings.batch, settings.epochs, seat.world_size),
        train=digits,
        test=test,
        data_checksum=ready.corpus.checksum,
        target=options.target,
        compile=options.compile,
        folder=options.checkpoint_dir,
        save_seconds=options.save_seconds,
        timeout=options.timeout,
        stop=me.stop,
        report=me.out,
        started=me.started,
    )


def _finish(me: Rank, course: Course, backend: str) -> int:
    """Reports the result, and judges it."""
    seat, options = me.seat, me.options
    result: dict[str, Value] = {
        "accuracy": course.accuracy,
        "loss": course.losses[-1] if course.losses else None,
        "time_to_accuracy_s": course.target_seconds,
        "startup_s": course.startup_seconds,
        "train_s": course.train_seconds,
        "evaluate_s": course.evaluate_seconds,
        "total_s": time.monotonic() - me.started,
        "world": seat.world_size,
        "backend": backend,
        "steps": course.step,
    }
    me.out.event("result", **result)
    if seat.rank == 0:
        if options.summary is not None:
            _write_summary(options.summary, result, course)
        report.leave_message(options.termination_log, report.text("result", result))
    if options.target is not None and course.accuracy < options.target:
        raise TargetMissed(f"accuracy {course.accuracy:.4f} is below the target of {options.target}")
    return FINISHED


def _write_summary(path: Path, result: Mapping[str, Value], course: Course) -> None:
    history = {"epochs": course.epochs, "losses": course.losses, "accuracies": course.accuracies}
    try:
        path.write_text(json.dumps({**result, **history}, indent=2) + "\n")
    except OSError as error:
        raise DataError(f"can't write --summary {path}: {error.strerror or error}") from error

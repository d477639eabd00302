"""The training loop, top to bottom: prepare, train epoch by epoch, evaluate, verify."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from trainer import checkpoint, data, dist, model, plan, verify
from trainer.dist import GO_ON, REFUSE, STOP, Device
from trainer.errors import RollCallError, Stopped

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trainer.data import Digits
    from trainer.plan import Plan
    from trainer.report import Report
    from trainer.rollcall import Roll
    from trainer.settings import Settings
    from trainer.stop import StopSignal
    from trainer.world import Seat

EVALUATED_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that a rank trains with. The settings are those of rank 0."""

    seat: Seat
    roll: Roll
    device: Device
    settings: Settings
    plan: Plan
    train: Digits
    test: Digits
    data_checksum: str
    target: float | None
    compile: bool
    folder: Path | None  # for checkpoints
    save_seconds: float
    timeout: float
    stop: StopSignal
    report: Report
    started: float  # when the process was, by the monotonic clock


@dataclass(slots=True)
class Course:
    """How far training is and how it went; all of it is in a checkpoint."""

    step: int = 0
    finished: bool = False
    startup_seconds: float = 0.0  # of the process that is running now
    train_seconds: float = 0.0  # without evaluation
    evaluate_seconds: float = 0.0
    target_seconds: float | None = None  # of training, until the target accuracy was first measured
    accuracy: float = 0.0
    seen: int = 0
    epochs: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    accuracies: list[float | None] = field(default_factory=list)


@dataclass(slots=True)
class Learner:
    """The network, and what changes it."""

    bare: nn.Module  # without DDP around it: what is evaluated and saved
    network: nn.Module
    optimizer: torch.optim.Optimizer
    recipe: model.Recipe
    steady: bool = False  # past the first step, so that the short time-out is in force
    saved: float = 0.0


def run(job: Job, resumed: Mapping[str, Any] | None) -> Course:
    """Trains to the end of the plan, from the resumed state if there is one, and proves that all ranks agree."""
    course = Course(**resumed["course"]) if resumed else Course()
    with dist.peers(lambda: f"after step {course.step} of {job.plan.steps}"):
        learner = _prepare(job, resumed)
        course.startup_seconds = time.monotonic() - job.started
        for epoch in range(job.plan.epoch_of(course.step), job.plan.epochs):
            _train_epoch(job, learner, course, epoch)
            if job.plan.evaluates(epoch):
                _evaluate(job, learner, course)
            _tell_epoch(job, course, epoch)
            _save(job, learner, course)
        fields = verify.confirm(learner.bare, job.seat, job.device, seen=course.seen, test_images=len(job.test))
        job.report.event("verified", **fields)
        course.finished = True
        _save(job, learner, course)
    return course


def _prepare(job: Job, resumed: Mapping[str, Any] | None) -> Learner:
    recipe = model.recipe_of(job.settings.model)
    bare = model.build(recipe, job.settings.seed).to(job.device.torch)
    if not job.device.on_gpu:
        bare = bare.to(memory_format=torch.channels_last)  # a third faster on CPUs; on GPUs nobody has measured it
    optimizer = recipe.optimizer(bare)
    if resumed is not None:
        bare.load_state_dict(resumed["model"])
        optimizer.load_state_dict(resumed["optimizer"])
    network: nn.Module = DistributedDataParallel(
        bare,
        device_ids=[job.device.torch.index] if job.device.on_gpu else None,
        gradient_as_bucket_view=True,
        static_graph=True,
    )
    if job.compile:
        network.compile()
    return Learner(bare, network, optimizer, recipe, saved=time.monotonic())


def _train_epoch(job: Job, learner: Learner, course: Course, epoch: int) -> None:
    seat, place = job.seat, job.device.torch
    drawn = data.draw_epoch(job.settings.seed, epoch, len(job.train), place, augment=job.settings.augment)
    loss_sum, images_done = torch.zeros((), device=place), 0
    started = time.monotonic()
    while course.step < (epoch + 1) * job.plan.steps_per_epoch:
        first, last = plan.share(*job.plan.batch_of(course.step), seat.rank, seat.world_size)
        images, labels = data.take(job.train, drawn, first, last)
        for group in learner.optimizer.param_groups:
            group["lr"] = learner.recipe.rate(course.step, job.plan.steps, job.settings.rate)
        # DDP averages over ranks: scaled like this, shares of unequal size still give the mean over the global batch.
        summed = functional.cross_entropy(learner.network(images), labels, reduction="sum")
        loss = summed * (seat.world_size / job.plan.batch)
        loss.backward()
        learner.optimizer.step()
        learner.optimizer.zero_grad()
        loss_sum += summed.detach()  # stays on the device: reading it would wait for the GPU
        images_done += job.plan.batch
        course.step += 1
        job.report.progress(course.step, job.plan.steps)
        _step_boundary(job, learner, course)
    course.epochs.append(epoch + 1)
    course.losses.append(dist.total(loss_sum)[0] / images_done)  # reading it waits for the GPU, so the clock is true
    course.accuracies.append(None)
    course.train_seconds += time.monotonic() - started


def _step_boundary(job: Job, learner: Learner, course: Course) -> None:
    """Where all ranks hear of what one of them knows: a signal, or a process that doesn't belong."""
    if not learner.steady:
        dist.tighten(job.timeout)
        learner.steady = True
    if course.step % job.device.steps_between_agreements:
        return
    late = job.roll.tick()
    wish = dist.agree(REFUSE if late else STOP if job.stop.requested else GO_ON)
    if wish == REFUSE:
        sentence = job.roll.late()
        dist.close_group()  # nobody may leave, and rank 0 the store with it, before all have read that
        raise RollCallError(sentence)
    if wish == STOP:
        saved = _save(job, learner, course)
        kept = f"saved to {saved}" if saved else "not saved here"
        dist.close_group()
        raise Stopped(f"stopped at step {course.step} of {job.plan.steps}, {kept}")
    if time.monotonic() - learner.saved > job.save_seconds:
        _save(job, learner, course)


@torch.inference_mode()
def _evaluate(job: Job, learner: Learner, course: Course) -> None:
    """Every test image once, by one rank: shares are not padded, and the sums are over all ranks."""
    started = time.monotonic()
    first, last = plan.share(0, len(job.test), job.seat.rank, job.seat.world_size)
    sums = torch.zeros(2, device=job.device.torch, dtype=torch.float64)
    for start in range(first, last, EVALUATED_AT_ONCE):
        stop = min(start + EVALUATED_AT_ONCE, last)
        right = learner.bare(data.normalise(job.test.images[start:stop])).argmax(1) == job.test.labels[start:stop]
        sums += torch.stack([right.sum(), torch.ones_like(right).sum()])
    correct, seen = dist.total(sums)
    course.accuracy, course.seen = correct / seen, int(seen)
    course.accuracies[-1] = course.accuracy
    course.evaluate_seconds += time.monotonic() - started
    if job.target is not None and course.target_seconds is None and course.accuracy >= job.target:
        course.target_seconds = course.train_seconds


def _tell_epoch(job: Job, course: Course, epoch: int) -> None:
    trained = course.step * job.plan.batch
    speed = trained / course.train_seconds
    job.report.event(
        "epoch",
        epoch=epoch + 1,
        epochs=job.plan.epochs,
        step=course.step,
        loss=course.losses[-1],
        accuracy=course.accuracies[-1],
        images_per_s=round(speed),
        eta_s=round((job.plan.steps * job.plan.batch - trained) / speed, 1),
    )


def _save(job: Job, learner: Learner, course: Course) -> Path | None:
    """Rank 0 saves; the others meet it again at the next collective."""
    learner.saved = time.monotonic()
    if job.folder is None or job.seat.rank != 0:
        return None
    state = {
        "model": learner.bare.state_dict(),
        "optimizer": learner.optimizer.state_dict(),
        "course": asdict(course),
        "settings": asdict(job.settings),
        "data": job.data_checksum,
        "world_size": job.seat.world_size,
        "torch": str(torch.__version__),
    }
    return checkpoint.save(job.folder, course.step, state)

"""The command line, split into what all ranks must share and what is one process's own affair. Imports no torch."""

from __future__ import annotations

import argparse
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainer import plan
from trainer.errors import LaunchError
from trainer.world import Flags

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides the weights that come out: equal on all ranks, and stored in every checkpoint."""

    model: str
    epochs: int
    batch: int
    rate: float
    seed: int
    augment: bool

    def to_json(self) -> str:
        """One line, equal for equal settings."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def checksum(self) -> str:
        """What the roll call compares."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:12]


def from_json(text: str) -> Settings:
    """The inverse of `Settings.to_json`."""
    return Settings(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Options:
    """Everything the command line said."""

    flags: Flags
    model: str
    epochs: int | None
    batch: int | None
    rate: float | None
    seed: int
    augment: bool | None
    target: float | None
    data_dir: Path | None
    download: bool
    mirrors: Sequence[str]
    allow_unknown_data: bool
    device: str
    backend: str
    compile: bool
    deterministic: bool
    checkpoint_dir: Path | None
    save_seconds: float
    start_timeout: float
    timeout: float
    strict: bool
    json: bool
    summary: Path | None
    plot: Path | None
    termination_log: Path


def settle(options: Options, images: int) -> Settings:
    """Fills in what the command line left open, which depends on the model and on how many images there are."""
    linear = options.model == "linear"
    return Settings(
        model=options.model,
        epochs=options.epochs if options.epochs is not None else 5 if linear else plan.default_epochs(images),
        batch=options.batch or min(images, 64 if linear else 256),
        rate=options.rate if options.rate is not None else 0.01,
        seed=options.seed,
        augment=options.augment if options.augment is not None else not linear,
    )


def parse(argv: Sequence[str]) -> Options:
    """Reads the command line; a mistake in it is a LaunchError."""
    values = vars(_parser().parse_args(argv))
    flags = Flags(**{name: values.pop(name) for name in ("rank", "world_size", "local_rank", "nproc", "init_method")})
    options = Options(flags=flags, **values)
    if options.target is not None and not 0 < options.target <= 1:
        raise LaunchError(f"--target-accuracy {options.target}: must be above 0 and at most 1, 0.99 for 99 %")
    if options.download and options.data_dir is None:
        raise LaunchError("--download needs --data-dir, the folder to download into")
    return options


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]  # argparse exits here; we raise, to end in one place
        raise LaunchError(f"{message}; see {self.prog} --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="rankfix-train",
        description="Trains MNIST with PyTorch DDP, however it is launched, and proves that the ranks are right.",
        epilog="Exit codes: 0 finished and target met, 2 arguments or rank environment, 3 data, 4 below target, "
        "134 peer lost or time-out, 143 stopped. The last two are worth a restart.",
        allow_abbrev=False,  # `--local` must not be taken for --local-rank
    )
    _add_launch(parser.add_argument_group("launch (only where no launcher or rankfix has said it in the environment)"))
    _add_training(parser.add_argument_group("training (equal on all ranks; rank 0's go for all)"))
    _add_data(parser.add_argument_group("data"))
    _add_faults(parser.add_argument_group("faults"))
    _add_report(parser.add_argument_group("report"))
    return parser


def _add_launch(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--nproc", "--nproc-per-node", "--nproc_per_node", metavar="N|gpu|auto", help="processes to start here"
    )
    group.add_argument("--rank", type=_count, metavar="R", help="first rank of this process's --nproc")
    group.add_argument("--world-size", "--world_size", type=_count, metavar="W", help="ranks in the whole job")
    group.add_argument("--local-rank", "--local_rank", type=_count, metavar="L", help="as old launchers pass it")
    group.add_argument(
        "--init-method", "--init_method", "--dist-url", "--dist_url", metavar="URL", help="tcp://HOST:PORT or env://"
    )
    group.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    group.add_argument(
        "--backend", "--dist-backend", "--dist_backend", choices=("auto", "gloo", "nccl"), default="auto"
    )


def _add_training(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--model", choices=("convnet", "linear"), default="convnet", help="default: %(default)s")
    group.add_argument("--epochs", type=_positive, help="default: by the number of images (linear: 5)")
    group.add_argument(
        "--batch", "--batch-size", type=_positive, help="over all ranks together; default 256 (linear: 64)"
    )
    group.add_argument("--lr", dest="rate", type=float, help="peak learning rate, default 0.01")
    group.add_argument("--seed", type=int, default=1)
    group.add_argument(
        "--augment", action=argparse.BooleanOptionalAction, help="small random distortions (linear: off)"
    )
    group.add_argument("--target-accuracy", dest="target", type=float, metavar="A", help="finish below it: exit 4")
    group.add_argument("--compile", action="store_true", help="torch.compile; slower for runs this short")
    group.add_argument("--deterministic", action="store_true", help="only deterministic GPU kernels")


def _add_data(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="the four MNIST files; default: the packaged sample"
    )
    group.add_argument("--download", action="store_true", help="fetch missing files into --data-dir first")
    group.add_argument(
        "--mirror",
        dest="mirrors",
        action="append",
        default=[],
        metavar="URL",
        help="to download from, instead of the public ones",
    )
    group.add_argument("--allow-unknown-data", action="store_true", help="accept files with other checksums")


def _add_faults(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--checkpoint-dir", type=Path, metavar="DIR", help="save to and resume from here")
    group.add_argument("--save-seconds", type=float, default=60, metavar="S", help="between saves within an epoch")
    group.add_argument(
        "--start-timeout", type=float, default=300, metavar="S", help="for all ranks to answer the roll call"
    )
    group.add_argument("--timeout", type=float, default=90, metavar="S", help="for a peer to answer, once training")
    group.add_argument("--strict", action="store_true", help="refuse what the roll call would only warn about")


def _add_report(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    group.add_argument("--summary", type=Path, metavar="FILE", help="write the result as JSON")
    group.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw loss and accuracy (needs matplotlib)")
    group.add_argument("--termination-log", type=Path, default=Path("/dev/termination-log"), metavar="FILE")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a plain number")
    return int(text)


def _positive(text: str) -> int:
    if not _count(text):
        raise argparse.ArgumentTypeError("must be at least 1")
    return int(text)

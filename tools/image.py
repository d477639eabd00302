"""`make image`: builds the images of the webhook and of the trainer, or says that they are there already.

    python -m tools.image [webhook] [trainer] [--base IMAGE] [--trainer-base IMAGE] [--mnist FOLDER|none]
    python -m tools.image --platforms linux/amd64,linux/arm64 [--prefix REGISTRY/ --push]

The second form is for a release: with buildx, an SBOM and provenance, and packages from PyPI. Without a base the
Dockerfile's is taken; where no registry has it, one is made of this machine's Debian packages.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools import image_context, image_wheels
from tools.image_wheels import ImageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILES = {"webhook": ROOT / "Dockerfile", "trainer": ROOT / "trainer" / "Dockerfile"}
NAMES = {"webhook": "rankfix", "trainer": "rankfix-trainer"}
INPUTS = "rankfix.inputs"  # the label that says what an image was made from
OFFLINE = {"build": "rankfix-base:build", "run": "rankfix-base:run"}
_NO_DATA = "none"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for. A base that is None is the Dockerfile's; `mnist` is a folder, "none", or None: the mirrors."""

    base: str | None = None
    trainer_base: str | None = None
    mnist: str | None = None
    prefix: str = ""
    platforms: str = ""
    push: bool = False
    cache: bool = True  # False: every step anew
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Built:
    """An image, what became of it, and how long that took in seconds."""

    tag: str
    fresh: bool
    seconds: float

    def __str__(self) -> str:
        done = f"built in {self.seconds:.0f} s" if self.fresh else "is there already, made from the same files"
        return f"{self.tag}: {done}"


def version() -> str:
    """The version of this checkout."""
    made: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return made


def tag_of(image: str, prefix: str = "") -> str:
    """The name and tag of an image."""
    return f"{prefix}{NAMES[image]}:{version()}"


def labels() -> dict[str, str]:
    """What of an image's labels isn't known before the build: version, commit, and its time."""
    made = {"version": version()}
    words = ["git", "-C", str(ROOT), "log", "-1", "--format=%H %cI"]
    if (found := _output(words)) is not None:
        revision, _, when = found.strip().partition(" ")
        dirty = "-dirty" if _output(["git", "-C", str(ROOT), "status", "--porcelain"]) else ""
        made |= {"revision": revision + dirty, "created": when}
    return {f"org.opencontainers.image.{name}": value for name, value in made.items()}


def build(image: str, wish: Wish) -> Built:
    """Build an image for this machine, unless there is one of the same files. Raises `ImageError`."""
    began = time.monotonic()
    tag = tag_of(image, wish.prefix)
    build_base, base = _bases(image, wish)
    wheels = image_wheels.fetch(image, image_wheels.python_of(build_base), image_wheels.cache())
    files = image_context.context(DOCKERFILES[image], {"wheels": wheels, **_data(image, wish)})
    arguments = {"BASE": base, **({"BUILD": build_base} if image == "webhook" else _data_argument(wish))}
    inputs = image_context.digest(files, json.dumps(arguments), *(_layers(name) for name in (build_base, base)))
    fresh = _label(tag, INPUTS) != inputs
    if fresh:
        known = {**wish.labels, "org.opencontainers.image.base.name": base, INPUTS: inputs}
        asks_the_network = image == "trainer" and wish.mnist is None
        options = ["--load"] if _buildx() else []  # some of its drivers would keep the image for themselves
        options += [*([] if asks_the_network else ["--network=none"]), *([] if wish.cache else ["--no-cache"])]
        print(f"image: building {tag} on {base}", file=sys.stderr)
        _docker(["build", *options, *_options(tag, arguments, known), "-"], files)
    _output(["docker", "tag", tag, f"{wish.prefix}{NAMES[image]}:latest"])
    return Built(tag, fresh, time.monotonic() - began)


def release_words(image: str, wish: Wish) -> list[str]:
    """The words of buildx for several platforms: to a registry with `push`, else into a file of `build`."""
    wished = wish.base if image == "webhook" else wish.trainer_base
    epoch = _output(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]) or "0"
    arguments = {"SOURCE_DATE_EPOCH": epoch.strip()} | ({"BASE": wished} if wished else {})
    arguments |= _data_argument(wish) if image == "trainer" else {}
    where = "type=image,push=true" if wish.push else f"type=oci,dest=build/{NAMES[image]}.tar"
    return [
        "buildx", "build", f"--platform={wish.platforms}", "--sbom=true", "--provenance=mode=max",
        f"--metadata-file=build/{NAMES[image]}.json", f"--output={where},rewrite-timestamp=true",
        *_options(tag_of(image, wish.prefix), arguments, wish.labels), "-",
    ]  # fmt: skip


def release(image: str, wish: Wish) -> Built:
    """Build an image for several platforms. Raises `ImageError`."""
    began = time.monotonic()
    if not _buildx():
        raise ImageError("PLATFORMS needs buildx, which this docker hasn't got: install docker-buildx, or leave it out")
    (ROOT / "build").mkdir(exist_ok=True)
    _docker(release_words(image, wish), image_context.context(DOCKERFILES[image], _data(image, wish)))
    return Built(tag_of(image, wish.prefix), fresh=True, seconds=time.monotonic() - began)


def _data(image: str, wish: Wish) -> dict[str, Path]:
    """The folder with MNIST, where one is given."""
    if image != "trainer" or wish.mnist in (None, _NO_DATA):
        return {}
    if not (folder := Path(str(wish.mnist))).is_dir():
        raise ImageError(f"MNIST={folder} is no folder: name one with the four official files, or say MNIST=none")
    return {"mnist": folder}


def _data_argument(wish: Wish) -> dict[str, str]:
    return {"DATA": ""} if wish.mnist == _NO_DATA else {}


def _options(tag: str, arguments: Mapping[str, str], known: Mapping[str, str]) -> list[str]:
    pairs = [f"--build-arg={name}={value}" for name, value in arguments.items()]
    return [f"--tag={tag}", *pairs, *(f"--label={name}={value}" for name, value in known.items())]


def _bases(image: str, wish: Wish) -> tuple[str, str]:
    """What is built in, and what is run in."""
    if wished := wish.base if image == "webhook" else wish.trainer_base:
        return wished, wished
    found = re.search(r"^ARG BASE=(\S+)$", DOCKERFILES[image].read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ImageError(f"{DOCKERFILES[image]} has no line ARG BASE=")
    if _has(default := found[1]):
        return default, default
    print(f"image: no registry has {default}; taking a base made of this machine's packages", file=sys.stderr)
    return _offline("build"), _offline("run" if image == "webhook" else "build")


def _has(name: str) -> bool:
    return _output(["docker", "image", "inspect", name]) is not None or _output(["docker", "pull", name]) is not None


def _offline(kind: str) -> str:
    words = ["sh", str(ROOT / "tools" / "image_base.sh"), kind, OFFLINE[kind]]
    ran = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        raise ImageError(f"no base: {ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else 'no reason given'}")
    return OFFLINE[kind]


def _label(name: str, label: str) -> str | None:
    return _output(["docker", "image", "inspect", "--format", f'{{{{index .Config.Labels "{label}"}}}}', name])


def _layers(name: str) -> str:
    found = _output(["docker", "image", "inspect", "--format", "{{json .RootFS.Layers}}", name])
    if found is None:
        raise ImageError(f"the engine hasn't got {name}")
    return found


def _buildx() -> bool:
    return _output(["docker", "buildx", "version"]) is not None


def _output(words: Sequence[str]) -> str | None:
    """What a command says, None if it fails."""
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    return ran.stdout.strip() if ran.returncode == 0 else None


def _docker(words: Sequence[str], files: Mapping[str, Path]) -> None:
    # The classic builder where there is no other: newer clients would ask for buildx
    environment = {**os.environ} if _buildx() else {**os.environ, "DOCKER_BUILDKIT": "0"}
    with tempfile.TemporaryFile() as context:
        image_context.write(files, context)
        context.seek(0)
        command = ["docker", *words]
        ran = subprocess.run(
            command, stdin=context, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, check=False
        )
    if ran.returncode:
        raise ImageError("docker " + " ".join(words[:2]) + ":\n" + ran.stdout.decode(errors="replace")[-3000:])


def _wish(words: Sequence[str] | None) -> tuple[list[str], Wish]:
    parser = argparse.ArgumentParser(prog="make image", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("images", nargs="*", choices=[*NAMES, []], default=[])
    parser.add_argument("--base")
    parser.add_argument("--trainer-base")
    parser.add_argument("--mnist")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--platforms", default="")
    parser.add_argument("--push", action="store_true")
    asked: dict[str, Any] = {name: value for name, value in vars(parser.parse_args(words)).items() if value}
    return asked.pop("images", list(NAMES)), Wish(**asked, labels=labels())


def main(words: Sequence[str] | None = None) -> int:
    """Both images side by side."""
    images, wish = _wish(words)
    make = release if wish.platforms else build
    try:
        with ThreadPoolExecutor() as pool:
            for made in pool.map(lambda image: make(image, wish), images):
                print(f"image: {made}")
    except ImageError as exc:
        print(f"image: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What builds and releases the images, as far as that can be said without an engine; tests/images has the rest."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import image, image_context, image_wheels
from tools.image_wheels import ImageError, Python

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYTHON = Python("3.11", "x86_64", "2.36", torch=False)


def workflow(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in workflow(path)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        ("FROM a\nCOPY x y /z/", {"x", "y"}),
        ("COPY a wheel[s] ./", {"a"}),
        ("COPY --from=build /out/ /", set()),
        ("COPY a \\\n  b c", {"a", "b"}),
    ],
)
def test_a_dockerfile_says_what_it_copies(text: str, copied: set[str]) -> None:
    """Sources only; a stage's files and folders that may be missing aren't among them."""
    assert image_context.copied(text) == copied


@pytest.mark.parametrize("name", image.NAMES)
def test_the_context_is_what_is_copied(name: str) -> None:
    """The Dockerfile and its sources, without bytecode, tests, keys and history."""
    dockerfile = image.DOCKERFILES[name]
    files = image_context.context(dockerfile, {})
    tops = {file.partition("/")[0] for file in files}
    assert tops == {"Dockerfile"} | image_context.copied(dockerfile.read_text(encoding="utf-8"))
    assert not [file for file in files if "__pycache__" in file or file.endswith(".key")]


def folder(path: Path, *, mode: int, time: int) -> Path:
    (path / "in").mkdir(parents=True)
    (path / "in" / "one").write_text("1")
    (path / "two").write_text("2")
    for file in (path / "two", path / "in" / "one"):
        file.chmod(mode)
        os.utime(file, (time, time))
    return path


def test_the_same_files_are_the_same_context(tmp_path: Path) -> None:
    """Whatever umask, dates and owner the checkout has; and another content is another one."""
    written, digests = [], []
    files: dict[str, Path] = {}
    for name, mode, time in (("a", 0o600, 0), ("b", 0o644, 10**9)):
        made = folder(tmp_path / name, mode=mode, time=time)
        dockerfile = made / "two"
        files = image_context.context(dockerfile, {"wheels": made})
        image_context.write(files, sink := io.BytesIO())
        written.append(sink.getvalue())
        digests.append(image_context.digest(files, "BASE"))
    assert written[0] == written[1]
    assert digests[0] == digests[1]
    with tarfile.open(fileobj=io.BytesIO(written[0])) as tar:
        assert tar.getnames() == ["Dockerfile", "wheels", "wheels/in", "wheels/in/one", "wheels/two"]
    (tmp_path / "b" / "in" / "one").write_text("another")
    assert image_context.digest(files, "BASE") != digests[0]
    assert image_context.digest(files, "OTHER") != image_context.digest(files, "BASE")


def test_wheels_are_those_of_the_base() -> None:
    """Its C library and all older ones, its machine, and not this one's."""
    platforms = Python("3.12", "aarch64", "2.28", torch=False).platforms
    assert platforms[0] == "manylinux_2_28_aarch64"
    assert {"manylinux_2_17_aarch64", "manylinux2014_aarch64"} <= set(platforms)
    assert "manylinux_2_34_aarch64" not in platforms


@pytest.mark.parametrize(
    ("name", "torch", "has", "lacks"),
    [
        ("webhook", False, {"fastapi", "hatchling"}, {"torch", "numpy"}),
        ("trainer", False, {"torch", "numpy", "rich"}, {"fastapi"}),
        ("trainer", True, {"numpy", "rich"}, {"torch"}),
    ],
)
def test_an_image_gets_what_it_needs(name: str, torch: bool, has: set[str], lacks: set[str]) -> None:
    """From pyproject.toml; a base that has torch keeps its own."""
    python = Python("3.11", "x86_64", "2.36", torch=torch)
    found = {re.split(r"[<>=]", text)[0] for text in image_wheels.needed(name, python)}
    assert has <= found
    assert not lacks & found


def test_wheels_that_are_not_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with pip's reason, and nothing half done for the next run to believe."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(ImageError, match=r"^pip has no wheels of the webhook's libraries for Python 3.11: ERROR: "):
        image_wheels.fetch("webhook", PYTHON, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("push", "where"), [(True, "type=image,push=true"), (False, "type=oci,dest=build/rankfix.tar")]
)
def test_a_release_has_bill_and_provenance(push: bool, where: str) -> None:
    """For several platforms buildx is asked for an SBOM, provenance, and one date."""
    wish = image.Wish(prefix="registry.example/", platforms="linux/amd64,linux/arm64", push=push, labels={"a": "b"})
    words = image.release_words("webhook", wish)
    assert words[:3] == ["buildx", "build", "--platform=linux/amd64,linux/arm64"]
    assert {"--sbom=true", "--provenance=mode=max", "--label=a=b", f"--output={where},rewrite-timestamp=true"} <= set(
        words
    )
    assert f"--tag=registry.example/rankfix:{image.version()}" in words
    assert any(word.startswith("--build-arg=SOURCE_DATE_EPOCH=") for word in words)


def test_data_that_is_not_there(tmp_path: Path) -> None:
    """A folder that is missing is said before anything is built."""
    with pytest.raises(ImageError, match=r"is no folder: name one with the four official files, or say MNIST=none$"):
        image._data("trainer", image.Wish(mnist=str(tmp_path / "nowhere")))
    assert image._data("trainer", image.Wish(mnist="none")) == image._data("webhook", image.Wish(mnist=".")) == {}


def script(name: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", ROOT / "tools" / name, *words], capture_output=True, text=True, check=False, cwd=ROOT, env=env
    )


def test_a_release_signs_what_was_pushed() -> None:
    """Both images, by digest, after the push."""
    ran = script("release.sh", "registry.example/", DRY_RUN="1", PATH=os.environ["PATH"])
    push, *signs = ran.stdout.splitlines()
    assert push == "make image PLATFORMS=linux/amd64,linux/arm64 PREFIX=registry.example/ PUSH=yes"
    assert signs == [
        f"cosign sign --yes --recursive registry.example/{name}@sha256:DIGEST"
        for name in ("rankfix", "rankfix-trainer")
    ]


def test_a_release_without_its_tools_does_nothing(tmp_path: Path) -> None:
    """It says what is missing before it pushes anything."""
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    ran = script("release.sh", "registry.example/", PATH=str(tmp_path))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "tools/release.sh: docker isn't installed; nothing was done\n"


def test_without_an_engine_the_command_runs_all_the_same(tmp_path: Path) -> None:
    """The reason is said, the tests then skip, and the command's code is handed on."""
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    ran = script("engine.sh", sys.executable, "-c", "print('ran'); raise SystemExit(3)", PATH=str(tmp_path))
    assert (ran.returncode, ran.stdout) == (3, "ran\n")
    assert ran.stderr.startswith("engine: no Docker here")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets(path: Path) -> None:
    """What it runs with make is there, it may read and no more unless a job says so, and each job has a limit."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {word for step in steps(path) for word in re.findall(r"^make ([a-z-]+)", step.get("run", ""))}
    assert targets <= set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    assert workflow(path)["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow(path)["jobs"].values())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_valid(path: Path) -> None:
    """What GitHub would refuse, or run otherwise than meant, actionlint finds."""
    lint = shutil.which("actionlint")
    if lint is None:
        pytest.skip("actionlint isn't installed (https://github.com/rhysd/actionlint); the workflow `ci` runs it")
    ran = subprocess.run([lint, path], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_ci_covers_what_a_release_is_built_from() -> None:
    """Build, tests, a control plane and the images are judged for each change, and a release is signed."""
    ci = workflow(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    assert set(ci) >= {"check", "test", "build", "e2e", "image"}
    assert any(
        "tools/release.sh" in step.get("run", "") for step in steps(ROOT / ".github" / "workflows" / "release.yml")
    )

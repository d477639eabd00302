"""What can be said of the image without building it; tests/images build and run it."""

from __future__ import annotations

import re

import pytest

from tests.support_deploy import ROOT, one, profile

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
TRAINER = (ROOT / "trainer" / "Dockerfile").read_text(encoding="utf-8")
LINES = [line for line in TEXT.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
STAGES = [line for line in LINES if line.startswith("FROM ")]
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()


def last(instruction: str) -> str:
    """The instruction that counts."""
    return [line for line in LINES if line.startswith(instruction + " ")][-1].removeprefix(instruction + " ")


def test_the_base_is_an_argument() -> None:
    """Two stages, both from what the builder says: a mirror, a pinned digest, or an image made offline."""
    assert STAGES == ["FROM ${BUILD} AS build", "FROM ${BASE}"]
    assert {"ARG BUILD=${BASE}"} < {line for line in LINES if line.startswith("ARG ")}


def test_the_user_is_who_the_manifests_say() -> None:
    """By number, as runAsNonRoot asks, and the same one."""
    security = one(profile("self-signed"), "Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert last("USER") == f"{security['runAsUser']}:{security['runAsGroup']}"


def test_the_entry_point_takes_the_manifests_words() -> None:
    """The Deployment gives arguments only, the jobs name a command that is on the image's PATH."""
    assert last("ENTRYPOINT") == '["rankfix"]'
    assert "/opt/rankfix/bin" in last("ENV")
    assert "command" not in one(profile("self-signed"), "Deployment")["spec"]["template"]["spec"]["containers"][0]


def test_nothing_is_written_at_run_time() -> None:
    """The root is read-only: bytecode is compiled in the build, and none is written later."""
    assert "compileall" in TEXT
    assert "PYTHONDONTWRITEBYTECODE=1" in last("ENV")


@pytest.mark.parametrize("name", ["torch", "trainer"])
def test_the_trainer_stays_out(name: str) -> None:
    """Its libraries aren't installed, and its package is taken away again."""
    assert "extras" not in TEXT
    assert "[trainer]" not in TEXT
    assert "site-packages/trainer" in TEXT
    assert not re.search(rf"pip install[^\n]*\b{name}\b", TEXT)


def test_little_is_sent_to_the_builder() -> None:
    """No key, no test data, no git history: what neither of the two Dockerfiles copies stays here."""
    assert IGNORED[0] == "*"
    allowed = {line.removeprefix("!") for line in IGNORED if line.startswith("!")}
    lines = [line for text in (TEXT, TRAINER) for line in text.replace("\\\n", " ").splitlines()]
    copied = {
        re.sub(r"[][]", "", word)  # `wheel[s]`: a folder that need not be there
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    }
    assert copied == allowed

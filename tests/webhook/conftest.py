"""What these tests share: `rankfix` run in this process, files to give it, and a certificate for its server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support_edges import certificate_folder
from webhook import cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pair to serve, and the authority to trust."""
    return certificate_folder(tmp_path_factory.mktemp("tls"))


@pytest.fixture(name="run")
def _run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run `rankfix` in this process: exit code, stdout, stderr."""

    def run(*argv: str | Path) -> tuple[int, str, str]:
        code = cli.main([str(word) for word in argv])
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Callable[..., Path]:
    """Write a file: text, bytes or an object."""

    def write(content: object, name: str = "pod.json") -> Path:
        path = tmp_path / name
        data = content if isinstance(content, bytes | str) else json.dumps(content)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write

"""`trainer.download`: from a real HTTP server on the loopback."""

from __future__ import annotations

import gzip
import threading
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest

from tests.trainer.support import SAMPLE
from trainer import corpus, download
from trainer.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _Server(ThreadingHTTPServer):
    """Counts what it is asked for."""

    asked: list[str]


class _Quiet(SimpleHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
        pass


@pytest.fixture(name="served")
def _served(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    for path in SAMPLE.glob("*.gz"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.fixture(name="server")
def _server(served: Path) -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), partial(_Quiet, directory=str(served))) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def url(server: _Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/"


def fetch(folder: Path, mirror: str) -> None:
    """The sample's checksums stand in for the official ones, whose files no test can have."""
    download.fetch_missing(folder, [mirror], corpus.SAMPLE)


def test_missing_files_are_fetched_once(server: _Server, tmp_path: Path) -> None:
    """Four files, checked; the second time nothing is asked for; no temporary file stays."""
    folder = tmp_path / "data"
    fetch(folder, url(server))
    fetch(folder, url(server))
    assert len(server.asked) == 4
    assert corpus.load(folder).checksum == corpus.load(None).checksum
    assert {path.name for path in folder.iterdir()} == {path.name for path in SAMPLE.glob("*.gz")} | {".download.lock"}


def test_one_process_a_node_downloads(server: _Server, tmp_path: Path) -> None:
    """Four processes start at once, and the server is asked for each file once."""
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(fetch, tmp_path / "data", url(server)) for _ in range(4)]:
            done.result(120)
    assert len(server.asked) == 4


def test_the_next_mirror_is_tried(server: _Server, tmp_path: Path) -> None:
    """One that doesn't answer, and one that has other content, are passed over."""
    bad = tmp_path / "bad"
    bad.mkdir()
    for path in SAMPLE.glob("*.gz"):
        (bad / path.name).write_bytes(gzip.compress(b"\0\0\x08\1\0\0\0\0"))
    mirrors = ["http://127.0.0.1:9/", bad.as_uri(), url(server)]
    download.fetch_missing(tmp_path / "data", mirrors, corpus.SAMPLE)
    assert corpus.load(tmp_path / "data").checksum == corpus.load(None).checksum


def test_all_reasons_are_told(server: _Server, served: Path, tmp_path: Path) -> None:
    """Where no mirror will do: code 3, each mirror and its reason, and nothing half-fetched."""
    (served / "t10k-labels-idx1-ubyte.gz").write_bytes(b"<html>")
    (served / "train-images-idx3-ubyte.gz").unlink()
    with pytest.raises(DataError) as caught:
        fetch(tmp_path / "data", url(server))
    assert "404" in str(caught.value)
    assert "train-images-idx3-ubyte.gz" in str(caught.value)
    (tmp_path / "data" / "train-images-idx3-ubyte.gz").write_bytes(b"there")
    with pytest.raises(DataError, match=r"md5 .* instead of"):
        fetch(tmp_path / "data", url(server))
    assert not list((tmp_path / "data").glob(".t10k*"))
    assert not (tmp_path / "data" / "t10k-labels-idx1-ubyte.gz").exists()


def test_unwritable_folder_is_named(tmp_path: Path) -> None:
    """A read-only volume is a matter of the data, not a traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="can't write to"):
        fetch(tmp_path / "file" / "data", "http://127.0.0.1:9/")

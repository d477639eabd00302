"""`certs.replicas`: which certificate a replica shows, whoever signed it, and what is said of one that shows none."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from certs.replicas import Address, ask
from tests.support_edges import threaded
from tests.support_tls import leaf, pair, rsa_pair, volume

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_shown(tmp_path: Path) -> None:
    """Two servers, of two kinds of keys, in the order that was asked, and between them a port where nobody is."""
    one, two = pair(), rsa_pair()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    folders = [volume(tmp_path / name, identity).path for name, identity in (("one", one), ("two", two))]
    with threaded(folders[0]) as (first, _), threaded(folders[1]) as (second, _):
        answers = ask(
            [
                Address("127.0.0.1", first.port),
                Address("127.0.0.1", nobody, ready=False),
                Address("127.0.0.1", second.port),
            ],
            name="rankfix.ml.svc",
        )
    assert [answer.leaf for answer in answers] == [leaf(one), None, leaf(two)]
    assert [answer.ready for answer in answers] == [True, False, True]
    assert answers[1].address == f"127.0.0.1:{nobody}"
    assert "refused" in answers[1].why


def test_one_that_is_silent() -> None:
    """A peer that takes the connection and says nothing holds nobody for longer than the time-out."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (answer,) = ask([Address("127.0.0.1", silent.getsockname()[1])], name="x", timeout=0.3)
    assert answer.leaf is None
    assert answer.why


def test_nobody_to_ask() -> None:
    """A Service without endpoints."""
    assert ask([], name="x") == ()

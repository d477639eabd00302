"""`webhook.caller`: the names in a client's certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from webhook import caller

if TYPE_CHECKING:
    import ssl


class Handshake:
    """A connection past its handshake, with what the ssl module says of the client's certificate."""

    def __init__(self, said: dict[str, Any] | None) -> None:
        self._said = said

    def getpeercert(self) -> dict[str, Any] | None:
        return self._said


FULL = {
    "subject": ((("organizationName", "system:masters"),), (("commonName", "kube-apiserver"),)),
    "subjectAltName": (("DNS", "api.example.org"), ("URI", "spiffe://x/api"), ("IP Address", "10.0.0.1")),
}


@pytest.mark.parametrize(
    ("said", "names"),
    [
        (None, None),
        ({}, None),
        ({"subject": ()}, frozenset[str]()),
        (FULL, frozenset({"kube-apiserver", "api.example.org", "spiffe://x/api"})),
    ],
)
def test_names(said: dict[str, Any] | None, names: frozenset[str] | None) -> None:
    """Common name, DNS names and URIs, and None, which isn't the same as no names, where there's no certificate."""
    assert caller.names(cast("ssl.SSLObject", Handshake(said))) == names


def test_without_tls() -> None:
    """Nobody has a name."""
    assert caller.names(None) is None

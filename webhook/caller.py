"""Who calls: the names in a client's certificate, and which of them may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Collection

_KINDS = ("DNS", "URI")


def names(connection: ssl.SSLObject | None) -> frozenset[str] | None:
    """Common name, DNS names and URIs of the client's certificate, which is verified; None if it showed none."""
    certificate = connection.getpeercert() if connection else None
    if not certificate:
        return None
    subject: Any = certificate.get("subject", ())  # typed as anything that a certificate may hold anywhere
    others: Any = certificate.get("subjectAltName", ())
    common = [value for part in subject for key, value in part if key == "commonName"]
    return frozenset([*common, *(value for kind, value in others if kind in _KINDS)])


def why_not(found: Collection[str] | None, allowed: Collection[str]) -> str | None:
    """Why a caller with these names may not call; with nobody named, each certificate that was verified will do."""
    if found is None:
        return "show a client certificate of the CA in the setting client-ca"
    if allowed and not set(allowed) & set(found):
        return "no name in your client certificate is in the setting client-name"
    return None

"""All objects of an installation, in the order in which they are best created, and as YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from webhook.manifests import access, admission, certificates, policy, server

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webhook.manifests.place import Object, Place

PROFILES: dict[str, Object] = {
    "self-signed": {},
    "cert-manager": {"certs": {"mode": "cert-manager"}},
    "serve": {"certs": {"mode": "serve"}},
    "files": {"certs": {"mode": "files"}},
    "fail-open": {"failurePolicy": "Ignore"},
    "policy": {"serverless": True},
}


def render(place: Place) -> list[Object]:
    """Every object. The webhook's configuration comes last, when all that answers for it has been asked for."""
    if place.values.serverless:
        return policy.objects(place)
    return [*base(place), *CERTIFICATES[place.values.certs.mode](place), *last(place)]


def base(place: Place) -> list[Object]:
    """What stands whoever makes the certificate."""
    values = place.values
    made = [server.namespace(place), server.account(place), server.service(place), server.deployment(place),
            server.disruption_budget(place)]  # fmt: skip
    if not values.priority_class_name:
        made.insert(1, server.priority_class(place))
    if values.network_policy:
        made.append(server.network_policy(place))
    return [*made, *access.for_server(place)]


def last(place: Place) -> list[Object]:
    """The configuration of the webhook, behind the guard of one that fails open."""
    guarded = place.values.failure_policy == "Ignore" and place.values.guard != "off"
    return [*(admission.guard(place) if guarded else []), admission.webhook(place)]


def _nothing(_place: Place) -> list[Object]:
    return []


CERTIFICATES = {
    "self-signed": certificates.self_signed,
    "serve": _nothing,
    "cert-manager": certificates.cert_manager,
    "files": _nothing,
}


class _Dumper(yaml.SafeDumper):
    """Readable YAML: lists indented, texts of several lines as blocks, no aliases."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        del indentless
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _block)


def as_yaml(objects: Iterable[Object]) -> str:
    """The objects as documents of one YAML stream."""
    return "".join(
        "---\n" + yaml.dump(item, Dumper=_Dumper, sort_keys=False, width=10**6, allow_unicode=True) for item in objects
    )

"""The options that all commands of `rankfix-certs` share: where the identity lives, whose it is, how long it lasts."""

from __future__ import annotations

import functools
import inspect as signatures
from dataclasses import MISSING, dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from certs import inspect, replicas, store
from certs.drive import Issuer
from certs.issue import CertsError, service_names
from certs.rotate import Wish

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "rankfix-tls"  # noqa: S105 - the name of a Secret, not what is in it
IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", help="Of Secret and Service. [default: the pod's own]")
    ] = None
    secret: Annotated[str, typer.Option(help="Secret that holds the identity.")] = SECRET
    service: Annotated[
        str | None, typer.Option(help="Service that the API server calls: gives the names, and the replicas.")
    ] = None
    webhook_config: Annotated[
        str | None, typer.Option(help="MutatingWebhookConfiguration whose caBundle is kept; without it, none is.")
    ] = None
    webhook: Annotated[
        list[str] | None,
        typer.Option(help="Entry in it, by name; may be repeated. [default: each that calls the Service]"),
    ] = None
    replica: Annotated[
        list[str] | None,
        typer.Option(help="HOST:PORT of a replica to ask in place of the Service's; may be repeated."),
    ] = None
    dns_name: Annotated[
        list[str] | None, typer.Option("--dns-name", "--name", help="A further DNS name; may be repeated.")
    ] = None
    ip: Annotated[list[str] | None, typer.Option(help="An IP address that clients use; may be repeated.")] = None
    cluster_domain: Annotated[str, typer.Option(help="The cluster's DNS domain.")] = "cluster.local"
    ca_days: Annotated[int, typer.Option(help="How long an authority lasts.", min=1, max=36500)] = 5 * 365
    leaf_days: Annotated[
        int, typer.Option("--leaf-days", "--days", help="How long a server certificate lasts.", min=1, max=3650)
    ] = 90
    renew_at: Annotated[float, typer.Option(help="Renew when this share of a life is left.", min=0.01, max=0.99)] = 0.33
    settle: Annotated[
        float, typer.Option(help="Seconds an authority stands in the caBundle before it's used.", min=0)
    ] = 5.0
    trust: Annotated[Path | None, typer.Option(help="PEM file of further authorities that stay in the caBundle.")] = (
        None
    )
    kubeconfig: Annotated[Path | None, typer.Option(help="[default: the pod's own account, or the user's file]")] = None

    @property
    def names(self) -> tuple[str, ...]:
        """All DNS names, those of the Service first."""
        own = service_names(self.service, self.space, self.cluster_domain) if self.service else ()
        return tuple(dict.fromkeys([*own, *(self.dns_name or ())]))

    @property
    def space(self) -> str:
        """The namespace; raises `CertsError` where none is given and this is no pod."""
        if self.namespace:
            return self.namespace
        try:
            return IN_POD.read_text(encoding="utf-8").strip()
        except OSError:
            raise CertsError("which namespace? This is no pod, whose own it could be: give --namespace") from None

    @property
    def issuer(self) -> Issuer:
        return Issuer(self.names, tuple(self.ip or ()), timedelta(days=self.ca_days), timedelta(days=self.leaf_days))

    def wish(self, **more: Any) -> Wish:  # noqa: ANN401 - the fields of Wish that aren't options
        """What should be."""
        trust = inspect.certificates(self.trust.read_bytes()) if self.trust else ()
        if self.trust and not trust:
            raise CertsError(f"{self.trust}: has no certificate in PEM: correct --trust")
        return Wish(
            names=inspect.Names.of(self.names, self.ip or ()),
            renew_at=self.renew_at,
            settle=timedelta(seconds=self.settle),
            trust=trust,
            publish=bool(self.webhook_config),
            **more,
        )

    def cluster(self, api: store.Api) -> store.KubeCluster:
        """The cluster, and in it the places that the options name."""
        if not self.service and not self.replica:
            raise CertsError("whose certificate? Give --service, or --dns-name and --replica")
        place = store.Place(
            namespace=self.space,
            secret=self.secret,
            service=self.service or "",
            configuration=self.webhook_config or "",
            webhooks=tuple(self.webhook or ()),
            replicas=tuple(map(address, self.replica or ())),
        )
        name = f"{self.service}.{self.space}.svc" if self.service else (*self.names, "localhost")[0]
        return store.KubeCluster(api, place, functools.partial(replicas.ask, name=name))


def address(text: str) -> replicas.Address:
    """HOST:PORT, an IPv6 address in brackets."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise CertsError(f"--replica {text}: write HOST:PORT, as 10.0.0.7:8443 or [fd00::7]:8443")
    return replicas.Address(host.removeprefix("[").removesuffix("]"), int(port))


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes `Options` first, as one that takes each of them as a parameter, for typer to see."""

    @functools.wraps(command)
    def flat(**words: Any) -> None:  # noqa: ANN401 - what typer has parsed, by the types of the fields
        own = {name: words.pop(name) for name in more}
        command(Options(**words), **own)

    hints = get_type_hints(command, include_extras=True) | get_type_hints(Options, include_extras=True)
    _, *rest = signatures.signature(command).parameters.values()
    more = [parameter.name for parameter in rest]
    shared = [_parameter(field.name, field.default) for field in fields(Options)]
    parameters = [*(_parameter(one.name, one.default) for one in rest), *shared]
    flat.__signature__ = signatures.Signature(  # type: ignore[attr-defined] # how a function says that it has another one
        [one.replace(annotation=hints[one.name]) for one in parameters]
    )
    flat.__annotations__ = {one.name: hints[one.name] for one in parameters}
    return flat


def _parameter(name: str, default: object) -> signatures.Parameter:
    kept = signatures.Parameter.empty if default is MISSING else default
    return signatures.Parameter(name, signatures.Parameter.KEYWORD_ONLY, default=kept)

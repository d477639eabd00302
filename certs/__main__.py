"""`rankfix-certs`: argv -> files -> exit code (0 done, 2 can't be done, with one line on stderr that says why)."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path  # noqa: TC003 - typer reads the annotations when it runs
from typing import Annotated

import typer

from certs.issue import CertsError, make_ca, make_leaf

app = typer.Typer(
    name="rankfix-certs",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """Make the TLS identity of the rankfix webhook."""


@app.command()
def issue(
    out: Annotated[Path, typer.Option(help="Folder for tls.crt, tls.key and ca.crt; made if absent.")],
    name: Annotated[list[str] | None, typer.Option(help="A DNS name that clients use; may be repeated.")] = None,
    ip: Annotated[list[str] | None, typer.Option(help="An IP address that clients use; may be repeated.")] = None,
    days: Annotated[int, typer.Option(help="How long the server certificate lasts.", min=1, max=3650)] = 90,
    ca_days: Annotated[int, typer.Option(help="How long the authority lasts.", min=1, max=36500)] = 5 * 365,
) -> None:
    """Make an authority and a server certificate. The authority's key is thrown away: it signs once."""
    now = datetime.now(UTC)
    ca = make_ca(now=now, lifetime=timedelta(days=ca_days))
    leaf = make_leaf(ca, names=name or [], ips=ip or [], now=now, lifetime=timedelta(days=days))
    out.mkdir(parents=True, exist_ok=True)
    write(out / "tls.key", leaf.key, mode=0o600)
    write(out / "tls.crt", leaf.certificate, mode=0o644)
    write(out / "ca.crt", ca.certificate, mode=0o644)


def write(path: Path, data: bytes, *, mode: int) -> None:
    """Put `data` at `path` in one step: readers see the old file or the new one, and nobody more than `mode` allows."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)  # the umask may have taken bits away from the public files
        file.write(data)
    fresh.replace(path)


def main() -> None:
    """The console script."""
    try:
        app()
    except CertsError as exc:
        sys.exit(_failed(str(exc)))
    except OSError as exc:
        sys.exit(_failed(f"{exc.filename}: {exc.strerror}: choose another --out"))


def _failed(message: str) -> int:
    sys.stderr.write(f"rankfix-certs: {message}\n")
    return 2


if __name__ == "__main__":
    main()

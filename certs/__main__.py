"""`rankfix-certs`: argv -> files, or the cluster -> exit code.

0 done, 1 not finished or not as it should be, 2 can't be done (one line on stderr says why).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from certs import inspect, report, rotate, store, watch
from certs.drive import Conflict, Run, Unfinished, finish
from certs.issue import CertsError
from certs.lease import Lease
from certs.options import Options, with_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from certs.drive import Cluster

DONE, NOT_YET, UNUSABLE = 0, 1, 2

Folder = Annotated[Path | None, typer.Option("--dir", help="Look at the files of a folder, not at the cluster.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait for what others must do.", min=0)]

app = typer.Typer(
    name="rankfix-certs",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """Make, renew and look at the TLS identity of the rankfix webhook."""


@app.command()
@with_options
def issue(
    options: Options,
    out: Annotated[Path | None, typer.Option(help="Write files into this folder, and talk to no cluster.")] = None,
    timeout: Timeout = 60.0,
) -> None:
    """Make the identity where it is missing or unusable, and publish its authority; wait for no replica."""
    if out:
        _into(out, options)
        return
    run = _run(options, options.cluster(store.connect(options.kubeconfig)))
    finish(run, sleep=time.sleep, timeout=timedelta(seconds=timeout), ask=False)


@app.command(name="rotate")
@with_options
def rotate_(  # noqa: PLR0913 - one parameter an option
    options: Options,
    *,
    timeout: Timeout = 600.0,
    force: Annotated[bool, typer.Option("--force", help="Replace the authority and its key now.")] = False,
    keep: Annotated[bool, typer.Option("--watch", help="Stay, and look again each --interval.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between two looks of --watch.", min=0.1)] = 10.0,
    lease: Annotated[str | None, typer.Option(help="With --watch: only who holds this Lease does the work.")] = None,
    orphan: Annotated[bool, typer.Option("--stop-when-orphaned", help="With --watch: end with the parent.")] = False,
) -> None:
    """Renew what is due, and go on with what another run began, until each replica serves the newest certificate."""
    api = store.connect(options.kubeconfig)
    cluster = options.cluster(api)
    run = _run(options, cluster, replace=_signer(cluster) if force else None)
    if not keep:
        finish(run, sleep=time.sleep, timeout=timedelta(seconds=timeout))
        return
    holder = f"{socket.gethostname()}-{os.getpid()}"
    held = Lease(api, options.space, lease, holder, clock=_now) if lease else None
    watch.keep(run, held, pause=_pause(interval, orphan=orphan), complain=_complain)


@app.command()
@with_options
def check(options: Options, *, folder: Folder = None) -> None:
    """Say what is as it should be and what isn't; the exit code is 1 where anything isn't."""
    seen = _look(options, folder, replicas=True)
    found = list(report.findings(seen, options.wish()))
    for finding in found:
        sys.stdout.write(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.text}\n")
    raise typer.Exit(DONE if all(finding.ok for finding in found) else NOT_YET)


@app.command()
@with_options
def show(options: Options, *, folder: Folder = None) -> None:
    """Print what the certificates say of themselves, as JSON. Keys aren't shown."""
    seen = _look(options, folder, replicas=False)
    bundles = seen.published.bundles if seen.published else {}
    found = report.facts(seen.held or rotate.Held(""), bundles, seen.now)
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


def _into(out: Path, options: Options) -> None:
    """An authority that signs once: its key is thrown away."""
    now = _now()
    ca = options.issuer.authority(now)
    leaf = options.issuer.leaf(ca, now)
    out.mkdir(parents=True, exist_ok=True)
    write(out / store.KEY, leaf.key, mode=0o600)
    write(out / store.CERTIFICATE, leaf.certificate, mode=0o644)
    write(out / store.AUTHORITIES, ca.certificate, mode=0o644)


def write(path: Path, data: bytes, *, mode: int) -> None:
    """Put `data` at `path` in one step: readers see the old file or the new one, and nobody more than `mode` allows."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)  # the umask may have taken bits away from the public files
        file.write(data)
    fresh.replace(path)


def _run(options: Options, cluster: Cluster, *, replace: str | None = None) -> Run:
    return Run(cluster, options.wish(replace=replace), options.issuer, clock=_now, say=Voice())


def _signer(cluster: Cluster) -> str | None:
    """The authority that signs now. By its name a forced run knows whether it (or another one) replaced it already."""
    held = cluster.held()
    own = inspect.certificates(held.authorities) if held else ()
    return own[0].fingerprint if own else None


def _look(options: Options, folder: Path | None, *, replicas: bool) -> rotate.Observed:
    if folder:
        return rotate.Observed(_now(), store.from_folder(folder), None)
    cluster = options.cluster(store.connect(options.kubeconfig))
    published, held = cluster.published(), cluster.held()
    return rotate.Observed(_now(), held, published, cluster.served() if replicas else None)


def _now() -> datetime:
    return datetime.now(UTC)


def _pause(interval: float, *, orphan: bool) -> Callable[[], bool]:
    """Wait for an interval; True when a signal (or the end of the parent) says that it was the last."""
    over, parent = threading.Event(), os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    return lambda: over.wait(interval) or (orphan and os.getppid() != parent)


@dataclass
class Voice:
    """Says on stderr what is done and what is waited for, each once: waiting looks again and again."""

    last: str = ""

    def __call__(self, action: rotate.Action | Conflict) -> None:
        text = str(action) if isinstance(action, Conflict) else f"{type(action).__name__}: {action.why}"
        if text != self.last:
            _complain(text)
            self.last = text


def _complain(problem: object) -> None:
    sys.stderr.write(f"rankfix-certs: {problem}\n")


def main() -> None:
    """The console script."""
    try:
        app()
    except Unfinished as exc:
        _complain(exc)
        sys.exit(NOT_YET)
    except CertsError as exc:
        _complain(exc)
        sys.exit(UNUSABLE)
    except OSError as exc:
        _complain(f"{exc.filename}: {exc.strerror}: choose another file or folder")
        sys.exit(UNUSABLE)


if __name__ == "__main__":
    main()

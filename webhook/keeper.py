"""`--manage-certs`: `rankfix-certs rotate --watch` beside the server, as a process of its own.

Apart from it, so that no key is made and nobody is asked in the process that answers admissions. The replicas' children
agree on one by a Lease.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from structlog.typing import FilteringBoundLogger

    from webhook.settings import Settings

AGAIN_AFTER = 5.0
GRACE = 5.0


def command(settings: Settings) -> list[str]:
    """What is run."""
    options = {
        "--namespace": settings.namespace,
        "--secret": settings.secret,
        "--service": settings.service,
        "--webhook-config": settings.webhook_config,
        "--webhook": settings.webhook,
        "--lease": f"{settings.service}-certs",
    }
    flags = [f"{flag}={value}" for flag, value in options.items() if value]
    more = [f"--dns-name={name}" for name in settings.dns_name.split(",") if name]
    return [sys.executable, "-m", "certs", "rotate", "--watch", "--stop-when-orphaned", *flags, *more]


@dataclass
class Keeper:
    """Runs `words`, again when it ends, until `stop`; each line that it writes is logged."""

    words: Sequence[str]
    log: FilteringBoundLogger
    _over: threading.Event = field(default_factory=threading.Event)
    _child: subprocess.Popen[str] | None = None
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def processes(self) -> set[int]:
        """The ids of what runs for it."""
        return {self._child.pid} if self._child else set()

    def stop(self) -> None:
        """End the child, which gives its Lease back."""
        self._over.set()
        if self._child:
            self._child.terminate()
        if self._thread:
            self._thread.join(GRACE)
        if self._child and self._child.poll() is None:
            self._child.kill()

    def _run(self) -> None:
        while not self._over.is_set():
            with subprocess.Popen(  # noqa: S603 - our own program
                self.words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            ) as self._child:
                assert self._child.stderr  # noqa: S101 - it's a pipe
                for line in self._child.stderr:
                    self.log.info("certs", said=line.strip().removeprefix("rankfix-certs: "))
            if not self._over.is_set():
                self.log.warning("certs", said=f"ended with code {self._child.returncode}", again_after=AGAIN_AFTER)
                self._over.wait(AGAIN_AFTER)

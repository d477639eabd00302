"""Brings the processes of a job to one store, whoever comes first, and holds the roll call there."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

from torch import distributed

from trainer.errors import RollCallError, Stopped
from trainer.rollcall import SAY, Caller, Elsewhere

if TYPE_CHECKING:
    from trainer.muster import Entry
    from trainer.rollcall import Meeting, Roll, Store
    from trainer.world import Address, Seat

RETRY = 0.5  # seconds between two tries to reach the master
ANSWER = 20.0  # seconds for whatever listens at MASTER_PORT to answer as a store does


def meet(meeting: Meeting, entry: Entry) -> Roll:
    """The accepted roll call of the whole job, or the error that every process of it ends with."""
    seat = meeting.seat
    if seat.rank == 0 and seat.attempt is None:
        hosted = _host(meeting)
        if hosted is not None:
            return _lead(meeting, entry, hosted)
    return _join(meeting, entry)


def _lead(meeting: Meeting, entry: Entry, hosted: Store) -> Roll:
    stamp = uuid.uuid4().hex
    hosted.set("stamp", stamp)
    caller = Caller(_below(hosted, meeting.seat), entry, meeting)
    try:
        return caller.lead(lambda: _strayed(meeting.seat.master, stamp))
    except Elsewhere:
        # The other rank 0 has what this one lacks: the address that everybody goes to. Meet there, and be named.
        return _join(meeting, entry)


def _join(meeting: Meeting, entry: Entry) -> Roll:
    """Comes to a store that somebody else keeps; if it vanishes with an older run's rank 0, to the next one."""
    if meeting.seat.master is None:
        raise RollCallError("there is no address to meet the others at; set MASTER_ADDR and MASTER_PORT")
    until = time.monotonic() + meeting.timeout
    while True:
        store = _below(_connect(meeting, meeting.seat.master, until), meeting.seat)
        caller = Caller(store, entry, meeting)
        first = meeting.seat.rank == 0 and meeting.seat.attempt is not None and store.add("leader", 1) == 1
        try:
            return caller.lead(lambda: None) if first else caller.follow()
        except distributed.DistError as error:
            if time.monotonic() > until:
                raise RollCallError(f"the store at {meeting.seat.master} went away during the roll call") from error
            time.sleep(RETRY)


def _below(store: Store, seat: Seat) -> Store:
    # A launcher's store has other keys in it, and may outlive an attempt.
    return distributed.PrefixStore(f"rankfix/{seat.attempt or 0}", store)


def _host(meeting: Meeting) -> Store | None:
    """The store, kept by this process; None if its port is taken, presumably by another rank 0."""
    listener = _listener(meeting)
    if listener is None:
        return None
    port = listener.getsockname()[1]
    return distributed.TCPStore(
        "127.0.0.1",
        port,
        None,
        True,
        timedelta(seconds=30),
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )


def _listener(meeting: Meeting) -> socket.socket | None:
    if meeting.listen_fd is not None:
        return socket.socket(fileno=meeting.listen_fd)
    master = meeting.seat.master
    if master is None:
        return socket.create_server(("127.0.0.1", 0))
    try:
        # All addresses: in some operator versions MASTER_ADDR is `localhost` in the very pod that others come to.
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", master.port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", master.port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return None
        raise RollCallError(f"rank 0 can't listen on port {master.port} (MASTER_PORT): {error.strerror}") from error


def _connect(meeting: Meeting, master: Address, until: float) -> Store:
    """Waits for the name and the port, since workers often start before the master and its DNS entry."""
    started = said = time.monotonic()
    while isinstance(store := _try(master), str):
        now = time.monotonic()
        if meeting.stop.requested:
            raise Stopped("stopped before training began; there is nothing to save")
        if now > until:
            raise RollCallError(
                f"{store} (tried for {now - started:.0f} s); is rank 0 running, and MASTER_ADDR its pod?"
            )
        if now - said > SAY:
            said = now
            meeting.say("waiting", message=f"for rank 0: {store}")
        time.sleep(RETRY)
    return store


def _try(master: Address) -> Store | str:
    """The store, or why it can't be had now."""
    return _unreachable(master) or _store_at(master) or f"what answers at {master} is not the store of a training job"


def _store_at(master: Address) -> Store | None:
    """A client of the store, or None if whatever listens there isn't one.

    In a thread, because torch waits for the first answer without any time-out; it may be left waiting.
    """
    found: list[Store] = []

    def come() -> None:
        with contextlib.suppress(distributed.DistError):
            place = (master.host, master.port, None, False, timedelta(seconds=ANSWER))
            found.append(distributed.TCPStore(*place, wait_for_workers=False))

    thread = threading.Thread(target=come, daemon=True)
    thread.start()
    thread.join(ANSWER)
    return found[0] if found else None


def _unreachable(master: Address) -> str | None:
    try:
        socket.create_connection((master.host, master.port), timeout=2).close()
    except socket.gaierror:
        return f"MASTER_ADDR {master.host} does not resolve"
    except OSError as error:
        return f"nothing answers at {master} ({error.strerror or error})"
    return None


def _strayed(master: Address | None, stamp: str) -> str | None:
    """Why others may look for rank 0 elsewhere; Elsewhere if another rank 0 is there already."""
    if master is None:
        return None
    why = _unreachable(master)
    if why is not None:
        return f"{why}, though rank 0 listens on {socket.gethostname()}: is MASTER_ADDR another pod?"
    other = _store_at(master)
    if other is None:
        return f"something else answers at {master}"
    if other.check(["stamp"]) and other.get("stamp").decode() != stamp:
        raise Elsewhere
    return None

"""`webhook.gate`: who may call, how many at once, and that nothing is made for a caller who has gone."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from tests.support_asgi import Wire, whole
from webhook import logs
from webhook.gate import Gate, seconds
from webhook.metrics import Metrics

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

NOW = 50.0


@dataclass
class Inner:
    """What stands behind the gate: reads the body, and counts its answers."""

    made: int = 0
    bodies: list[bytes] = field(default_factory=list)

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        body = await whole(receive)
        if body is None:
            return
        self.made += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


@dataclass
class Gated:
    """A gate with all that it depends on."""

    gate: Gate
    inner: Inner
    metrics: Metrics
    log: io.StringIO

    def refused(self, cause: str) -> bool:
        return f'rankfix_refused_total{{cause="{cause}"}} 1.0' in self.metrics.render().decode()


@dataclass
class Client:
    """Who sends a request."""

    since: float = NOW
    names: frozenset[str] | None = None


def gated(*, most: int = 2, most_bytes: int = 1000, callers: list[str] | None = None, inner: Any = None) -> Gated:
    inner, metrics, log = inner or Inner(), Metrics(CollectorRegistry(), version="1"), io.StringIO()
    gate = Gate(
        inner,
        at_once=bytes.upper,
        most=most,
        most_bytes=most_bytes,
        callers=callers,
        metrics=metrics,
        log=logs.make(log, "debug"),
        clock=lambda: NOW,
    )
    return Gated(gate, inner, metrics, log)


@pytest.mark.parametrize(
    ("query", "wait"),
    [
        (b"timeout=3s", 3),
        (b"timeout=30s", 30),
        (b"timeout=1m0s", 60),
        (b"a=b&timeout=1.5s&c=d", 1.5),
        (b"timeout=250ms", 0.25),
        (b"timeout=1h2m3.5s", 3723.5),
        (b"timeout=", None),
        (b"timeout=3", None),
        (b"timeout=-3s", None),
        (b"timeout=3s5", None),
        (b"timeout=" + b"9" * 400 + b"s", None),
        (b"notimeout=3s", None),
        (b"timeout=\xd9\xa3s", None),
        (b"", None),
    ],
)
def test_durations_as_go_writes_them(query: bytes, wait: float | None) -> None:
    """Hours to milliseconds; whatever else it is says nothing."""
    assert seconds(query) == wait


@pytest.mark.parametrize(
    ("arrived", "query", "made"),
    [
        (NOW - 2.9, b"timeout=3s", 1),
        (NOW - 3.0, b"timeout=3s", 0),
        (NOW - 300, b"timeout=3s", 0),
        (NOW - 300, b"", 1),
        (None, b"timeout=3s", 1),
    ],
)
def test_an_answer_that_comes_too_late_is_not_made(arrived: float | None, query: bytes, made: int) -> None:
    """By then the API server has given up; its next call is the one that counts."""
    it = gated()
    client = None if arrived is None else Client(arrived)
    reply = Wire([b"a", b"b"], query=query, client=client).send_to(it.gate)
    assert reply
    assert (it.inner.made, reply.status) == (made, 200 if made else 503)
    assert it.refused("late") is not bool(made)
    if not made:
        assert "timeout" in reply.json["error"]
        assert reply.headers["retry-after"] == "1"
    if client:
        assert it.gate.at_once(client, query, b"ab") == (b"AB" if made else None)


def test_a_large_body_is_not_answered_at_once() -> None:
    """It's looked at first, and counted."""
    assert gated().gate.at_once(Client(), b"", b"a" * 262_143) == b"A" * 262_143
    assert gated().gate.at_once(Client(), b"", b"a" * 262_144) is None


@pytest.mark.parametrize(
    ("allowed", "names", "cause"),
    [
        (None, None, None),
        ([], None, "show a client certificate"),
        ([], frozenset[str](), None),
        ([], frozenset({"anybody"}), None),
        (["kube-apiserver"], frozenset({"kube-apiserver"}), None),
        (["a", "b"], frozenset({"b", "c"}), None),
        (["kube-apiserver"], frozenset({"kubelet"}), "no name"),
        (["kube-apiserver"], frozenset[str](), "no name"),
        (["kube-apiserver"], None, "show a client certificate"),
    ],
)
def test_callers(allowed: list[str] | None, names: frozenset[str] | None, cause: str | None) -> None:
    """Without a CA anybody; with one, who shows a certificate of it; with names, who has one of them: else 403."""
    it = gated(callers=allowed)
    reply = Wire([b"{}"], client=Client(names=names)).send_to(it.gate)
    assert reply
    assert reply.status == (200 if cause is None else 403)
    assert it.gate.at_once(Client(names=names), b"", b"ab") == (b"AB" if cause is None else None)
    assert it.refused("caller") is (cause is not None)
    if cause:
        assert cause in reply.json["error"]
        assert reply.headers["connection"] == "close"
        assert '"cause":"caller"' in it.log.getvalue()


def together(it: Gated, *wires: Wire) -> list[int]:
    """Send them all at once; their status codes."""

    async def all_of_them() -> None:
        await asyncio.gather(*(wire._run(it.gate) for wire in wires))

    asyncio.run(all_of_them())
    return [wire.sent[0]["status"] for wire in wires]


class Slow(Inner):
    """Takes its time over what it reads."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def slowly() -> Message:
            message = await receive()
            await asyncio.sleep(0.01)
            return message

        await super().__call__(scope, slowly, send)


def test_one_request_too_many() -> None:
    """It's told so at once, before its body is read; the others are answered, and the next one too."""
    it = gated(most=2, inner=Slow())
    wires = [Wire([b"x"]) for _ in range(3)]
    assert together(it, *wires) == [200, 200, 503]
    assert it.refused("overload")
    assert wires[2].taken == 0
    assert together(it, Wire([b"x"])) == [200]
    assert (it.gate.in_flight, it.gate.held) == (0, 0)


def test_all_bodies_at_once_are_bounded() -> None:
    """Two that fit one by one and not together: one is refused; alone, a body is bounded by max-body only."""
    it = gated(most_bytes=1000, inner=Slow())
    assert sorted(together(it, Wire([b"x" * 600]), Wire([b"x" * 600]))) == [200, 503]
    assert it.refused("memory")
    assert together(it, Wire([b"x" * 5000])) == [200]
    assert sorted(together(it, Wire([b"x" * 500]), Wire([b"x" * 500]))) == [200, 200]


def test_a_client_that_leaves_is_neither_late_nor_held() -> None:
    """What it sent is given back."""
    it = gated()
    assert Wire([b"x" * 900], leaves=True, client=Client(0.0)).send_to(it.gate) is None
    assert not it.refused("late")
    assert (it.gate.in_flight, it.gate.held) == (0, 0)
    assert together(it, Wire([b"x" * 500]), Wire([b"x" * 500])) == [200, 200]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"[" + b"[]," * 450_000 + b"0]", 200),
        (b"[" + b"[]," * 1_000_000 + b"0]", 413),
        (b"[" + b"1," * 1_300_000 + b"0]", 413),
        (b'"' + b"x" * 3_000_000 + b'"', 200),
    ],
    ids=["many", "lists", "numbers", "text"],
)
@pytest.mark.parametrize("piece", [65_536, 4_000_000])
def test_values_without_number(data: bytes, status: int, piece: int) -> None:
    """Twenty megabytes of `[],` would be a gigabyte of objects and ten seconds: no pod that can be stored has as many
    values, and one that has isn't parsed.
    """
    it = gated(most_bytes=10**8)
    reply = Wire([data[at : at + piece] for at in range(0, len(data), piece)]).send_to(it.gate)
    assert reply
    assert reply.status == status
    assert it.refused("too-many-values") is (status == 413)

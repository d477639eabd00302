"""`webhook.app`: the HTTP matrix, the cap, the last catch, and what must never be said."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from tests.support_asgi import Edge, Wire, edge, get, post
from tests.support_edges import JSON, RECORDED, UID, body, patch_of, pod, typo
from webhook import mutate
from webhook.policy import Policy

if TYPE_CHECKING:
    from starlette.types import Message

SMALL = body()


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_review_is_answered_in_its_version(version: str) -> None:
    """Bug 33: version and uid come back, and the patch with its type."""
    reply = post(edge(), body(version=version))
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["content-length"] == str(len(reply.body))
    assert reply.json["apiVersion"] == f"admission.k8s.io/{version}"
    assert reply.json["kind"] == "AdmissionReview"
    assert reply.json["response"]["uid"] == UID
    assert reply.json["response"]["patchType"] == "JSONPatch"
    assert patch_of(reply.json)


@pytest.mark.parametrize("path", RECORDED[::7], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_answers_are_those_of_the_core(path: Any) -> None:
    """The app adds nothing to an answer and takes nothing away."""
    assert post(edge(), path.read_bytes()).body == mutate.respond(path.read_bytes(), Policy()).body


@pytest.mark.parametrize("path", RECORDED[::17], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_answers_at_once_are_the_same(path: Any) -> None:
    """And they are counted and told as the others are."""
    one, other, data = edge(), edge(), path.read_bytes()
    assert edge_at_once(one, data) == post(other, data).body
    ours, theirs = ([{**event, "microseconds": 0, "time": ""} for event in made.events()] for made in (one, other))
    assert ours == theirs
    assert ours


def edge_at_once(made: Edge, data: bytes) -> bytes | None:
    """The answer at once, in an event loop as ever."""

    async def run() -> bytes | None:
        return made.admission.at_once(data)

    return asyncio.run(run())


@pytest.mark.parametrize("data", [b"", b"{", b'{"kind": "Pod"}', b"x" * 1025], ids=["empty", "cut", "pod", "large"])
def test_errors_are_not_told_at_once(data: bytes) -> None:
    """Who asks the app hears them, and there they are counted."""
    made = edge(max_body=1024)
    assert edge_at_once(made, data) is None
    assert made.events() == []


@pytest.mark.parametrize(
    ("method", "path", "headers", "data", "status", "cause"),
    [
        ("GET", "/mutate", [], b"", 405, "method"),
        ("PUT", "/mutate", [JSON], SMALL, 405, "method"),
        ("HEAD", "/mutate", [], b"", 405, "method"),
        ("OPTIONS", "/mutate", [], b"", 405, "method"),
        ("DELETE", "/mutate", [JSON], SMALL, 405, "method"),
        ("POST", "/mutate", [], SMALL, 415, "content-type"),
        ("POST", "/mutate", [("content-type", "")], SMALL, 415, "content-type"),
        ("POST", "/mutate", [("content-type", "text/plain")], SMALL, 415, "content-type"),
        ("POST", "/mutate", [("content-type", "application/yaml")], SMALL, 415, "content-type"),
        ("POST", "/mutate", [("content-type", "application/jsonx")], SMALL, 415, "content-type"),
        ("POST", "/mutate", [("content-type", "application/json, text/plain")], SMALL, 415, "content-type"),
        ("POST", "/mutate", [JSON, ("content-encoding", "gzip")], SMALL, 415, "content-encoding"),
        ("POST", "/mutate", [JSON, ("content-encoding", "identity")], SMALL, 200, None),
        ("POST", "/mutate", [("content-type", "application/json;charset=utf-8")], SMALL, 200, None),
        ("POST", "/mutate", [("content-type", "APPLICATION/JSON ; x=y")], SMALL, 200, None),
        ("POST", "/mutate", [JSON], b"", 400, "bad-review"),
        ("POST", "/mutate", [JSON], b"{", 400, "bad-review"),
        ("POST", "/mutate", [JSON], b"[]", 400, "bad-review"),
        ("POST", "/mutate", [JSON], b"null", 400, "bad-review"),
        ("POST", "/mutate", [JSON], b"\xff\xfe", 400, "bad-review"),
        ("POST", "/mutate", [JSON], b'{"kind": "Pod"}', 400, "bad-review"),
        ("POST", "/mutate", [JSON], b'{"kind": "AdmissionReview"}', 400, "bad-review"),
        ("POST", "/mutate", [JSON], b"[" * 100_000, 400, "bad-review"),
        ("POST", "/mutate/", [JSON], SMALL, 404, None),
        ("POST", "/", [JSON], SMALL, 404, None),
        ("GET", "/docs", [], b"", 404, None),
        ("GET", "/openapi.json", [], b"", 404, None),
        ("GET", "/redoc", [], b"", 404, None),
        ("GET", "/%00/../\u20ac", [], b"", 404, None),
        ("POST", "/healthz", [], b"", 405, None),
        ("POST", "/metrics", [], b"", 405, None),
        ("GET", "/healthz", [], b"", 200, None),
        ("GET", "/readyz", [], b"", 200, None),
        ("GET", "/version", [], b"", 200, None),
        ("GET", "/metrics", [], b"", 200, None),
    ],
)
def test_http_matrix(  # noqa: PLR0917 - the table's columns
    method: str, path: str, headers: list[tuple[str, str]], data: bytes, status: int, cause: str | None
) -> None:
    """Each kind of request gets its code, errors say why in JSON, and what /mutate refuses is counted by cause."""
    made = edge()
    reply = Wire([data], method=method, path=path, headers=headers).send_to(made.app)
    assert reply is not None
    assert reply.status == status
    if status >= 400:
        assert reply.headers["content-type"] == "application/json"
        assert list(reply.json) == ["error"]
        assert "\n" not in reply.json["error"].strip()
    if status == 405 and path == "/mutate":
        assert reply.headers["allow"] == "POST"
    assert made.metric(f'rankfix_refused_total{{cause="{cause}"}}') == (1 if cause else 0)


def test_probes_and_version() -> None:
    """Probes answer plainly; /readyz says why not."""
    assert get(edge(), "/healthz").body == b"ok\n"
    assert get(edge(), "/readyz").body == b"ok\n"
    reply = get(edge(not_ready="stopping"), "/readyz")
    assert (reply.status, reply.body) == (503, b"not ready: stopping\n")
    assert get(edge(not_ready="stopping"), "/healthz").status == 200
    assert get(edge(), "/version").json == {"version": "9.9.9"}


def test_metrics_count_what_happened() -> None:
    """Outcome and closed reason, rules, classes, time, bugs, causes."""
    made = edge()
    post(made, body())
    post(made, body(pod(annotations={"rankfix/mode": "off"})))
    post(made, body(typo()))
    post(made, b"x")
    assert made.metric('rankfix_requests_total{outcome="changed",reason="patched"}') == 1
    assert made.metric('rankfix_requests_total{outcome="unchanged",reason="off"}') == 1
    assert made.metric('rankfix_requests_total{outcome="denied",reason="denied"}') == 1
    assert made.metric('rankfix_rules_total{rule="C1"}') == 1
    assert made.metric('rankfix_classes_total{class="python"}') >= 1
    assert made.metric("rankfix_duration_seconds_count") == 3
    assert made.metric('rankfix_refused_total{cause="bad-review"}') == 1
    assert get(made, "/metrics").body == made.metrics.render()


def test_the_body_is_taken_in_any_pieces() -> None:
    """Chunks make no difference, empty ones included."""
    whole = post(edge(), SMALL).body
    for size in (1, 7, 1000):
        chunks = [b"", *(SMALL[at : at + size] for at in range(0, len(SMALL), size)), b""]
        reply = Wire(chunks).send_to(edge().app)
        assert reply is not None
        assert reply.body == whole


@pytest.mark.parametrize(
    ("size", "declared", "status"),
    [
        (2048, None, 400),  # just fits: read, and no review
        (2049, None, 413),
        (2049, "2049", 413),
        (10, "2049", 413),  # says more than it sends
        (2049, "10", 413),  # says less than it sends
        (2049, "x", 413),
        (2049, "9" * 5000, 413),
        (2048, "2048", 400),
        (10, "99999999", 413),
    ],
)
@pytest.mark.parametrize("piece", [100, 100_000])
def test_bug_37_the_cap(size: int, declared: str | None, status: int, piece: int) -> None:
    """Bug 37: just under, just over, no Content-Length, and lying ones."""
    data = b"x" * size
    headers = [JSON, *([("content-length", declared)] if declared else [])]
    made = edge(max_body=2048)
    chunks = [data[at : at + piece] for at in range(0, size, piece)]
    reply = Wire(chunks, headers=headers).send_to(made.app)
    assert reply is not None
    assert reply.status == status
    assert made.metric('rankfix_refused_total{cause="too-large"}') == (status == 413)


def test_too_much_is_not_read_for_ever() -> None:
    """Twice the cap is taken in, so that a client gets to read the reason; an endless body is cut off there."""
    wire = Wire([b"x" * 1024] * 1000)
    reply = wire.send_to(edge(max_body=10 * 1024).app)
    assert reply is not None
    assert (reply.status, reply.headers["connection"]) == (413, "close")
    assert wire.taken == 21


def test_a_body_that_comes_later() -> None:
    """Nothing is there when the head is: nothing of what comes is lost."""
    made, sent = edge(), []

    async def ask() -> None:
        arrived = asyncio.Event()

        async def receive() -> Message:
            await arrived.wait()
            return {"type": "http.request", "body": SMALL, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "path": "/mutate",
            "method": "POST",
            "headers": [(b"content-type", b"application/json")],
        }
        asyncio.get_running_loop().call_later(0.01, arrived.set)
        await made.app(scope, receive, send)

    asyncio.run(ask())
    assert (sent[0]["status"], sent[1]["body"]) == (200, post(edge(), SMALL).body)


def test_bug_37_a_body_that_never_ends() -> None:
    """Bug 37: a client that stalls gets 408 in bounded time."""
    made = edge(body_timeout=0.05)
    reply = Wire([SMALL[:10]], stalls=True).send_to(made.app)
    assert reply is not None
    assert (reply.status, reply.headers["connection"]) == (408, "close")
    assert made.metric('rankfix_refused_total{cause="timeout"}') == 1


def test_a_client_that_leaves() -> None:
    """No answer to nobody, no stack trace, one count."""
    made = edge()
    assert Wire([SMALL[:10]], leaves=True).send_to(made.app) is None
    assert made.metric('rankfix_refused_total{cause="disconnected"}') == 1
    assert made.log.getvalue() == ""


def test_one_info_line_for_a_changed_pod() -> None:
    """The line names the pod's job and the verdict, and has no more in it than it should."""
    made = edge(level="info")
    post(made, body())
    (line,) = made.events()
    assert line.pop("microseconds") >= 0
    assert line.pop("time").endswith("Z")
    assert line == {
        "event": "pod",
        "level": "info",
        "outcome": "changed",
        "uid": UID,
        "namespace": "team-a",
        "job": "job",
        "operation": "CREATE",
        "dry_run": False,
        "status": "process",
        "rules": ["C1"],
        "reason": "patched",
        "warnings": 0,
    }


@pytest.mark.parametrize(
    ("obj", "request_", "level"),
    [
        (pod(), {}, "info"),
        (typo(), {}, "info"),
        (pod(annotations={"rankfix/mode": "off"}), {}, "debug"),
        (pod(), {"operation": "UPDATE"}, "debug"),
    ],
)
def test_level_by_outcome(obj: dict[str, Any], request_: dict[str, Any], level: str) -> None:
    """Changed and denied pods are worth a line, the rest only when somebody looks for it."""
    made = edge()
    post(made, body(obj, **request_))
    assert [event["level"] for event in made.events()] == [level]


def test_warned_pods_are_worth_a_line() -> None:
    """A warning is why somebody should act, so it's in the log even if nothing was changed."""
    made = edge(
        level="info",
        respond=lambda data, policy: replace(
            mutate.respond(data, policy), patch=[], warnings=("set rankfix/nproc-per-node",)
        ),
    )
    post(made, body())
    assert [event["warnings"] for event in made.events()] == [1]

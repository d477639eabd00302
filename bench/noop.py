"""What the framework alone costs: the same answer to everybody, by a bare ASGI app or by a FastAPI route.

python -m bench.noop asgi|fastapi PORT CERTDIR
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

ANSWER = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"0","allowed":true}}'
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]


async def asgi(_scope: Scope, receive: Receive, send: Send) -> None:
    """Take the body, answer."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


def fastapi() -> FastAPI:
    """The route as people write it."""
    app = FastAPI()

    @app.post("/mutate")
    async def mutate(review: dict[str, Any]) -> dict[str, Any]:
        response = {"uid": review["request"]["uid"], "allowed": True}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

    return app


def main(kind: str, port: str, folder: Path) -> None:
    """Serve on the loopback until a signal comes, on the loop and the parser that rankfix uses."""
    uvicorn.run(
        fastapi() if kind == "fastapi" else asgi,
        host="127.0.0.1",
        port=int(port),
        ssl_certfile=folder / "tls.crt",
        ssl_keyfile=str(folder / "tls.key"),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))

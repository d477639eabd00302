"""A transport that notes what happens to it, for the tests of what stands before uvicorn."""

from __future__ import annotations

import asyncio
from typing import Any


class Wire(asyncio.Transport):
    """All that was sent, and how it was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.ends = b"", list[str]()

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def close(self) -> None:
        self.ends.append("close")

    def abort(self) -> None:
        self.ends.append("abort")

    def is_closing(self) -> bool:
        return bool(self.ends)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

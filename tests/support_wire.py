"""A transport that notes what happens to it, and an event loop for those who need one: the tests of the protocol."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Scene = TypeVar("Scene")


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


def with_a(make: Callable[[], Scene]) -> Callable[[Callable[[Scene], Any]], Callable[[], None]]:
    """Makes a test of one that wants a scene: it runs in an event loop, with a scene of its own."""

    def scene(test: Callable[[Scene], Any]) -> Callable[[], None]:
        def run() -> None:
            async def inside() -> None:
                await test(make())

            asyncio.run(inside())

        run.__doc__ = test.__doc__
        return run

    return scene

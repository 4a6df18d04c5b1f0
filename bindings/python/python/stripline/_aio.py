"""`async for` over a subscriber, in the event loop's own thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ._errors import EndOfStream

if TYPE_CHECKING:
    from ._stripline import Packet, Subscriber


class AsyncPackets:
    """The packets of a subscriber, for `async for`. A task that is cancelled loses none."""

    def __init__(self, subscriber: Subscriber) -> None:
        self._subscriber = subscriber
        # It stays the same, and is needed after a `close` of the subscriber as well.
        self._descriptor = subscriber.fileno()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: asyncio.Future[None] | None = None

    def __aiter__(self) -> AsyncPackets:
        return self

    async def __anext__(self) -> Packet:
        subscriber = self._subscriber
        while True:
            try:
                packet = subscriber.try_receive()
                if packet is not None:
                    return packet
                is_armed = subscriber.arm()
            except EndOfStream:
                self._leave()
                raise StopAsyncIteration from None
            except BaseException:
                self._leave()
                raise
            if is_armed:
                await self._wait()

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._leave()
            loop.add_reader(self._descriptor, self._on_ready)
            self._loop = loop
        self._ready = loop.create_future()
        try:
            await self._ready
        except BaseException:
            self._leave()
            raise
        finally:
            self._ready = None

    def _on_ready(self) -> None:
        ready = self._ready
        if ready is None:
            # The descriptor stays readable until the next `arm`, and no task waits for it now.
            self._leave()
        elif not ready.done():
            ready.set_result(None)

    def _leave(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._descriptor)

    def __del__(self) -> None:
        # Not there if the subscriber was closed already.
        if hasattr(self, "_loop"):
            self._leave()

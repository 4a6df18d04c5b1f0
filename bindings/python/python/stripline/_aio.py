"""`async for` over receivers, and descriptors in the event loop's own thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, Protocol, TypedDict, TypeVar
from weakref import WeakKeyDictionary

from ._errors import EndOfStream, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._stripline import Window, WindowedSubscriber
    from ._types import StreamInfo

_P_co = TypeVar("_P_co", covariant=True)
_P = TypeVar("_P")


class _Receiver(Protocol[_P_co]):
    def try_receive(self) -> _P_co | None: ...
    def arm(self) -> bool: ...
    def fileno(self) -> int: ...


# The descriptors that each loop watches, by number: a loop has only one reader for a number.
_watched: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, Descriptor]] = WeakKeyDictionary()


class Descriptor:
    """A descriptor that one task waits for, until it is readable."""

    def __init__(self, number: int) -> None:
        # The number stays the same, and is needed even after the owner has called `close`.
        self._number = number
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        loop = asyncio.get_running_loop()
        watched = _watched.setdefault(loop, {})
        other = watched.get(self._number)
        if other is not self:
            if other is not None and other._ready is not None and not other._ready.done():
                problem = "another task waits for this receiver or client"
                raise UsageError(problem, code="in-use", remedy="Wait in one task at a time.")
            self.leave()
            # An iterator that was left in the middle may still be registered: this one replaces it.
            loop.add_reader(self._number, self._on_ready)
            watched[self._number] = self
            self._loop = loop
        self._ready = loop.create_future()
        try:
            await self._ready
        except BaseException:
            self.leave()
            raise
        finally:
            self._ready = None

    def _on_ready(self) -> None:
        ready = self._ready
        if ready is None:
            # The descriptor stays readable until the next `arm`, and no task waits for it now.
            self.leave()
        elif not ready.done():
            ready.set_result(None)

    def leave(self) -> None:
        loop, self._loop = self._loop, None
        if loop is None or _watched.get(loop, {}).get(self._number) is not self:
            return
        del _watched[loop][self._number]
        if not loop.is_closed():
            loop.remove_reader(self._number)


class AsyncPackets(Generic[_P]):
    """The items of a receiver, for `async for`. A task that is cancelled loses nothing."""

    def __init__(self, receiver: _Receiver[_P]) -> None:
        self._receiver = receiver
        self._descriptor = Descriptor(receiver.fileno())

    def __aiter__(self) -> AsyncPackets[_P]:
        return self

    async def __anext__(self) -> _P:
        receiver = self._receiver
        while True:
            try:
                packet = receiver.try_receive()
                if packet is not None:
                    return packet
                is_armed = receiver.arm()
            except EndOfStream:
                self._descriptor.leave()
                raise StopAsyncIteration from None
            except BaseException:
                self._descriptor.leave()
                raise
            if is_armed:
                await self._descriptor.wait()

    def __del__(self) -> None:
        # The attribute is missing if the receiver was closed already.
        if hasattr(self, "_descriptor"):
            self._descriptor.leave()


class _Length(TypedDict):
    """The arguments of `WindowedSubscriber.window`."""

    samples: int | None
    rows: int | None
    frames: int | None
    hop: int | None


class Windows:
    """The windows of a subscriber, for `for` and `async for`."""

    def __init__(
        self,
        subscriber: WindowedSubscriber,
        samples: int | Callable[[StreamInfo], int] | None,
        rows: int | None,
        frames: int | None,
        hop: int | None,
    ) -> None:
        self._subscriber = subscriber
        self._choose = samples if callable(samples) else None
        self._length = _Length(samples=None if callable(samples) else samples, rows=rows, frames=frames, hop=hop)

    def __iter__(self) -> Windows:
        return self

    def __next__(self) -> Window:
        try:
            if self._choose is not None:
                self._length["samples"] = self._choose(self._subscriber.stream())
            return self._subscriber.window(**self._length)
        except EndOfStream:
            raise StopIteration from None

    def __aiter__(self) -> AsyncPackets[Window]:
        return AsyncPackets(self)

    def try_receive(self) -> Window | None:
        if self._choose is not None:
            try:
                self._length["samples"] = self._choose(self._subscriber.stream(0.0))
            except TimeoutError:
                return None
        return self._subscriber.try_window(**self._length)

    def arm(self) -> bool:
        return self._subscriber.arm()

    def fileno(self) -> int:
        return self._subscriber.fileno()

"""Windows of a subscriber's samples, across the borders of packets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._types import Gap, StreamInfo, _refused

if TYPE_CHECKING:
    from ._stripline import Packet, Subscriber


@dataclass(frozen=True)
class Window:
    """Contiguous samples of one stream of one connection."""

    samples: npt.NDArray[Any]
    """The samples, as a read-only array: where they arrived, or a copy of those of two packets."""
    sequence: int
    """The number of the packet that the first sample came with."""
    sample_index: int
    """The number of the first sample within its stream."""
    time_ns: int
    """When the first sample was taken, in nanoseconds since the Unix epoch; 0: unknown. Without a
    sample rate in the stream, it is the time of the packet."""
    gap: Gap | None
    """What is missing just before the first sample; None where nothing is."""
    stream: StreamInfo
    """The stream that all samples belong to."""
    connection: str
    """The connection that all samples arrived on, as `from -> to`."""
    is_whole: bool
    """Whether it has all samples. If not, a gap, a new stream or the end follows."""

    def __len__(self) -> int:
        return len(self.samples)


@dataclass
class _Part:
    """Samples of one packet, and what is known of the first."""

    samples: npt.NDArray[Any]
    sequence: int
    sample_index: int
    time_ns: int
    rate_hz: float | None

    def behind(self, samples: int) -> _Part:
        """Returns the part behind the first so many samples."""
        later = round(samples * 1e9 / self.rate_hz) if self.rate_hz and self.time_ns else 0
        rest, index = self.samples[samples:], self.sample_index + samples
        return _Part(rest, self.sequence, index, self.time_ns + later, self.rate_hz)


class Windows:
    """The windows of a subscriber, for `for` and `async for`. Made by `Subscriber.windows`."""

    def __init__(self, subscriber: Subscriber, length: int, hop: int) -> None:
        if length < 1:
            raise _refused(f"a window of {length} samples is none; it has 1 at least")
        if not 1 <= hop <= length:
            raise _refused(f"the hop is {hop} samples; it must be from 1 to the length, {length}")
        self._subscriber = subscriber
        self._length = length
        self._hop = hop
        # Copies of samples that wait for those of the next packets: less than a window.
        self._parts: list[_Part] = []
        self._gap: Gap | None = None
        self._stream: StreamInfo | None = None
        self._connection = ""

    def __iter__(self) -> Iterator[Window]:
        for packet in self._subscriber:
            yield from self._take(packet)
        yield from self._rest()

    async def __aiter__(self) -> AsyncIterator[Window]:
        async for packet in self._subscriber:
            for window in self._take(packet):
                yield window
        for window in self._rest():
            yield window

    def _take(self, packet: Packet) -> Iterator[Window]:
        """Returns the windows that end in a packet."""
        stream, gap = packet.stream, packet.gap
        is_same = self._stream is stream or self._stream == stream
        if gap is not None or not is_same or packet.connection != self._connection:
            yield from self._rest()
            self._gap, self._stream, self._connection = gap, stream, packet.connection
        part = _Part(
            packet.samples, packet.sequence, packet.sample_index, packet.time_ns, stream.sample_rate_hz
        )
        if len(part.samples) == 0 and self._gap is not None and not self._parts:
            # Nothing is lost in silence.
            yield self._window(part, part.samples)
        del packet
        waiting = sum(len(it.samples) for it in self._parts)
        if waiting + len(part.samples) < self._length:
            self._keep(part)
            return
        if waiting:
            joined = np.concatenate([it.samples for it in self._parts] + [part.samples[: self._length - 1]])
            joined.flags.writeable = False
            start = 0
            while start < waiting and start + self._length <= waiting + len(part.samples):
                yield self._window(self._parts[0], joined[start : start + self._length])
                start += self._hop
                self._drop(self._hop)
            if self._parts:
                self._keep(part)
                return
            part = part.behind(start - waiting)
        while len(part.samples) >= self._length:
            yield self._window(part, part.samples[: self._length])
            part = part.behind(self._hop)
        self._keep(part)

    def _window(self, first: _Part, samples: npt.NDArray[Any]) -> Window:
        assert self._stream is not None
        is_whole = len(samples) == self._length
        gap, self._gap = self._gap, None
        at = (first.sequence, first.sample_index, first.time_ns)
        return Window(samples, *at, gap, self._stream, self._connection, is_whole)

    def _rest(self) -> Iterator[Window]:
        """Returns what is left in front of a border, as a window that is not whole."""
        parts, self._parts = self._parts, []
        if parts:
            samples = np.concatenate([it.samples for it in parts])
            samples.flags.writeable = False
            yield self._window(parts[0], samples)

    def _keep(self, part: _Part) -> None:
        if len(part.samples):
            # A copy: the packet's memory is given back.
            part.samples = part.samples.copy()
            self._parts.append(part)

    def _drop(self, samples: int) -> None:
        """Drops the first so many of the samples that wait."""
        while self._parts and samples >= len(self._parts[0].samples):
            samples -= len(self._parts.pop(0).samples)
        if self._parts and samples:
            self._parts[0] = self._parts[0].behind(samples)

"""`async for`, and descriptors in a program's own loop."""

from __future__ import annotations

import asyncio
import select

import numpy as np
import pytest
from conftest import TIMEOUT_S, linked

import stripline


def test_async_for_ends_with_the_stream(node: stripline.Node) -> None:
    out, in_ = linked(node)

    async def send() -> None:
        for number in range(50):
            out.send(np.full(1, number, np.float32))
            if number % 3 == 0:
                await asyncio.sleep(0)
        out.finish()

    async def main() -> list[float]:
        sending = asyncio.create_task(send())
        received = [packet.samples[0] async for packet in in_]
        await sending
        return received

    assert asyncio.run(asyncio.wait_for(main(), TIMEOUT_S)) == list(range(50))


def test_a_cancelled_task_loses_no_packet(node: stripline.Node) -> None:
    out, in_ = linked(node)

    async def main() -> None:
        packets = aiter(in_)
        waiting = asyncio.ensure_future(anext(packets))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        out.send(np.ones(1, np.float32))
        packet = await asyncio.wait_for(anext(packets), TIMEOUT_S)
        assert packet.sequence == 0
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(packets), 0.001)
        # The descriptor is readable and no task waits for it: the loop does not spin on it.
        out.send(np.ones(1, np.float32))
        await asyncio.sleep(0.001)
        assert (await anext(packets)).sequence == 1
        out.finish()
        with pytest.raises(StopAsyncIteration):
            await anext(packets)

    asyncio.run(main())


def test_a_second_iterator_takes_the_place_of_one_that_was_left(node: stripline.Node) -> None:
    out, in_ = linked(node)

    async def main() -> None:
        first = aiter(in_)
        waiting = asyncio.ensure_future(anext(first))
        await asyncio.sleep(0)
        # While one task waits, another task gets an error.
        with pytest.raises(stripline.UsageError, match="another task"):
            await anext(aiter(in_))
        out.send(np.zeros(1, np.float32))
        assert (await asyncio.wait_for(waiting, TIMEOUT_S)).sequence == 0
        second = aiter(in_)
        waiting = asyncio.ensure_future(anext(second))
        await asyncio.sleep(0)
        # The end of the first iterator does not take the reader away from the second.
        del first
        out.send(np.zeros(1, np.float32))
        assert (await asyncio.wait_for(waiting, TIMEOUT_S)).sequence == 1
        out.finish()

    asyncio.run(main())


def test_a_subscriber_closed_between_two_packets(node: stripline.Node) -> None:
    out, in_ = linked(node)

    async def main() -> None:
        packets = aiter(in_)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(packets), 0.001)
        in_.close()
        with pytest.raises(stripline.UsageError, match="is closed"):
            await anext(packets)

    asyncio.run(main())
    out.finish()


def test_two_subscribers_in_one_loop(node: stripline.Node) -> None:
    ends = []
    for topic in ("left", "right"):
        in_ = node.subscriber(topic, np.float32)
        out = node.publisher(topic, np.float32)
        out.wait_for_receivers(1, TIMEOUT_S)
        ends.append((out, in_))

    async def take(in_: stripline.Subscriber) -> int:
        return sum([len(packet) async for packet in in_])

    async def main() -> list[int]:
        tasks = [asyncio.create_task(take(in_)) for _, in_ in ends]
        await asyncio.sleep(0)
        for samples, (out, _) in zip((3, 4), ends):
            out.send(np.ones(samples, np.float32))
            out.finish()
        return await asyncio.wait_for(asyncio.gather(*tasks), TIMEOUT_S)

    assert asyncio.run(main()) == [3, 4]


def test_a_stopped_node_ends_the_iteration_with_its_error(node: stripline.Node) -> None:
    _, in_ = linked(node)

    async def main() -> None:
        waiting = asyncio.ensure_future(anext(aiter(in_)))
        await asyncio.sleep(0)
        node.stop()
        with pytest.raises(stripline.StoppedError):
            await asyncio.wait_for(waiting, TIMEOUT_S)

    with pytest.warns(ResourceWarning):
        asyncio.run(main())
        del _


def test_a_loop_of_the_programs_own(node: stripline.Node) -> None:
    out, in_ = linked(node)
    poll = select.poll()
    poll.register(in_, select.POLLIN)
    out.send(np.ones(1, np.float32))
    out.send(np.ones(1, np.float32))
    out.finish()
    packets = 0
    while True:
        try:
            packet = in_.try_receive()
        except stripline.EndOfStream:
            break
        if packet is not None:
            packets += 1
        elif in_.arm():
            assert poll.poll(TIMEOUT_S * 1000)
    assert packets == 2 and in_.fileno() == in_.fileno()

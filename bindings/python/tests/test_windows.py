"""Windows with a hop, packets sent and taken together, and acknowledgements of single packets."""

from __future__ import annotations

import asyncio
import gc
import signal
from typing import Any

import numpy as np
import pytest
from conftest import TIMEOUT_S, line, linked, start_python

import stripline


def windowed(
    node: stripline.Node, dtype: Any = np.int32, **options: Any
) -> tuple[stripline.Publisher, stripline.WindowedSubscriber]:
    in_ = node.windowed_subscriber("topic", dtype, **options)
    out = node.publisher("topic", dtype)
    out.wait_for_receivers(1, TIMEOUT_S)
    return out, in_


def send_ramp(out: stripline.Publisher, samples: int, packet: int) -> None:
    for first in range(0, samples, packet):
        out.send(np.arange(first, min(first + packet, samples), dtype=np.int32))


@pytest.mark.parametrize("packet", [1, 3, 4, 5, 8, 100])
@pytest.mark.parametrize(("samples", "hop"), [(4, 4), (4, 1), (4, 3), (5, 2), (1, 1), (16, 7)])
def test_windows_have_all_samples(node: stripline.Node, packet: int, samples: int, hop: int) -> None:
    out, in_ = windowed(node)
    sent = 30
    send_ramp(out, sent, packet)
    out.finish()
    expected, first = [], 0
    while first + samples <= sent:
        expected.append((list(range(first, first + samples)), True))
        first += hop
    if first < sent:
        expected.append((list(range(first, sent)), False))
    found = []
    for window in in_.windows(samples, hop=hop):
        array = window.samples
        assert not array.flags.writeable and array.dtype == np.int32 and len(window) == len(array)
        assert window.sample_index == array[0] and window.sequence == array[0] // packet
        found.append((array.tolist(), window.is_whole))
    assert found == expected
    with pytest.raises(stripline.EndOfStream):
        in_.window(4)
    with pytest.raises(stripline.EndOfStream):
        in_.try_window(4)
    assert in_.gap_at_end() is None


def test_a_window_within_a_packet_is_in_place_and_stays(node: stripline.Node) -> None:
    out, in_ = windowed(node, hold=2)
    send_ramp(out, 80, 8)
    first = in_.window(4, hop=2)
    second = in_.window(4, hop=2)
    assert second.samples.ctypes.data == first.samples.ctypes.data + 2 * 4
    with pytest.raises(ValueError):
        first.samples[0] = 1
    with pytest.raises(ValueError):
        first.samples.flags.writeable = True
    # Windows across a boundary are copies, and hold no packet.
    crossing = [in_.window(6), in_.window(8)]
    assert [window.samples[0] for window in crossing] == [4, 10]
    kept = [in_.window(6).samples[1:]]
    with pytest.raises(stripline.TooManyHeldError):
        in_.window(16)
    assert kept[0].tolist() == [19, 20, 21, 22, 23]
    kept.clear()
    del first, second
    gc.collect()
    last = in_.window(16)
    in_.close()
    in_.close()
    node.close()
    out.abandon()
    gc.collect()
    assert last.samples.tolist() == list(range(24, 40))
    assert crossing[1].samples.tolist() == list(range(10, 18))


def test_boundaries(domain: str) -> None:
    topics = {"topic": {"topic": {"overflow": "drop-newest", "depth": 2, "buffer": 4096}}}
    with stripline.Node(domain, topics=topics) as node:
        out, in_ = windowed(node)
        out.set_stream(stripline.StreamInfo("first", 1000.0))
        out.send(np.arange(6, dtype=np.int32), time_ns=1_000_000_000)
        window = in_.window(4, hop=3)
        assert (window.stream.id, window.time_ns, window.gap) == ("first", 1_000_000_000, None)
        window = in_.window(2, hop=1)
        assert (window.time_ns, window.sample_index) == (1_003_000_000, 3)
        out.set_stream(stripline.StreamInfo("second"))
        out.send(np.arange(6, dtype=np.int32), sample_index=0)
        window = in_.window(4)
        assert (window.samples.tolist(), window.is_whole, window.stream.id) == ([4, 5], False, "first")
        window = in_.window(6)
        assert (window.is_whole, window.stream.id, window.time_ns) == (True, "second", 0)
        # The number of dropped packets depends on timing. Some are dropped, because neither the
        # ring nor the queue can hold them all.
        for number in range(500):
            out.send(np.full(6, number, np.int32))
        out.finish()
        samples, lost, words = 0, 0, ""
        for window in in_.windows(4):
            samples += len(window)
            lost += window.gap.packets if window.gap is not None else 0
            words = words or repr(window)
        at_end = in_.gap_at_end()
        lost += at_end.packets if at_end is not None else 0
        assert lost > 0 and samples == 6 * (500 - lost)
        assert "Window of `topic`: 4 samples from" in words


def test_waits_and_bad_input(node: stripline.Node) -> None:
    out, in_ = windowed(node)
    assert in_.try_window(4) is None
    out.send(np.arange(3, dtype=np.int32))
    with pytest.raises(TimeoutError, match="4 samples did not come within 0.001 s"):
        in_.window(4, timeout=0.001)
    out.send(np.arange(3, 6, dtype=np.int32))
    # The samples that had arrived were kept.
    assert in_.window(4, timeout=TIMEOUT_S).samples.tolist() == [0, 1, 2, 3]
    for samples, hop, words in ((0, None, "a window of 0"), (1 << 30, None, "from 1 to"), (4, 0, "a hop of 0"),
                                (4, 5, "a hop of 5")):  # fmt: skip
        with pytest.raises(stripline.UsageError, match=words):
            in_.window(samples, hop=hop)
        with pytest.raises(stripline.UsageError, match=words):
            in_.windows(samples, hop=hop)
    for hold in (0, 5000):
        with pytest.raises(stripline.UsageError, match="cannot hold"):
            node.windowed_subscriber("topic", np.int32, hold=hold)
    assert in_.senders == 1 and in_.topic == "topic" and in_.dtype == np.int32
    out.finish()


def test_async_for(node: stripline.Node) -> None:
    out, in_ = windowed(node)

    async def send() -> None:
        for first in range(0, 60, 3):
            out.send(np.arange(first, first + 3, dtype=np.int32))
            await asyncio.sleep(0)
        out.finish()

    async def main() -> list[int]:
        sending = asyncio.create_task(send())
        first = [int(window.samples[0]) async for window in in_.windows(4, hop=2)]
        await sending
        return first

    assert asyncio.run(asyncio.wait_for(main(), TIMEOUT_S)) == list(range(0, 60, 2))


def test_ctrl_c_ends_a_wait_for_a_window() -> None:
    program = start_python("""
import numpy as np
import stripline
node = stripline.Node.isolated()
in_ = node.windowed_subscriber("topic", np.int32)
out = node.publisher("topic", np.int32)
out.wait_for_receivers(1)
out.send(np.arange(3, dtype=np.int32))
try:
    print("waits", flush=True)
    in_.window(4)
except KeyboardInterrupt:
    print("interrupted", flush=True)
out.send(np.arange(3, 6, dtype=np.int32))
print(in_.window(6).samples.tolist(), flush=True)
out.abandon()
""")
    assert line(program) == "waits"
    program.send_signal(signal.SIGINT)
    assert [line(program), line(program)] == ["interrupted", "[0, 1, 2, 3, 4, 5]"]
    assert program.wait() == 0


def test_packets_sent_together_and_taken_together(node: stripline.Node) -> None:
    out, in_ = linked(node, np.int16, copy=True)
    rows = np.arange(60, dtype=np.int16).reshape(20, 3)
    out.send_many(rows)
    assert out.sequence == 20
    first = in_.drain(8)
    assert [packet.samples.tolist() for packet in first] == rows[:8].tolist()
    out.send_many(rows[:0])
    out.send_many(np.zeros((2, 0), np.int16))
    out.finish()
    rest = in_.drain(100)
    assert [len(packet) for packet in rest] == [3] * 12 + [0, 0]
    assert in_.drain(1) == []
    with pytest.raises(stripline.UsageError, match="limit of packets is 0"):
        in_.drain(0)


def test_a_drain_takes_no_more_than_may_be_held(node: stripline.Node) -> None:
    out, in_ = linked(node, np.int16, hold=3)
    out.send_many(np.zeros((10, 2), np.int16))
    taken = in_.drain(100)
    assert len(taken) == 3
    with pytest.raises(stripline.TooManyHeldError):
        in_.drain(1)
    del taken[:2]
    assert [packet.sequence for packet in in_.drain(100)] == [3, 4]
    out.abandon()


def test_arrays_that_are_no_packets(node: stripline.Node) -> None:
    out, _ = linked(node, np.int16)
    for array, words in (
        (np.zeros(3, np.int16), "two dimensions, a row for each packet, and this one has 1"),
        (np.zeros((2, 2, 2), np.int16), "this one has 3"),
        (np.zeros((2, 2), np.int32), "sends int16, and the array has int32"),
        (np.zeros((2, 4), np.int16)[:, ::2], "not contiguous"),
    ):
        with pytest.raises(stripline.UsageError, match=words):
            out.send_many(array)
    assert out.sequence == 0
    out.finish()


def test_one_packet_without_room_is_not_sent(domain: str) -> None:
    with stripline.Node(domain, topics={"topic": {"topic": {"depth": 2}}}) as node:
        out, in_ = linked(node, np.int16)
        sent = 0
        with pytest.raises(stripline.NoRoomError) as full:
            while True:
                out.try_send(np.full(2, sent, np.int16), time_ns=5)
                sent += 1
        assert full.value.code == "full" and out.sequence == sent
        assert in_.receive().time_ns == 5
        with pytest.raises(stripline.UsageError, match="`send`"):
            out.try_send(np.zeros(10_000_000, np.int16))
        out.abandon()


def test_a_packet_is_acknowledged_by_itself(node: stripline.Node) -> None:
    out, in_ = linked(node, np.int16)
    with pytest.raises(stripline.NotAcknowledgedError) as late:
        out.send(np.ones(1, np.int16), scope="target", deadline=0.001)
    assert late.value.code == "unanswered"
    out.send(np.ones(1, np.int16), scope="server", deadline=TIMEOUT_S)
    with pytest.raises(stripline.NotAcknowledgedError):
        with out.loan(1, scope="target", deadline=0.001) as y:
            y[:] = 2
    assert [in_.receive().samples[0] for _ in range(3)] == [1, 1, 2]
    with pytest.raises(stripline.UsageError, match="`whole` is not a sync scope"):
        out.send(np.ones(1, np.int16), scope="whole")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the deadline is -1"):
        out.loan(1, scope="target", deadline=-1.0)
    assert out.sequence == 3
    out.finish()

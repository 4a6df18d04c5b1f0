"""Rows and frames: views of several dimensions, windows in rows or frames, and losses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import TIMEOUT_S
from conftest import linked as linked_ends

import stripline
from stripline import Axis, StreamInfo

RANGE, PULSES, TIME = Axis(0.0, 15.0, "m"), Axis(0.0, 1e-4, "s"), Axis(0.0, 0.1, "s")
CUBE = StreamInfo("cube", row_length=4, frame_rows=3, channels=("a", "b"), axes=(RANGE, PULSES, TIME))
MAP = StreamInfo("map", row_length=4, frame_rows=3, axes=(RANGE, PULSES))


_open: list[stripline.Publisher] = []


@pytest.fixture(autouse=True)
def _abandon_streams() -> Iterator[None]:
    """Ends the streams that a test leaves open."""
    yield
    while _open:
        _open.pop().abandon()


def linked(node: stripline.Node) -> tuple[stripline.Publisher, stripline.Subscriber]:
    out, in_ = linked_ends(node)
    _open.append(out)
    return out, in_


def windowed(node: stripline.Node, stream: StreamInfo) -> tuple[stripline.Publisher, stripline.WindowedSubscriber]:
    in_ = node.windowed_subscriber("topic", np.float32)
    out = node.publisher("topic", np.float32, stream=stream)
    out.wait_for_receivers(1, TIMEOUT_S)
    _open.append(out)
    return out, in_


def ramp(*shape: int, first: int = 0) -> Any:
    return np.arange(first, first + np.prod(shape), dtype=np.float32).reshape(shape)


def test_a_dimension_more_is_several_frames(node: stripline.Node) -> None:
    out, in_ = linked(node)
    out.set_stream(MAP)
    out.send(ramp(2, 3, 4))
    packet = in_.receive(TIMEOUT_S)
    assert packet.frames.shape == (2, 3, 4) and packet.stream.frame_shape == (3, 4)
    with pytest.raises(stripline.UsageError, match="shape"):
        out.send(ramp(2, 2, 3, 4))


def test_a_cube_is_sent_and_received_as_it_is(node: stripline.Node) -> None:
    assert CUBE.frame_shape == (2, 3, 4) and MAP.frame_shape == (3, 4) and StreamInfo().frame_shape == ()
    out, in_ = linked(node)
    out.set_stream(CUBE)
    cube = ramp(2, 3, 4)
    out.send(cube)
    packet = in_.receive(TIMEOUT_S)
    assert packet.stream == CUBE
    assert np.array_equal(packet.frame, cube) and np.array_equal(packet.rows, cube.reshape(6, 4))
    assert np.array_equal(packet.frames, cube[np.newaxis]) and np.array_equal(packet.samples, cube.reshape(-1))
    # The views are of the same memory, and keep it.
    frame = packet.frame
    assert frame.ctypes.data == packet.samples.ctypes.data and not frame.flags.writeable
    packet.release()
    out.send(np.stack([cube, 2 * cube]))
    packets = in_.receive(TIMEOUT_S)
    assert packets.sample_index == 24 and np.array_equal(packets.frames[1], 2 * cube)
    with pytest.raises(stripline.UsageError, match=r"48 samples from 24 on, not one frame of the shape \(2, 3, 4\)"):
        _ = packets.frame
    assert np.array_equal(frame, cube)
    # The first dimension is free: half a frame, and a frame and a half.
    for part in (ramp(1, 3, 4), ramp(3, 3, 4)):
        out.send(part)
        assert np.array_equal(in_.receive(TIMEOUT_S).samples, part.reshape(-1))


def test_a_loan_has_a_shape(node: stripline.Node) -> None:
    out, in_ = linked(node)
    out.set_stream(MAP)
    for number in range(4):
        with out.loan((3, 4)) as frame:
            assert frame.shape == (3, 4)
            frame[:] = number
        with pytest.raises(ValueError):
            frame[0, 0] = 1
        packet = in_.receive(TIMEOUT_S)
        assert (packet.frame == number).all() and packet.sample_index == 12 * number
    with out.loan((2, 4), like=packet) as rows:
        rows[:] = 9
    assert in_.receive(TIMEOUT_S).sample_index == 36


@pytest.mark.parametrize(
    ("stream", "shape", "index", "problem"),
    [
        (StreamInfo("plain"), (2, 3), None, "the shape (2, 3), and the stream has no rows"),
        (MAP, (3, 5), None, "a frame of the stream has the shape (3, 4)"),
        (MAP, (2, 2, 4), None, "a frame of the stream has the shape (3, 4)"),
        (CUBE, (1, 1, 1, 1, 4), None, "a frame of the stream has the shape (2, 3, 4)"),
        (MAP, (2, 4), 6, "would begin at the sample 6, within a row or frame"),
        (MAP, (1, 3, 4), 8, "would begin at the sample 8, within a row or frame"),
        (MAP, (), None, "the shape ()"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    node: stripline.Node, stream: StreamInfo, shape: tuple[int, ...], index: int | None, problem: str
) -> None:
    out, in_ = linked(node)
    out.set_stream(stream)
    for send in (out.send, out.try_send):
        with pytest.raises(stripline.UsageError) as refused:
            send(np.zeros(shape, np.float32), sample_index=index)
        assert problem in str(refused.value)
    if len(shape) > 0:
        with pytest.raises(stripline.UsageError) as refused:
            out.loan(shape, sample_index=index)
        assert problem in str(refused.value)
    # Nothing was sent, and the next packet arrives.
    out.send(np.zeros(5, np.float32))
    packet = in_.receive(TIMEOUT_S)
    assert packet.sequence == 0
    with pytest.raises(stripline.UsageError, match="rows"):
        _ = packet.rows


@pytest.mark.parametrize("packet", [1, 3, 4, 7, 24, 100])
def test_windows_in_rows_and_frames(node: stripline.Node, packet: int) -> None:
    out, in_ = windowed(node, CUBE)
    samples = ramp(2 * 24 + 8)
    for first in range(0, len(samples), packet):
        out.send(samples[first : first + packet])
    out.finish()
    two = in_.window(rows=2)
    assert np.array_equal(two.rows, ramp(2, 4)) and two.is_whole
    # The rest of the first frame.
    second = in_.window(frames=1)
    assert (second.sample_index, len(second), second.is_whole) == (8, 16, False)
    with pytest.raises(stripline.UsageError, match="not one frame"):
        _ = second.frame
    found = list(in_.windows(frames=1))
    assert [(window.sample_index, window.is_whole) for window in found] == [(24, True), (48, False)]
    assert np.array_equal(found[0].frame, ramp(2, 3, 4, first=24))
    assert np.array_equal(found[1].rows, ramp(2, 4, first=48))


def test_windows_of_rows_overlap_by_rows(node: stripline.Node) -> None:
    out, in_ = windowed(node, MAP)
    out.send(ramp(4, 4))
    out.finish()
    assert [window.rows[:, 0].tolist() for window in in_.windows(rows=2, hop=1)] == [
        [0, 4], [4, 8], [8, 12], [12],
    ]  # fmt: skip


def test_the_length_follows_from_the_stream(node: stripline.Node) -> None:
    out, in_ = windowed(node, MAP)
    with pytest.raises(TimeoutError, match="no samples"):
        in_.stream(0.01)
    out.send(ramp(6, 4))
    assert in_.stream(TIMEOUT_S) == MAP and in_.window(4).sample_index == 0
    # The stream changes its rows in the middle of a frame.
    out.set_stream(StreamInfo("other", row_length=8))
    out.send(ramp(2, 8))
    out.finish()
    seen: list[str] = []

    def length(stream: StreamInfo) -> int:
        seen.append(stream.id)
        assert stream.row_length is not None
        return 2 * stream.row_length

    found = [(window.stream.id, window.rows.shape, window.is_whole) for window in in_.windows(length)]
    assert found == [("map", (2, 4), True), ("map", (2, 4), True), ("map", (1, 4), False), ("other", (2, 8), True)]
    assert seen == ["map", "map", "map", "other"]
    with pytest.raises(stripline.EndOfStream):
        in_.stream()


def test_windows_of_frames_in_an_event_loop(node: stripline.Node) -> None:
    out, in_ = windowed(node, MAP)

    async def take() -> list[tuple[int, ...]]:
        by_stream = in_.windows(lambda stream: stream.row_length or 1)
        return [window.rows.shape async for window in by_stream]

    out.send(ramp(3, 4))
    out.finish()
    assert asyncio.run(take()) == [(1, 4)] * 3


def test_a_loss_within_frames_is_counted_in_frames(node: stripline.Node) -> None:
    out, in_ = windowed(node, MAP)
    out.send(ramp(12))
    # The packets between are missing: the receiver got nothing of them.
    out.send(ramp(8), sample_index=28)
    out.finish()
    assert in_.window(frames=1).is_whole
    cut = in_.window(frames=1)
    assert (cut.sample_index, len(cut), cut.is_whole) == (28, 8, False)
    with pytest.raises(stripline.UsageError, match=r"not one frame of the shape \(3, 4\); check `is_whole` before"):
        _ = cut.frame


def test_a_gap_has_the_whole_frames(domain: str) -> None:
    # Neither the ring nor the queue can hold all packets.
    topics = {"topic": {"topic": {"overflow": "drop-oldest", "depth": 4, "buffer": 4096}}}
    with stripline.Node(domain, topics=topics) as node:
        out, in_ = linked(node)
        out.set_stream(MAP)
        for _ in range(500):
            out.send(ramp(6))
        gap = None
        while gap is None:
            # A gap is reported with the next packet that has room.
            out.send(ramp(6))
            while (packet := in_.try_receive()) is not None and gap is None:
                gap = packet.gap
                lost = range(packet.sample_index - gap.samples, packet.sample_index) if gap else range(0)
        whole = [first for first in range(0, lost.stop - 11, 12) if first >= lost.start]
        assert gap.frames == len(whole) > 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "a window has one length"),
        ({"samples": 1, "rows": 1}, "a window has one length"),
        ({"rows": 0}, "a window of 0 rows"),
        ({"frames": 2, "hop": 3}, "a hop of 3 frames"),
        ({"rows": 1 << 40}, "rows of port"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(node: stripline.Node, arguments: dict[str, int], problem: str) -> None:
    _, in_ = windowed(node, MAP)
    for call in (in_.window, in_.try_window, in_.windows):
        with pytest.raises(stripline.UsageError, match=problem):
            call(**arguments)


def test_windows_in_rows_of_a_stream_without_rows_are_refused(node: stripline.Node) -> None:
    out, in_ = windowed(node, StreamInfo("plain"))
    out.send(ramp(3))
    for arguments in ({"rows": 1}, {"frames": 1}):
        with pytest.raises(stripline.UsageError, match="the description of `plain` has no `row_length`"):
            in_.window(**arguments)
    assert in_.window(3).samples.tolist() == [0, 1, 2]


def test_the_page(node: stripline.Node) -> None:
    out, in_ = windowed(node, MAP)
    cube = ramp(4, 256, 64)
    out.set_stream(StreamInfo("pulses", row_length=64, frame_rows=256, channels=("a", "b", "c", "d")))
    out.send(cube)  # of the shape (4, 256, 64): StreamInfo.frame_shape
    out.finish()
    shown: list[Any] = []
    show = shown.append
    for window in in_.windows(frames=1):
        if window.is_whole:
            show(window.frame)  # of the shape (4, 256, 64)
    assert len(shown) == 1 and np.array_equal(shown[0], cube)


def test_no_window_is_glued_from_two_frames(node: stripline.Node) -> None:
    out, in_ = windowed(node, MAP)
    out.send(ramp(2, 4))
    # Samples are left out, without a gap.
    out.send(ramp(8), sample_index=16)
    # Frames of another length begin behind, at a multiple of that length.
    out.set_stream(StreamInfo("map", row_length=5, frame_rows=2))
    for number in (1, 2):
        out.send(np.full((2, 5), number, np.float32))
    with pytest.raises(stripline.UsageError, match="within a row or frame"):
        out.send(np.zeros((2, 5), np.float32), sample_index=45)
    out.finish()
    found = [(window.sample_index, len(window), window.is_whole) for window in in_.windows(frames=1)]
    assert found == [(0, 8, False), (16, 8, False), (30, 10, True), (40, 10, True)]

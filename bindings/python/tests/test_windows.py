"""Windows of samples across the borders of packets."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from conftest import PATIENCE_S, linked

import stripline
from stripline import testing


def send(out: stripline.Publisher, *packets: str) -> None:
    for packet in packets:
        out.send(np.frombuffer(packet.encode(), np.uint8))


def taken(in_: stripline.Subscriber, length: int, hop: int | None = None) -> list[str]:
    return [window.samples.tobytes().decode() for window in in_.windows(length, hop)]


@pytest.mark.parametrize(
    ("length", "hop", "packets", "expected"),
    [
        (4, 1, ["abcdef"], ["abcd", "bcde", "cdef", "def"]),
        (4, None, ["ab", "cdefgh", "i"], ["abcd", "efgh", "i"]),
        (4, 4, ["abcdefgh"], ["abcd", "efgh"]),
        (4, 2, ["abc", "def"], ["abcd", "cdef", "ef"]),
        (3, 2, ["a", "b", "c", "d", "e", "f"], ["abc", "cde", "ef"]),
        (5, 1, ["ab", "c", "defg"], ["abcde", "bcdef", "cdefg", "defg"]),
        (1, 1, ["ab", "", "c"], ["a", "b", "c"]),
        (8, 3, ["abc", "d"], ["abcd"]),
        (2, 1, [], []),
    ],
)
def test_windows_of_packets(
    node: stripline.Node, length: int, hop: int | None, packets: list[str], expected: list[str]
) -> None:
    out, in_ = linked(node, np.uint8)
    send(out, *packets)
    out.finish()
    assert taken(in_, length, hop) == expected


def test_any_division_into_packets_gives_the_same_windows(node: stripline.Node) -> None:
    random = np.random.default_rng(1)
    for number in range(60):
        length = int(random.integers(1, 12))
        hop = int(random.integers(1, length + 1))
        samples = np.arange(int(random.integers(0, 40)), dtype=np.int32)
        in_ = node.subscriber(f"topic-{number}", np.int32)
        out = node.publisher(f"topic-{number}", np.int32)
        out.wait_for_receivers(1, PATIENCE_S)
        cuts = np.sort(random.integers(0, len(samples) + 1, int(random.integers(0, 6))))
        for part in np.split(samples, cuts):
            out.send(part)
        out.finish()
        found = [window.samples.tolist() for window in in_.windows(length, hop)]
        starts = range(0, len(samples) - length + 1, hop)
        expected = [samples[at : at + length].tolist() for at in starts]
        behind = len(starts) * hop
        if behind < len(samples):
            expected.append(samples[behind:].tolist())
        assert found == expected, (length, hop, cuts)


def test_where_a_window_lies_and_what_comes_with_it(node: stripline.Node) -> None:
    out, in_ = linked(node, np.uint8)
    out.set_stream(stripline.StreamInfo("left", sample_rate_hz=1e9))
    out.send(np.arange(6, dtype=np.uint8), time_ns=1000, sample_index=50)
    send(out, "gh")
    out.set_stream(stripline.StreamInfo("right"))
    out.send(np.arange(3, dtype=np.uint8), time_ns=7)
    out.finish()
    windows = list(in_.windows(4, 2))
    assert [(it.sample_index, it.time_ns, it.sequence) for it in windows] == [
        (50, 1000, 0),
        (52, 1002, 0),
        (54, 1004, 0),
        (56, 0, 1),
        (0, 7, 2),
    ]
    assert [len(it) for it in windows] == [4, 4, 4, 2, 3]
    assert [it.is_whole for it in windows] == [True, True, True, False, False]
    assert [it.stream.id for it in windows] == ["left"] * 4 + ["right"]
    assert {it.gap for it in windows} == {None}
    assert all(it.connection.endswith("-> topic") for it in windows)
    first, second, across = windows[:3]
    # In place, and over each other.
    assert np.shares_memory(first.samples, second.samples)
    assert not np.shares_memory(second.samples, across.samples)
    assert not any(it.samples.flags.writeable for it in windows)
    with pytest.raises(ValueError, match="read-only"):
        across.samples[0] = 1


def test_a_gap_is_a_border(domain: str) -> None:
    topics = {"default": {"overflow": "drop-oldest", "depth": 2}}
    with stripline.Node(domain, topics=topics) as node:
        out, in_ = linked(node, np.uint8)
        windows = iter(in_.windows(4))
        send(out, "abcde")
        assert next(windows).samples.tobytes() == b"abcd"
        send(out, "fgh", "ijk", "lmn", "opq")
        out.finish()
        left = list(windows)
        assert [it.samples.tobytes() for it in left] == [b"e", b"lmno", b"pq"]
        assert [it.gap and (it.gap.packets, it.gap.samples) for it in left] == [None, (2, 6), None]


def test_many_small_packets_hold_no_memory(node: stripline.Node) -> None:
    in_ = node.subscriber("topic", np.uint8, hold=2)
    out = node.publisher("topic", np.uint8)
    out.wait_for_receivers(1, PATIENCE_S)
    windows = iter(in_.windows(100))
    for _ in range(50):
        send(out, "ab")
    assert next(windows).samples.tobytes() == b"ab" * 50
    out.abandon()


def test_windows_in_an_event_loop(node: stripline.Node) -> None:
    out, in_ = linked(node, np.uint8)

    async def take() -> list[bytes]:
        return [window.samples.tobytes() async for window in in_.windows(3, 2)]

    async def both() -> list[bytes]:
        task = asyncio.create_task(take())
        send(out, "abcd", "ef")
        await asyncio.sleep(0)
        out.finish()
        return await asyncio.wait_for(task, PATIENCE_S)

    assert asyncio.run(both()) == [b"abc", b"cde", b"ef"]


def test_windows_in_a_component() -> None:
    class Means(stripline.Component):
        """Averages four samples, two apart."""

        in_ = stripline.input_port(np.float32)
        out = stripline.output_port(np.float32)

        def run(self) -> None:
            for window in self.in_.windows(4, hop=2):
                if window.is_whole:
                    self.out.send(np.array([np.mean(window.samples)]))

    packets = [np.array(part, np.float32) for part in ([1, 2, 3], [4, 5, 6])]
    assert testing.run(Means, {"in": packets}).outputs["out"].tolist() == [2.5, 4.5]


def test_lengths_that_are_none(node: stripline.Node) -> None:
    in_ = node.subscriber("topic", np.uint8)
    for length, hop, words in [(0, None, "a window of 0"), (4, 0, "the hop is 0"), (4, 5, "the hop is 5")]:
        with pytest.raises(stripline.UsageError, match=words):
            in_.windows(length, hop)
    with pytest.raises(OverflowError):
        in_.windows(-1)

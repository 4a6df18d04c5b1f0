"""Operations that are repeated keep no memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from conftest import TIMEOUT_S, linked

import stripline

# The smallest piece of malloc has 32 bytes. If each turn keeps a piece, each round keeps four times
# the limit. In a round without a leak, memory may grow once, for example for a histogram.
TURNS, ROUNDS = 1000, 5
LIMIT_BYTES, LIMIT_BLOCKS = TURNS * 8, TURNS // 4

FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class Mallinfo(ctypes.Structure):
    """The `mallinfo2` structure of glibc."""

    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS]


def used() -> tuple[int, int]:
    """Returns the bytes that malloc has given out, and the number of Python's own blocks."""
    gc.collect()
    info = ctypes.CDLL(None).mallinfo2
    info.restype = Mallinfo
    found = info()
    return found.uordblks + found.hblkhd, sys.getallocatedblocks()


@stripline.service
class Adder:
    def add(self, left: float, right: float) -> float:
        return left + right

    def fail(self) -> None:
        raise ValueError("not now")


Turn = Callable[[], object]


@contextlib.contextmanager
def samples(node: stripline.Node) -> Iterator[Turn]:
    out, in_ = linked(node)
    data = np.arange(64, dtype=np.float32)

    def turn() -> None:
        out.send(data)
        packet = in_.receive(TIMEOUT_S)
        kept = packet.samples[3:9]
        del packet
        assert kept.sum() == data[3:9].sum()

    with out:
        yield turn


@contextlib.contextmanager
def loans(node: stripline.Node) -> Iterator[Turn]:
    out, in_ = linked(node)

    def turn() -> None:
        with out.loan(32) as y:
            y[:] = 1
        with pytest.raises(KeyError), out.loan(32):
            raise KeyError
        assert len(in_.receive(TIMEOUT_S).samples) == 32

    with out:
        yield turn


@contextlib.contextmanager
def loans_in_place(node: stripline.Node) -> Iterator[Turn]:
    out, in_ = linked(node)

    def turn() -> None:
        with out.loan(32, in_place=True) as loan:
            loan.samples[:] = 1
        with pytest.raises(KeyError), out.loan(32, in_place=True):
            raise KeyError
        with pytest.raises(stripline.UsageError), out.loan(32, in_place=True) as loan:
            kept = loan.samples
        del kept
        packet = in_.receive(TIMEOUT_S)
        assert len(packet.samples) == 32

    with out:
        yield turn


@contextlib.contextmanager
def windows(node: stripline.Node) -> Iterator[Turn]:
    in_ = node.windowed_subscriber("topic", np.int32)
    out = node.publisher("topic", np.int32)
    out.wait_for_receivers(1, TIMEOUT_S)
    data = np.arange(48, dtype=np.int32)

    def turn() -> None:
        out.send(data)
        for _ in range(3):
            assert len(in_.window(16, timeout=TIMEOUT_S).samples) == 16

    with out:
        yield turn


@contextlib.contextmanager
def messages(node: stripline.Node) -> Iterator[Turn]:
    in_ = node.message_subscriber("topic")
    out = node.message_publisher("topic")
    out.wait_for_receivers(1, TIMEOUT_S)

    def turn() -> None:
        out.send({"hz": 433.92e6, "names": ["a", "b"], "raw": b"123"})
        assert in_.receive(TIMEOUT_S).value["names"] == ["a", "b"]

    with out:
        yield turn


@contextlib.contextmanager
def calls(node: stripline.Node) -> Iterator[Turn]:
    with node.server(Adder()) as server, node.client("adder", deadline=TIMEOUT_S) as client:
        server.start()
        client.wait_for_servers(timeout=TIMEOUT_S)

        def turn() -> None:
            assert client.add(1.0, 2.0) == 3.0
            with pytest.raises(stripline.CallRefusedError):
                client.fail()

        yield turn


@contextlib.contextmanager
def refusals(node: stripline.Node) -> Iterator[Turn]:
    out, in_ = linked(node)

    def turn() -> None:
        with pytest.raises((TypeError, stripline.Error)):
            out.send(np.zeros(4, np.complex128))
        with pytest.raises(TimeoutError):
            in_.receive(0)

    with out:
        yield turn


@pytest.mark.parametrize("kind", [samples, loans, loans_in_place, windows, messages, calls, refusals])
def test_turns_keep_no_memory(
    node: stripline.Node, kind: Callable[[stripline.Node], contextlib.AbstractContextManager[Turn]]
) -> None:
    marks = []
    with kind(node) as turn:
        for _ in range(ROUNDS):
            for _ in range(TURNS):
                turn()
            marks.append(used())
    grown = [(now[0] - before[0], now[1] - before[1]) for before, now in itertools.pairwise(marks)]
    assert min(size for size, _ in grown) < LIMIT_BYTES and min(count for _, count in grown) < LIMIT_BLOCKS, grown

"""Loans with an array over the transport's own memory, and arrays that a program keeps."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import TIMEOUT_S, linked

import stripline


def test_a_loan_in_place_is_sent_at_the_end(node: stripline.Node) -> None:
    out, in_ = linked(node)
    for number in range(100):
        with out.loan(4, time_ns=3, in_place=True) as loan:
            assert loan.samples.shape == (4,) and loan.samples.dtype == np.float32
            assert loan.samples.flags.writeable and loan.samples.flags.c_contiguous
            loan.samples[:2] = number
            np.add(loan.samples[:2], 1, out=loan.samples[2:])
            memoryview(loan.samples.data).release()
            if number % 2:
                loan.truncate(3)
        packet = in_.receive(TIMEOUT_S)
        sent = [number, number, number + 1, number + 1][: 3 if number % 2 else 4]
        assert packet.samples.tolist() == sent and packet.time_ns == 3
        with pytest.raises(stripline.UsageError, match="has ended"):
            loan.samples
        with pytest.raises(stripline.UsageError, match="used before"):
            loan.__enter__()
        with pytest.raises(stripline.UsageError, match="not open"):
            loan.__exit__(None, None, None)
    out.finish()


@pytest.mark.parametrize(
    "keep",
    [
        lambda array: array,
        lambda array: array[1:],
        lambda array: array[1:].reshape(1, 3)[0, :],
        lambda array: memoryview(array)[1:],
        lambda array: np.frombuffer(memoryview(array), np.int32),
        lambda array: array.view(np.ma.MaskedArray),
        lambda array: array.flat,
        lambda array: np.nditer(array, op_flags=[["readwrite"]]),
        lambda array: array.ctypes,
    ],
)
def test_a_kept_array_prevents_the_send_and_the_next_use(
    node: stripline.Node, keep: Callable[[Any], Any]
) -> None:
    out, in_ = linked(node)
    with pytest.raises(stripline.UsageError, match="nothing was sent; write by `loan.samples") as raised:
        with out.loan(4, in_place=True) as loan:
            loan.samples[:] = 1
            kept = keep(loan.samples)
    assert raised.value.code == "invalid-argument"
    # The kept array may still be written, so the memory is not lent again.
    for use in (
        lambda: out.send(np.ones(4, np.float32)),
        lambda: out.loan(4),
        lambda: out.loan(4, in_place=True),
        lambda: out.sequence,
        lambda: out.finish(),
    ):
        with pytest.raises(stripline.UsageError, match="has an open loan in place"):
            use()
    del raised, kept
    out.send(np.full(4, 7, np.float32))
    packet = in_.receive(TIMEOUT_S)
    assert (packet.sequence, packet.samples.tolist()) == (0, [7] * 4)
    out.finish()


def test_the_example_of_the_page(node: stripline.Node) -> None:
    out, in_ = linked(node)
    a, b = np.arange(4, dtype=np.float32), np.full(4, 2, np.float32)
    with out.loan(len(a), in_place=True) as loan:
        np.multiply(a, b, out=loan.samples)
    assert in_.receive(TIMEOUT_S).samples.tolist() == [0, 2, 4, 6]
    out.finish()


def test_a_variable_is_deleted_before_the_end_of_the_block(node: stripline.Node) -> None:
    out, in_ = linked(node)
    with out.loan(2, in_place=True) as loan:
        y = loan.samples
        y[:] = 3
        half = y[1:]
        del y, half
    assert in_.receive(TIMEOUT_S).samples.tolist() == [3, 3]
    out.finish()


def test_an_exception_cancels_a_loan_in_place(node: stripline.Node) -> None:
    out, in_ = linked(node)

    def fill(array: Any) -> None:
        array[:] = 1
        raise KeyError("in the block")

    with pytest.raises(KeyError):
        with out.loan(4, in_place=True) as loan:
            loan.samples[:] = 2
            raise KeyError
    out.send(np.full(1, 3, np.float32))
    # The traceback has the array, in the frame of the function.
    try:
        with out.loan(4, in_place=True) as loan:
            fill(loan.samples)
    except KeyError:
        with pytest.raises(stripline.UsageError, match="has an open loan in place"):
            out.send(np.ones(1, np.float32))
    out.send(np.full(1, 4, np.float32))
    assert [in_.receive(TIMEOUT_S).samples.tolist() for _ in range(2)] == [[3], [4]]
    out.finish()


def test_a_stream_is_left_when_the_array_is_gone(node: stripline.Node) -> None:
    out, in_ = linked(node)
    kept = None
    with pytest.raises(KeyError):
        with out, out.loan(4, in_place=True) as loan:
            kept = loan.samples
            raise KeyError
    assert kept is not None and kept.shape == (4,)
    kept[:] = 1
    with pytest.raises(stripline.UsageError, match="is closed"):
        out.send(np.ones(1, np.float32))
    assert in_.senders == 1
    del kept
    deadline = time.monotonic() + TIMEOUT_S
    while in_.senders and time.monotonic() < deadline:
        in_.try_receive()
    assert in_.senders == 0


def test_a_loan_in_place_that_is_never_ended(node: stripline.Node) -> None:
    out, in_ = linked(node)
    loan = out.loan(2, in_place=True)
    with pytest.raises(stripline.UsageError, match="use `with`"):
        loan.samples
    loan.__enter__()
    loan.samples[:] = 5
    with pytest.raises(stripline.UsageError, match="has an open loan in place"):
        out.send(np.ones(2, np.float32))
    del loan
    out.send(np.full(2, 6, np.float32))
    assert in_.receive(TIMEOUT_S).samples.tolist() == [6, 6]
    out.finish()


def test_other_uses_within_the_block_are_refused(node: stripline.Node) -> None:
    out, in_ = linked(node)
    with out.loan(1, in_place=True) as loan:
        for use in (lambda: out.send(np.ones(1, np.float32)), lambda: out.finish(), lambda: out.loan(1)):
            with pytest.raises(stripline.UsageError, match="has an open loan in place"):
                use()
        loan.samples[:] = 2
    assert in_.receive(TIMEOUT_S).samples.tolist() == [2]
    with pytest.raises(stripline.UsageError, match="leave out `in_place`"):
        with out.loan(out.samples_max, in_place=True):
            raise AssertionError
    with out.loan(1, in_place=True):
        out.abandon()
    with pytest.raises(stripline.UsageError, match="is closed"):
        out.loan(1, in_place=True)


def test_shapes_and_structures_in_place(node: stripline.Node) -> None:
    out, in_ = linked(node, stripline.SampleType("pair", [("re", "i2"), ("im", "i2")]))
    out.set_stream(stripline.StreamInfo("rows", row_length=4))
    with out.loan((3, 4), in_place=True) as loan:
        assert loan.samples.shape == (3, 4)
        loan.samples["re"] = np.arange(12).reshape(3, 4)
        loan.samples["im"] = 1
    packet = in_.receive(TIMEOUT_S)
    assert packet.rows["re"].tolist() == np.arange(12).reshape(3, 4).tolist()
    with pytest.raises(stripline.UsageError, match="nothing was sent"):
        with out.loan(4, in_place=True) as loan:
            field = loan.samples["im"]
    field[:] = 9
    del field
    with out.loan(0, in_place=True) as loan:
        assert loan.samples.shape == (0,)
    assert len(in_.receive(TIMEOUT_S)) == 0
    out.finish()


def test_stamps_and_scopes_in_place(node: stripline.Node) -> None:
    out, in_ = linked(node)
    out.set_stream(stripline.StreamInfo("first", sample_rate_hz=8e3))
    out.send(np.ones(2, np.float32), time_ns=5, sample_index=40)
    packet = in_.receive(TIMEOUT_S)
    out.set_stream(stripline.StreamInfo("second"))
    with out.loan(2, like=packet, in_place=True) as loan:
        loan.samples[:] = 4
    like = in_.receive(TIMEOUT_S)
    assert (like.stream.id, like.sample_index, like.time_ns) == ("first", 40, 5)
    assert like.samples.tolist() == [4, 4]
    del packet, like
    with pytest.raises(stripline.NotAcknowledgedError):
        with out.loan(1, scope="target", deadline=0.001, in_place=True) as loan:
            loan.samples[:] = 1
    assert in_.receive(TIMEOUT_S).samples.tolist() == [1]
    out.finish()


def test_a_loan_in_place_waits_for_room(node: stripline.Node) -> None:
    out, in_ = linked(node)
    count = 2000
    found: list[float] = []

    def receive() -> None:
        for packet in in_:
            found.append(float(packet.samples[0]))

    thread = threading.Thread(target=receive)
    thread.start()
    for number in range(count):
        with out.loan(1000, in_place=True) as loan:
            loan.samples[:] = number
    out.finish()
    thread.join(TIMEOUT_S)
    assert found == list(range(count))


def test_an_array_on_another_thread_prevents_the_send(node: stripline.Node) -> None:
    out, in_ = linked(node)
    begun, end = threading.Event(), threading.Event()

    def use(array: Any) -> None:
        begun.set()
        end.wait(TIMEOUT_S)
        array[:] = 8

    with pytest.raises(stripline.UsageError, match="nothing was sent"):
        with out.loan(4, in_place=True) as loan:
            thread = threading.Thread(target=use, args=(loan.samples,))
            thread.start()
            begun.wait(TIMEOUT_S)
    with pytest.raises(stripline.UsageError, match="has an open loan in place"):
        out.send(np.ones(1, np.float32))
    end.set()
    thread.join(TIMEOUT_S)
    del thread
    out.send(np.full(4, 2, np.float32))
    assert in_.receive(TIMEOUT_S).samples.tolist() == [2] * 4
    out.finish()


def test_a_child_of_a_fork_writes_memory_of_its_own(node: stripline.Node) -> None:
    out, in_ = linked(node)
    with out.loan(4, in_place=True) as loan:
        loan.samples[:] = 1
        kept = loan.samples
        child = os.fork()
        if child == 0:
            code = 1
            with contextlib.suppress(BaseException):
                kept[:] = 9
                try:
                    loan.samples
                except stripline.ForkedError:
                    code = 0
            os._exit(code)
        del kept
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert in_.receive(TIMEOUT_S).samples.tolist() == [1] * 4
    out.finish()

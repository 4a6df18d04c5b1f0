"""Publishers, subscribers and packets."""

from __future__ import annotations

import gc
import logging
import pickle
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
from conftest import TIMEOUT_S, linked

import stripline


def test_samples_arrive_in_place_with_their_numbers(node: stripline.Node) -> None:
    out, in_ = linked(node, np.complex64)
    about = stripline.StreamInfo(
        "tone", 1e5, 1e8, 4, (stripline.Axis(0, 1, "m"), stripline.Axis(0, 2)), ("a", "b"), {"k": [1, "x"]},
        clock=stripline.StreamClock("gps", 100),
    )  # fmt: skip
    out.set_stream(about)
    sent = np.arange(4, dtype=np.complex64)
    out.send(sent, time_ns=17, sample_index=100)
    out.send(sent[:0], intended_ns=5)
    packet = in_.receive(TIMEOUT_S)
    samples = packet.samples
    assert samples.dtype == np.complex64 and samples.tolist() == sent.tolist()
    assert not samples.flags.writeable and samples.flags.aligned and samples.ndim == 1
    assert packet.samples is samples and len(packet) == 4
    assert (packet.sequence, packet.sample_index, packet.time_ns, packet.gap) == (0, 100, 17, None)
    assert packet.intended_ns is None and packet.connection.endswith("-> topic")
    assert packet.stream == about
    second = in_.receive(TIMEOUT_S)
    assert (second.sequence, second.sample_index, second.intended_ns, len(second)) == (1, 104, 5, 0)
    assert second.samples.shape == (0,) and second.stream is packet.stream
    assert (in_.held, in_.senders, out.receivers, out.sequence) == (2, 1, 1, 2)
    assert "0 of `topic`: 4 samples" in repr(packet)
    assert (out.topic, in_.topic) == ("topic", "topic")
    assert out.dtype == in_.dtype == np.dtype(np.complex64)
    out.finish()


def test_a_loop_ends_with_the_stream(node: stripline.Node) -> None:
    out, in_ = linked(node, "i2", hold=2)
    for number in range(20):
        out.send(np.full(3, number, "i2"))
    out.finish()
    assert [packet.samples[0] for packet in in_] == list(range(20))
    with pytest.raises(stripline.EndOfStream) as ended:
        in_.receive()
    assert ended.value.code == "end-of-stream" and isinstance(ended.value, EOFError)
    with pytest.raises(stripline.EndOfStream):
        in_.try_receive()
    assert in_.gap_at_end() is None


def test_nothing_there(node: stripline.Node) -> None:
    out, in_ = linked(node)
    assert in_.try_receive() is None
    with pytest.raises(TimeoutError, match="port `topic`: no packet came within 0.001 s"):
        in_.receive(0.001)
    with pytest.raises(TimeoutError):
        in_.receive(0)
    for timeout in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="the timeout is"):
            in_.receive(timeout)
    with pytest.raises(TimeoutError, match="2 receivers did not come"):
        out.wait_for_receivers(2, 0.001)
    out.finish()


def test_a_view_cannot_be_made_writable(node: stripline.Node) -> None:
    out, in_ = linked(node)
    out.send(np.ones(4, np.float32))
    samples = in_.receive(TIMEOUT_S).samples
    for array in (samples, samples[1:], samples.view(np.uint8)):
        with pytest.raises(ValueError):
            array.flags.writeable = True
        with pytest.raises(ValueError):
            array[0] = 2
        with pytest.raises((BufferError, ValueError, TypeError)):
            memoryview(array.data).cast("B")[0] = 1
    out.finish()


def test_more_than_hold_is_a_buffer_error_that_names_them(node: stripline.Node) -> None:
    out, in_ = linked(node, hold=2)
    for number in range(4):
        out.send(np.full(2, number, np.float32))
    # A list of all packets.
    kept = [in_.receive(TIMEOUT_S), in_.receive(TIMEOUT_S)]
    with pytest.raises(BufferError, match=r"packet 0 of .*packet 1 of .*") as held:
        in_.receive(TIMEOUT_S)
    assert isinstance(held.value, stripline.TooManyHeldError) and held.value.code == "too-many-held"
    view = kept.pop(0).samples[1:]
    # A view keeps the packet as well.
    with pytest.raises(BufferError):
        in_.receive(TIMEOUT_S)
    assert view.tolist() == [0]
    del view
    assert in_.receive(TIMEOUT_S).samples.tolist() == [2, 2]
    with in_.receive(TIMEOUT_S) as last:
        assert last.sequence == 3
    out.finish()


def test_views_outlive_packet_subscriber_and_node() -> None:
    node = stripline.Node.isolated()
    out, in_ = linked(node, np.int64, hold=8)
    views = []
    for number in range(4):
        out.send(np.full(1000, number))
        views.append(in_.receive(TIMEOUT_S).samples[number:])
    in_.close()
    in_.close()
    del in_
    node.close()
    node.close()
    del node
    out.abandon()
    del out
    gc.collect()
    assert [view.tolist() for view in views] == [[number] * (1000 - number) for number in range(4)]


def test_node_deleted_first() -> None:
    node = stripline.Node.isolated()
    out, in_ = linked(node)
    del node
    gc.collect()
    out.send(np.ones(2, np.float32))
    assert in_.receive(TIMEOUT_S).samples.tolist() == [1, 1]
    out.finish()


def test_released_packets(node: stripline.Node) -> None:
    out, in_ = linked(node)
    for _ in range(2):
        out.send(np.ones(2, np.float32))
    packet = in_.receive(TIMEOUT_S)
    samples = packet.samples
    packet.release()
    packet.release()
    assert samples.tolist() == [1, 1] and in_.held == 1
    del samples
    assert in_.held == 0
    for use in (lambda: packet.samples, lambda: packet.sequence, lambda: packet.stream, lambda: len(packet)):
        with pytest.raises(stripline.UsageError, match="is closed"):
            use()
    assert "released" in repr(packet)
    # The packet is released on another thread, while an array over it is read.
    packet = in_.receive(TIMEOUT_S)
    view = packet.samples
    thread = threading.Thread(target=packet.release)
    thread.start()
    thread.join()
    assert view.tolist() == [1, 1]
    out.finish()


def test_copies_are_the_programs_own(node: stripline.Node) -> None:
    out, in_ = linked(node, copy=True, hold=1)
    for number in range(10):
        out.send(np.full(3, number, np.float32), time_ns=number + 1)
    out.finish()
    packets = list(in_)
    assert [packet.samples[2] for packet in packets] == list(range(10))
    assert [(packet.sequence, packet.time_ns) for packet in packets] == [(n, n + 1) for n in range(10)]
    packets[0].samples[0] = 5
    assert packets[0].connection.endswith("-> topic") and packets[0].gap is None and len(packets[0]) == 3
    with pytest.raises(stripline.UsageError, match="cannot be refused"):
        packets[0].refuse("late")


def test_a_loan_is_sent_at_the_end_and_read_only_then(node: stripline.Node) -> None:
    out, in_ = linked(node)
    with out.loan(4, time_ns=3) as y:
        assert y.dtype == np.float32 and y.shape == (4,)
        y[:] = [1, 2, 3, 4]
        kept = y[1:3]
        memory = memoryview(y.data)
    assert not y.flags.writeable
    with pytest.raises(ValueError):
        y[0] = 9
    packet = in_.receive(TIMEOUT_S)
    assert packet.samples.tolist() == [1, 2, 3, 4] and packet.time_ns == 3
    # A slice that is kept after the send reaches neither the packet nor a later loan.
    kept[:] = -1
    memory[0] = -2
    with out.loan(4) as z:
        z[:] = 7
        kept[:] = -3
        memory[3] = -4
    assert packet.samples.tolist() == [1, 2, 3, 4]
    assert in_.receive(TIMEOUT_S).samples.tolist() == [7] * 4
    out.finish()


def test_buffers_of_loans_are_used_again(node: stripline.Node) -> None:
    out, in_ = linked(node)
    places = set()
    for number in range(50):
        with out.loan(100 - number) as y:
            y[:] = number
            places.add(y.ctypes.data)
        assert in_.receive(TIMEOUT_S).samples.tolist() == [number] * (100 - number)
    assert len(places) <= 2
    out.finish()


def test_an_exception_cancels_a_loan(node: stripline.Node) -> None:
    out, in_ = linked(node)
    with pytest.raises(ZeroDivisionError):
        with out.loan(4) as y:
            y[:] = 1
            1 / 0
    assert not y.flags.writeable
    loan = out.loan(3)
    with loan as z:
        z[:] = 2
        loan.truncate(2)
        loan.truncate(5)
    packet = in_.receive(TIMEOUT_S)
    assert (packet.sequence, packet.samples.tolist()) == (0, [2, 2])
    with pytest.raises(stripline.UsageError, match="used before"):
        loan.__enter__()
    with pytest.raises(stripline.UsageError, match="not open"):
        loan.__exit__(None, None, None)
    out.finish()


def test_two_loans_are_sent_by_their_ends(node: stripline.Node) -> None:
    out, in_ = linked(node)
    with out.loan(1) as first:
        with out.loan(1) as second:
            first[:], second[:] = 1, 2
        out.send(np.full(1, 3, np.float32))
    assert [in_.receive(TIMEOUT_S).samples[0] for _ in range(3)] == [2, 3, 1]
    out.finish()


def test_a_publisher_that_has_ended(node: stripline.Node) -> None:
    out, in_ = linked(node)
    with pytest.raises(stripline.UsageError, match="is closed"):
        with out.loan(1) as y:
            y[:] = 1
            out.finish()
    out.finish()
    for use in (
        lambda: out.loan(1),
        lambda: out.send(np.ones(1, np.float32)),
        lambda: out.sequence,
        lambda: out.wait_for_receivers(),
    ):
        with pytest.raises(stripline.UsageError, match="publisher `topic` is closed"):
            use()
    assert list(in_) == []


def test_a_with_block_ends_or_abandons(node: stripline.Node) -> None:
    in_ = node.subscriber("topic", np.float32)
    with pytest.raises(KeyError):
        with node.publisher("topic", np.float32) as out:
            out.wait_for_receivers(1, TIMEOUT_S)
            raise KeyError
    assert in_.try_receive() is None
    with node.publisher("topic", np.float32) as out:
        out.wait_for_receivers(1, TIMEOUT_S)
        out.send(np.ones(1, np.float32))
    assert [len(packet) for packet in in_] == [1]


def test_dropped_without_finish(node: stripline.Node) -> None:
    out, in_ = linked(node)
    with pytest.warns(ResourceWarning, match="publisher `topic` was dropped without `finish`"):
        del out
        gc.collect()
    assert in_.try_receive() is None


def test_losses_are_reported_in_their_place(domain: str) -> None:
    # Neither the ring nor the queue can hold all packets, however early the queue is filled from
    # the ring.
    sent, topics = 500, {"topic": {"topic": {"overflow": "drop-oldest", "depth": 4, "buffer": 4096}}}
    with stripline.Node(domain, topics=topics) as node:
        out, in_ = linked(node)
        for number in range(sent):
            out.send(np.full(2, number, np.float32))
        out.finish()
        expected, gaps, received = 0, [], 0
        for packet in in_:
            if packet.gap is not None:
                assert (packet.gap.reason, packet.gap.first) == ("overflow", expected)
                expected += packet.gap.packets
                gaps.append(packet.gap)
            assert packet.sequence == expected and packet.samples[0] == expected
            expected, received = expected + 1, received + 1
        at_end = in_.gap_at_end()
        gaps += [at_end] if at_end is not None else []
        lost = sum(gap.packets for gap in gaps)
        assert lost > 0 and received + lost == sent
        assert all(gap.samples == 2 * gap.packets for gap in gaps)
        (connection,) = node.connections()
        assert (connection.lost, connection.gaps, connection.packets) == (lost, len(gaps), received)


@pytest.mark.parametrize("transport", ["uds", "tcp"])
def test_a_packet_that_fits_in_part_does_not_outlast_the_send_timeout(domain: str, transport: str) -> None:
    rules = {"transport": transport, "depth": 4, "buffer": 16384, "send-timeout-ms": 20}
    with stripline.Node(domain, topics={"topic": {"topic": rules}}) as node:
        out, in_ = linked(node)
        # The size is no divisor of the sockets' memory.
        samples = np.arange(1999, dtype=np.float32)
        for _ in range(5):
            with pytest.raises(stripline.NoRoomError, match="has waited for 20ms"):
                while True:
                    out.send(samples)
        sent = out.sequence
        for sequence in range(sent):
            packet = in_.receive(TIMEOUT_S)
            assert packet.sequence == sequence and packet.gap is None
            assert np.array_equal(packet.samples, samples)
        out.finish()
        with pytest.raises(stripline.EndOfStream):
            in_.receive(TIMEOUT_S)


def test_packets_with_a_time_have_an_age(node: stripline.Node) -> None:
    out, in_ = linked(node)
    clock = stripline.StreamClock("gps", 100)
    out.set_stream(stripline.StreamInfo("antenna", clock=clock))
    out.send(np.ones(1, np.float32))
    in_.receive(TIMEOUT_S)
    assert node.connections()[0].age is None
    age = None
    while age is None:  # only packets with a measured latency are measured
        out.send(np.ones(1, np.float32), time_ns=time.time_ns() - 60_000_000_000)
        in_.receive(TIMEOUT_S)
        age = node.connections()[0].age
    assert (age.samples, age.clock) == (1, clock) and age.max_ns == age.last_ns >= 60_000_000_000
    out.finish()


def test_stamps_of_a_received_packet(node: stripline.Node) -> None:
    out, in_ = linked(node)
    next_in = node.subscriber("next", np.float64)
    next_out = node.publisher("next", np.float64)
    next_out.wait_for_receivers(1, TIMEOUT_S)
    out.set_stream(stripline.StreamInfo("first"))
    out.send(np.ones(2, np.float32), time_ns=5, sample_index=30)
    packet = in_.receive(TIMEOUT_S)
    next_out.send(packet.samples.astype(np.float64), like=packet)
    with next_out.loan(2, like=packet) as y:
        y[:] = 2
    with pytest.raises(stripline.UsageError, match="`like` sets time and index"):
        next_out.send(np.ones(2), like=packet, time_ns=1)
    for _ in range(2):
        found = next_in.receive(TIMEOUT_S)
        assert (found.stream.id, found.time_ns, found.sample_index) == ("first", 5, 30)
    out.finish()
    next_out.finish()


def test_one_thread_at_a_time(node: stripline.Node) -> None:
    _, in_ = linked_waiting(node)
    outcome: list[object] = []

    def wait() -> None:
        with pytest.raises(stripline.StoppedError) as stopped:
            started.set()
            in_.receive()
        outcome.append(stopped.value.code)

    started = threading.Event()
    thread = threading.Thread(target=wait)
    thread.start()
    started.wait(TIMEOUT_S)
    # The other thread is in its call soon.
    while True:
        try:
            in_.receive(0)
        except TimeoutError:
            continue
        except stripline.UsageError as error:
            assert error.code == "in-use" and "in use by another thread" in str(error)
            break
    node.stop()
    thread.join(TIMEOUT_S)
    assert outcome == ["stopped"]


def linked_waiting(node: stripline.Node) -> tuple[None, stripline.Subscriber]:
    return None, node.subscriber("quiet", np.float32)


def test_a_waiting_thread_leaves_python_to_others(node: stripline.Node) -> None:
    out, in_ = linked(node)
    received: list[float] = []
    thread = threading.Thread(target=lambda: received.extend(packet.samples[0] for packet in in_))
    thread.start()
    for number in range(500):
        out.send(np.full(1, number, np.float32))
    out.finish()
    thread.join(TIMEOUT_S)
    assert received == list(range(500))


def test_larger_than_a_ring_and_slow_receivers(node: stripline.Node) -> None:
    out, in_ = linked(node, np.uint8, hold=1)
    sums: list[int] = []

    def take() -> None:
        while True:
            try:
                with in_.receive() as packet:
                    sums.append(int(packet.samples.sum(dtype=np.int64)))
            except stripline.EndOfStream:
                return

    thread = threading.Thread(target=take)
    thread.start()
    big = np.ones(40_000_000, np.uint8)
    out.send(big)
    with out.loan(len(big)) as y:
        y[:] = 2
    out.finish(None)
    thread.join(TIMEOUT_S)
    assert sums == [40_000_000, 80_000_000]


def test_acknowledged_sends(domain: str) -> None:
    with stripline.Node(domain, topics={"default": {"scope": "target", "deadline-ms": 60000}}) as node:
        out, in_ = linked(node)

        def take() -> None:
            in_.receive(TIMEOUT_S).release()
            packet = in_.receive(TIMEOUT_S)
            samples = packet.samples
            with pytest.raises(stripline.UsageError, match="delete them"):
                packet.refuse("too loud")
            assert len(samples) == 1
            del samples
            packet.refuse("too loud")

        thread = threading.Thread(target=take)
        thread.start()
        out.send(np.ones(1, np.float32))
        with pytest.raises(stripline.NotAcknowledgedError, match="too loud") as refused:
            out.send(np.ones(1, np.float32))
        assert refused.value.connection is not None and refused.value.remedy
        thread.join(TIMEOUT_S)
        out.finish()


def test_a_spinning_subscriber(domain: str) -> None:
    with stripline.Node(domain, topics={"default": {"wait": "spin"}}) as node:
        out, in_ = linked(node)
        with pytest.raises(TimeoutError):
            in_.receive(0.001)
        thread = threading.Thread(target=lambda: out.send(np.ones(1, np.float32)))
        thread.start()
        assert in_.receive(TIMEOUT_S).samples.tolist() == [1]
        thread.join()
        out.finish()


def test_options_of_topics(domain: str, tmp_path: Path) -> None:
    file = tmp_path / "topics.toml"
    file.write_text("[topic.topic]\ntransport = 'uds'\n")
    text = file.read_text()
    for topics in (text, file, {"topic": {"topic": {"transport": "uds"}}}, {"default": {"depth": 8}}):
        with stripline.Node(domain, topics=topics) as node:
            out, in_ = linked(node)
            out.send(np.ones(1, np.float32))
            assert len(in_.receive(TIMEOUT_S)) == 1
            out.finish()
    for wrong, problem in (
        ({"topic": {"a": {"transprot": "shm"}}}, "transprot"),
        ({"topic": {"a": {"depth": object()}}}, "`topic.a.depth` of `topics` is"),
        ({1: {}}, "1 is not a key"),
        (7, "`topics` is a mapping"),
    ):
        with pytest.raises(stripline.Error, match=problem):
            stripline.Node(domain, topics=wrong)  # type: ignore[arg-type]
    with pytest.raises(stripline.Error, match="domain"):
        stripline.Node("no such name!")


def test_the_log_goes_to_logging(node: stripline.Node, caplog: pytest.LogCaptureFixture) -> None:
    found = threading.Event()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name.startswith("stripline."):
                found.set()

    logger, handler = logging.getLogger("stripline"), Handler()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        in_ = node.subscriber("topic", np.float32)
        out = node.publisher("topic", np.int16)
        assert found.wait(TIMEOUT_S)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    in_.close()
    out.finish()


def test_errors_travel_between_processes() -> None:
    error = stripline.NoRoomError("no room", code="stalled", remedy="wait", connection="a -> b", os_code=3)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is stripline.NoRoomError and vars(copy) == vars(error) and str(copy) == "no room"


def test_packets_are_garbage_without_cycles(node: stripline.Node) -> None:
    out, in_ = linked(node)
    gc.disable()
    try:
        out.send(np.ones(4, np.float32))
        packet = in_.receive(TIMEOUT_S)
        gone = weakref.ref(packet.samples)
        del packet
        assert gone() is None and in_.held == 0
    finally:
        gc.enable()
    out.finish()

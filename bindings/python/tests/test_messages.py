"""Messages as Python values."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import math
import signal
from typing import Any

import numpy as np
import pytest
from c_peer import c_publisher
from conftest import TIMEOUT_S, line, start_python

import stripline


def ends(node: stripline.Node, messages: str = "message/cbor") -> tuple[
    stripline.MessagePublisher, stripline.MessageSubscriber
]:
    in_ = node.message_subscriber("topic", messages)
    out = node.message_publisher("topic", messages)
    out.wait_for_receivers(1, TIMEOUT_S)
    return out, in_


@dataclasses.dataclass
class Point:
    x: float
    y: float


@dataclasses.dataclass
class Track:
    name: str
    points: list[Point]


class Kind(str, enum.Enum):
    PLANE = "plane"


SAME: list[Any] = [
    None, True, False, 0, 23, 24, -1, -24, -25, 255, 256, -257, 2**31, 2**63 - 1, -(2**63), 2**64 - 1,
    0.0, -0.0, 1.5, 0.1, 1e300, 5e-324, math.inf, -math.inf,
    "", "text", "\u00e9\U0001f4e1", "a" * 300, b"", b"\x00\xff", b"b" * 70_000,
    [], [1, [2, [3]]], {}, {"hz": 433.92e6, "names": ["a", "b"], "none": None, "": {"x": [True]}},
    list(range(1000)), {str(number): number for number in range(300)},
]  # fmt: skip

OTHERS: list[tuple[Any, Any]] = [
    ((1, "a"), [1, "a"]),
    (bytearray(b"ab"), b"ab"),
    (1 - 2j, [1.0, -2.0]),
    (Track("t", [Point(1.0, 2.0)]), {"name": "t", "points": [{"x": 1.0, "y": 2.0}]}),
    (Kind.PLANE, "plane"),
    (np.float32(0.1), float(np.float32(0.1))),
    (np.float16(1.5), 1.5),
    (np.int8(-3), -3),
    (np.uint64(2**64 - 1), 2**64 - 1),
    (np.bool_(True), True),
    (np.complex64(1 + 2j), [1.0, 2.0]),
    (np.arange(3, dtype=np.uint8), [0, 1, 2]),
    (np.array([[1, 2], [3, 4]], np.int64)[:, ::-1], [[2, 1], [4, 3]]),
    (np.array([1 + 2j], np.complex64), [[1.0, 2.0]]),
    (np.array(2.5), 2.5),
    ({"a": np.array([True, False])}, {"a": [True, False]}),
]


def test_values_arrive_as_they_were_sent(node: stripline.Node) -> None:
    out, in_ = ends(node)
    for value in SAME:
        out.send(value)
        message = in_.receive(TIMEOUT_S)
        assert message.value == value and type(message.value) is type(value)
    out.send(math.nan)
    assert math.isnan(in_.receive(TIMEOUT_S).value)
    out.send(-0.0)
    assert math.copysign(1, in_.receive(TIMEOUT_S).value) == -1
    for value, expected in OTHERS:
        out.send(value)
        assert in_.receive(TIMEOUT_S).value == expected
    assert out.sequence == len(SAME) + len(OTHERS) + 2
    out.finish()
    with pytest.raises(stripline.EndOfStream):
        in_.receive()


def test_a_message_has_its_numbers(node: stripline.Node) -> None:
    out, in_ = ends(node)
    assert in_.try_receive() is None
    with pytest.raises(TimeoutError, match="port `topic`: no message came within 0.001 s"):
        in_.receive(0.001)
    out.send("first")
    out.try_send("second")
    first, second = in_.receive(), in_.try_receive()
    assert second is not None
    assert (first.value, first.sequence, second.value, second.sequence) == ("first", 0, "second", 1)
    assert first.gap is None and first.connection.endswith("-> topic")
    assert (out.topic, in_.topic, out.receivers, in_.senders) == ("topic", "topic", 1, 1)
    assert "MessagePublisher `topic`" in repr(out) and "MessageSubscriber `topic`" in repr(in_)
    out.finish()
    assert list(in_) == [] and in_.gap_at_end() is None


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def endless() -> list[Any]:
    value: list[Any] = []
    value.append({"again": value})
    return value


@dataclasses.dataclass
class Node:
    next: Any = None


def endless_structure() -> Node:
    made = Node()
    made.next = made
    return made


REFUSED: list[tuple[Any, str]] = [
    ({1: 2}, r"the message for port `topic`: the key 1 is not text; use str\(key\)"),
    ({"a": [0, {None: 1}]}, r"`topic`\['a'\]\[1\]: the key None is not text"),
    ([2**64], r"\[0\]: the whole number is beyond 64 bits"),
    (-(2**63) - 1, "beyond 64 bits"),
    ({1, 2}, "set has no form in a message; use dict"),
    (object(), "object has no form in a message"),
    (Point, "type has no form in a message"),
    (memoryview(b"a"), "memoryview has no form"),
    (np.longdouble(1), "(longdouble|float128) has no form"),
    (np.array(["a"]), "an array of <U1 has no form"),
    (np.array([None]), "an array of object has no form"),
    (np.zeros(2, [("a", "u4")]), "has no form"),
    ("\ud800", "lone surrogate"),
    ({"\ud800": 1}, "lone surrogate"),
    (nested(129), "nested more than 128 deep, or contains itself"),
    (endless(), r"`topic`\[0\]\['again'\]\[0\]\['again'\]\[0\]\['again'\]…: it is nested more than 128 deep"),
    (endless_structure(), "nested more than 128 deep"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_has_no_form_is_named_and_not_sent(node: stripline.Node, case: int) -> None:
    value, words = REFUSED[case]
    out, in_ = ends(node)
    for send in (out.send, out.try_send):
        with pytest.raises(stripline.UsageError, match=words) as refused:
            send(value)
        assert refused.value.code == "invalid-argument" and refused.value.remedy
    assert out.sequence == 0
    out.send("after it")
    assert in_.receive(TIMEOUT_S).sequence == 0
    out.finish()


def test_the_deepest_value_travels(node: stripline.Node) -> None:
    out, in_ = ends(node)
    out.send(nested(128))
    assert in_.receive(TIMEOUT_S).value == nested(128)
    out.finish()


def test_a_message_that_would_not_fit(node: stripline.Node) -> None:
    out, in_ = ends(node)
    # The message takes little memory until it is written out.
    part = b"x" * (1 << 20)
    with pytest.raises(stripline.UsageError, match=r"\[1023\]: a message has at most 1073741824 bytes"):
        out.send([part] * 1024)
    assert out.sequence == 0
    out.send(3)
    assert in_.receive(TIMEOUT_S).value == 3
    out.finish()


def test_an_exception_of_a_value_is_passed_on(node: stripline.Node) -> None:
    class Bad:
        __dataclass_fields__: dict[str, Any] = Point.__dataclass_fields__

        def __getattr__(self, name: str) -> Any:
            raise ZeroDivisionError(name)

    out, _ = ends(node)
    with pytest.raises(ZeroDivisionError):
        out.send([Bad()])
    assert out.sequence == 0
    out.finish()


def test_bytes_that_are_no_message_are_an_error_and_receiving_goes_on(
    domain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRIPLINE_DOMAIN", domain)
    bad = {
        b"": "it ends early",
        b"\x82\x01": "it ends early",
        b"\x01\x02": "1 bytes follow the message",
        b"\x62\xff\xff": "topic",
        b"\xa1\xa0\x01": "a map as a key",
        b"\x81" * 200 + b"\x01": "nested more than 128 deep",
        b"\x1f": "not CBOR",
    }
    odd = {
        b"\xa2\x01\x02\x82\x01\x02\x03": {1: 2, (1, 2): 3},
        b"\xc1\x1a\x00\x00\x00\x01": 1,
        b"\x3b" + b"\xff" * 8: -(2**64),
        b"\x9f\x01\xff": [1],
        b"\x5f\x41a\x41b\xff": b"ab",
    }
    with stripline.Node() as node, c_publisher("topic") as out:
        in_ = node.message_subscriber("topic")
        while in_.senders == 0:
            pass
        for message, words in bad.items():
            out.send(message)
            with pytest.raises(stripline.DecodeError, match=words) as broken:
                in_.receive(TIMEOUT_S)
            assert broken.value.code == "decode" and "-> topic" in str(broken.value)
        for message, value in odd.items():
            out.send(message)
            assert in_.receive(TIMEOUT_S).value == value


def test_other_types_are_refused_and_listed(node: stripline.Node) -> None:
    in_ = node.message_subscriber("topic", "message/tune{hz:f64}")
    out = node.message_publisher("topic", "message/tune{khz:f64}")
    samples = node.publisher("topic", np.float32)
    refusals = in_.refusals()
    assert {it.sends for it in refusals} == {"message/tune{khz:f64}", "f32"}
    assert {it.takes for it in refusals} == {"message/tune{hz:f64}"}
    assert all(it.reason and it.connection.endswith("-> topic") for it in refusals)
    assert len(node.subscriber("topic", np.int16).refusals()) == 2
    assert len(node.windowed_subscriber("topic", np.int16).refusals()) == 2
    for text, words in (("f32", "not a type of messages"), ("message/tune{hz}", "a field must be here"), ("", "`` is not a")):
        with pytest.raises(stripline.UsageError, match=words):
            node.message_publisher("topic", text)
        with pytest.raises(stripline.UsageError, match=words):
            node.message_subscriber("topic", text)
    out.abandon()
    samples.abandon()


def test_a_schema_connects_with_any_message(node: stripline.Node) -> None:
    in_ = node.message_subscriber("topic")
    with node.message_publisher("topic", "message/tune{hz:f64}") as out:
        out.wait_for_receivers(1, TIMEOUT_S)
        out.send({"hz": 1.0})
    assert [message.value for message in in_] == [{"hz": 1.0}]


def test_a_message_without_room_is_not_sent(domain: str) -> None:
    topics = {"topic": {"topic": {"depth": 4}}}
    with stripline.Node(domain, topics=topics) as node:
        out, in_ = ends(node)
        with pytest.raises(stripline.NoRoomError) as full:
            while True:
                out.try_send("x" * 1000)
        assert full.value.code == "full"
        out.abandon()


def test_one_message_is_acknowledged_by_itself(node: stripline.Node) -> None:
    out, in_ = ends(node)
    with pytest.raises(stripline.NotAcknowledgedError) as late:
        out.send("y", scope="target", deadline=0.001)
    assert late.value.code == "unanswered"
    for scope, words in (("all", "`all` is not a sync scope; use one of none"), ("", "not a sync scope")):
        with pytest.raises(stripline.UsageError, match=words):
            out.send(1, scope=scope)  # type: ignore[arg-type]
    for deadline in (-1.0, math.nan):
        with pytest.raises(ValueError, match="the deadline is"):
            out.send(1, scope="server", deadline=deadline)
    out.send("z", scope="server", deadline=TIMEOUT_S)
    assert [in_.receive().value, in_.receive().value] == ["y", "z"]
    out.finish()


def test_an_exception_in_a_block_abandons(node: stripline.Node) -> None:
    in_ = node.message_subscriber("topic")
    with pytest.raises(KeyError):
        with node.message_publisher("topic") as out:
            raise KeyError
    with pytest.raises(stripline.UsageError, match="publisher `topic` is closed"):
        out.send(1)
    assert in_.try_receive() is None
    with in_:
        pass
    with pytest.raises(stripline.UsageError, match="is closed"):
        in_.receive()


def test_async_for(node: stripline.Node) -> None:
    out, in_ = ends(node)

    async def send() -> None:
        for number in range(50):
            out.send({"number": number})
            await asyncio.sleep(0)
        out.finish()

    async def main() -> list[int]:
        sending = asyncio.create_task(send())
        received = [message.value["number"] async for message in in_]
        await sending
        return received

    assert asyncio.run(asyncio.wait_for(main(), TIMEOUT_S)) == list(range(50))


@pytest.mark.parametrize("wait", ["in_.receive()", "for _ in in_: pass", "fill()", "lonely.wait_for_receivers()"])
def test_ctrl_c_ends_each_wait(wait: str) -> None:
    program = start_python(f"""
import stripline
node = stripline.Node.isolated()
in_ = node.message_subscriber("quiet")
full_in = node.message_subscriber("full")
full = node.message_publisher("full")
full.wait_for_receivers(1)
lonely = node.message_publisher("lonely")
def fill():
    while True:
        full.send("x" * 1000)
try:
    print("waits", flush=True)
    {wait}
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert in_.try_receive() is None
full.abandon()
lonely.abandon()
""")
    assert line(program) == "waits"
    program.send_signal(signal.SIGINT)
    assert line(program) == "interrupted"
    assert program.wait() == 0

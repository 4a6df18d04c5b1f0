"""Message classes: their schemas, the check of a sent message, and the stamps."""

from __future__ import annotations

import dataclasses
import enum
import os
import random
import subprocess
import sys
import threading
import typing
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NewType, Optional, TypedDict, Union

import numpy as np
import pytest
from conftest import TIMEOUT_S, start
from numpy.typing import NDArray

import stripline
from stripline import testing
from stripline._message_types import _resolve_messages

COMMAND = os.environ.get("STRIPLINE_COMMAND", "")
Hertz = NewType("Hertz", float)


class Kind(enum.Enum):
    LOST = "lost"
    KEPT = "kept"


@dataclasses.dataclass
class Point:
    x: float
    y: Annotated[float, "f32"]


@dataclasses.dataclass
class Detection:
    a: float
    n: np.uint8
    note: str | None
    path: list[Point]
    kind: Kind
    mode: Literal["on", "off"] = "on"
    pair: tuple[int, bool] = (1, True)
    count: ClassVar[int] = 3


class Tune(TypedDict):
    hz: Hertz
    at: Point


class Move(Tune, total=False):
    gain: float
    name: str


DETECTION = (
    "message/detection{a:f64,n:u8,note:text?,path:point{x:f64,y:f32}[],kind:kind<lost|kept>,mode:mode<on|off>,"
    "pair:(s64,bool)}"
)


def detection(**changes: Any) -> Detection:
    given = Detection(0.5, np.uint8(7), "loud", [Point(1.0, 2.5)], Kind.KEPT)
    return dataclasses.replace(given, **changes)


def test_a_class_has_the_schema_that_the_same_type_has_in_rust() -> None:
    assert _resolve_messages(Detection)[0] == DETECTION
    tune = "hz:f64,at:point{x:f64,y:f32}"
    assert _resolve_messages(Tune)[0] == f"message/tune{{{tune}}}"
    assert _resolve_messages(Move)[0] == f"message/move{{{tune},gain?:f64,name?:text}}"


HINTS: list[tuple[Any, str, Any]] = [
    (bool, "bool", True),
    (int, "s64", -(2**63)),
    (float, "f64", 0.1),
    (str, "text", "a"),
    (bytes, "bytes", b"\x00"),
    (None, "null", None),
    (Any, "any", [1, {"a": 2.5}]),
    (complex, "(f64,f64)", 1 - 2j),
    (np.complex64, "(f32,f32)", np.complex64(0.5 + 1j)),
    (np.bool_, "bool", True),
    (np.int16, "s16", np.int16(-3)),
    (np.float32, "f32", np.float32(0.1)),
    (Annotated[int, "u8"], "u8", 255),
    (Annotated[int, np.uint64], "u64", 2**64 - 1),
    (Annotated[float, np.float32, "a note"], "f32", 0.5),
    (Annotated[str, "a note"], "text", "a"),
    (Hertz, "f64", 2.5),
    (Optional[int], "s64?", None),
    (Union[None, Point], "point{x:f64,y:f32}?", Point(1.0, 2.0)),
    (list[int], "s64[]", [1, 2]),
    (list[Optional[bool]], "bool?[]", [True, None]),
    (list[list[Kind]], "kind<lost|kept>[][]", [[Kind.LOST], []]),
    (tuple[int, ...], "s64[]", (1, 2)),
    (tuple[Point, str], "(point{x:f64,y:f32},text)", (Point(1.0, 2.0), "a")),
    (dict[str, Kind], "{text:kind<lost|kept>}", {"a": Kind.LOST}),
    (dict[str, float], "{text:f64}", {"a": 1.5}),
    (Literal["a", "b-c"], "f<a|b-c>", "b-c"),
]


@pytest.mark.parametrize("case", range(len(HINTS)))
def test_each_type_has_its_schema_and_arrives_as_it_was_sent(node: stripline.Node, case: int) -> None:
    hint, text, value = HINTS[case]
    made: Any = dataclasses.make_dataclass("Made", [("f", hint)])
    assert _resolve_messages(made)[0] == f"message/made{{f:{text}}}"
    in_, out = node.message_subscriber("topic", made), node.message_publisher("topic", made)
    out.wait_for_receivers(1, TIMEOUT_S)
    out.send(made(value))
    received = in_.receive(TIMEOUT_S).value
    assert received == made(value) and type(received.f) is type(value)
    out.finish()


Rows = np.ndarray[tuple[int, Literal[2]], np.dtype[np.float32]]
Grid = np.ndarray[tuple[int, int], np.dtype[np.complex64]]

ARRAYS: list[tuple[Any, str, Any]] = [
    (NDArray[np.float32], "f32[]", np.array([0.1, np.nan, np.inf], np.float32)),
    (NDArray[np.float64], "f64[]", np.zeros(0)),
    (NDArray[np.uint8], "u8[]", np.array([0, 255], np.uint8)),
    (NDArray[np.uint64], "u64[]", np.array([2**64 - 1], np.uint64)),
    (NDArray[np.bool_], "bool[]", np.array([True, False])),
    (NDArray[np.complex128], "(f64,f64)[]", np.array([1 - 2j, 0.5])),
    (Rows, "f32[2][]", np.arange(6, dtype=np.float32).reshape(3, 2)),
    (Grid, "(f32,f32)[][]", np.arange(6, dtype=np.complex64).reshape(2, 3)),
    (Grid, "(f32,f32)[][]", np.zeros((3, 0), np.complex64)),
    (Grid, "(f32,f32)[][]", np.zeros((0, 0), np.complex64)),
]


@pytest.mark.parametrize("case", range(len(ARRAYS)))
def test_an_array_is_lists_of_numbers_and_arrives_as_an_array(node: stripline.Node, case: int) -> None:
    hint, text, value = ARRAYS[case]
    made: Any = dataclasses.make_dataclass("Made", [("f", hint), ("more", Optional[hint])])
    assert _resolve_messages(made)[0] == f"message/made{{f:{text},more:{text}?}}"
    in_, out = node.message_subscriber("topic", made), node.message_publisher("topic", made)
    out.wait_for_receivers(1, TIMEOUT_S)
    for more in (None, value):
        out.send(made(value, more))
        received = in_.receive(TIMEOUT_S).value
        for sent, arrived in ((value, received.f), (more, received.more)):
            assert (sent is None) == (arrived is None)
            if sent is not None:
                assert (arrived.dtype, arrived.shape) == (sent.dtype, sent.shape)
                np.testing.assert_array_equal(arrived, sent)
    out.finish()


@pytest.mark.parametrize(
    ("hint", "value", "problem"),
    [
        (NDArray[np.uint8], np.array([1, 300]), r"`made.f\[1\]`: a whole number from 0 to 255 must be here, not 300"),
        (NDArray[np.int32], np.array([0.5]), r"`made.f\[0\]`: a whole number .* must be here, not a float"),
        (NDArray[np.float32], np.array([1j]), r"`made.f\[0\]`: a float must be here, not a list"),
        (NDArray[np.float32], np.zeros((1, 1)), r"`made.f\[0\]`: a float must be here, not a list"),
        (NDArray[np.float32], np.array(0.5), "`made.f`: a list must be here, not a float"),
        (NDArray[np.float32], np.array(["a"]), "an array of <U1 has no form in a message"),
        (NDArray[np.float32], None, "`made.f`: a list must be here, not null"),
        (Rows, np.zeros(2, np.float32), r"`made.f\[0\]`: a list of 2 must be here, not a float"),
        (Rows, np.zeros((1, 3), np.float32), r"`made.f\[0\]`: a list of 2 must be here"),
    ],
)
def test_an_array_that_does_not_fit_is_refused_by_its_place(
    node: stripline.Node, hint: Any, value: Any, problem: str
) -> None:
    made: Any = dataclasses.make_dataclass("Made", [("f", hint)])
    with node.message_publisher("topic", made) as out, pytest.raises(stripline.UsageError, match=problem):
        out.send(made(value))


def test_lists_of_different_lengths_make_no_array(node: stripline.Node) -> None:
    made: Any = dataclasses.make_dataclass("Made", [("f", Grid)])
    in_, out = node.message_subscriber("topic", made), node.message_publisher("topic", made)
    out.wait_for_receivers(1, TIMEOUT_S)
    out.send({"f": [[1j], [1j, 2j]]})
    with pytest.raises(stripline.DecodeError, match="ValueError"):
        in_.receive(TIMEOUT_S)
    out.finish()


@dataclasses.dataclass
class Ring:
    next: Ring | None = None


@dataclasses.dataclass
class Without:
    found: int = dataclasses.field(init=False)


class Number(enum.Enum):
    ONE = 1


@dataclasses.dataclass
class Inner:
    first: list[set[int]]


NO_HINTS: list[tuple[Any, str]] = [
    (set, "`made.f`: `set` has no form in a schema; use bool"),
    (list, "`made.f`: `list` has no form"),
    (dict[int, str], "`made.f`: dict.int, str. has no form|`made.f`: `dict.int, str.` has no form"),
    (Union[int, str], "`made.f`: .* a union is of one type and None"),
    (Inner, r"`made.f.first\[\]`: `set\[int\]` has no form"),
    (tuple[int, object], r"`made.f\[1\]`: `object` has no form"),
    (np.longdouble, "`made.f`: `(longdouble|float128)` has no form"),
    (Annotated[str, np.uint8], "`made.f`: `u8` is not a kind of str"),
    (Annotated[float, "u8"], "`made.f`: `u8` is not a kind of float"),
    (Literal[1, 2], "`made.f`: the choice 1 is not a text"),
    (Number, "`made.f`: the choice 1 is not a text"),
    (Ring, "`made.f.next`: `Ring` contains itself"),
    (Without, "`made.f.found`: the field has `init=False`"),
    ("Missing", "`made`: the types of `Made` are not found: name 'Missing' is not defined"),
]


@pytest.mark.parametrize("case", range(len(NO_HINTS)))
def test_a_type_without_a_form_is_refused_with_its_place(node: stripline.Node, case: int) -> None:
    hint, words = NO_HINTS[case]
    made: Any = dataclasses.make_dataclass("Made", [("f", hint)])
    for make in (node.message_publisher, node.message_subscriber):
        with pytest.raises(stripline.UsageError, match=words):
            make("topic", made)
    with pytest.raises(stripline.UsageError, match=words):
        stripline.message_output_port(made)


def test_names_of_classes(node: stripline.Node) -> None:
    @dataclasses.dataclass
    class Own:
        __message_name__ = "radar/own"
        a: int

    assert _resolve_messages(Own)[0] == "message/radar/own{a:s64}"
    for name in ("U8", "_Own", "Text", "\u00c4"):
        with pytest.raises(stripline.UsageError, match=f"`{name.lower()}` is not a name of messages; give `{name}`"):
            node.message_publisher("topic", dataclasses.make_dataclass(name, [("a", int)]))
    with pytest.raises(stripline.UsageError, match="`made.\u00e4`: a name has at most 64"):
        node.message_publisher("topic", dataclasses.make_dataclass("Made", [("\u00e4", int)]))
    for given in (int, Point(1.0, 2.0), 3):
        with pytest.raises(stripline.UsageError, match="is not a type of messages; use a dataclass, a TypedDict"):
            node.message_publisher("topic", given)  # type: ignore[arg-type]


MISTAKES: list[tuple[Any, str]] = [
    (detection(a="x"), "`detection.a`: a float must be here, not text"),
    (detection(a=None), "`detection.a`: a float must be here, not null"),
    (detection(a=2**53 + 1), "`detection.a`: a float must be here, as 9007199254740993.0, not the whole number"),
    (detection(a=10**400), "`detection.a`: a float must be here, not a whole number beyond 64 bits"),
    (detection(n=-(2**70)), "`detection.n`: a whole number from 0 to 255 must be here, not a whole number beyond 64"),
    (detection(n=256), "`detection.n`: a whole number from 0 to 255 must be here, not 256"),
    (detection(n=1.0), "`detection.n`: a whole number from 0 to 255 must be here, not a float"),
    (detection(note=b"a"), "`detection.note`: text must be here, not a byte string"),
    (detection(path=[Point(1.0, 2.0), 3]), r"`detection.path\[1\]`: a structure must be here, not a whole number"),
    (detection(path=[{"x": 1.0}]), r"`detection.path\[0\].y`: a float is missing"),
    (detection(kind="found"), "`detection.kind`: the schema has no variant `found`, but `lost`, `kept`"),
    (detection(pair=(1, True, 2)), "`detection.pair`: a list of 2 must be here, not 3"),
    ({**dataclasses.asdict(detection()), "b": 1}, "`detection`: the schema has no field `b`"),
    ({"a": 0.5}, "`detection.n`: a whole number from 0 to 255 is missing"),
    (None, "`detection`: a structure must be here, not null"),
]


@pytest.mark.parametrize("messages", [Detection, DETECTION])
def test_a_wrong_message_is_refused_with_its_place_and_the_next_goes_on(node: stripline.Node, messages: Any) -> None:
    in_, out = node.message_subscriber("topic", Detection), node.message_publisher("topic", messages)
    out.wait_for_receivers(1, TIMEOUT_S)
    for number, (wrong, words) in enumerate(MISTAKES):
        for send in (out.send, out.try_send):
            with pytest.raises(stripline.UsageError, match=f"the message for port `topic`: {words}") as refused:
                send(wrong)
            assert refused.value.code == "invalid-argument"
        assert out.sequence == number
        # A whole number is also a float, and a dict is also a structure.
        out.send(dataclasses.asdict(detection(a=3)))
        message = in_.receive(TIMEOUT_S)
        assert (message.sequence, message.value) == (number, detection(a=3.0))
        assert type(message.value.a) is float and type(message.value.n) is np.uint8
    out.finish()


def test_a_typed_dict_is_a_dict_with_keys_that_may_be_missing(node: stripline.Node) -> None:
    in_, out = node.message_subscriber("topic", Move), node.message_publisher("topic", Move)
    out.wait_for_receivers(1, TIMEOUT_S)
    move: Move = {"hz": Hertz(1.0), "at": Point(1.0, 2.0), "gain": 0.5}
    out.send(move)
    received = in_.receive(TIMEOUT_S).value
    assert received == move and type(received) is dict
    with pytest.raises(stripline.UsageError, match="`move.at`: a structure is missing"):
        out.send({"hz": 1.0})  # type: ignore[typeddict-item]
    with pytest.raises(stripline.UsageError, match="`move.gain`: a float must be here, not null"):
        out.send({**move, "gain": None})  # type: ignore[typeddict-item]
    out.finish()


def test_a_class_of_another_name_is_refused_by_the_names(node: stripline.Node) -> None:
    fields = [("x", float)]
    one, other = (dataclasses.make_dataclass(name, fields) for name in ("One", "Other"))
    in_, out = node.message_subscriber("topic", other), node.message_publisher("topic", one)
    (refusal,) = in_.refusals()
    assert refusal.reason.endswith("the name is `one`, not `other`"), refusal
    out.finish()


def test_a_received_message_without_a_schema_is_checked(node: stripline.Node) -> None:
    in_, out = node.message_subscriber("topic", Point), node.message_publisher("topic")
    out.wait_for_receivers(1, TIMEOUT_S)
    out.send({"x": 1.0})
    with pytest.raises(stripline.DecodeError, match="`point.y`: a float is missing"):
        in_.receive(TIMEOUT_S)
    with pytest.raises(stripline.NotAcknowledgedError, match="`point.x`: a float must be here, not text") as refused:
        _refuse(in_, lambda: out.send({"x": "a", "y": 1.0}, scope="target", deadline=TIMEOUT_S))
    assert refused.value.code == "packet-refused"
    out.send({"x": 1.0, "y": 2.0})
    assert in_.receive(TIMEOUT_S).value == Point(1.0, 2.0)
    out.finish()


def _refuse(in_: stripline.MessageSubscriber[Any], send: typing.Callable[[], None]) -> None:
    """Sends, while another thread receives a message that it refuses."""
    def receive() -> None:
        with pytest.raises(stripline.DecodeError):
            in_.receive(TIMEOUT_S)

    thread = threading.Thread(target=receive)
    thread.start()
    try:
        send()
    finally:
        thread.join()


@dataclasses.dataclass
class Even:
    n: int

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError(f"{self.n} is odd")


def test_a_class_may_refuse_received_values(node: stripline.Node) -> None:
    in_, out = node.message_subscriber("topic", Even), node.message_publisher("topic", "message/even{n:s64}")
    out.wait_for_receivers(1, TIMEOUT_S)
    out.send({"n": 3})
    out.send({"n": 4})
    with pytest.raises(stripline.DecodeError, match="ValueError: 3 is odd"):
        in_.receive(TIMEOUT_S)
    assert in_.receive(TIMEOUT_S).value == Even(4)
    out.finish()


def test_a_message_has_stamps(node: stripline.Node) -> None:
    samples = node.subscriber("iq", np.float32)
    iq = node.publisher("iq", np.float32, stream=stripline.StreamInfo("iq", sample_rate_hz=8e3))
    in_, out = node.message_subscriber("topic", Point), node.message_publisher("topic", Point)
    again = node.message_subscriber("again")
    further = node.message_publisher("again")
    for publisher in (iq, out, further):
        publisher.wait_for_receivers(1, TIMEOUT_S)
    point = Point(1.0, 2.0)
    out.send(point)
    out.send(point, time_ns=5, sample_index=77)
    out.send(point)
    first, second, third = (in_.receive(TIMEOUT_S) for _ in range(3))
    assert (first.time_ns, first.sample_index, second.time_ns, second.sample_index) == (0, 0, 5, 77)
    # A message counts as one sample.
    assert (third.time_ns, third.sample_index) == (0, 78)
    assert first.stream.id == "topic"
    iq.send(np.zeros(3, np.float32), time_ns=9, sample_index=40)
    with samples.receive(TIMEOUT_S) as packet:
        out.send(point, like=packet)
        out.try_send(point, like=packet)
    for _ in range(2):
        message = in_.receive(TIMEOUT_S)
        assert (message.time_ns, message.sample_index) == (9, 40)
        assert (message.stream.id, message.stream.sample_rate_hz) == ("iq", 8e3)
        further.send("seen", like=message)
        # Samples about a message.
        iq.send(np.ones(1, np.float32), like=message)
    for received in (again.receive(TIMEOUT_S), again.receive(TIMEOUT_S)):
        assert (received.time_ns, received.sample_index, received.stream.id) == (9, 40, "iq")
    with samples.receive(TIMEOUT_S) as packet:
        assert (packet.time_ns, packet.sample_index) == (9, 40)
    with pytest.raises(stripline.UsageError, match="`like` sets time and index"):
        out.send(point, like=message, time_ns=3)
    with pytest.raises(stripline.UsageError, match="`like` is a Point; give a packet or a message"):
        out.send(point, like=point)  # type: ignore[arg-type]
    made: stripline.Message[int] = stripline.Message(1, 0, None, "a -> b")
    with pytest.raises(stripline.UsageError, match="`like` is a Message; give a packet or a message that was received"):
        out.send(point, like=made)
    for end in (iq, out, further):
        end.finish()


class Detector(stripline.Component):
    """Sends a message for each sample above a threshold."""

    in_ = stripline.input_port(np.float32, "samples")
    out = stripline.message_output_port(Point, "detections")
    threshold = stripline.float_property(0.0, "the threshold", changeable=True)

    def run(self) -> None:
        for packet in self.in_:
            for level in packet.samples:
                if level > self.threshold:
                    self.out.send(Point(level, 0.0), like=packet)


class Doubler(stripline.Component):
    """Doubles the points."""

    in_ = stripline.message_input_port(Point, "points")
    out = stripline.message_output_port(Point, "points")
    factor = stripline.integer_property(2, "the factor", changeable=True)

    def run(self) -> None:
        for message in self.in_:
            x = message.value.x * self.factor
            self.out.send(Point(x, message.value.y), like=message)


def test_ports_of_a_component_have_classes() -> None:
    found = testing.run(Detector, {"in": np.array([0.5, -1, 2], np.float32)})
    assert found.messages["out"] == [Point(0.5, 0.0), Point(2.0, 0.0)]
    doubled = testing.run(Doubler, {"in": [Point(1.5, 1.0), {"x": 2, "y": 3}]})
    assert doubled.messages["out"] == [Point(3.0, 1.0), Point(4.0, 3.0)]
    fed = testing.Feed(Point(0.5, 1.0), time_ns=3, stream=stripline.StreamInfo("radar"))
    assert testing.run(Doubler, {"in": [fed]}).messages["out"] == [Point(1.0, 1.0)]
    with testing.Harness(Doubler) as harness:
        in_, out = harness.message_input("in"), harness.message_output("out")
        in_.set_stream(stripline.StreamInfo("radar"))
        in_.send(Point(1.0, 2.0), time_ns=3, sample_index=4)
        message = out.receive(TIMEOUT_S)
        assert (message.value, message.time_ns, message.sample_index) == (Point(2.0, 2.0), 3, 4)
        assert message.stream.id == "radar"
        with pytest.raises(stripline.UsageError, match="the message for port `in`: `point.x`: a float must be here"):
            in_.send({"x": "a", "y": 1.0})
        in_.finish()


def test_a_change_is_behind_the_messages_and_packets_before_it() -> None:
    with testing.Harness(Doubler) as harness:
        in_, out = harness.message_input("in"), harness.message_output("out")
        for factor in range(2, 200):
            for _ in range(factor % 4):
                in_.send(Point(1.0, 0.0))
            harness.set("factor", factor + 1)
            assert [out.receive(TIMEOUT_S).value.x for _ in range(factor % 4)] == [factor] * (factor % 4)
        in_.finish()


class Scale(stripline.Component):
    """Multiplies samples by a factor, on any number of threads."""

    in_ = stripline.input_port(np.float32, "samples")
    out = stripline.output_port(np.float32, "samples times the factor")
    factor = stripline.integer_property(1, "the factor", changeable=True)

    def handle(self, packet: stripline.Packet) -> Any:
        return packet.samples * np.float32(self.factor)


@pytest.mark.parametrize("dispatch", ["queue", "pool(4)"])
def test_a_change_is_behind_the_packets_of_a_handler(dispatch: str) -> None:
    with testing.Harness(Scale, options={"dispatch": dispatch}) as harness:
        in_, out = harness.input("in"), harness.output("out")
        for factor in range(1, 200):
            for _ in range(factor % 4):
                in_.send(np.ones(1, np.float32))
            harness.set("factor", factor + 1)
            assert [out.receive(TIMEOUT_S).samples[0] for _ in range(factor % 4)] == [factor] * (factor % 4)
        in_.finish()


def _plain_fits(hint: Any, value: Any) -> bool:
    """Returns whether a value fits a type: a plain model of the check."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is float:
        return type(value) in (int, float)
    if hint in (bool, str, bytes, type(None)):
        return type(value) is hint
    if hint is int:
        return type(value) is int and -(2**63) <= value < 2**63
    if hint is np.uint8:
        return type(value) is int and 0 <= value < 256
    if origin is Union:
        return any(_plain_fits(one, value) for one in arguments)
    if origin is list:
        return type(value) is list and all(_plain_fits(arguments[0], it) for it in value)
    if origin is tuple:
        return (
            type(value) is list
            and len(value) == len(arguments)
            and all(_plain_fits(one, it) for one, it in zip(arguments, value))
        )
    if origin is dict:
        return type(value) is dict and all(_plain_fits(arguments[1], it) for it in value.values())
    fields = {field.name: field.type for field in dataclasses.fields(hint)}
    return type(value) is dict and fields.keys() == value.keys() and all(
        _plain_fits(fields[name], it) for name, it in value.items()
    )


def _random_hint(random_: random.Random, depth: int) -> Any:
    plain: list[Any] = [bool, int, float, str, bytes, np.uint8]
    kind = random_.randrange(6 if depth == 0 else 11)
    if kind < 6:
        return plain[kind]
    inner = [_random_hint(random_, depth - 1) for _ in range(random_.randint(1, 3))]
    fields = [(f"f{number}", of) for number, of in enumerate(inner)]
    makes: list[typing.Callable[[], Any]] = [
        lambda: Optional[inner[0]],
        lambda: list[inner[0]],  # type: ignore[valid-type]
        lambda: tuple.__class_getitem__(tuple(inner)),
        lambda: dict[str, inner[0]],  # type: ignore[valid-type]
        lambda: dataclasses.make_dataclass("Made", fields),
    ]
    return makes[kind - 6]()


def _random_value(random_: random.Random, hint: Any) -> Any:
    if random_.random() < 0.12:
        return random_.choice([None, True, 1, -1, 300, 2**63, 0.5, "a", b"a", [], {}, {"x": 1}])
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return {field.name: _random_value(random_, field.type) for field in dataclasses.fields(hint)}
    if origin is Union:
        return _random_value(random_, arguments[0]) if random_.random() < 0.7 else None
    if origin is list:
        return [_random_value(random_, arguments[0]) for _ in range(random_.randrange(3))]
    if origin is tuple:
        return [_random_value(random_, one) for one in arguments]
    if origin is dict:
        return {name: _random_value(random_, arguments[1]) for name in "ab"[: random_.randrange(3)]}
    values: dict[Any, Any] = {
        bool: True, int: 7, float: random_.choice([0.5, 3]), str: "a", bytes: b"b", np.uint8: 200,
    }  # fmt: skip
    return values[hint]


def test_random_classes_and_values_agree_with_a_plain_model(node: stripline.Node) -> None:
    random_ = random.Random(38)
    outcomes = {True: 0, False: 0}
    for number in range(400):
        hint = dataclasses.make_dataclass("Top", [("top", _random_hint(random_, 3))])
        in_, out = node.message_subscriber("topic"), node.message_publisher("topic", hint)
        out.wait_for_receivers(1, TIMEOUT_S)
        for _ in range(4):
            value = {"top": _random_value(random_, dataclasses.fields(hint)[0].type)}
            fits = _plain_fits(hint, value)
            outcomes[fits] += 1
            try:
                out.send(value)
                assert fits, (number, _resolve_messages(hint)[0], value)
                assert in_.receive(TIMEOUT_S).value == value
            except stripline.UsageError as error:
                assert not fits, (number, _resolve_messages(hint)[0], value, error)
        out.finish()
        in_.close()
    assert min(outcomes.values()) > 200


OLD = """
import dataclasses, stripline
@dataclasses.dataclass
class Hit:
    a: float
    n: int
"""
NEW = OLD.replace("n: int", "n: float")
WAVEFORM = """
[component.source]
type = "replay"
properties = {{ path = "{path}" }}
[component.sink]
exec = ["{python}", "sink.py"]
[[connection]]
from = "source.out"
to = "sink.in"
"""
SINK = """
class Sink(stripline.Component):
    in_ = stripline.message_input_port(Hit)

    def run(self) -> None:
        for message in self.in_:
            print(message.value, message.time_ns)

if __name__ == "__main__":
    stripline.main(Sink)
"""
DIFFERENCE = "`hit.n` is s64, not f64"


def _class(source: str) -> Any:
    names: dict[str, Any] = {"__name__": __name__}
    exec(source, names)
    return names["Hit"]


def test_a_recording_of_another_class_is_refused_by_the_difference(
    domain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRIPLINE_DOMAIN", domain)
    old, new = _class(OLD), _class(NEW)
    folder = tmp_path / "rec"
    with stripline.Node() as node, node.message_publisher("hits", old) as out:
        recorder = start(COMMAND, "record", "--topic", "hits", "--to", str(folder), "--count", "3")
        while recorder.poll() is None:
            out.send(old(0.5, 7), time_ns=5)
    assert recorder.returncode == 0, recorder.communicate()
    (path,) = folder.iterdir()
    with stripline.Node() as node:
        changed, same = node.message_subscriber("hits", new), node.message_subscriber("hits", old)
        replay = start(COMMAND, "replay", str(path), "--speed", "0")
        received = [(message.value, message.time_ns) for message in same]
        assert received == [(old(0.5, 7), 5)] * 3
        (refusal,) = {it.reason for it in changed.refusals()} or {""}
        assert DIFFERENCE in refusal or replay.wait() == 0
    for source, code, words in ((NEW, 1, DIFFERENCE), (OLD, 0, "")):
        (tmp_path / "sink.py").write_text(source + SINK)
        waveform = tmp_path / "waveform.toml"
        waveform.write_text(WAVEFORM.format(path=path, python=sys.executable))
        checked = subprocess.run([COMMAND, "check", waveform], capture_output=True, text=True, timeout=TIMEOUT_S)
        assert (checked.returncode == 0, words in checked.stdout + checked.stderr) == (code == 0, True), checked

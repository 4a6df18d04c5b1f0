"""Component classes: their declarations, and how they run in a harness."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import TIMEOUT_S, run_python

import stripline
from stripline import _components, testing

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from gain import Gain  # noqa: E402


class Mixed(stripline.Component):
    """Has everything,
    on two lines.

    And more text.
    """

    in_ = stripline.input_port([np.float32, stripline.SampleType("cs16")], "samples")
    out = stripline.output_port(same_as="in", summary="the same")
    more = stripline.input_port(np.uint8, optional=True, many_writers=True, name="more-in")
    mode = stripline.choice_property(
        "forward", "the behaviour", choices=["forward", "fail", "exit", "text", "code", "deep"]
    )
    factor = stripline.float_property(1, "gain", range=(0, 10), unit="dB", changeable=True)
    offset = stripline.integer_property(0, "offset", range=(-5, 5), changeable=True)
    is_on = stripline.boolean_property(True, "whether it works", changeable=True)
    title = stripline.text_property("none", "a text")
    file = stripline.path_property("a file")
    packets = stripline.integer_property(0, "packets so far", range=(0, 100), read_only=True)
    level = stripline.float_property(0, "a level", read_only=True)
    state = stripline.text_property("new", "its state", read_only=True)
    is_busy = stripline.boolean_property(False, "whether it is busy", read_only=True)

    def __init__(self) -> None:
        if self.title == "unable":
            raise ValueError("it is unable to begin")
        if self.title == "exit":
            sys.exit(3)
        self.state = "made"
        self.taken: list[tuple[str, object]] = []
        self.thread = threading.current_thread()

    def run(self) -> None:
        assert self.ports.component == "component" and self.ports.is_quiet
        assert self.ports.type("in") == "f32" and self.ports.type("none") is None
        assert threading.current_thread() is not self.thread
        self.is_busy = True
        for packet in self.in_:
            self.packets += 1
            self.level = np.float32(packet.samples.sum())  # type: ignore[assignment]
            self.out.send(packet.samples, like=packet)
            match self.mode:
                case "fail":
                    raise KeyError("key")
                case "exit":
                    sys.exit()
                case "text":
                    sys.exit("it has had enough")
                case "code":
                    sys.exit(7)
                case "deep":
                    self.deep()
        self.state = "ended"

    def deep(self) -> None:
        self.deep()

    @factor.setter
    def set_factor(self, factor: float) -> None:
        if factor == 7:
            raise ValueError("not seven")
        if factor == 8:
            sys.exit("not eight")
        self.taken.append(("factor", factor))

    @offset.setter
    def set_offset(self, offset: int) -> None:
        if offset == 3:
            raise LookupError("three")
        self.taken.append(("offset", offset))

    @stripline.self_test("whether it answers")
    def self(self) -> None:
        assert self.factor != 9, "nine"

    @stripline.self_test("a value", name="value-test")
    def value(self) -> stripline.TestResult:
        return stripline.TestResult(False, "it is low", 0.5)

    @stripline.self_test("a mistake")
    def wrong(self) -> int:
        return 5


class Framed(stripline.Component):
    """Takes frames."""

    in_ = stripline.input_port(np.float32, "frames", shape="frames", optional=True)
    rows = stripline.windowed_input_port(np.float32, "rows", shape="rows", optional=True)
    taken = stripline.integer_property(0, "packets so far", read_only=True)

    def run(self) -> None:
        for _ in self.in_:
            self.taken += 1
        for _ in self.rows.windows(rows=1):
            self.taken += 1


F32 = {"in": np.float32}
ONE = np.ones(1, np.float32)


def spec(cls: type[stripline.Component]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_components._spec(cls))
    return found


def test_a_stream_of_another_shape_is_refused() -> None:
    assert [port.get("shape") for port in spec(Framed)["ports"]] == ["frames", "rows"]
    ten, info = np.zeros(10, np.float32), stripline.StreamInfo
    frames = testing.Feed(ten, stream=info("maps", row_length=5, frame_rows=2))
    rows = testing.Feed(ten, stream=info("spectra", row_length=5))
    assert testing.run(Framed, {"in": [frames], "rows": [rows]}).properties["taken"] == 3
    for inputs, problem in (
        ({"in": [ten]}, "in`: takes frames of rows, and the stream `.*` has no rows"),
        ({"in": [frames, rows]}, "takes frames of rows, and the stream `spectra` has rows of 5 samples"),
        ({"rows": [ten]}, "rows`: takes rows, and the stream `.*` has no rows .*: put an `fft` before it"),
    ):
        with pytest.raises(stripline.UsageError, match=problem) as refused:
            testing.run(Framed, inputs, unconnected=[name for name in ("in", "rows") if name not in inputs])
        assert refused.value.code == "port"
    for wrong in ("row", 5):
        with pytest.raises(stripline.UsageError, match=f"`shape` of a port is {wrong!r}; it must be one of signal"):
            stripline.input_port(np.float32, shape=wrong)  # type: ignore[arg-type]


def test_what_a_class_declares() -> None:
    found = spec(Mixed)
    assert (found["name"], found["summary"]) == ("mixed", "Has everything, on two lines.")
    ports = {port["name"]: port for port in found["ports"]}
    assert ports["in"]["types"] == {"one-of": ["f32", "cs16"]}
    assert ports["out"]["types"] == {"same-as": "in"}
    assert not ports["more-in"]["mandatory"] and ports["more-in"]["many_writers"]
    properties = {it["name"]: it for it in found["properties"]}
    assert properties["factor"] == {
        "name": "factor",
        "kind": {"float": {"min": 0, "max": 10}},
        "default": 1,
        "unit": "dB",
        "summary": "gain",
        "access": "changeable",
    }
    assert properties["packets"]["access"] == "read-only"
    assert [test["name"] for test in found["tests"]] == ["self", "value-test", "wrong"]

    class FmRadio2X(stripline.Component):
        def run(self) -> None: ...

    class Named(FmRadio2X, name="a_b"):
        rate = stripline.float_property(None, "its rate")

    assert (spec(FmRadio2X)["name"], spec(Named)["name"]) == ("fm-radio2-x", "a_b")
    assert spec(Named)["properties"][0]["default"] is None


def test_a_run_with_fed_inputs() -> None:
    feed = testing.Feed(np.ones(2, np.float32), time_ns=5, sample_index=50, stream=stripline.StreamInfo("s"))
    result = testing.run(Mixed, {"in": [ONE, feed]}, unconnected=["more-in"])
    assert result.outputs["out"].tolist() == [1, 1, 1]
    first, second = result.packets["out"]
    assert (second.time_ns, second.sample_index, second.stream.id) == (5, 50, "s")
    assert result.gaps == {"out": []}
    expected = {"packets": 2, "level": 2.0, "state": "ended", "is_busy": True}
    assert result.properties == expected


def test_types_of_samples_come_from_the_arrays_or_by_name() -> None:
    class Any_(stripline.Component, name="any"):
        in_ = stripline.input_port()
        out = stripline.output_port(type_property="output")
        output = stripline.text_property("u8", "the type")

        def run(self) -> None:
            for packet in self.in_:
                assert self.in_.dtype == packet.samples.dtype
                self.out.send(np.zeros(len(packet), self.out.dtype))

    pair = stripline.SampleType("pair{a:u32,b:f32[2],c:u32}")
    samples = np.zeros(3, pair.dtype)
    result = testing.run(Any_, {"in": samples}, types={"in": pair, "out": np.uint8})
    assert result.outputs["out"].dtype == np.uint8 and len(result.outputs["out"]) == 3
    with pytest.raises(stripline.UsageError, match="takes several types; name one in `types`"):
        testing.run(Any_, {"in": samples}, types={"in": pair})
    empty = testing.run(Any_, {"in": []}, types={"in": np.int16, "out": np.uint8})
    assert empty.outputs["out"].tolist() == [] and empty.packets["out"] == []


def test_live_changes_and_self_tests() -> None:
    with testing.Harness(Mixed, {"factor": 2}, types=F32, unconnected=["more-in"]) as mixed:
        mixed.set("factor", 3)
        for value, words in [(7, "^not seven$"), (8, "^not eight$"), (11, "from 0 to 10"), ("x", "takes a number")]:
            with pytest.raises(stripline.Error, match=words):
                mixed.set("factor", value)
        with pytest.raises(stripline.Error, match=r"^LookupError: three \(.*, line \d+\)$"):
            mixed.set("offset", 3)
        with pytest.raises(stripline.Error, match="cannot be changed"):
            mixed.set("mode", "exit")
        mixed.set("is_on", False)
        assert mixed.test("self") == stripline.TestResult(True, "whether it answers")
        assert mixed.test("value-test") == stripline.TestResult(False, "it is low", 0.5)
        assert "5, which is not a `TestResult`" in mixed.test("wrong").text
        mixed.set("factor", 9)
        assert mixed.test("self").text.startswith("nine")
        with pytest.raises(stripline.Error, match="no self-test `other`"):
            mixed.test("other")
        in_, out = mixed.input("in"), mixed.output("out")
        with pytest.raises(stripline.UsageError, match="taken before"):
            mixed.input("in")
        in_.send(ONE)
        assert out.receive(TIMEOUT_S).samples.tolist() == [1]
        # The request arrives while the component waits for a packet.
        mixed.set("factor", 4)
        in_.finish()
        assert mixed.finish()["packets"] == 1
        with pytest.raises(stripline.UsageError, match="closed"):
            mixed.finish()


def test_a_change_is_taken_as_a_whole_or_not_at_all() -> None:
    seen: list[tuple[str, float]] = []

    class Band(stripline.Component):
        low = stripline.float_property(1, "low edge", changeable=True)
        high = stripline.float_property(2, "high edge", changeable=True)

        @staticmethod
        def validate(properties: Mapping[str, Any]) -> None:
            if properties["low"] >= properties["high"]:
                raise ValueError("`low` is not below `high`")

        def change(self, properties: Mapping[str, Any]) -> None:
            seen.append((f"{self.low}-{self.high}", properties["high"]))

        def run(self) -> None:
            while True:
                self.ports.poll()
                self.ports.sleep(0.001)

    with pytest.raises(stripline.Error, match="^`low` is not below `high`$"):
        testing.Harness(Band, {"low": 3})
    with testing.Harness(Band) as band:
        with pytest.raises(stripline.Error, match="^`low` is not below `high`$"):
            band.set("low", 2)
        band.set("high", 5)
        band.set("low", 4)
    assert seen == [("1.0-5.0", 5), ("4.0-5.0", 5)]


def test_setters_that_ran_before_a_refusal_get_the_old_value_back() -> None:
    values = {"factor": 2.0, "offset": 0, "is_on": True}
    mixed = _components._create(Mixed, {**values, "mode": "forward", "title": "", "file": ""})
    assert isinstance(mixed, Mixed)
    words = _components._change(mixed, {**values, "factor": 5.0, "offset": 3}, ["factor", "offset"])
    assert words is not None and words.startswith("LookupError: three (")
    assert mixed.taken == [("factor", 5.0), ("factor", 2.0)] and mixed.factor == 2.0
    assert _components._change(mixed, {**values, "offset": 2}, ["offset"]) is None
    assert mixed.offset == 2


@pytest.mark.parametrize(
    ("mode", "error", "words"),
    [
        ("fail", KeyError, "'key'"),
        ("text", stripline.Error, "^it has had enough$"),
        ("code", stripline.Error, r"^it has called `sys.exit\(7\)`$"),
        ("deep", RecursionError, "recursion"),
    ],
)
def test_the_failure_of_a_run_is_raised(mode: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as found:
        testing.run(Mixed, {"in": ONE}, properties={"mode": mode}, unconnected=["more-in"])
    if error is KeyError:
        assert str(found.value.__cause__) == "KeyError: 'key'"


def test_ends_that_are_no_failure() -> None:
    result = testing.run(Mixed, {"in": [ONE, ONE]}, properties={"mode": "exit"}, unconnected=["more-in"])
    assert len(result.packets["out"]) == 1 and result.properties["state"] == "made"
    # The component is stopped.
    harness = testing.Harness(Mixed, types=F32, unconnected=["more-in"])
    harness.stop()
    assert harness.finish()["packets"] == 0


def test_what_cannot_begin_is_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"title": "unable"}, "^it is unable to begin$"),
        ({"title": "exit"}, r"sys.exit\(3\)"),
        ({"factor": 11}, "from 0 to 10"),
        ({"gain": 1}, "no property `gain`"),
        ({"packets": 1}, "read-only"),
        ({"mode": "other"}, "one of forward"),
        ({"is_on": 5}, "true or false"),
    ]
    for properties, words in cases:
        with pytest.raises((stripline.Error, ValueError), match=words):
            testing.Harness(Mixed, properties, types=F32, unconnected=["more-in"])
    with pytest.raises(stripline.UsageError, match="property is text, a number or a bool, not list"):
        testing.Harness(Mixed, {"factor": [1]})
    with pytest.raises(stripline.UsageError, match="has no port `inn`"):
        testing.Harness(Mixed, types={"inn": np.float32})
    with pytest.raises(stripline.UsageError, match="must be connected"):
        testing.Harness(Mixed, types=F32, unconnected=["in"])
    with pytest.raises(stripline.UsageError, match="takes f32 | cs16, not u8"):
        testing.Harness(Mixed, types={"in": np.uint8})
    with pytest.raises(stripline.UsageError, match="no input `out`"):
        testing.run(Mixed, {"out": ONE})
    with pytest.raises(stripline.UsageError, match="not a class of a component"):
        testing.run(int)  # type: ignore[arg-type]


def test_a_mistake_in_what_is_fed_ends_the_run() -> None:
    with pytest.raises(stripline.UsageError, match="dtype|sends float32"):
        testing.run(Mixed, {"in": [ONE, np.ones(1)]}, unconnected=["more-in"])


def test_a_component_that_does_not_end_is_stopped() -> None:
    harness = testing.Harness(Mixed, types=F32, unconnected=["more-in"])
    in_ = harness.input("in")
    with pytest.raises(TimeoutError, match="not ended within 0.001 s"):
        harness.finish(0.001)
    in_.abandon()


class Square(stripline.Component):
    """Squares every sample."""

    in_ = stripline.input_port(np.float32, "samples")
    out = stripline.output_port(np.float32, "squares")
    bias = stripline.float_property(0, "is added", changeable=True)
    packets = stripline.integer_property(0, "packets so far", read_only=True)

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def handle(self, packet: stripline.Packet) -> npt.NDArray[Any] | None:
        assert self.ports.component == "component"
        with self.lock:
            self.packets += 1
        if len(packet) == 3:
            raise ValueError("three samples")
        if len(packet) == 4:
            sys.exit()
        if len(packet) == 5:
            return None
        if len(packet) == 6:
            return np.zeros(1)
        # The array belongs to the component.
        packet.samples[:] = packet.samples**2 + np.float32(self.bias)
        return packet.samples


@pytest.mark.parametrize("dispatch", ["queue", "direct", "pool(3)"])
def test_a_handler_runs_on_the_threads_of_the_options(dispatch: str) -> None:
    packets = [np.full(2, number, np.float32) for number in range(50)]
    result = testing.run(Square, {"in": packets}, properties={"bias": 1}, options={"dispatch": dispatch})
    # A pool does not keep the order, unless the options require it.
    found = sorted((packet.sample_index, packet.samples[0]) for packet in result.packets["out"])
    assert found == [(2 * number, number**2 + 1) for number in range(50)]
    assert result.properties == {"packets": 50}


def test_a_handlers_own_ways() -> None:
    with pytest.raises(ValueError, match="^three samples$"):
        testing.run(Square, {"in": np.ones(3, np.float32)})
    ended = testing.run(Square, {"in": [np.ones(2, np.float32), np.ones(4, np.float32)]})
    assert len(ended.packets["out"]) == 1
    empty = testing.run(Square, {"in": [np.ones(5, np.float32)]})
    assert [len(packet) for packet in empty.packets["out"]] == [0]
    with pytest.raises(stripline.UsageError, match="the array has float64"):
        testing.run(Square, {"in": [np.ones(6, np.float32)]})
    with testing.Harness(Square) as square:
        in_, out = square.input("in"), square.output("out")
        square.set("bias", 2)
        in_.send(np.ones(1, np.float32))
        assert out.receive(TIMEOUT_S).samples.tolist() == [3]
        square.set("bias", 0)
        in_.finish()
        square.finish()


def test_what_the_ports_gave_ends_with_the_run() -> None:
    kept: list[Any] = []

    class Keeps(stripline.Component):
        in_ = stripline.input_port(np.float32)
        out = stripline.output_port(np.float32)

        def run(self) -> None:
            with pytest.raises(AttributeError, match="is a port, and cannot be set"):
                self.in_ = self.in_
            packet = self.in_.receive(TIMEOUT_S)
            kept.extend([self, self.in_, self.out, self.ports, packet, packet.samples])

    testing.run(Keeps, {"in": np.arange(3, dtype=np.float32)})
    it, in_, out, ports, packet, samples = kept
    assert samples.tolist() == packet.samples.tolist() == [0, 1, 2]
    for use in (in_.receive, lambda: out.send(samples), lambda: ports.type("in")):
        with pytest.raises(stripline.UsageError, match="is closed|are closed"):
            use()
    for attribute in ("in_", "out", "ports"):
        with pytest.raises(AttributeError, match="from its beginning to its end"):
            getattr(it, attribute)


def test_a_port_in_use_by_another_thread_when_run_returns_is_named() -> None:
    threads: list[threading.Thread] = []

    class Leaves(stripline.Component):
        in_ = stripline.input_port(np.float32)

        def run(self) -> None:
            in_ = self.in_
            begun = threading.Event()

            def take() -> None:
                begun.set()
                try:
                    in_.receive()
                except stripline.Error:
                    pass

            threads.append(threading.Thread(target=take))
            threads[0].start()
            begun.wait()
            while True:
                try:
                    in_.try_receive()
                except stripline.UsageError:
                    return

    harness = testing.Harness(Leaves)
    in_ = harness.input("in")
    with pytest.raises(stripline.Error, match="its `run` has returned, but subscriber `in` is in use"):
        harness.finish()
    in_.finish()
    threads[0].join(TIMEOUT_S)
    assert not threads[0].is_alive()


def test_readouts_and_properties_are_set_by_those_that_may() -> None:
    class Sets(stripline.Component):
        count = stripline.integer_property(1, "a count", range=(0, 10), read_only=True)
        rate = stripline.float_property(1, "a rate", changeable=True)

        def run(self) -> None:
            with pytest.raises(AttributeError, match="set by the waveform and its users"):
                self.rate = 5
            with pytest.raises(stripline.UsageError, match="`count` is declared as a whole number, and `text` is none"):
                self.count = "text"  # type: ignore[assignment]
            with pytest.raises(stripline.UsageError, match="`count` is declared as a whole number, and `2.5` is"):
                self.count = 2.5  # type: ignore[assignment]
            assert self.count == 1
            # Out of range: users see the value as unknown.
            self.count = 11

    assert testing.run(Sets).properties == {}
    with pytest.raises(AttributeError, match="a waveform or a harness has made"):
        Sets().rate  # noqa: B018


def refused(words: str, **parts: Any) -> None:
    name = parts.pop("class_name", None)
    with pytest.raises((stripline.Error, RuntimeError), match=words):
        cls: Any = type("Bad", (stripline.Component,), parts, **({"name": name} if name else {}))
        testing.Harness(cls)


def test_mistakes_in_a_class_are_refused_by_name() -> None:
    def run(self: Any) -> None: ...

    f32 = np.float32
    refused("has no method that runs it")
    refused("both `run` and `handle`", run=run, handle=run)
    refused("`a b` is not a valid component name", class_name="a b", run=run)
    refused("`p q` is not a valid port name", run=run, p=stripline.input_port(f32, name="p q"))
    refused("two of the name `a`", run=run, a=stripline.input_port(f32), b=stripline.output_port(f32, name="a"))
    refused("0 inputs and 1 outputs", handle=run, out=stripline.output_port(f32))
    refused("`ports` is an attribute that every component may have; give", run=run, ports=stripline.input_port(f32))
    refused("`change` is a method that every component may have; give", run=run, change=stripline.input_port(f32))
    refused("the default of `a` is 5", run=run, a=stripline.float_property(5, "", range=(0, 1)))
    text: Any = "x"
    refused("the default of `a` takes a whole number", run=run, a=stripline.integer_property(text, ""))
    refused("the default of `a` is `z`", run=run, a=stripline.choice_property("z", "", choices=["x", "y"]))
    octets: Any = b"x"
    refused("is not a value of a property", run=run, a=stripline.text_property(octets, ""))
    fixed = stripline.float_property(1, "")
    refused("a setter for `a`, which is not", run=run, a=fixed, set_a=fixed.setter(lambda *_: None))
    hidden = stripline.float_property(1, "", changeable=True)
    refused("setter `a` that hides its property; name it `set_a`", run=run, a=hidden.setter(lambda *_: None))
    both = stripline.float_property(1, "", changeable=True)
    refused("has setters and `change`", run=run, change=run, a=both, b=both.setter(lambda *_: None))
    mistakes: list[tuple[Callable[[], object], str]] = [
        (lambda: stripline.input_port(f32, same_as="in"), "two of `types`"),
        (lambda: stripline.input_port([]), "list of a port's types is empty"),
        (lambda: stripline.input_port("text"), "neither a dtype nor"),
        (lambda: stripline.input_port(np.bool_), "not a type of samples"),
        (lambda: stripline.float_property(1, "", range=(2, 1)), "has no number in it"),
        (lambda: stripline.float_property(1, "", range=(0, float("nan"))), "has no number in it"),
        (lambda: stripline.integer_property(1, "", range=(0, 2**64)), "no number of 64 bits"),
        (lambda: stripline.choice_property("x", "", choices=[]), "the choices are words"),
        (lambda: stripline.float_property(1, "", changeable=True, read_only=True), "`changeable` or `read_only`"),
        (lambda: stripline.float_property(None, "", read_only=True), "needs a default"),
    ]
    for wrong, words in mistakes:
        with pytest.raises(stripline.UsageError, match=words):
            wrong()


BEGIN = """
import time
import numpy as np
import stripline
from stripline import testing

class Begun(stripline.Component):
    state = stripline.text_property("", "state", read_only=True)

def wait_for(harness):
    while harness.properties["state"] != "runs":
        time.sleep(0.001)
"""

STILL_RUNS = {
    "in a loop": """
class Endless(Begun):
    def run(self):
        self.state = "runs"
        while True:
            pass
harness = testing.Harness(Endless)
wait_for(harness)
""",
    "in a handler": """
class Handler(Begun):
    in_ = stripline.input_port("f4")
    def handle(self, packet):
        self.state = "runs"
        while True:
            time.sleep(0)
harness = testing.Harness(Handler)
with harness.input("in") as in_:
    in_.send(np.ones(1, "f4"))
wait_for(harness)
""",
    "in a setter": """
class Setter(Begun):
    in_ = stripline.input_port("f4")
    factor = stripline.float_property(1, "", changeable=True)
    def run(self):
        for _ in self.in_:
            pass
    @factor.setter
    def set_factor(self, factor):
        begun.set()
        while True:
            pass
import threading
begun = threading.Event()
harness = testing.Harness(Setter)
in_ = harness.input("in")
threading.Thread(target=harness.set, args=("factor", 2), daemon=True).start()
begun.wait()
in_.abandon()
""",
    "asleep": """
class Sleeps(Begun):
    def run(self):
        self.state = "runs"
        self.ports.sleep(3600)
harness = testing.Harness(Sleeps)
wait_for(harness)
""",
    "in a wait for its pace": """
class Paced(Begun):
    def run(self):
        pace = stripline.Pace(self.ports, 1)
        self.state = "runs"
        pace.wait_for(3600)
harness = testing.Harness(Paced)
wait_for(harness)
""",
    "in a wait, or before it": """
class Waits(Begun):
    in_ = stripline.input_port("f4")
    def run(self):
        for _ in self.in_:
            pass
harness = testing.Harness(Waits)
in_ = harness.input("in")
in_.abandon()
""",
}


@pytest.mark.parametrize("where", STILL_RUNS)
def test_the_interpreter_ends_while_a_component_still_runs(where: str) -> None:
    done = run_python(BEGIN + STILL_RUNS[where] + "print('end')\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_child_that_a_component_forks() -> None:
    code = """
import os
import numpy as np
import stripline
from stripline import testing

class Forks(stripline.Component):
    in_ = stripline.input_port("f4")
    def run(self):
        child = os.fork()
        if child == 0:
            try:
                self.in_.try_receive()
            except stripline.ForkedError as error:
                print("forked", flush=True)
            return
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [len(packet) for packet in self.in_] == [2]
        print("parent", flush=True)

testing.run(Forks, {"in": np.ones(2, "f4")})
"""
    # From Python 3.12 on, a fork of a process with threads is a warning.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=dict(os.environ))
    assert (done.returncode, done.stdout, done.stderr) == (0, "forked\nparent\n", "")


def test_the_example_in_a_harness() -> None:
    result = testing.run(Gain, {"in": np.arange(4, dtype=np.complex64)}, properties={"factor": 2.5})
    assert result.outputs["out"].tolist() == [0, 2.5, 5, 7.5]
    assert result.properties == {"packets": 1}


class Paced(stripline.Component):
    """Waits for its pace."""

    rate = stripline.float_property(0, "pace")
    level = stripline.float_property(0, "a level", changeable=True)
    taken = stripline.float_property(0, "the level at the end", read_only=True)

    def run(self) -> None:
        self.pace = stripline.Pace(self.ports, self.rate)
        assert repr(self.pace) == f"<stripline.Pace of `component`: {self.rate:g} samples/s>"
        try:
            first = self.pace.wait_for(1)
            assert self.pace.wait_for(1001) - first == (0 if self.rate == 0 else 1000e9 / self.rate)
            self.pace.wait_for(2**64 - 1)
        finally:
            self.taken = self.level

    @level.setter
    def set_level(self, level: float) -> None:
        if level == 3:
            # A wait within a wait.
            self.pace.wait_for(1)


def test_a_pace() -> None:
    with pytest.raises(stripline.UsageError, match="the rate of the pace is -1; give samples per second"):
        testing.run(Paced, properties={"rate": -1})
    assert testing.run(Paced).properties == {"taken": 0}
    with testing.Harness(Paced, {"rate": 1e5}) as it:
        it.set("level", 2)
        # The setter runs during the wait, and cannot wait itself.
        with pytest.raises(stripline.Error, match="in use by another thread, or by a call further out"):
            it.set("level", 3)
        it.stop()
        assert it.finish() == {"taken": 2}


def test_a_pace_does_not_keep_its_component() -> None:
    made: list[weakref.ref[stripline.Component]] = []

    class Keeps(Paced):
        def run(self) -> None:
            made.append(weakref.ref(self))
            super().run()

    testing.run(Keeps)
    until = time.monotonic() + TIMEOUT_S
    # The thread of the component may not have ended yet.
    while made[0]() is not None:
        assert time.monotonic() < until
        time.sleep(0.001)
        gc.collect()


def test_other_threads_run_during_a_wait_for_the_pace() -> None:
    class Ticks(stripline.Component):
        def run(self) -> None:
            pace = stripline.Pace(self.ports, 1)
            thread = threading.Thread(target=ticked.set)
            thread.start()
            waits.set()
            pace.wait_for(3600)

    ticked, waits = threading.Event(), threading.Event()
    with testing.Harness(Ticks):
        assert waits.wait(TIMEOUT_S) and ticked.wait(TIMEOUT_S)


class Commanded(stripline.Component):
    """Means of windows, by command."""

    commands = stripline.message_input_port("message/cbor", "what to do", optional=True)
    in_ = stripline.windowed_input_port(np.float32, "samples")
    means = stripline.message_output_port("message/mean{of:u64,value:f64}", "means of four, two apart")
    bias = stripline.float_property(0, "is added", changeable=True)

    def run(self) -> None:
        bias = sum(message.value["bias"] for message in self.commands)
        for window in self.in_.windows(4, hop=2):
            if window.is_whole:
                self.means.send({"of": window.sample_index, "value": float(np.mean(window.samples)) + bias + self.bias})


def test_ports_of_messages_and_of_windows() -> None:
    packets = [np.array(part, np.float32) for part in ([1, 2, 3], [4, 5, 6])]
    result = testing.run(Commanded, {"in": packets, "commands": [{"bias": 1}, {"bias": 2.0}]})
    assert result.messages == {"means": [{"of": 0, "value": 5.5}, {"of": 2, "value": 7.5}]}
    assert (result.outputs, result.packets, result.gaps) == ({}, {}, {"means": []})
    with testing.Harness(Commanded, unconnected=["commands"]) as it:
        in_, means = it.input("in"), it.message_output("means")
        it.set("bias", 3)
        in_.send(np.ones(4, np.float32))
        assert means.receive(TIMEOUT_S).value == {"of": 0, "value": 4.0}
        with pytest.raises(stripline.UsageError, match="has samples; take it by"):
            it.message_input("in")
        with pytest.raises(stripline.UsageError, match="has messages; take it by `message_input`"):
            it.input("commands")
        in_.finish()
        it.finish()
    ports = {port["name"]: port["types"] for port in spec(Commanded)["ports"]}
    assert ports["means"] == {"one-of": ["message/mean{of:u64,value:f64}"]}
    refused(
        "which only `run` can use",
        handle=lambda _: None,
        in_=stripline.message_input_port("message/cbor"),
    )
    with pytest.raises(stripline.UsageError, match="`tune` is not a type of messages"):
        stripline.message_input_port("tune")

"""Changes of properties while a component runs, in a harness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from conftest import TIMEOUT_S

import stripline
from stripline import _components, testing


class Window(stripline.Component):
    """Multiplies packets by a window."""

    in_ = stripline.input_port(np.float32, "samples")
    out = stripline.output_port(np.float32, "weighted samples")
    shape = stripline.choice_property("hann", "of the window", ["hann", "boxcar"], changeable=True)
    length = stripline.integer_property(4, "samples in a packet", range=(2, 99), changeable=True)
    table = stripline.path_property("weights from a file; by default computed")

    def __init__(self) -> None:
        self.derive()

    def change(self, properties: Mapping[str, Any]) -> None:
        self.derive()

    def derive(self) -> None:
        if self.length == 13:
            raise ValueError("no window has 13 samples")
        weights = np.hanning(self.length) if self.shape == "hann" else np.ones(self.length)
        self.weights = weights.astype(np.float32)

    @staticmethod
    def validate(properties: Mapping[str, Any]) -> None:
        if properties["shape"] == "hann" and properties["length"] < 3:
            raise ValueError("a Hann window has at least 3 samples")

    def run(self) -> None:
        for packet in self.in_:
            self.out.send(packet.samples * self.weights)


def test_what_follows_from_properties_is_computed_from_the_new_values() -> None:
    with testing.Harness(Window, {"length": 3}) as window:
        in_, out = window.input("in"), window.output("out")

        def weights(length: int) -> list[float]:
            in_.send(np.ones(length, np.float32))
            found: list[float] = out.receive(TIMEOUT_S).samples.tolist()
            return found

        assert weights(3) == [0, 1, 0]
        window.set("length", 5)
        assert weights(5) == [0, 0.5, 1, 0.5, 0]
        with pytest.raises(stripline.ConfigurationError, match="^no window has 13 samples$"):
            window.set("length", 13)
        # The check of all properties comes before `change`.
        with pytest.raises(stripline.ConfigurationError, match="^a Hann window has at least 3 samples$"):
            window.set("length", 2)
        window.set("shape", "boxcar")
        assert weights(5) == [1] * 5
        window.set("length", 2)
        assert weights(2) == [1, 1]
        with pytest.raises(stripline.ConfigurationError, match="^a Hann window has at least 3 samples$"):
            window.set("shape", "hann")


def test_a_refused_change_gives_the_attributes_back() -> None:
    values = {"shape": "boxcar", "length": 4, "table": ""}
    window = _components._create(Window, values)
    assert isinstance(window, Window)
    new = {**values, "shape": "hann", "length": 13}
    assert _components._change(window, new, ["shape", "length"]) == "no window has 13 samples"
    assert (window.shape, window.length, window.table) == ("boxcar", 4, None)
    assert _components._change(window, {**new, "length": 3}, ["shape", "length"]) is None
    assert (window.shape, window.length, window.weights.tolist()) == ("hann", 3, [0, 1, 0])


def test_setters_find_all_new_values() -> None:
    seen: list[tuple[str, float, float]] = []

    class Band(stripline.Component):
        low = stripline.float_property(1, "low edge", changeable=True)
        high = stripline.float_property(2, "high edge", changeable=True)

        @low.setter
        def set_low(self, low: float) -> None:
            seen.append(("low", self.low, self.high))

        @high.setter
        def set_high(self, high: float) -> None:
            seen.append(("high", self.low, self.high))
            if high == 9:
                raise ValueError("nine")

        def run(self) -> None: ...

    band = _components._create(Band, {"low": 1.0, "high": 2.0})
    assert _components._change(band, {"low": 3.0, "high": 4.0}, ["low", "high"]) is None
    assert seen == [("low", 3, 4), ("high", 3, 4)]
    seen.clear()
    assert _components._change(band, {"low": 5.0, "high": 9.0}, ["low", "high"]) == "nine"
    # The setter that has returned gets the old value back, and finds all old values.
    assert seen == [("low", 5, 9), ("high", 5, 9), ("low", 3, 4)]


def test_a_mistake_in_the_check_refuses_a_change() -> None:
    class Wrong(stripline.Component):
        in_ = stripline.input_port(np.float32, "samples")
        factor = stripline.float_property(1, "gain", changeable=True)

        @staticmethod
        def validate(properties: Mapping[str, Any]) -> None:
            if properties["factor"] == 2:
                raise KeyError("calibration")

        def run(self) -> None:
            for _ in self.in_:
                pass

    mistake = r"^KeyError: 'calibration' \(.*test_changes.py, line \d+\): correct its `validate`$"
    with testing.Harness(Wrong) as wrong:
        with pytest.raises(stripline.ConfigurationError, match=mistake):
            wrong.set("factor", 2)
        wrong.set("factor", 3)


def test_a_misspelt_name_has_a_remedy() -> None:
    with pytest.raises(stripline.Error, match="has no property `lenght`; did you mean `length`?"):
        testing.Harness(Window, {"lenght": 3})
    with pytest.raises(stripline.UsageError, match="has no port `inn`; did you mean `in`?"):
        testing.Harness(Window, types={"inn": np.float32})
    with pytest.raises(stripline.UsageError, match="no such port; did you mean `out`?"):
        testing.Harness(Window, unconnected=["uot"])
    with pytest.raises(stripline.UsageError, match="has no input `train`; there are `in`"):
        testing.run(Window, {"train": np.ones(1, np.float32)})
    with testing.Harness(Window) as window:
        cases: list[tuple[Callable[[str], object], str]] = [
            (window.input, "has no input `inn`; did you mean `in`?"),
            (window.output, "has no output `in`; there are `out`"),
            (window.message_output, "has no output `ouut`; did you mean `out`?"),
        ]
        for take, words in cases:
            with pytest.raises(stripline.UsageError, match=words):
                take(words.split("`")[1])
        with pytest.raises(stripline.Error, match="has no property `len`; its properties are `shape`, `length`"):
            window.set("len", 1)
        with pytest.raises(stripline.Error, match="has no self-test `self`; it has none at all"):
            window.test("self")


def test_the_call_forms_of_properties() -> None:
    made = stripline.choice_property("hann", "of the window", choices=["hann", "flat"])
    assert made.kind == Window.shape.kind or made.kind == {"choice": {"choices": ["hann", "flat"]}}
    wrong: Any = stripline.choice_property
    with pytest.raises(stripline.UsageError, match=r"the summary of a property is a text, not list; .*`choices`"):
        wrong("hann", ["hann", "flat"], "of the window")
    with pytest.raises(stripline.UsageError, match="the choices are words"):
        wrong("hann", "of the window", [])
    other: Any = stripline.float_property
    with pytest.raises(stripline.UsageError, match="the summary of a property is a text, not tuple"):
        other(1.0, (0, 1))

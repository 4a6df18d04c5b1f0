"""A component that fails in a harness: each call of the test gets the failure, and none waits."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import TIMEOUT_S

import stripline
from stripline import testing

FAILURE = "^the component ended with an error: it is broken$"
BAD = 99
ended: list[int] = []


class Fragile(stripline.Component):
    """Forwards samples to two outputs, and fails when it gets the wrong one."""

    in_ = stripline.input_port(np.float32, "samples")
    out = stripline.output_port(np.float32, "the same")
    words = stripline.message_output_port(summary="a message for each packet")
    factor = stripline.float_property(1, "gain", changeable=True)

    def run(self) -> None:
        for packet in self.in_:
            if packet.samples[0] == BAD:
                raise ValueError("it is broken")
            self.out.send(packet.samples)
            self.words.send(int(packet.samples[0]))

    @stripline.self_test("whether it answers")
    def answers(self) -> bool:
        return True


class Early(Fragile):
    """Fails before the first packet."""

    def run(self) -> None:
        raise ValueError("it is broken")


class FragileHandler(stripline.Component):
    """Fails when its handler gets the wrong sample."""

    in_ = stripline.input_port(np.float32, "samples")
    out = stripline.output_port(np.float32, "the same")

    def handle(self, packet: stripline.Packet) -> Any:
        if packet.samples[0] == BAD:
            raise ValueError("it is broken")
        return packet.samples


class Counts(stripline.Component):
    """Sends a packet for each sample, and counts when the stream has ended."""

    in_ = stripline.input_port(np.float32, "samples")
    out = stripline.output_port(np.float32, "the same")
    factor = stripline.float_property(1, "gain", changeable=True)
    samples = stripline.integer_property(0, "samples at the end", read_only=True)

    def run(self) -> None:
        count = 0
        for packet in self.in_:
            for sample in packet.samples:
                self.out.send(of(sample))
                count += 1
        self.samples = count
        ended.append(count)


class Source(stripline.Component):
    """Sends for ever, and takes commands."""

    commands = stripline.message_input_port(summary="what to do", optional=True)
    out = stripline.output_port(np.float32, "ones")

    def run(self) -> None:
        while True:
            command = self.commands.try_receive()
            if command is not None and command.value == "broken":
                raise ValueError("it is broken")
            self.out.send(of(1))
            self.ports.sleep(0.001)


class Goes(stripline.Component):
    """Goes on after the end of its input."""

    in_ = stripline.input_port(np.float32, "samples")

    def run(self) -> None:
        for _ in self.in_:
            pass
        self.ports.sleep(3600)


def of(*samples: float) -> npt.NDArray[np.float32]:
    return np.array(samples, np.float32)


def fails(*calls: Callable[[], object]) -> None:
    for call in calls:
        with pytest.raises(stripline.Error, match=FAILURE):
            call()


def test_packets_before_a_failure_come_first() -> None:
    fragile = testing.Harness(Fragile)
    in_, out, words = fragile.input("in"), fragile.output("out"), fragile.message_output("words")
    for sample in (1, 2, BAD):
        in_.send(of(sample))
    taken = []
    # The end of a stream would end the loop without an exception.
    with pytest.raises(stripline.Error, match=FAILURE):
        for packet in out:
            taken.append(packet.samples.tolist())
    assert taken == [[1], [2]]
    assert [words.receive(TIMEOUT_S).value for _ in range(2)] == [1, 2]
    fails(words.receive, out.receive, out.try_receive, words.try_receive, lambda: out.receive(TIMEOUT_S))
    fails(lambda: next(iter(words)))
    fails(lambda: in_.send(of(1)), lambda: fragile.set("factor", 2), lambda: fragile.test("answers"))
    in_.finish()
    with pytest.raises(ValueError, match="^it is broken$"):
        fragile.finish()
    fails(out.receive)


def test_a_failure_before_the_first_packet() -> None:
    early = testing.Harness(Early)
    fails(early.output("out").receive, early.message_output("words").receive)
    in_ = early.input("in")
    fails(lambda: in_.send(of(1)))
    in_.finish()
    with pytest.raises(ValueError, match="^it is broken$"):
        early.finish()
    with pytest.raises(ValueError, match="^it is broken$"):
        testing.run(Early, {"in": [of(1)] * 100})


def test_a_failure_ends_calls_that_wait() -> None:
    fragile = testing.Harness(Fragile, options={"depth": 2})
    in_, out = fragile.input("in"), fragile.output("out")
    raised: list[BaseException] = []

    def take() -> None:
        try:
            out.receive()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    in_.send(of(BAD))

    def fill() -> None:
        while True:
            in_.send(of(1))

    fails(fill)
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()
    assert [(type(it), str(it)) for it in raised] == [(stripline.Error, FAILURE.strip("^$"))]
    in_.finish()
    with pytest.raises(ValueError, match="^it is broken$"):
        fragile.finish()


@pytest.mark.parametrize("dispatch", ["queue", "pool(3)"])
def test_a_failure_of_a_handler(dispatch: str) -> None:
    fragile = testing.Harness(FragileHandler, options={"dispatch": dispatch})
    in_, out = fragile.input("in"), fragile.output("out")
    in_.send(of(1))
    assert out.receive(TIMEOUT_S).samples.tolist() == [1]
    in_.send(of(BAD))
    for _ in range(2):
        with pytest.raises(stripline.Error, match="^the component ended with an error: .*it is broken"):
            out.receive()
    in_.finish()
    with pytest.raises(ValueError, match="^it is broken$"):
        fragile.finish()


def test_the_end_of_a_block_raises_the_failure() -> None:
    for _ in range(50):
        with pytest.raises(ValueError, match="^it is broken$"), testing.Harness(Fragile) as fragile:
            in_, _out = fragile.input("in"), fragile.output("out")
            in_.send(of(1))
            in_.send(of(BAD))
    with pytest.raises(ValueError, match="^it is broken$"), testing.Harness(Early):
        pass
    # The exception of the test comes first.
    with pytest.raises(LookupError, match="^the test$"), testing.Harness(Fragile) as fragile:
        fragile.input("in").send(of(BAD))
        raise LookupError("the test")


def test_the_end_of_a_block_waits_for_what_was_sent() -> None:
    for _ in range(20):
        # The outputs have room for two packets, and the test takes none.
        with testing.Harness(Counts, options={"depth": 2}) as counts:
            in_, out = counts.input("in"), counts.output("out")
            in_.send(of(*range(9)))
        assert ended.pop() == 9
        with pytest.raises(stripline.UsageError, match="closed"):
            out.receive()


def test_the_end_of_a_block_stops_a_source() -> None:
    with testing.Harness(Source, options={"depth": 2}) as source:
        _out = source.output("out")
    with testing.Harness(Source) as source:
        source.message_input("commands").send("a")
    # A command that is wrong fails the test, though nothing ends the source.
    for _ in range(50):
        with pytest.raises(ValueError, match="^it is broken$"), testing.Harness(Source) as source:
            commands = source.message_input("commands")
            commands.send("a")
            commands.send("broken")


def test_a_component_that_outlives_its_inputs_is_stopped_by_the_test() -> None:
    with testing.Harness(Goes) as goes:
        goes.input("in").send(of(1))
        goes.stop()


def test_the_calls_behind_the_end_name_the_order() -> None:
    counts = testing.Harness(Counts)
    assert counts.finish() == {"samples": 0}
    for call in (lambda: counts.output("out"), lambda: counts.input("in"), lambda: counts.set("factor", 1)):
        with pytest.raises(stripline.UsageError, match="take its ports, and make requests, before `finish`"):
            call()


def test_an_end_of_a_block_warns_of_nothing() -> None:
    code = """
import gc
import numpy as np
from test_failures import Fragile
from stripline import testing
try:
    with testing.Harness(Fragile) as fragile:
        in_ = fragile.input("in")
        in_.send(np.full(1, 99, "f4"))
except ValueError as error:
    print(error)
with testing.Harness(Fragile) as fragile:
    fragile.input("in").send(np.ones(1, "f4"))
try:
    with testing.Harness(Fragile) as fragile:
        in_ = fragile.input("in")
        in_.send(np.full(1, 99, "f4"))
        fragile.finish()
except ValueError as error:
    print(error)
try:
    with testing.Harness(Fragile) as fragile:
        in_ = fragile.input("in")
        raise LookupError("the test")
except LookupError as error:
    print(error)
del in_, fragile
gc.collect()
"""
    command = [sys.executable, "-W", "always", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=Path(__file__).parent)
    assert (done.returncode, done.stdout, done.stderr) == (0, "it is broken\nit is broken\nthe test\n", "")


class Sized(stripline.Component):
    """Sets a read-only property before it runs."""

    in_ = stripline.input_port(np.float32, "samples")
    n = stripline.integer_property(1, "a number")
    tab = stripline.integer_property(0, "its double", read_only=True)

    def __init__(self) -> None:
        self.tab = 2 * self.n

    def run(self) -> None:
        for _ in self.in_:
            pass


class SizedHandler(stripline.Component):
    """Sets a read-only property before it handles packets."""

    in_ = stripline.input_port(np.float32, "samples")
    n = stripline.integer_property(1, "a number")
    tab = stripline.integer_property(0, "its double", read_only=True)

    def __init__(self) -> None:
        self.tab = 2 * self.n

    def handle(self, packet: stripline.Packet) -> None: ...


@pytest.mark.parametrize("component", [Sized, SizedHandler])
def test_the_values_of_the_constructor_are_there_at_once(component: type[stripline.Component]) -> None:
    for n in range(50):
        with testing.Harness(component, {"n": n}) as harness:
            assert harness.properties == {"tab": 2 * n}


def test_a_component_that_fails_at_once_has_its_defaults() -> None:
    class Wrong(Sized):
        def __init__(self) -> None:
            raise ValueError("it is broken")

    class Refused(Sized):
        def __init__(self) -> None:
            self.tab = "no number"  # type: ignore[assignment]

    with pytest.raises(ValueError, match="^it is broken$"):
        testing.Harness(Wrong)
    harness = testing.Harness(Refused)
    assert harness.properties == {"tab": 0}
    with pytest.raises(stripline.UsageError, match="`tab` is declared as a whole number"):
        harness.finish()


def test_a_misspelt_attribute_has_a_remedy() -> None:
    found: list[str] = []

    class Misspelt(Sized):
        @property
        def broken(self) -> int:
            return self.nothing_like_it  # type: ignore[attr-defined, no-any-return]

        def run(self) -> None:
            # The port has no windows, and the names do not exist.
            for read in (
                lambda: self.inn,  # type: ignore[attr-defined]
                lambda: self.broken,
                lambda: self.in_.windows(4),  # type: ignore[attr-defined]
                lambda: self.in_.nothing,  # type: ignore[attr-defined]
            ):
                with pytest.raises(AttributeError) as caught:
                    read()
                found.append(str(caught.value))

    testing.run(Misspelt)
    assert found[0] == "`Misspelt` has no attribute `inn`; did you mean `in_`?"
    assert found[1].startswith("`Misspelt` has no attribute `nothing_like_it`; it has `broken`, ")
    assert "`windowed_input_port`" in found[2]
    assert found[3] == "'stripline.Subscriber' object has no attribute 'nothing'"
    with pytest.raises(AttributeError, match="`n` is there in a component that"):
        Misspelt.__new__(Misspelt).n  # noqa: B018
    with pytest.raises(AttributeError, match="`ports` is there in `run`"):
        Misspelt.__new__(Misspelt).ports  # noqa: B018


def test_a_receive_that_leaves_the_block_has_the_exception_as_its_cause() -> None:
    with pytest.raises(stripline.Error, match=FAILURE) as caught, testing.Harness(Early) as harness:
        harness.output("out").receive(TIMEOUT_S)
    assert repr(caught.value.__cause__) == "ValueError('it is broken')"


def test_a_default_that_the_declaration_refuses_is_printed_whole(tmp_path: Path) -> None:
    script = tmp_path / "component.py"
    script.write_text(
        "import stripline\n"
        "class C(stripline.Component):\n"
        "    g = stripline.float_property(5.0, 'gain', range=(0, 1))\n"
        "    def run(self) -> None: ...\n"
        "stripline.main(C)\n"
    )
    for _ in range(10):
        done = subprocess.run(
            [sys.executable, str(script), "--describe"], capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
        words = "error: the default of `g` is 5; it must be from 0 to 1\n"
        assert (done.returncode, done.stdout, done.stderr) == (1, "", words)

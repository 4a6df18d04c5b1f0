"""Tests of one component, which runs in this process with inputs from the test::

    import numpy as np
    from stripline import testing
    from gain import Gain

    def test_gain() -> None:
        result = testing.run(Gain, {"in": np.ones(4, np.complex64)}, properties={"factor": 2.0})
        assert result.outputs["out"].tolist() == [2, 2, 2, 2]

`Harness` is for tests that change properties while the component runs. A change comes behind the
packets that were sent before::

    def test_change() -> None:
        with testing.Harness(Gain, {"factor": 2.0}) as gain:
            in_, out = gain.input("in"), gain.output("out")
            in_.send(np.ones(1, np.complex64))
            gain.set("factor", 3.0)
            in_.send(np.ones(1, np.complex64))
            assert [out.receive().samples[0] for _ in range(2)] == [2, 3]
            in_.finish()
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from . import _stripline
from ._components import Component, _declared, _properties, _Record, _spec
from ._declare import MessageInputPort, MessageOutputPort, TestResult, _MessagePort, _Port
from ._errors import Error, UsageError
from ._types import Gap, SampleType, StreamInfo, _refused, _topics_text

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._stripline import MessagePublisher, MessageSubscriber, Packet, Publisher, Subscriber

__all__ = ["Feed", "Harness", "Result", "run"]

# The interval at which a thread that takes packets checks that the component still runs.
_CHECK_S = 0.05
# The first words of each error that a test gets for a component that has failed.
_FAILED = "the component ended with an error: "
# The longest wait for the end of a component.
_END_S = 60.0


@dataclass(frozen=True)
class Feed:
    """A packet for an input, with the arguments of `Publisher.send`."""

    samples: Any
    """The samples as an array, or the value of a message."""
    time_ns: int | None = None
    """The time when the first sample was taken, in nanoseconds since the Unix epoch."""
    sample_index: int | None = None
    """The number of the first sample; by default, the next number."""
    stream: StreamInfo | None = None
    """The description of the stream; by default, the description of the previous packet."""


@dataclass(frozen=True)
class Result:
    """The output of a component."""

    outputs: dict[str, npt.NDArray[Any]]
    """The samples of each output, joined from all packets."""
    packets: dict[str, list[Packet]]
    """The packets of each output."""
    messages: dict[str, list[Any]]
    """The values of each output of messages."""
    gaps: dict[str, list[Gap]]
    """The gaps in each output."""
    properties: dict[str, Any]
    """The read-only properties at the end."""


class Harness:
    """Runs one component in this process.

    The end of a `with` block without an exception ends the inputs, closes the outputs, waits for
    the component as `finish` does, and raises the component's exception. A component without a
    mandatory input, such as a source, is stopped once it has handled what was sent. If a component
    goes on after the end of its inputs, call `stop` in the block.

    `properties` are values by name; properties that are not given have their defaults. `types`
    gives the type of a port that takes several. Ports in `unconnected` are not connected. `options`
    are the options of each connection, as in `Node(topics={"default": options})`, with the
    `dispatch` of a handler.

    When the component fails, sends and receives raise `stripline.Error` with the reason. Packets
    that the component sent before its failure are received first.

    Raises the exceptions from the component's `__init__`, and `stripline.Error` for properties
    that the declaration or `validate` refuses.
    """

    def __init__(
        self,
        component: type[Component],
        properties: Mapping[str, Any] | None = None,
        *,
        types: Mapping[str, npt.DTypeLike | SampleType] | None = None,
        unconnected: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._component = component
        self._raised = _Record()
        self._publishers: list[Publisher | MessagePublisher] = []
        # A subscriber that the test has dropped holds the component up no longer.
        self._subscribers: list[weakref.ref[Subscriber | MessageSubscriber]] = []
        self._has_ended = False
        self._harness = _stripline._Harness(component, _spec(component), self._raised)
        self._ports = {it.name: it for it in _declared(component).values() if isinstance(it, _Port)}
        self._types = dict(types or {})
        for name in self._types:
            self._port(name)
            self._harness.set_type(name, self._types[name])
        for name in unconnected:
            self._harness.leave_unconnected(name)
        if options is not None:
            text = _topics_text({"default": options})
            self._harness.set_options(str(text))
        for name, value in (properties or {}).items():
            self._harness.set(name, _plain(value), None)
        try:
            self._harness.start()
        except Error as error:
            self._raise(error)

    def input(self, port: str) -> Publisher:
        """Takes the sending end of an input, once. The `finish` of this publisher ends the input's
        stream."""
        publisher = self._harness.input(port, self._samples(self._port(port, "input")))
        self._publishers.append(publisher)
        return publisher

    def output(self, port: str, *, hold: int = 4, copy: bool = False) -> Subscriber:
        """Takes the receiving end of an output, once. An output that is not taken may block the
        component."""
        subscriber = self._harness.output(port, self._samples(self._port(port, "output")), hold, copy)
        self._subscribers.append(weakref.ref(subscriber))
        return subscriber

    def message_input(self, port: str) -> MessagePublisher:
        """Takes the sending end of an input of messages, like `input`."""
        publisher = self._harness.message_input(port, self._messages(self._port(port, "input")))
        self._publishers.append(publisher)
        return publisher

    def message_output(self, port: str) -> MessageSubscriber:
        """Takes the receiving end of an output of messages, like `output`."""
        subscriber = self._harness.message_output(port, self._messages(self._port(port, "output")))
        self._subscribers.append(weakref.ref(subscriber))
        return subscriber

    def set(self, property: str, value: Any, timeout: float | None = 10.0) -> None:
        """Changes a property, as `stripline set` does. The change comes behind the packets that
        were sent before: the component handles them with the old value, and later ones with the new
        value.

        Raises `stripline.Error` with the reason if the component refuses the value, or does not
        take it within `timeout` seconds."""
        self._harness.set(property, _plain(value), timeout)

    def test(self, name: str, timeout: float | None = 10.0) -> TestResult:
        """Runs a self-test, as `stripline test` does. Waits like `set`."""
        return TestResult(*self._harness.test(name, timeout))

    @property
    def properties(self) -> dict[str, Any]:
        """The current values of the read-only properties, at first the values from `__init__`."""
        # The component's thread passes the first values to the library.
        self._raised.has_values.wait(_END_S)
        return self._typed(self._harness.values())

    def stop(self) -> None:
        """Stops the component: the ports raise `StoppedError`."""
        self._harness.stop()

    def finish(self, timeout: float | None = 60.0) -> dict[str, Any]:
        """Ends the inputs that were not taken, waits for the end of the component, and returns the
        read-only properties.

        Raises the exception of the component. Raises `TimeoutError` if it does not end in time; it
        is then stopped.
        """
        try:
            values = self._harness.finish(timeout)
        except Error as error:
            self._has_ended = True
            self._raise(error)
        except TimeoutError:
            self._has_ended = True
            raise
        self._has_ended = True
        return self._typed(values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        _traceback: object = None,
    ) -> None:
        has_failed = isinstance(error, Error) and str(error).startswith(_FAILED)
        if error is not None and has_failed and error.__cause__ is None and self._raised:
            error.__cause__ = self._raised[-1]
        try:
            if kind is None:
                self._end_block()
        finally:
            self._harness.stop()
            for publisher in self._publishers:
                with contextlib.suppress(Error):
                    publisher.abandon()

    def _end_block(self) -> None:
        deadline = time.monotonic() + _END_S

        def time_left() -> float:
            return max(0.0, deadline - time.monotonic())

        # The component must not wait for a test that receives no longer. A thread of the test that
        # still uses a port goes on.
        for found in self._subscribers:
            if (subscriber := found()) is not None:
                with contextlib.suppress(Error):
                    subscriber.close()
        is_source = all(port.optional for port in self._ports.values() if port._direction == "input")
        if is_source and not self._has_ended:
            self._harness.catch_up(_END_S)
            self._harness.stop()
        for publisher in self._publishers:
            # The failure of the component is raised below.
            with contextlib.suppress(Error, TimeoutError):
                publisher.finish(time_left())
        if not self._has_ended:
            self.finish(round(time_left(), 1))

    def _port(self, name: str, direction: str | None = None) -> _Port:
        found = self._ports.get(name)
        if found is None or direction not in (None, found._direction):
            raise _unknown(self._component, direction or "port", name, self._ports)
        return found

    @staticmethod
    def _messages(port: _Port) -> Any:
        if not isinstance(port, _MessagePort):
            raise _refused(f"port `{port.name}` has samples; take it by `input` or `output`")
        return port.messages

    def _samples(self, port: _Port) -> Any:
        """Returns the type of a port, as the library chooses it."""
        if isinstance(port, _MessagePort):
            raise _refused(f"port `{port.name}` has messages; take it by `message_{port._direction}`")
        if port.name in self._types:
            return self._types[port.name]
        if port.same_as is not None:
            return self._samples(self._port(port.same_as, "input"))
        if len(port.types) == 1:
            return next(iter(port.types.values()))
        raise _refused(f"port `{port.name}` takes several types; name one in `types`")

    def _typed(self, values: dict[str, Any]) -> dict[str, Any]:
        properties = _properties(self._component)
        return {name: properties[name]._value(value) for name, value in values.items()}

    def _raise(self, error: Error) -> NoReturn:
        """Raises the exception of the component, with its traceback."""
        if self._raised:
            raise self._raised[-1] from error
        raise error


def _unknown(component: type[Component], what: str, name: str, ports: Mapping[str, _Port]) -> UsageError:
    """Returns the error for a port that the component does not have."""
    known = [it.name for it in ports.values() if what in ("port", it._direction)]
    remedy = _stripline._did_you_mean(name, known, "there are") or "there are none"
    return _refused(f"component `{component.__name__}` has no {what} `{name}`; {remedy}")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def run(
    component: type[Component],
    inputs: Mapping[str, npt.NDArray[Any] | Iterable[Any]] | None = None,
    *,
    properties: Mapping[str, Any] | None = None,
    types: Mapping[str, npt.DTypeLike | SampleType] | None = None,
    unconnected: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    timeout: float | None = 60.0,
) -> Result:
    """Runs a component from the beginning to the end of its inputs, and returns the output.

    `inputs` has an array for each input, or the packets of the input: arrays, or `Feed` with times.
    For an input of messages, it has the values, or `Feed` with values. An input that is not listed
    is at its end. A port that takes several types has the type of its array. The other arguments
    are the same as for `Harness`. Raises the exceptions from the component, and `TimeoutError`.
    """
    _spec(component)
    ports = [it for it in _declared(component).values() if isinstance(it, _Port)]
    declared = {it.name: it for it in ports if it._direction == "input"}
    fed: dict[str, list[Any]] = {}
    found: dict[str, Any] = {}
    for name, packets in (inputs or {}).items():
        port = declared.get(name)
        if port is None:
            raise _unknown(component, "input", name, declared)
        if isinstance(port, MessageInputPort):
            fed[name] = list(packets)
            continue
        fed[name] = _packets(packets)
        if len(port.types) != 1 and fed[name]:
            found[name] = fed[name][0].samples.dtype
    given = {**found, **(types or {})}
    harness = Harness(component, properties, types=given, unconnected=unconnected, options=options)
    has_ended = threading.Event()
    takers: list[_Taker] = []
    feeders: list[_Feeder] = []
    try:
        for port in ports:
            if port._direction == "output" and port.name not in unconnected:
                is_of_messages = isinstance(port, MessageOutputPort)
                source: Any = (
                    harness.message_output(port.name)
                    if is_of_messages
                    else harness.output(port.name, copy=True)
                )
                takers.append(_Taker(source, port.name, has_ended, is_of_messages))
        for name, packets in fed.items():
            is_of_messages = isinstance(declared[name], MessageInputPort)
            publisher: Any = harness.message_input(name) if is_of_messages else harness.input(name)
            feeders.append(_Feeder(harness, publisher, packets))
        for thread in (*takers, *feeders):
            thread.start()
        values = harness.finish(timeout)
    except BaseException:
        harness.stop()
        has_ended.set()
        for feeder in feeders:
            if feeder.ident is None:
                feeder.publisher.abandon()
        raise
    _join(takers)
    _join(feeders)
    return Result(
        outputs={taker.port: taker.samples() for taker in takers if not taker.is_of_messages},
        packets={taker.port: taker.packets for taker in takers if not taker.is_of_messages},
        messages={taker.port: [it.value for it in taker.packets] for taker in takers if taker.is_of_messages},
        gaps={taker.port: taker.gaps() for taker in takers},
        properties=values,
    )


def _packets(given: Any) -> list[Feed]:
    if isinstance(given, np.ndarray):
        given = [given]
    return [it if isinstance(it, Feed) else Feed(np.asarray(it)) for it in given]


def _join(threads: Sequence[_Thread]) -> None:
    for thread in threads:
        thread.join()
        if thread.raised is not None:
            raise thread.raised


class _Thread(threading.Thread):
    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.raised: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.raised = error

    def work(self) -> None:
        raise NotImplementedError


class _Feeder(_Thread):
    """Sends the packets of an input."""

    def __init__(self, harness: Harness, publisher: Any, packets: list[Any]) -> None:
        super().__init__()
        self.harness = harness
        self.publisher = publisher
        self.packets = packets

    def work(self) -> None:
        try:
            for packet in self.packets:
                if not isinstance(packet, Feed):
                    self.publisher.send(packet)
                    continue
                if packet.stream is not None:
                    self.publisher.set_stream(packet.stream)
                samples = packet.samples
                self.publisher.send(samples, time_ns=packet.time_ns, sample_index=packet.sample_index)
            self.publisher.finish(None)
        except BaseException:
            self.publisher.abandon()
            self.harness.stop()
            raise


class _Taker(_Thread):
    """Takes the packets of an output until its end."""

    def __init__(
        self, source: Any, port: str, has_ended: threading.Event, is_of_messages: bool
    ) -> None:
        super().__init__()
        self.source, self.port, self.has_ended = source, port, has_ended
        self.is_of_messages = is_of_messages
        self.packets: list[Any] = []

    def work(self) -> None:
        while True:
            try:
                self.packets.append(self.source.receive(_CHECK_S))
            except EOFError:
                return
            except TimeoutError:
                # A component that has failed leaves the streams without an end.
                if self.has_ended.is_set():
                    return

    def samples(self) -> npt.NDArray[Any]:
        # Without packets, this gives an empty array.
        nothing = np.empty(0, self.source.dtype)
        return np.concatenate([nothing, *(packet.samples for packet in self.packets)])

    def gaps(self) -> list[Gap]:
        at_end = self.source.gap_at_end()
        found = [packet.gap for packet in self.packets if packet.gap is not None]
        return found if at_end is None else [*found, at_end]

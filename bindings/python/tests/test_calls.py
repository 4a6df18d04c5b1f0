"""Clients and servers of calls in one program."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import pickle
import select
import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import TIMEOUT_S, line, run_python, start_python

import stripline


@dataclasses.dataclass
class Status:
    frequency_hz: float
    tunings: int


@stripline.service
class Tuner:
    """A radio, as in the guide."""

    def __init__(self) -> None:
        self.now = Status(100e6, 0)

    def tune(self, frequency_hz: float) -> float:
        """Tunes in steps of 12.5 kHz, and returns the frequency reached."""
        if not 1e6 <= frequency_hz <= 6e9:
            raise stripline.OperationError({"OutOfRange": {"frequency_hz": frequency_hz}})
        self.now = Status(round(frequency_hz / 12.5e3) * 12.5e3, self.now.tunings + 1)
        return self.now.frequency_hz

    def status(self) -> Status:
        """Returns the state of the radio."""
        return self.now

    def add(self, left: Any, right: Any = 1) -> Any:
        return left + right

    def names(self, *values: Any, **named: Any) -> list[Any]:
        return [list(values), named]

    def only_named(self, *, hz: float, gain: float = 0.0) -> list[float]:
        return [hz, gain]

    def fail(self, kind: str) -> Any:
        if kind == "value":
            raise ValueError("not so")
        if kind == "quiet":
            raise KeyError
        if kind == "set":
            return {1, 2}
        if kind == "own set":
            raise stripline.OperationError({1, 2})
        return kind

    @stripline.operation(request=np.complex64, reply=np.float32)
    def power(self, samples: Any) -> Any:
        return (np.abs(samples) ** 2).astype(np.float32)

    @stripline.operation(name="dotted.name")
    def other(self) -> str:
        return "dotted"

    @staticmethod
    def double(value: Any) -> Any:
        return 2 * value

    def _hidden(self) -> None:
        raise AssertionError


OPERATIONS = ["tune", "status", "add", "names", "only_named", "fail", "power", "dotted.name", "double"]


@pytest.fixture
def tuner(node: stripline.Node) -> Iterator[stripline.Client]:
    with node.server(Tuner()) as server:
        server.start()
        with node.client("tuner", deadline=TIMEOUT_S) as client:
            client.wait_for_servers(timeout=TIMEOUT_S)
            yield client


def test_a_client_is_called_like_an_object(tuner: stripline.Client) -> None:
    assert tuner.tune(433.92e6) == 433.925e6
    assert tuner.status() == {"frequency_hz": 433.925e6, "tunings": 1}
    assert tuner.tune(frequency_hz=100e6) == 100e6
    assert tuner.add(1, 2) == 3 and tuner.add([1], [2]) == [1, 2] and tuner.add(4) == 5
    assert tuner.add(left="a", right="b") == "ab" and tuner.add(right=2, left=3) == 5
    assert tuner.names(1, "a") == [[1, "a"], {}] and tuner.names(a=1) == [[], {"a": 1}]
    assert tuner.names() == [[], {}]
    assert tuner.only_named(hz=1.5) == [1.5, 0.0] and tuner.only_named(hz=1.0, gain=2.0) == [1.0, 2.0]
    assert tuner.double(21) == 42
    assert tuner.operation("dotted.name")() == "dotted"
    assert tuner.counts() == (15, 0)
    assert repr(tuner.tune) == "<stripline.Operation `tuner.tune`>"
    with pytest.raises(stripline.UsageError, match="by position, or by name"):
        tuner.add(1, right=2)
    with pytest.raises(AttributeError):
        tuner._private()


def test_errors_of_the_service_are_exceptions(tuner: stripline.Client) -> None:
    with pytest.raises(stripline.OperationError, match=r"`tuner.tune`: {'OutOfRange'") as own:
        tuner.tune(7e9)
    assert own.value.value == {"OutOfRange": {"frequency_hz": 7e9}}
    assert own.value.code == "user-error" and own.value.remedy
    copy = pickle.loads(pickle.dumps(own.value))
    assert copy.value == own.value.value and str(copy) == str(own.value)

    def refused(code: str, words: str, call: Any) -> None:
        with pytest.raises(stripline.CallRefusedError, match=words) as found:
            call()
        assert found.value.code == code and found.value.remedy

    refused("handler-panicked", "ValueError: not so", lambda: tuner.fail("value"))
    refused("handler-panicked", "panicked: KeyError$", lambda: tuner.fail("quiet"))
    refused("handler-panicked", "the reply of `tuner.fail`: set has no form", lambda: tuner.fail("set"))
    refused("handler-panicked", "the error of `tuner.fail`: set has no form", lambda: tuner.fail("own set"))
    # Without an argument, the request is `None`.
    refused("handler-panicked", "TypeError: .*NoneType", lambda: tuner.tune())
    refused("wrong-type", "missing a required argument: 'left'", lambda: tuner.add(right=2))
    refused("wrong-type", "too many positional arguments", lambda: tuner.add(1, 2, 3))
    refused("wrong-type", "tuner.only_named: ", lambda: tuner.only_named(5))
    refused("wrong-type", "tuner.status: too many", lambda: tuner.status(5))
    refused("unknown-operation", "it has tune, status", lambda: tuner.unknown())
    # The server and the client continue.
    assert tuner.fail("nothing") == "nothing"


def test_requests_that_cannot_be_sent_are_named(tuner: stripline.Client) -> None:
    with pytest.raises(stripline.UsageError, match=r"the request of `tuner.add`\[1\]: set has no form"):
        tuner.add(1, {2})
    with pytest.raises(stripline.UsageError, match="port `tuner.power` sends complex64"):
        tuner.power(np.ones(2))
    assert tuner.counts() == (0, 0)


def test_samples_travel_as_arrays(tuner: stripline.Client) -> None:
    samples = np.array([1, 2j, 3 + 4j], np.complex64)
    power = tuner.power(samples)
    assert power.dtype == np.float32 and power.tolist() == [1, 4, 25] and power.flags.writeable
    assert tuner.power(samples[:0]).shape == (0,)
    large = np.ones(1_000_000, np.complex64)
    assert np.array_equal(tuner.power(large), np.ones(1_000_000, np.float32))


def test_large_values_travel(tuner: stripline.Client) -> None:
    assert tuner.double("x" * 3_000_000) == "x" * 6_000_000


def test_pending_calls(tuner: stripline.Client) -> None:
    calls = [tuner.double.start(number) for number in range(200)]
    assert [call.wait() for call in calls] == [2 * number for number in range(200)]
    call = calls[3]
    assert call.wait() == 6 and call.done() and call.wait(0) == 6
    call.cancel()
    assert call.wait() == 6 and "`tuner.double`" in repr(call)
    failed = tuner.tune.start(1.0)
    for _ in range(2):
        with pytest.raises(stripline.OperationError):
            failed.wait()
    (server,) = tuner.servers()
    assert server.connected and server.outstanding == 0 and server.late == 0
    assert [it.name for it in server.operations] == OPERATIONS


def test_calls_that_are_not_answered(node: stripline.Node) -> None:
    server = node.server(Tuner(), name="a")
    with node.client("tuner", deadline=TIMEOUT_S) as client:
        client.wait_for_servers(1, TIMEOUT_S)
        call = client.double.start(1)
        assert not call.done() and 0 < call.time_left <= TIMEOUT_S
        with pytest.raises(TimeoutError, match="`tuner.double` did not answer within 0.001 s"):
            call.wait(0.001)
        with pytest.raises(stripline.UnansweredError, match="did not answer within 1ms") as late:
            client.with_options(deadline=0.001).double(2)
        assert isinstance(late.value, TimeoutError) and late.value.code == "call-unanswered"
        soon = client.with_options(deadline=0.001, key=7).double.start(3)
        with pytest.raises(stripline.UnansweredError):
            soon.wait()
        assert soon.done()
        cancelled = client.double.start(4)
        cancelled.cancel()
        with pytest.raises(stripline.CallError) as found:
            cancelled.wait()
        assert found.value.code == "call-cancelled"
        del soon, cancelled
        # Only the first call still waits: the others ended before the server took them.
        assert server.serve_one(TIMEOUT_S)
        assert call.wait() == 2
        assert not server.serve_one(0.001)
        assert server.counts().calls == 1 and server.counts().clients == 1
        last = client.double.start(5)
        server.close()
        with pytest.raises(stripline.ServerGoneError) as gone:
            last.wait()
        assert gone.value.code == "server-gone"
    for timeout in (-1.0, math.nan):
        with pytest.raises(ValueError):
            node.client("tuner", deadline=timeout)


def test_no_server(node: stripline.Node) -> None:
    client = node.client("tuner", deadline=0.001)
    for call in (lambda: client.tune(1), lambda: client.tune.start(1)):
        with pytest.raises(stripline.NoServerError, match="no server of `tuner`.* within 1ms") as none:
            call()
        assert none.value.code == "no-server" and "Start a server" in none.value.remedy
    with pytest.raises(TimeoutError, match="service `tuner`: 2 servers did not come within 0.001 s"):
        client.wait_for_servers(2, 0.001)
    assert client.servers() == []
    client.close()
    client.close()
    with pytest.raises(stripline.UsageError, match="client of `tuner` is closed"):
        client.tune(1)


def test_limits_and_names(node: stripline.Node) -> None:
    for make, words in (
        (lambda: node.client("no name"), "`no name` is not a valid service name"),
        (lambda: node.client("a", deadline=4000.0), "at most an hour"),
        (lambda: node.client("a", deadline=0.0), "not zero"),
        (lambda: node.client("a", outstanding=0), "outstanding is 0; it must be from 1"),
        (lambda: node.server(Tuner(), service="no name"), "`no name` is not a valid service name"),
        (lambda: node.server(Tuner(), clients=0), "clients is 0"),
        (lambda: node.server(Tuner(), waiting=5000), "waiting is out of range"),
        (lambda: node.server(Tuner(), name="x" * 65), "from 1 to 64 bytes"),
        (lambda: node.server(Tuner(), transport="none"), "there is no transport `none`"),
        (lambda: node.server(Tuner), "the class `Tuner` is not a service; pass an object"),
        (lambda: node.server(3), "3 is not a service"),
        (lambda: stripline.service(type("Empty", (), {})), "no public method"),
        (lambda: stripline.service(3), "for classes, not for int"),  # type: ignore[call-overload]
    ):
        with pytest.raises(stripline.Error, match=words):
            make()
    client = node.client("tuner", deadline=TIMEOUT_S, outstanding=2)
    server = node.server(Tuner())
    kept = [client.double.start(1), client.double.start(2)]
    with pytest.raises(stripline.CallError, match="2 calls are outstanding, which is the limit") as many:
        client.double.start(3)
    assert many.value.code == "too-many-calls"
    del kept
    server.close()
    with pytest.raises(stripline.UsageError, match="server of `tuner` is closed"):
        server.serve()


def test_names_of_classes() -> None:
    for name, expected in (("Tuner", "tuner"), ("SignalTuner", "signal-tuner"), ("IQSource2", "iq-source2"),
                           ("a_b", "a-b")):  # fmt: skip
        made = stripline.service(type(name, (), {"run": lambda self: None}))
        assert getattr(made, "__stripline_service__") == expected
    named = stripline.service(name="other")(type("Tuner", (), {"run": lambda self: None}))
    assert getattr(named, "__stripline_service__") == "other"

    class Wider(Tuner):
        def more(self) -> int:
            return 1

    with stripline.Node.isolated() as node, node.server(Wider()) as server:
        assert [it.name for it in server.operations()] == [*OPERATIONS, "more"]
        assert server.service == "tuner" and server.address.startswith("shm:")
        assert server.operations()[0].doc.startswith("Tunes in steps of 12.5 kHz")
        assert server.operations()[6].request == "cf32" and server.operations()[6].reply == "f32"
        (described,) = node.servers()
        assert described.service == "tuner" and described.address == server.address
        assert described.operations == tuple(server.operations())


def test_a_server_that_has_waited_keeps_its_order_and_refuses_beyond(node: stripline.Node) -> None:
    with node.server(Tuner(), waiting=1) as server, node.client("tuner", deadline=TIMEOUT_S) as client:
        client.wait_for_servers(1, TIMEOUT_S)
        calls = [client.double.start(number) for number in range(10)]
        server.start()
        codes = []
        for call in calls:
            try:
                call.wait()
                codes.append("")
            except stripline.CallRefusedError as error:
                codes.append(error.code)
        assert codes[0] == "" and set(codes[1:]) <= {"", "overloaded"} and "overloaded" in codes


@stripline.service
class Odd:
    """Handlers that misuse the server."""

    def __init__(self, node: stripline.Node) -> None:
        self.client = node.client("odd", deadline=TIMEOUT_S)
        self.server: stripline.Server | None = None
        self.gate, self.began = threading.Event(), threading.Event()

    def echo(self, value: Any) -> Any:
        return value

    def itself(self) -> Any:
        return self.client.echo(1)

    def exit(self, how: str) -> None:
        raise SystemExit(how)

    def interrupt(self) -> None:
        raise KeyboardInterrupt

    def end(self) -> str:
        assert self.server is not None
        self.server.close()
        self.server = None
        return "closed"

    def wait(self) -> str:
        self.began.set()
        self.gate.wait(TIMEOUT_S)
        return "late"

    def serve(self) -> None:
        assert self.server is not None
        self.server.serve()

    def deep(self) -> None:
        self.deep()


@pytest.fixture
def odd(node: stripline.Node) -> Iterator[tuple[stripline.Server, stripline.Client, Odd]]:
    serves = Odd(node)
    server = node.server(serves)
    serves.server = server
    client = node.client("odd", deadline=TIMEOUT_S)
    client.wait_for_servers(1, TIMEOUT_S)
    yield server, client, serves
    serves.gate.set()
    server.close()


def test_a_handler_that_calls_itself_is_a_cycle(odd: tuple[stripline.Server, stripline.Client, Odd]) -> None:
    server, client, serves = odd
    server.start()
    serves.client.wait_for_servers(1, TIMEOUT_S)
    with pytest.raises(stripline.CallRefusedError, match="a cycle of calls"):
        client.itself()
    with pytest.raises(stripline.CallRefusedError, match="RecursionError"):
        client.deep()
    with pytest.raises(stripline.CallRefusedError, match="is in use"):
        client.serve()
    assert client.echo(1) == 1


def test_a_handler_that_exits_ends_the_server(odd: tuple[stripline.Server, stripline.Client, Odd]) -> None:
    server, client, _ = odd
    call, after = client.exit.start("bye"), client.echo.start(1)
    with pytest.raises(SystemExit, match="bye"):
        server.serve()
    with pytest.raises(stripline.CallRefusedError, match="the handler ended its server: SystemExit: bye"):
        call.wait()
    call = client.interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            server.serve_one()
    # The call that followed `exit` is not lost.
    assert after.wait() == 1
    call = client.exit.start("thread")
    server.start()
    with pytest.raises(stripline.CallRefusedError, match="SystemExit: thread"):
        call.wait()
    with pytest.raises(stripline.CallError):
        client.with_options(deadline=0.1).echo(2)
    with pytest.raises(stripline.UsageError, match="thread already"):
        server.start()


def test_a_handler_that_closes_its_server(odd: tuple[stripline.Server, stripline.Client, Odd]) -> None:
    server, client, _ = odd
    call = client.end.start()
    server.serve()
    assert call.wait() == "closed"
    with pytest.raises(stripline.UsageError, match="is closed"):
        server.serve_one(0)


def test_a_handler_that_does_not_return(odd: tuple[stripline.Server, stripline.Client, Odd]) -> None:
    server, client, serves = odd
    server.start()
    call = client.wait.start()
    assert serves.began.wait(TIMEOUT_S)
    with pytest.raises(stripline.UnansweredError):
        client.with_options(deadline=0.01).echo(1)
    with pytest.raises(TimeoutError, match="a handler of `odd` did not return within 0.001 s"):
        server.close(0.001)
    serves.gate.set()
    server.close()
    # The call was answered before the server ended.
    assert call.wait() == "late"


def test_one_thread_serves_at_a_time(odd: tuple[stripline.Server, stripline.Client, Odd]) -> None:
    server, client, _ = odd
    server.start()
    assert client.echo(1) == 1
    with pytest.raises(stripline.UsageError, match="server of `odd` is in use") as used:
        server.serve_one()
    assert used.value.code == "in-use"
    assert server.counts().calls >= 0 and server.operations()


def test_many_threads_call(tuner: stripline.Client) -> None:
    failed: list[BaseException] = []

    def call(first: int) -> None:
        try:
            for number in range(first, first + 100):
                assert tuner.double(number) == 2 * number
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=call, args=(1000 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert failed == []


def test_a_stopped_node_ends_calls_and_serving(node: stripline.Node) -> None:
    server = node.server(Tuner())
    client = node.client("tuner", deadline=TIMEOUT_S)
    client.wait_for_servers(1, TIMEOUT_S)
    call = client.double.start(1)
    node.stop()
    with pytest.raises(stripline.StoppedError):
        call.wait()
    with pytest.raises(stripline.StoppedError):
        client.double(1)
    with pytest.raises(stripline.StoppedError):
        server.serve_one()
    server.serve()
    asyncio.run(server.serve_async())
    server.close()


def test_a_loop_of_the_programs_own(tuner: stripline.Client) -> None:
    poll = select.poll()
    poll.register(tuner, select.POLLIN)
    calls = [tuner.double.start(number) for number in range(10)]
    while not all([call.done() for call in calls]):
        if tuner.arm():
            assert poll.poll(TIMEOUT_S * 1000)
    assert [call.wait(0) for call in calls] == [2 * number for number in range(10)]


@stripline.service(name="radio")
class AsyncRadio:
    """A service with handlers that wait."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.cancelled = 0

    async def wait(self, value: Any) -> Any:
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return value

    async def open(self) -> None:
        self.opened.set()

    def plain(self, value: Any) -> Any:
        return value

    async def fail(self) -> None:
        raise ValueError("later")

    async def own(self) -> None:
        raise stripline.OperationError("own")

    async def end(self) -> None:
        self.server.close()

    server: stripline.Server


def test_handlers_that_wait_run_at_once(node: stripline.Node) -> None:
    async def main() -> None:
        radio = AsyncRadio()
        server = node.server(radio)
        client = node.async_client("radio", deadline=TIMEOUT_S)
        serving = asyncio.create_task(server.serve_async())
        # The handlers of these 100 calls wait until `open`.
        calls = [asyncio.create_task(client.wait(number)) for number in range(100)]
        assert await client.plain("plain") == "plain"
        with pytest.raises(stripline.CallRefusedError, match="ValueError: later"):
            await client.fail()
        with pytest.raises(stripline.OperationError) as own:
            await client.own()
        assert own.value.value == "own"
        with pytest.raises(stripline.CallRefusedError, match="wrong|missing|too many"):
            await client.open(1, 2)
        assert not any(call.done() for call in calls)
        await client.open()
        assert await asyncio.gather(*calls) == list(range(100))
        with pytest.raises(stripline.UsageError, match="async def"):
            server.serve_one()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        server.close()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


def test_a_server_that_is_closed_ends_its_handlers(node: stripline.Node) -> None:
    async def main() -> None:
        radio = AsyncRadio()
        radio.server = server = node.server(radio)
        client = node.async_client("radio", deadline=TIMEOUT_S)
        serving = asyncio.create_task(server.serve_async())
        call = asyncio.create_task(client.wait(1))
        assert await client.plain(2) == 2
        closing = asyncio.create_task(client.end())
        await serving
        # The call to `end` was answered, although the handler of that call closed the server.
        assert await closing is None
        with pytest.raises(stripline.CallError):
            await call
        assert radio.cancelled == 1
        with pytest.raises(stripline.UsageError, match="is closed"):
            await server.serve_async()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


def test_async_clients_wait_for_servers_and_deadlines(node: stripline.Node) -> None:
    async def main() -> None:
        client = node.async_client("tuner", deadline=TIMEOUT_S)
        with pytest.raises(stripline.NoServerError, match="within 10ms"):
            await client.with_options(deadline=0.01).tune(1e6)
        early = asyncio.create_task(client.tune(433.92e6))
        await asyncio.sleep(0.001)
        server = node.server(Tuner())
        for _ in range(10):
            await asyncio.sleep(0)
        with pytest.raises(stripline.UnansweredError):
            await client.with_options(deadline=0.01).double(1)
        cancelled = asyncio.create_task(client.double(2))
        await asyncio.sleep(0.001)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.double(3), 0.01)
        server.start()
        assert await early == 433.925e6
        # The server does not run the calls that were cancelled, or that ended at the deadline.
        assert await client.double("x" * 2_000_000) == "x" * 4_000_000
        assert client.servers()[0].server and client.counts()[0] >= 4
        server.close()
        with pytest.raises(stripline.CallError):
            await client.with_options(deadline=0.01).double(4)
        client.close()
        with pytest.raises(stripline.UsageError, match="is closed"):
            await client.double(1)

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


def test_pending_calls_are_awaited(tuner: stripline.Client) -> None:
    async def main() -> None:
        calls = [tuner.double.start(number) for number in range(20)]
        assert [await call for call in calls] == [2 * number for number in range(20)]
        assert await calls[0] == 0
        # Meanwhile, other threads call through the same client.
        loop = asyncio.get_running_loop()
        threads = [loop.run_in_executor(None, tuner.double, number) for number in range(50)]
        for number in range(50):
            assert await tuner.double.start(number) == 2 * number
        assert await asyncio.gather(*threads) == [2 * number for number in range(50)]

    for _ in range(2):
        asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


def test_a_stopped_node_ends_awaited_calls(node: stripline.Node) -> None:
    async def main() -> None:
        server = node.server(Tuner())
        client = node.async_client("tuner", deadline=TIMEOUT_S)
        calls = [asyncio.create_task(client.double(number)) for number in range(3)]
        await asyncio.sleep(0.001)
        node.stop()
        for call in calls:
            with pytest.raises(stripline.StoppedError):
                await call
        server.close()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


BEGIN = """
import asyncio, os, signal, sys, threading
import stripline
node = stripline.Node.isolated()
@stripline.service
class Slow:
    def wait(self, value):
        began.set()
        gate.wait()
        return value
    def loop(self):
        print("in the handler", flush=True)
        while True:
            pass
    def echo(self, value):
        return value
gate, began = threading.Event(), threading.Event()
server = node.server(Slow())
client = node.client("slow", deadline=3600)
client.wait_for_servers(1)
nobody = node.client("nobody", deadline=3600)
def run(coroutine):
    async def main():
        # The loop has its handler of signals.
        print("waits", flush=True)
        await coroutine
    asyncio.run(main())
"""

WAITS = {
    "call": "client.wait(1)",
    "pending": "client.wait.start(1).wait()",
    "pending with a timeout": "client.wait.start(1).wait(1000)",
    "no server": "nobody.wait(1)",
    "start without a server": "nobody.wait.start(1)",
    "wait_for_servers": "nobody.wait_for_servers()",
    "serve": "server.serve()",
    "serve_one": "server.serve_one()",
    "asyncio": "run(node.async_client('slow', deadline=3600).wait(1))",
    "serve_async": "run(server.serve_async())",
    "close": "server.start(); pending = client.wait.start(1); began.wait(); server.close(3600)",
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_each_wait(wait: str) -> None:
    program = start_python(BEGIN + f"""
kept = client.echo.start("kept") if {not wait.startswith("serve")} else None
try:
    if {"run(" not in WAITS[wait]}:
        print("waits", flush=True)
    {WAITS[wait]}
except KeyboardInterrupt:
    print("interrupted", flush=True)
gate.set()
if {wait != "close"}:
    server.start()
    if kept is not None:
        assert kept.wait() == "kept"
    assert client.echo(2) == 2
server.close()
print("done", flush=True)
""")
    assert line(program) == "waits"
    program.send_signal(signal.SIGINT)
    assert [line(program), line(program)] == ["interrupted", "done"]
    assert program.wait() == 0


def test_ctrl_c_in_a_handler_ends_the_serving() -> None:
    program = start_python(BEGIN + """
call = client.loop.start()
try:
    server.serve()
except KeyboardInterrupt:
    print("interrupted", flush=True)
try:
    call.wait()
except stripline.CallRefusedError as error:
    print(error.code, flush=True)
server.close()
""")
    assert line(program) == "in the handler"
    program.send_signal(signal.SIGINT)
    assert [line(program), line(program)] == ["interrupted", "handler-panicked"]
    assert program.wait() == 0


def test_a_programs_handler_of_signals_keeps_the_call() -> None:
    program = start_python(BEGIN + """
count = 0
def handler(number, frame):
    global count
    count += 1
    print("handled", count, flush=True)
    if count == 3:
        gate.set()
signal.signal(signal.SIGUSR1, handler)
server.start()
print("waits", flush=True)
print(client.wait("reply"), flush=True)
server.close()
""")
    assert line(program) == "waits"
    for number in (1, 2, 3):
        program.send_signal(signal.SIGUSR1)
        assert line(program) == f"handled {number}"
    assert line(program) == "reply"
    assert program.wait() == 0


def test_ctrl_c_reaches_the_main_thread_beside_others() -> None:
    program = start_python(BEGIN + """
threads = [threading.Thread(target=client.wait, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
server.start()
try:
    print("waits", flush=True)
    client.wait("main")
except KeyboardInterrupt:
    print("interrupted", flush=True)
gate.set()
for thread in threads:
    thread.join()
server.close()
print("done", flush=True)
""")
    assert line(program) == "waits"
    program.send_signal(signal.SIGINT)
    assert [line(program), line(program)] == ["interrupted", "done"]
    assert program.wait() == 0


@pytest.mark.parametrize("end", ["", "os._exit(0)", "sys.exit()", "del server, client, node"])
def test_a_program_ends_with_all_open(end: str) -> None:
    ended = run_python(BEGIN + f"""
server.start()
assert client.echo(1) == 1
pending = client.wait.start(1)
threading.Thread(target=client.wait, args=(1,), daemon=True).start()
{end}
""")
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)


def test_a_forked_child_leaves_calls_alone() -> None:
    ended = run_python(BEGIN + """
pending = client.echo.start(1)
child = os.fork()
if child == 0:
    for use in (lambda: client.echo(1), pending.wait, server.serve, lambda: pending.done()):
        try:
            use()
        except stripline.ForkedError as error:
            assert error.code == "forked"
        else:
            os._exit(1)
    del pending, server, client
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
server.start()
assert pending.wait() == 1 and client.echo(2) == 2
server.close()
""")
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)

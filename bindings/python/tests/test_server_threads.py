"""Servers with several threads: `serve(threads=n)` and `start(threads=n)`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import TIMEOUT_S, line, run_python, start_python

import stripline


@stripline.service
class Radio:
    """Handlers that wait for each other, and handlers that wait for the test."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(3)
        self.gate, self.begun = threading.Event(), threading.Semaphore(0)
        self.order: list[int] = []
        self.server: stripline.Server | None = None
        self.client: stripline.Client | None = None

    def meet(self, number: int) -> int:
        self.barrier.wait(TIMEOUT_S)
        return number

    def wait(self, number: int) -> int:
        self.begun.release()
        assert self.gate.wait(TIMEOUT_S)
        return number

    def note(self, number: int) -> int:
        self.order.append(number)
        return number

    def itself(self, depth: int) -> Any:
        assert self.client is not None
        return self.client.itself(depth - 1) if depth else "bottom"

    def end(self) -> str:
        assert self.server is not None
        self.server.close()
        return "closed"

    def fail(self) -> None:
        raise ValueError("no")

    def exit(self) -> None:
        raise SystemExit("bye")


@pytest.fixture
def radio(node: stripline.Node) -> Iterator[tuple[stripline.Server, stripline.Client, Radio]]:
    serves = Radio()
    server = serves.server = node.server(serves)
    client = serves.client = node.client("radio", deadline=TIMEOUT_S)
    client.wait_for_servers(1, TIMEOUT_S)
    yield server, client, serves
    serves.gate.set()
    server.close()


Ends = tuple[stripline.Server, stripline.Client, Radio]


def test_as_many_handlers_run_at_once(radio: Ends) -> None:
    server, client, _ = radio
    server.start(threads=3)
    # No call returns before all three have begun.
    calls = [client.meet.start(number) for number in range(3)]
    assert [call.wait() for call in calls] == [0, 1, 2]
    with pytest.raises(stripline.CallRefusedError, match="ValueError: no"):
        client.fail()
    assert client.note(1) == 1
    counts = server.counts()
    assert (counts.calls, counts.clients) == (5, 1)


def test_calls_begin_in_order_and_wait_for_a_thread(radio: Ends) -> None:
    server, client, serves = radio
    server.start(threads=2)
    held = client.wait.start(-1)
    assert serves.begun.acquire(timeout=TIMEOUT_S)
    # The other thread handles all calls, one after the other, and is not blocked.
    calls = [client.note.start(number) for number in range(50)]
    assert [call.wait() for call in calls] == list(range(50))
    assert serves.order == list(range(50)) and not held.done()
    # With both threads in a handler, the next call waits.
    second = client.wait.start(-2)
    assert serves.begun.acquire(timeout=TIMEOUT_S)
    with pytest.raises(stripline.UnansweredError):
        client.with_options(deadline=0.01).note(100)
    serves.gate.set()
    assert (held.wait(), second.wait()) == (-1, -2)
    assert client.note(51) == 51
    # The call that was cancelled was not started.
    assert serves.order == [*range(50), 51]


def test_more_calls_than_may_wait_are_refused(node: stripline.Node) -> None:
    serves = Radio()
    with node.server(serves, waiting=1) as server, node.client("radio", deadline=TIMEOUT_S) as client:
        client.wait_for_servers(1, TIMEOUT_S)
        server.start(threads=2)
        held = [client.wait.start(number) for number in range(2)]
        for _ in held:
            assert serves.begun.acquire(timeout=TIMEOUT_S)
        calls = [client.note.start(number) for number in range(10)]
        serves.gate.set()
        assert [call.wait() for call in held] == [0, 1]
        codes = []
        for call in calls:
            try:
                call.wait()
                codes.append("")
            except stripline.CallRefusedError as error:
                codes.append(error.code)
        assert set(codes) == {"", "overloaded"}


def test_a_chain_of_calls_ends_where_no_thread_is_left(radio: Ends) -> None:
    server, client, serves = radio
    server.start(threads=2)
    assert client.itself(1) == "bottom"
    with pytest.raises(stripline.CallRefusedError, match="a cycle of calls"):
        client.itself(2)
    assert client.note(1) == 1


def test_a_handler_closes_its_server(radio: Ends) -> None:
    server, client, _ = radio
    call = client.end.start()
    server.serve(threads=2)
    assert call.wait() == "closed"
    with pytest.raises(stripline.UsageError, match="is closed"):
        server.serve(threads=2)


def test_a_handler_that_exits_ends_all_threads(radio: Ends) -> None:
    server, client, serves = radio
    held, call = client.wait.start(1), client.exit.start()

    def open_gate() -> None:
        if serves.begun.acquire(timeout=TIMEOUT_S):
            serves.gate.set()

    threading.Thread(target=open_gate).start()
    with pytest.raises(SystemExit, match="bye"):
        server.serve(threads=2)
    with pytest.raises(stripline.CallRefusedError, match="SystemExit: bye"):
        call.wait()
    # The call that ran beside it was answered, and the server can continue.
    assert held.wait() == 1
    server.start(threads=2)
    assert client.note(1) == 1


def test_a_stopped_node_ends_them(node: stripline.Node) -> None:
    server = node.server(Radio())
    served = threading.Thread(target=server.serve, args=(2,))
    served.start()
    node.stop()
    served.join(TIMEOUT_S)
    assert not served.is_alive()


def test_threads_that_cannot_be(node: stripline.Node) -> None:
    @stripline.service
    class Later:
        async def now(self) -> None:
            pass

    with node.server(Radio()) as server, node.server(Later()) as later:
        for threads in (0, 257):
            with pytest.raises(stripline.Error, match=f"{threads}"):
                server.serve(threads=threads)
        for use in (later.serve, later.start):
            with pytest.raises(stripline.UsageError, match="`async def`, which run at once"):
                use(threads=2)


BEGIN = """
import os, sys, threading
import stripline

node = stripline.Node.isolated()

@stripline.service
class Slow:
    def wait(self):
        begun.release()
        gate.wait(60)
        return "late"
    def echo(self, value):
        return value

gate, begun = threading.Event(), threading.Semaphore(0)
server = node.server(Slow())
client = node.client("slow", deadline=3600)
client.wait_for_servers(1)
"""


def test_ctrl_c_ends_the_serving() -> None:
    program = start_python(BEGIN + """
call = client.wait.start()
def open_later():
    begun.acquire()
    print("waits", flush=True)
threading.Thread(target=open_later).start()
import signal
def handler(number, frame):
    gate.set()
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, handler)
try:
    server.serve(threads=2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
server.start(threads=2)
print(call.wait(), client.echo("kept"), flush=True)
server.close()
""")
    assert line(program) == "waits"
    program.send_signal(signal.SIGINT)
    assert [line(program), line(program)] == ["interrupted", "late kept"]
    assert program.wait() == 0


@pytest.mark.parametrize("end", ["", "os._exit(0)", "sys.exit()", "del server, client, node"])
def test_a_program_ends_with_handlers_that_run(end: str) -> None:
    ended = run_python(BEGIN + f"""
server.start(threads=3)
assert client.echo(1) == 1
calls = [client.wait.start() for _ in range(2)]
for _ in calls:
    begun.acquire()
{end}
""")
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)

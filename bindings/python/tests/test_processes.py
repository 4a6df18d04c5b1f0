"""Forks, ends of the interpreter, and links to programs in Rust."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import TIMEOUT_S, line, linked, run_python, start, start_python

import stripline

NUMBERS = os.environ["STRIPLINE_NUMBERS"]
TRANSPORTS = ["shm", "uds", "tcp"]

BEGIN = """
import gc, os, sys, threading
import numpy as np
import stripline

one = np.ones(1, np.float32)
node = stripline.Node.isolated()
in_ = node.subscriber("topic", np.float32)
out = node.publisher("topic", np.float32)
out.wait_for_receivers(1)
"""


def topics_of(transport: str) -> str:
    return f"[default]\ntransport = '{transport}'\n"


def start_numbers(role: str, domain: str, transport: str, packets: int, samples: int) -> subprocess.Popen[str]:
    return start(NUMBERS, role, domain, topics_of(transport), str(packets), str(samples))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_packets_from_rust(domain: str, transport: str) -> None:
    with stripline.Node(domain, topics=topics_of(transport)) as node:
        in_ = node.subscriber("numbers", np.uint32)
        rust = start_numbers("send", domain, transport, 500, 600)
        next_ = 0
        for packet in in_:
            assert (packet.sequence, packet.sample_index, packet.gap) == (next_ // 600, next_, None)
            assert (packet.stream.id, packet.stream.sample_rate_hz) == ("of Rust", 2.5e5)
            assert (packet.samples == np.arange(next_, next_ + 600, dtype=np.uint32)).all()
            next_ += len(packet)
        assert next_ == 500 * 600
        assert line(rust) == "sent 500" and rust.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("way", ["send", "loan"])
def test_packets_to_rust(domain: str, transport: str, way: str) -> None:
    rust = start_numbers("receive", domain, transport, 500, 600)
    assert line(rust) == "waits"
    # The values that the program in Rust expects of the peers.
    about = stripline.StreamInfo("of C++", 5e5)
    with stripline.Node(domain, topics=topics_of(transport)) as node:
        with node.publisher("numbers", np.uint32, stream=about) as out:
            out.wait_for_receivers(1, TIMEOUT_S)
            for first in range(0, 500 * 600, 600):
                numbers = np.arange(first, first + 600, dtype=np.uint32)
                if way == "send":
                    out.send(numbers)
                else:
                    with out.loan(600) as y:
                        y[:] = numbers
    assert line(rust) == "received 500, and the end" and rust.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_killed_sender(domain: str, transport: str) -> None:
    code = textwrap.dedent(f"""
        import sys
        import numpy as np, stripline
        node = stripline.Node({domain!r}, topics={topics_of(transport)!r})
        out = node.publisher("topic", np.float32)
        out.wait_for_receivers(1)
        out.send(np.ones(3, np.float32))
        with out.loan(3) as y:
            y[:] = 2
            print("holds", flush=True)
            sys.stdin.read()
    """)
    with stripline.Node(domain, topics=topics_of(transport)) as node:
        in_ = node.subscriber("topic", np.float32)
        program = start_python(code)
        assert line(program) == "holds"
        packet = in_.receive(TIMEOUT_S)
        view = packet.samples
        program.send_signal(signal.SIGKILL)
        program.wait()
        # Received packets stay valid, and another publisher replaces the first one.
        assert view.tolist() == [1] * 3
        out = node.publisher("topic", np.float32)
        out.wait_for_receivers(1, TIMEOUT_S)
        out.send(np.full(3, 5, np.float32))
        assert in_.receive(TIMEOUT_S).samples.tolist() == [5] * 3
        assert view.tolist() == [1] * 3
        out.finish()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_killed_receiver(domain: str, transport: str) -> None:
    code = textwrap.dedent(f"""
        import sys
        import numpy as np, stripline
        node = stripline.Node({domain!r}, topics={topics_of(transport)!r})
        in_ = node.subscriber("topic", np.float32)
        packet = in_.receive()
        view = packet.samples
        print("holds", flush=True)
        sys.stdin.read()
    """)
    with stripline.Node(domain, topics=topics_of(transport)) as node:
        with node.publisher("topic", np.float32) as out:
            program = start_python(code)
            out.wait_for_receivers(1, TIMEOUT_S)
            out.send(np.ones(3, np.float32))
            assert line(program) == "holds"
            program.send_signal(signal.SIGKILL)
            program.wait()
            for _ in range(1000):
                out.send(np.ones(3, np.float32))


def _child(out: Any, in_: Any, node: Any, results: Any) -> None:
    outcomes = []
    uses: list[Callable[[], object]] = [
        lambda: out.send(np.ones(1, np.float32)),
        lambda: out.loan(1),
        lambda: out.finish(),
        lambda: in_.receive(),
        lambda: in_.try_receive(),
        lambda: node.publisher("other", np.float32),
    ]
    for use in uses:
        try:
            use()
            outcomes.append("no error")
        except stripline.ForkedError as error:
            outcomes.append(error.code)
    # A new node in the child works.
    with stripline.Node.isolated() as own:
        own_out, own_in = linked(own)
        own_out.send(np.full(1, 3, np.float32))
        outcomes.append(str(own_in.receive(TIMEOUT_S).samples[0]))
        own_out.finish()
    results.put(outcomes)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("packets", [0, 1])
def test_a_fork(node: stripline.Node, packets: int) -> None:
    out, in_ = linked(node)
    for _ in range(packets):
        out.send(np.ones(1, np.float32))
        in_.receive(TIMEOUT_S)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_child, args=(out, in_, node, results))
    child.start()
    assert results.get(timeout=TIMEOUT_S) == ["forked"] * 6 + ["3.0"]
    child.join(TIMEOUT_S)
    assert child.exitcode == 0
    # The parent's link is unchanged.
    out.send(np.full(1, 2, np.float32))
    assert in_.receive(TIMEOUT_S).samples.tolist() == [2]
    out.finish()


def _send_number(domain: str) -> None:
    with stripline.Node(domain) as node, node.publisher("topic", np.float32) as out:
        out.wait_for_receivers(1, TIMEOUT_S)
        out.send(np.full(1, 7, np.float32))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_new_processes(domain: str, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    with stripline.Node(domain) as node:
        in_ = node.subscriber("topic", np.float32)
        child = context.Process(target=_send_number, args=(domain,))
        child.start()
        assert [packet.samples[0] for packet in in_] == [7]
        child.join(TIMEOUT_S)
        assert child.exitcode == 0


def test_a_fork_while_another_thread_waits() -> None:
    code = BEGIN + """
started = threading.Event()
def wait():
    started.set()
    try:
        in_.receive()
    except stripline.StoppedError:
        pass
thread = threading.Thread(target=wait)
thread.start()
started.wait()
while True:
    try:
        in_.receive(0)
    except TimeoutError:
        continue
    except stripline.UsageError:
        break
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
child = os.fork()
if child == 0:
    try:
        in_.receive()
    except stripline.ForkedError:
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
node.stop()
thread.join()
out.abandon()
"""
    ended = run_python(code)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("7\n", "", 0)


@pytest.mark.parametrize(
    ("ending", "code"),
    [("", 0), ("sys.exit(3)", 3), ("os._exit(4)", 4), ("raise KeyError", 1), ("os.abort()", -signal.SIGABRT)],
)
def test_the_interpreter_ends_with_everything_open(ending: str, code: int) -> None:
    program = BEGIN + f"""
for _ in range(3):
    out.send(one)
packet = in_.receive()
view = packet.samples
loan = out.loan(4)
y = loan.__enter__()
quiet = node.subscriber("quiet", np.float32)
lonely = node.publisher("lonely", np.float32)
started = threading.Semaphore(0)
def wait():
    started.release()
    quiet.receive()
def wait_for_receivers():
    started.release()
    lonely.wait_for_receivers()
def busy():
    started.release()
    own = node.publisher("busy", np.float32)
    while True:
        own.send(one)
for target in (wait, wait_for_receivers, busy):
    threading.Thread(target=target, daemon=True).start()
    started.acquire()
print("ends", flush=True)
{ending}
"""
    ended = run_python(program)
    assert ended.returncode == code and ended.stdout == "ends\n", ended.stderr
    if code != 1:
        assert ended.stderr == ""


def test_subinterpreters_are_refused_by_name() -> None:
    code = """
import sys
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
number = interpreters.create()
script = '''
try:
    import stripline
except ImportError as error:
    print(error, flush=True)
'''
interpreters.run_string(number, script)
"""
    ended = run_python(code)
    assert ended.stdout.startswith("stripline does not work in a subinterpreter"), ended.stderr


def test_no_numpy_names_the_package() -> None:
    code = """
import sys
sys.modules["numpy"] = None
try:
    import stripline
except ImportError as error:
    print(error)
"""
    assert "stripline needs the package `numpy`" in run_python(code).stdout

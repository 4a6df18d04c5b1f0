"""Ctrl-C, and a program's own handlers, in every wait."""

from __future__ import annotations

import signal

import pytest
from conftest import line, run_python, start_python

BEGIN = """
import os, signal, sys, threading
import numpy as np
import stripline

node = stripline.Node.isolated()
in_ = node.subscriber("topic", np.float32)
quiet = node.subscriber("quiet", np.float32)
out = node.publisher("topic", np.float32)
out.wait_for_receivers(1)
lonely = node.publisher("lonely", np.float32)
one = np.ones(1, np.float32)

def fill():
    while True:
        out.send(one)

def fill_with_loans():
    while True:
        with out.loan(1) as y:
            y[:] = 1
"""

WAITS = {
    "receive": "quiet.receive()",
    "receive with a timeout": "quiet.receive(1000)",
    "a loop": "for packet in quiet: pass",
    "send": "fill()",
    "loan": "fill_with_loans()",
    "send of fragments": "out.send(np.ones(40_000_000, np.float32))",
    "wait_for_receivers": "lonely.wait_for_receivers()",
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_each_wait(wait: str) -> None:
    # The signal comes from another process, so that any thread may get it.
    code = BEGIN + f"""
try:
    print("waits", flush=True)
    {WAITS[wait]}
except KeyboardInterrupt:
    print("interrupted", flush=True)
# All of it works as before.
assert quiet.try_receive() is None
out.abandon()
lonely.abandon()
print("done", flush=True)
"""
    program = start_python(code)
    assert line(program) == "waits"
    program.send_signal(signal.SIGINT)
    assert [line(program), line(program)] == ["interrupted", "done"]
    assert program.wait() == 0


@pytest.mark.parametrize("wait", ["self.ports.sleep(3600)", "stripline.Pace(self.ports, 1).wait_for(3600)"])
def test_ctrl_c_ends_a_run_of_a_component(wait: str) -> None:
    code = f"""
import numpy as np
import stripline
from stripline import testing

class Endless(stripline.Component):
    in_ = stripline.input_port(np.float32)
    def run(self):
        print("runs", flush=True)
        while True:
            {wait}

try:
    testing.run(Endless, {{"in": np.ones(5, np.float32)}}, timeout=None)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    program = start_python(code)
    assert line(program) == "runs"
    program.send_signal(signal.SIGINT)
    assert line(program) == "interrupted"
    assert program.wait() == 0


@pytest.mark.parametrize("request_of", ["set('factor', 2, timeout=None)", "test('self_test', timeout=None)"])
def test_ctrl_c_ends_a_request_that_a_component_does_not_take(request_of: str) -> None:
    code = f"""
import threading
import stripline
from stripline import testing

has_begun, may_end = threading.Event(), threading.Event()

class Busy(stripline.Component):
    factor = stripline.float_property(1, "", changeable=True)
    def run(self):
        has_begun.set()
        may_end.wait()
    @stripline.self_test("never run")
    def self_test(self):
        pass

with testing.Harness(Busy) as busy:
    has_begun.wait()
    try:
        print("waits", flush=True)
        busy.{request_of}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    # Nothing of it is left for later, and a time ends the wait as well.
    try:
        busy.set("factor", 3, timeout=0)
    except stripline.Error as error:
        print("no request within 0 s" in str(error), flush=True)
    may_end.set()
    busy.finish()
"""
    program = start_python(code)
    assert line(program) == "waits"
    program.send_signal(signal.SIGINT)
    assert [line(program), line(program)] == ["interrupted", "True"]
    assert program.wait() == 0


def test_ctrl_c_ends_a_wait_for_an_acknowledgement() -> None:
    code = BEGIN + """
node = stripline.Node.isolated()
topics = {"default": {"scope": "target", "deadline-ms": 3600000}}
node = stripline.Node(f"py-ack-{os.getpid()}", topics=topics)
in_ = node.subscriber("topic", np.float32)
asked = node.publisher("topic", np.float32)
asked.wait_for_receivers(1)
packets = []
def take():
    # The packet is not finished while it is kept.
    packets.append(in_.receive(60))
    print("waits", flush=True)
thread = threading.Thread(target=take)
thread.start()
try:
    asked.send(one)
except KeyboardInterrupt:
    print("interrupted", flush=True)
# The packet was sent.
thread.join()
assert packets[0].samples.tolist() == [1]
asked.abandon()
out.abandon()
lonely.abandon()
"""
    program = start_python(code)
    assert line(program) == "waits"
    program.send_signal(signal.SIGINT)
    assert line(program) == "interrupted"
    assert program.wait() == 0


def test_a_programs_handler_runs_and_the_wait_goes_on() -> None:
    code = BEGIN + """
count = 0
def handler(number, frame):
    global count
    count += 1
    print("handled", count, flush=True)
    try:
        quiet.receive()
    except stripline.UsageError as error:
        print(error.code, flush=True)
    if count == 3:
        sender = node.publisher("quiet", np.float32)
        sender.wait_for_receivers(1)
        sender.send(one)
        sender.finish()
signal.signal(signal.SIGUSR1, handler)
def watch():
    # The main thread waits once its subscriber is in use.
    while True:
        try:
            quiet.receive(0)
        except TimeoutError:
            continue
        except stripline.UsageError:
            break
    print("waits", flush=True)
threading.Thread(target=watch).start()
while True:
    try:
        packet = quiet.receive()
        break
    except stripline.UsageError:
        # The other thread was in its call.
        continue
print(packet.samples.tolist(), flush=True)
assert signal.getsignal(signal.SIGUSR1) is handler and signal.set_wakeup_fd(-1) == -1
out.abandon()
lonely.abandon()
"""
    program = start_python(code)
    assert line(program) == "waits"
    for number in (1, 2, 3):
        program.send_signal(signal.SIGUSR1)
        assert [line(program), line(program)] == [f"handled {number}", "in-use"]
    assert line(program) == "[1.0]"
    assert program.wait() == 0


def test_a_programs_wakeup_descriptor_gets_its_bytes() -> None:
    code = BEGIN + """
read_end, write_end = os.pipe()
os.set_blocking(write_end, False)
signal.set_wakeup_fd(write_end)
signal.signal(signal.SIGUSR1, lambda *_: sys.stdout.write("handled\\n") and sys.stdout.flush())
try:
    print("waits", flush=True)
    quiet.receive()
except KeyboardInterrupt:
    pass
got = os.read(read_end, 100)
print(sorted(got) == sorted([signal.SIGUSR1, signal.SIGINT]), signal.set_wakeup_fd(-1) == write_end, flush=True)
out.abandon()
lonely.abandon()
"""
    program = start_python(code)
    assert line(program) == "waits"
    program.send_signal(signal.SIGUSR1)
    assert line(program) == "handled"
    program.send_signal(signal.SIGINT)
    assert line(program) == "True True"
    assert program.wait() == 0


def test_signals_at_random_moments_lose_no_packet() -> None:
    code = BEGIN + """
import random
handled = 0
def handler(number, frame):
    global handled
    handled += 1
signal.signal(signal.SIGUSR1, handler)
main = os.getpid()
sent = 0
def send():
    global sent
    for number in range(300):
        out.send(np.full(1, number, np.float32))
        os.kill(main, signal.SIGUSR1)
        sent += 1
    out.finish()
thread = threading.Thread(target=send)
thread.start()
received = [packet.samples[0] for packet in in_]
thread.join()
lonely.abandon()
print(received == list(range(300)), handled > 0)
"""
    ended = run_python(code)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("True True\n", "", 0)


def test_a_hundred_interrupts() -> None:
    code = BEGIN + """
count, is_waiting = 0, False
def handler(number, frame):
    global count, is_waiting
    count += 1
    if is_waiting:
        is_waiting = False
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, handler)
print("waits", flush=True)
for number in range(100):
    try:
        is_waiting = True
        # One that came before is counted, and not waited for.
        if count <= number:
            quiet.receive()
    except KeyboardInterrupt:
        pass
    is_waiting = False
    print(number, flush=True)
out.abandon()
lonely.abandon()
print("done", flush=True)
"""
    program = start_python(code)
    assert line(program) == "waits"
    for number in range(100):
        program.send_signal(signal.SIGINT)
        assert line(program) == str(number)
    assert line(program) == "done" and program.wait() == 0


def test_ctrl_c_ends_a_finish() -> None:
    code = BEGIN + """
node = stripline.Node(f"py-finish-{os.getpid()}", topics={"default": {"send-timeout-ms": 1}})
in_ = node.subscriber("topic", np.float32)
full = node.publisher("topic", np.float32)
full.wait_for_receivers(1)
try:
    while True:
        full.send(one)
except stripline.NoRoomError as error:
    print(error.code, flush=True)
try:
    print("waits", flush=True)
    full.finish(None)
except KeyboardInterrupt:
    print("interrupted", flush=True)
full.abandon()
out.abandon()
lonely.abandon()
"""
    program = start_python(code)
    assert [line(program), line(program)] == ["stalled", "waits"]
    program.send_signal(signal.SIGINT)
    assert line(program) == "interrupted"
    assert program.wait() == 0

#!/usr/bin/env python3
"""An end in Python for `stripline bench bindings`, which starts it: `ends.py KIND ROLE BYTES NAME`.

The program prints `ready`. Then it reads lines `WARM COUNT`, and prints for each the nanoseconds of
COUNT packets, after WARM packets that are not timed. The roles `ping` and `pong` return an array
each way. The roles `sender` and `receiver` send one way. Each payload is an array of bytes that is
written, and read at one byte of each cache line.

The kinds are `spin`, `block` and `async` of Stripline (a round trip), `send` and `loan` (one way),
and the peers `iceoryx2` (a round trip that spins), `zmq` (a round trip) and `zmq-push` (one way).
The loan is in place.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

# The exit code by which `stripline bench bindings` recognises a missing package; the reason is the
# last line of the errors.
MISSING = 77
LINE_BYTES = 64


def missing(package: str, error: ImportError) -> None:
    print(f"{error}: pip install {package}", file=sys.stderr)
    raise SystemExit(MISSING)


try:
    import numpy as np
except ImportError as error:
    missing("numpy", error)


def read(samples: Any) -> bytes:
    """Reads a byte of each cache line, and returns them. A sum costs numpy several times as much at
    64 bytes."""
    found: bytes = samples[::LINE_BYTES].tobytes()
    return found


class Stripline:
    """Both ends of a Stripline link."""

    def __init__(self, kind: str, role: str, size: int, name: str) -> None:
        try:
            import stripline
        except ImportError as error:
            missing("./bindings/python (in the sources of stripline)", error)
        wait = "\nwait = 'spin'" if kind == "spin" else "\nwait = 'block'" if kind in ("block", "async") else ""
        self.node = stripline.Node(name, topics=f"[default]\ntransport = 'shm'{wait}")
        self.array = np.ones(size, np.uint8)
        self.is_loan = kind == "loan"
        if role != "receiver":
            self.out = self.node.publisher("from" if role == "pong" else "to", np.uint8)
        if role != "sender":
            self.in_ = self.node.subscriber("from" if role == "ping" else "to", np.uint8)
        if kind == "async":
            # One iterator for all blocks: each `async for` over it continues where the previous one
            # ended.
            self.packets = aiter(self.in_)
        if role != "receiver":
            self.out.wait_for_receivers(1)

    def send(self) -> None:
        if self.is_loan:
            with self.out.loan(len(self.array), in_place=True) as loan:
                loan.samples[:] = self.array
        else:
            self.out.send(self.array)

    def receive(self) -> None:
        # The packet outlives the array, as in a loop, so the array is used again.
        packet = self.in_.receive()
        read(packet.samples)

    async def receive_async(self, count: int, each: Callable[[], None]) -> None:
        """Receives `count` packets, and calls `each` after each."""
        async for packet in self.packets:
            read(packet.samples)
            each()
            count -= 1
            if count == 0:
                return


class Iceoryx2:
    """Both ends of iceoryx2, as in its documentation: a slice of bytes, loaned and received in
    place."""

    def __init__(self, _kind: str, role: str, size: int, name: str) -> None:
        try:
            import ctypes

            import iceoryx2 as iox2
        except ImportError as error:
            missing("iceoryx2", error)
        iox2.set_log_level(iox2.LogLevel.Error)
        self.node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
        self.array = np.ones(size, np.uint8)

        def service(way: str) -> Any:
            found = self.node.service_builder(iox2.ServiceName.new(f"{name}/{way}"))
            return found.publish_subscribe(iox2.Slice[ctypes.c_uint8]).open_or_create()

        to, back = service("to"), service("from")
        if role == "pong":
            to, back = back, to
        self.out = to.publisher_builder().initial_max_slice_len(size).create()
        self.in_ = back.subscriber_builder().create()
        while to.dynamic_config.number_of_subscribers < 1 or back.dynamic_config.number_of_publishers < 1:
            time.sleep(0.001)
        # The services must live as long as their ports.
        self.services = (to, back)

    def send(self) -> None:
        sample = self.out.loan_slice_uninit(len(self.array))
        np.frombuffer(sample.payload().as_memory_view(), np.uint8)[:] = self.array
        sample.assume_init().send()

    def receive(self) -> None:
        receive = self.in_.receive
        sample = receive()
        while sample is None:
            sample = receive()
        read(np.frombuffer(sample.payload().as_memory_view(), np.uint8))
        sample.delete()


class ZeroMq:
    """Both ends of pyzmq over a Unix socket. Above its own threshold for copies, pyzmq copies
    nothing."""

    def __init__(self, kind: str, role: str, size: int, name: str) -> None:
        try:
            import zmq
        except ImportError as error:
            missing("pyzmq", error)
        self.array = np.ones(size, np.uint8)
        self.copies = size < zmq.COPY_THRESHOLD
        kinds = {"sender": zmq.PUSH, "receiver": zmq.PULL, "ping": zmq.PAIR, "pong": zmq.PAIR}
        self.context = zmq.Context()
        self.socket = self.context.socket(kinds[role])
        self.socket.linger = 0
        # The name is abstract, so no file is left behind.
        address = f"ipc://@{name}"
        if role in ("pong", "receiver"):
            self.socket.bind(address)
        else:
            self.socket.connect(address)

    def send(self) -> None:
        self.socket.send(self.array, copy=self.copies)

    def receive(self) -> None:
        message = self.socket.recv(copy=self.copies)
        read(np.frombuffer(message if self.copies else message.buffer, np.uint8))


def work_of(ends: Any, kind: str, role: str) -> Callable[[int], None]:
    """Returns the function that handles a block of packets."""
    if kind == "async":
        loop = asyncio.new_event_loop()

        async def ping(count: int) -> None:
            left = count

            def next_one() -> None:
                nonlocal left
                left -= 1
                if left > 0:
                    ends.send()

            ends.send()
            await ends.receive_async(count, next_one)

        async def pong(count: int) -> None:
            await ends.receive_async(count, ends.send)

        return lambda count: loop.run_until_complete((ping if role == "ping" else pong)(count))
    steps: tuple[Callable[[], None], ...]
    if role == "sender":
        steps = (ends.send,)
    elif role == "receiver":
        steps = (ends.receive,)
    else:
        steps = (ends.send, ends.receive) if role == "ping" else (ends.receive, ends.send)

    def work(count: int) -> None:
        for _ in range(count):
            for step in steps:
                step()

    return work


def main() -> None:
    if len(sys.argv) != 5:
        raise SystemExit("usage: ends.py KIND ROLE BYTES NAME")
    kind, role, size, name = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    library = {"iceoryx2": Iceoryx2, "zmq": ZeroMq, "zmq-push": ZeroMq}.get(kind, Stripline)
    work = work_of(library(kind, role, size, name), kind, role)
    print("ready", flush=True)
    for line in sys.stdin:
        warm, count = map(int, line.split())
        if warm:
            work(warm)
        start = time.perf_counter_ns()
        work(count)
        print(time.perf_counter_ns() - start, flush=True)
    # The parent reads this line if a process ends before the partner.
    print("its input ended", file=sys.stderr)


if __name__ == "__main__":
    main()

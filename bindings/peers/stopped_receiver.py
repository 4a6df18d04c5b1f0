#!/usr/bin/env python3
"""Other middleware beside a receiver that is stopped: how many packets it loses.

A process receives packets of 1 KiB, 50 a second. The process is stopped (SIGSTOP) for the given
number of seconds, and then continues. The program prints the number of packets sent and received,
and the longest send.

    pip install pyzmq eclipse-zenoh cyclonedds iceoryx2
    apt-get install g++ omniidl libomniorb4-dev
    python3 stopped_receiver.py zenoh --seconds 15
    python3 stopped_receiver.py all --seconds 60

The libraries use their defaults, with these exceptions: `zmq-push` and `zmq-pub` use TCP on this
host; `zenoh` sends reliably and blocking; `dds` is reliable and keeps all, while `dds-default` uses
the defaults; `iceoryx2` is polled every millisecond; `omniorb` is two programs in C++ over TCP,
with one-way calls. `stripline-torture stop` does the same over each transport of Stripline.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

RATE = 50
BYTES = 1024
# The seconds before the stop, after it, and for packets still in transit at the end.
BEFORE, AFTER, REST = 2.0, 5.0, 3.0


def number_of(payload) -> int:
    return int.from_bytes(bytes(payload[:8]), "little")


def packet(number: int) -> bytes:
    return number.to_bytes(8, "little") + bytes(BYTES - 8)


class Zmq:
    """PUSH to PULL, or PUB to SUB, over TCP."""

    def __init__(self, place: str, *, publishes: bool):
        import zmq

        self.zmq, self.context, self.place, self.publishes = zmq, zmq.Context(), place, publishes

    def receive(self, take, is_over):
        end = self.context.socket(self.zmq.SUB if self.publishes else self.zmq.PULL)
        if self.publishes:
            end.subscribe(b"")
        end.bind(f"tcp://127.0.0.1:{self.place}")
        print("ready", flush=True)
        while not is_over():
            if end.poll(10):
                take(number_of(end.recv()))

    def sender(self):
        end = self.context.socket(self.zmq.PUB if self.publishes else self.zmq.PUSH)
        end.connect(f"tcp://127.0.0.1:{self.place}")
        return end.send


class Zenoh:
    """Peers over TCP on this host, without discovery; reliable puts that block."""

    def __init__(self, place: str):
        import zenoh

        self.zenoh, self.place = zenoh, place

    def session(self, side: str):
        config = self.zenoh.Config()
        for name in ("listen", "connect"):
            config.insert_json5(
                f"{name}/endpoints", f'["tcp/127.0.0.1:{self.place}"]' if name == side else "[]"
            )
        config.insert_json5("scouting/multicast/enabled", "false")
        self.held = self.zenoh.open(config)
        return self.held

    def receive(self, take, is_over):
        subscriber = self.session("listen").declare_subscriber(
            "stop/packets", lambda sample: take(number_of(sample.payload.to_bytes()))
        )
        print("ready", flush=True)
        while not is_over():
            time.sleep(0.01)
        del subscriber

    def sender(self):
        publisher = self.session("connect").declare_publisher(
            "stop/packets",
            congestion_control=self.zenoh.CongestionControl.BLOCK,
            reliability=self.zenoh.Reliability.RELIABLE,
        )
        return publisher.put


class Dds:
    """A topic of octets; reliable with all samples kept, or at the defaults."""

    def __init__(self, place: str, *, reliable: bool):
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "crates/stripline-middleware/tests"))
        import stripline_idl
        from cyclonedds.core import Policy, Qos
        from cyclonedds.domain import DomainParticipant
        from cyclonedds.topic import Topic

        self.types, self.qos = stripline_idl.load(), Qos()
        if reliable:
            self.qos = Qos(Policy.Reliability.Reliable(10**18), Policy.History.KeepAll)
        self.participant = DomainParticipant(0)
        self.topic = Topic(self.participant, f"stop_{place}", self.types.OctetSamples)

    def receive(self, take, is_over):
        from cyclonedds.sub import DataReader

        reader = DataReader(self.participant, self.topic, qos=self.qos)
        print("ready", flush=True)
        while not is_over():
            for sample in reader.take(100):
                # Other samples report that a writer has joined or left.
                if isinstance(sample, self.types.OctetSamples):
                    take(sample.info.sample_index)
            time.sleep(0.001)

    def sender(self):
        from cyclonedds.pub import DataWriter

        writer = DataWriter(self.participant, self.topic, qos=self.qos)
        while not writer.get_matched_subscriptions():
            time.sleep(0.01)

        def send(data: bytes):
            info = self.types.SampleInfo(number_of(data), 0, 0.0, 0.0)
            writer.write(self.types.OctetSamples(info, list(data)))

        return send


class Iceoryx2:
    """A service of slices, with the defaults of a service."""

    def __init__(self, place: str):
        import ctypes

        import iceoryx2

        self.iox2, self.ctypes = iceoryx2, ctypes
        self.node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)
        name = iceoryx2.ServiceName.new(f"stop_{place}")
        builder = self.node.service_builder(name).publish_subscribe(iceoryx2.Slice[ctypes.c_uint8])
        self.service = builder.open_or_create()

    def receive(self, take, is_over):
        subscriber = self.service.subscriber_builder().create()
        print("ready", flush=True)
        while not is_over():
            while (sample := subscriber.receive()) is not None:
                take(number_of(self.ctypes.string_at(sample.payload().as_ptr(), 8)))
                sample.delete()
            time.sleep(0.001)

    def sender(self):
        publisher = self.service.publisher_builder().initial_max_slice_len(BYTES).create()

        def send(data: bytes):
            loan = publisher.loan_slice_uninit(BYTES)
            self.ctypes.memmove(loan.payload().as_ptr(), data, BYTES)
            loan.assume_init().send()

        return send


class Omniorb:
    """One-way calls with the code that omniidl generates. The ends are programs in C++."""

    def __init__(self, place: str):
        self.place = place
        # The receiver, which starts first, builds the program for both ends.
        self.folder = pathlib.Path(tempfile.gettempdir(), f"stopped_omniorb.{place}")
        self.program = str(self.folder / "stopped_omniorb")

    def receive(self, _take, _is_over):
        sources = pathlib.Path(__file__).resolve().parent
        self.folder.mkdir()
        subprocess.run(["omniidl", "-bcxx", "-C", self.folder, sources / "stopped_omniorb.idl"], check=True)
        files = [sources / "stopped_omniorb.cc", self.folder / "stopped_omniorbSK.cc"]
        libraries = ["-lomniORB4", "-lomnithread", "-lpthread"]
        options = ["-std=c++17", "-O1", f"-I{self.folder}", "-o", self.program]
        subprocess.run(["g++", *options, *files, *libraries], check=True)
        # The call replaces the process: standard input and output stay the same.
        os.execv(self.program, [self.program, "receive", self.place])

    def sender(self):
        command = [self.program, "send", self.place]
        self.held = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # Both ends run, and no longer need the file.
        shutil.rmtree(self.folder)

        def send(data: bytes):
            self.held.stdin.write(f"{number_of(data)}\n")
            self.held.stdin.flush()
            answer = self.held.stdout.readline().strip()
            if answer != "sent":
                raise RuntimeError(answer or "the sender has ended")

        return send


LIBRARIES = {
    "zmq-push": lambda place: Zmq(place, publishes=False),
    "zmq-pub": lambda place: Zmq(place, publishes=True),
    "zenoh": Zenoh,
    "dds": lambda place: Dds(place, reliable=True),
    "dds-default": lambda place: Dds(place, reliable=False),
    "iceoryx2": Iceoryx2,
    "omniorb": Omniorb,
}


def receive(library: str, place: str) -> None:
    """Counts the packets until a line comes on standard input. Prints their number."""
    numbers: set[int] = set()
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), over.set()), daemon=True).start()
    LIBRARIES[library](place).receive(numbers.add, over.is_set)
    print(len(numbers), flush=True)
    os._exit(0)


def run(library: str, seconds: float) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = str(free.getsockname()[1])
    command = [sys.executable, __file__, library, "--receive", place]
    receiver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if receiver.stdout.readline().strip() != "ready":
            sys.exit(f"the receiver of {library} does not start")
        # The sessions of the library end with this process.
        sending = LIBRARIES[library](place)
        send = sending.sender()
        # Waits until both ends have found each other.
        time.sleep(1)
        count, longest, begun, is_stopped, problem = 0, 0.0, time.monotonic(), None, None
        while (now := time.monotonic() - begun) < BEFORE + seconds + AFTER:
            if is_stopped is None and now >= BEFORE:
                receiver.send_signal(signal.SIGSTOP)
                is_stopped = True
                # A send may block as long as the stop.
                subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {receiver.pid}"])
            started = time.monotonic()
            try:
                send(packet(count))
            except Exception as error:  # noqa: BLE001 - it is what the library reports
                problem = problem or f"{type(error).__name__}: {error}"
            longest = max(longest, time.monotonic() - started)
            count += 1
            time.sleep(max(0.0, begun + count / RATE - time.monotonic()))
        time.sleep(REST)
        receiver.stdin.write("\n")
        receiver.stdin.flush()
        received = int(receiver.stdout.readline())
        reported = f", reported: {problem}" if problem else ", without an error"
        print(
            f"{library}: stopped for {seconds:g} s, {count} sent, {received} received, "
            f"{count - received} lost{reported}; longest send {longest:.3f} s",
            flush=True,
        )
    finally:
        receiver.send_signal(signal.SIGCONT)
        receiver.kill()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library", choices=[*LIBRARIES, "all"])
    parser.add_argument("--seconds", type=float, default=15.0, help="length of the stop (15)")
    parser.add_argument("--receive", metavar="PLACE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.receive:
        return receive(options.library, options.receive)
    libraries = LIBRARIES if options.library == "all" else [options.library]
    for library in libraries:
        # Each library runs in a process of its own, because the libraries keep threads.
        if options.library == "all":
            subprocess.run([sys.executable, __file__, library, "--seconds", str(options.seconds)], check=False)
        else:
            run(library, options.seconds)
            os._exit(0)
    return None


if __name__ == "__main__":
    main()

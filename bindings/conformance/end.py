#!/usr/bin/env python3
"""The end in Python of a link between languages: executes commands line by line (README.md)."""

from __future__ import annotations

import json
import signal
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import stripline

# A time limit that only ends a hang.
TIMEOUT_S = 60.0


def answer(text: str) -> None:
    print("@@", text, flush=True)


def failed(error: stripline.Error) -> str:
    if isinstance(error, stripline.OperationError):
        return f"error user-error {error.value}"
    return f"error {error.code} {error}".replace("\n", " ")


def seconds(ms: str) -> float:
    return int(ms) / 1000


def payload(first: int, count: int, seed: int) -> npt.NDArray[np.uint8]:
    """Returns bytes. Each is a function of the index in the stream, and of the topic."""
    number = np.arange(first, first + count, dtype=np.uint64)
    made = number * np.uint64(167) + (number >> np.uint64(8)) * np.uint64(13) + np.uint64(seed)
    return made.astype(np.uint8)


# A CBOR implementation (RFC 8949) independent of the library: messages to send are decoded from
# bytes, and received messages are printed as bytes.

_WIDTHS = {24: 1, 25: 2, 26: 4, 27: 8}


def decode(data: bytes, at: int = 0) -> tuple[Any, int]:
    """Returns the value at a position, and the position after it."""
    kind, low = data[at] >> 5, data[at] & 31
    at += 1
    if kind == 7:
        if low == 27:
            return struct.unpack(">d", data[at : at + 8])[0], at + 8
        return {20: False, 21: True, 22: None}[low], at
    width = _WIDTHS.get(low, 0)
    number = int.from_bytes(data[at : at + width], "big") if width else low
    at += width
    if kind < 2:
        return (number if kind == 0 else -1 - number), at
    if kind < 4:
        text = data[at : at + number]
        return (text if kind == 2 else text.decode()), at + number
    parts = []
    for _ in range(number if kind == 4 else 2 * number):
        part, at = decode(data, at)
        parts.append(part)
    return (parts if kind == 4 else dict(zip(parts[::2], parts[1::2], strict=True))), at


def encode(value: Any) -> bytes:
    def head(kind: int, number: int) -> bytes:
        if number < 24:
            return bytes([kind << 5 | number])
        low, width = next(pair for pair in _WIDTHS.items() if number < 256 ** pair[1])
        return bytes([kind << 5 | low]) + number.to_bytes(width, "big")

    if value is None or isinstance(value, bool):
        return {False: b"\xf4", True: b"\xf5", None: b"\xf6"}[value]
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, dict):
        parts = [encode(part) for pair in value.items() for part in pair]
        return head(5, len(value)) + b"".join(parts)
    return head(4, len(value)) + b"".join(encode(part) for part in value)


def value_of(word: str) -> Any:
    """Returns the message of a command: in hexadecimal, or `bytes:` and the length of a byte
    string."""
    if word.startswith("bytes:"):
        return bytes(place * 7 % 256 for place in range(int(word.removeprefix("bytes:"))))
    return decode(bytes.fromhex(word))[0]


def printed(value: Any) -> str:
    """Returns the printed form of a message: in hexadecimal, or the length and the sum of the
    bytes."""
    encoded = encode(value)
    return encoded.hex() if len(encoded) <= 64 else f"#{len(encoded)}.{sum(encoded)}"


class Port:
    """The common base of ports of any kind."""

    def __init__(self, topic: str, dtype: np.dtype[Any]) -> None:
        self.seed = sum(topic.encode())
        self.dtype = dtype

    def samples(self, index: int, count: int) -> npt.NDArray[Any]:
        size = self.dtype.itemsize
        return payload(index * size, count * size, self.seed).view(self.dtype)

    def token(self, packet: stripline.Packet | stripline.Window) -> str:
        text = f"{packet.sequence}/{packet.sample_index}/{len(packet)}"
        if packet.gap is not None:
            gap = packet.gap
            text += f"/{gap.reason}:{gap.first}:{gap.packets}:{gap.samples}"
        expected = self.samples(packet.sample_index, len(packet))
        return text if packet.samples.tobytes() == expected.tobytes() else text + "/bad"


class Output(Port):
    """A publisher, and the index of the next sample."""

    def __init__(self, handle: stripline.Publisher, topic: str) -> None:
        super().__init__(topic, handle.dtype)
        self.handle = handle
        self.next = 0

    def send(self, samples: int, way: str, options: dict[str, Any]) -> None:
        before = self.handle.sequence
        index = options.get("sample_index", self.next)
        array = self.samples(index, samples)
        try:
            if way == "loan":
                with self.handle.loan(samples, **options) as place:
                    place[:] = array
            elif way == "try":
                self.handle.try_send(array, **options)
            else:
                self.handle.send(array, **options)
        finally:
            # A packet without an acknowledgement is sent, too.
            if self.handle.sequence > before:
                self.next = index + samples


class Input(Port):
    """A subscriber to packets."""

    def __init__(self, handle: stripline.Subscriber, topic: str) -> None:
        super().__init__(topic, handle.dtype)
        self.handle = handle


class Messages:
    """A publisher or a subscriber of messages."""

    def __init__(self, handle: stripline.MessagePublisher | stripline.MessageSubscriber) -> None:
        self.handle: Any = handle


class Windows(Port):
    """A subscriber to windows."""

    def __init__(self, handle: stripline.WindowedSubscriber, topic: str) -> None:
        super().__init__(topic, handle.dtype)
        self.handle = handle


def option(word: str) -> tuple[str, Any]:
    """Reads `KEY=VALUE` of a packet."""
    key, value = word.split("=")
    if key == "deadline":
        return key, seconds(value)
    if key == "scope":
        return key, value
    return {"index": "sample_index", "time": "time_ns", "intended": "intended_ns"}[key], int(value)


def in_place_of_packet(port: Input | Windows | Messages, receive: Callable[[], str]) -> tuple[str, bool]:
    """Returns the result of a function for a packet and true, or the outcome that replaces a packet
    and false."""
    try:
        return receive(), True
    except TimeoutError:
        return "empty", False
    except stripline.EndOfStream:
        gap = port.handle.gap_at_end()
        return ("ended" if gap is None else f"ended/{gap.packets}:{gap.samples}"), False
    except stripline.Error as error:
        return failed(error), False


def tokens(port: Input | Windows | Messages, count: int, receive: Callable[[], str]) -> str:
    found = []
    for _ in range(count):
        token, is_packet = in_place_of_packet(port, receive)
        found.append(token)
        if not is_packet:
            return " ".join(found)
    return " ".join([*found, "done"])


def description(packet: stripline.Packet) -> str:
    stream = packet.stream
    members = (stream.sample_rate_hz, stream.center_frequency_hz, stream.row_length)
    numbers = " ".join("-" if member is None else repr(member) for member in members)
    axes = [{"start": axis.start, "step": axis.step, "unit": axis.unit} for axis in stream.axes]
    more = {"axes": axes, "channels": list(stream.channels), "keywords": dict(stream.keywords)}
    times = f"{packet.time_ns} {packet.intended_ns or 0}"
    return f"ok {times} {stream.id} {numbers} {json.dumps(more)}"


@stripline.service
class Desk:
    """The operations of the servers."""

    def double(self, number: int) -> int:
        return 2 * number

    def typed(self, number: int) -> int:
        return 2 * number

    def fail(self, number: int) -> int:
        raise stripline.OperationError(number)

    def refuse(self, number: int) -> int:
        raise RuntimeError("the antenna is not plugged in")

    def throw(self, number: int) -> int:
        raise RuntimeError("the antenna has fallen over")

    def stick(self, number: int) -> int:
        answer("stuck")
        while True:
            signal.pause()


class End:
    """The objects of this end, by name."""

    def __init__(self) -> None:
        self.node: stripline.Node | None = None
        self.outputs: dict[str, Output | Messages] = {}
        self.inputs: dict[str, Input | Windows | Messages] = {}
        self.held: dict[str, tuple[Input, stripline.Packet]] = {}
        self.clients: dict[str, stripline.Client] = {}
        self.servers: dict[str, stripline.Server] = {}

    def perform(self, line: str) -> str:
        command, *words = line.split(" ")
        found = getattr(self, f"do_{command.replace('-', '_')}")(*words)
        return "ok" if found is None else str(found)

    def _node(self) -> stripline.Node:
        assert self.node is not None
        return self.node

    def _packets(self, name: str) -> Input:
        found = self.inputs[name]
        assert isinstance(found, Input)
        return found

    def _samples(self, name: str) -> Output:
        found = self.outputs[name]
        assert isinstance(found, Output)
        return found

    def do_node(self, domain: str, *topics: str) -> None:
        self.node = stripline.Node(domain, topics=" ".join(topics).replace(";", "\n"))

    def do_close(self) -> None:
        for client in self.clients.values():
            client.close()
        for server in self.servers.values():
            server.close()
        for _, packet in self.held.values():
            packet.release()
        for name in [*self.inputs, *self.outputs]:
            self.do_drop(name)
        if self.node is not None:
            self.node.close()
        self.__init__()  # type: ignore[misc]

    def do_publish(self, name: str, topic: str, samples: str) -> None:
        handle = self._node().publisher(topic, stripline.SampleType(samples))
        self.outputs[name] = Output(handle, topic)

    def do_subscribe(self, name: str, topic: str, samples: str, hold: str) -> None:
        handle = self._node().subscriber(topic, stripline.SampleType(samples), hold=int(hold) or 1)
        self.inputs[name] = Input(handle, topic)

    def do_windows(self, name: str, topic: str, samples: str) -> None:
        handle = self._node().windowed_subscriber(topic, stripline.SampleType(samples))
        self.inputs[name] = Windows(handle, topic)

    def do_publish_messages(self, name: str, topic: str, messages: str) -> None:
        self.outputs[name] = Messages(self._node().message_publisher(topic, messages))

    def do_subscribe_messages(self, name: str, topic: str, messages: str) -> None:
        self.inputs[name] = Messages(self._node().message_subscriber(topic, messages))

    def do_send_messages(self, name: str, *messages: str) -> str:
        out = self.outputs[name].handle
        for message in messages:
            out.send(value_of(message))
        return f"ok {out.sequence}"

    def do_take_messages(self, name: str, count: str, ms: str) -> str:
        port = self.inputs[name]
        assert isinstance(port, Messages)

        def receive() -> str:
            message = port.handle.receive(seconds(ms))
            return f"{message.sequence}/{printed(message.value)}"

        return tokens(port, int(count), receive)

    def do_many(self, name: str, count: str, samples: str) -> str:
        out = self._samples(name)
        before = out.handle.sequence
        array = out.samples(out.next, int(count) * int(samples)).reshape(int(count), int(samples))
        try:
            out.handle.send_many(array)
        finally:
            out.next += (out.handle.sequence - before) * int(samples)
        return f"ok {out.handle.sequence}"

    def do_drain(self, name: str, limit: str) -> str:
        port = self._packets(name)
        found = []
        for packet in port.handle.drain(int(limit)):
            found.append(port.token(packet))
            packet.release()
        return " ".join([*found, "done"])

    def do_handle(self, name: str, fails_at: str) -> str:
        """In Python, the handler is the body of a loop. The handler refuses the packet at which it
        fails."""
        port = self._packets(name)
        found = []

        def handle(packet: stripline.Packet) -> None:
            found.append(port.token(packet))
            if fails_at == str(packet.sequence):
                raise RuntimeError("the antenna has fallen over")

        for packet in port.handle:
            try:
                handle(packet)
            except RuntimeError as error:
                packet.refuse(str(error))
                return " ".join([*found, f"error handler {error}"])
            packet.release()
        return " ".join([*found, "ended"])

    def do_receivers(self, name: str, count: str) -> str:
        try:
            self.outputs[name].handle.wait_for_receivers(int(count), TIMEOUT_S)
        except TimeoutError:
            return "empty"
        return "ok"

    def do_peers(self, name: str) -> str:
        if name in self.outputs:
            return f"ok {self.outputs[name].handle.receivers}"
        return f"ok {self.inputs[name].handle.senders}"

    def do_stream(self, name: str, id: str, rate: str, frequency: str, row: str, *more: str) -> None:
        members = json.loads(" ".join(more))
        stream = stripline.StreamInfo(
            id,
            sample_rate_hz=None if rate == "-" else float(rate),
            center_frequency_hz=None if frequency == "-" else float(frequency),
            row_length=None if row == "-" else int(row),
            axes=tuple(stripline.Axis(**axis) for axis in members.get("axes", ())),
            channels=tuple(members.get("channels", ())),
            keywords=members.get("keywords", {}),
        )
        self._samples(name).handle.set_stream(stream)

    def do_send(self, name: str, count: str, sizes: str, *options: str) -> str:
        out = self._samples(name)
        ways = [word.removeprefix("way=") for word in options if word.startswith("way=")]
        given = dict(option(word) for word in options if not word.startswith("way="))
        all_sizes = [int(size) for size in sizes.split(",")]
        for packet in range(int(count)):
            way = ways[0] if ways else "send" if packet % 2 else "loan"
            out.send(all_sizes[packet % len(all_sizes)], way, given)
        return f"ok {out.handle.sequence}"

    def do_fill(self, name: str, samples: str) -> str:
        out = self._samples(name)
        try:
            while True:
                out.send(int(samples), "try", {})
        except stripline.NoRoomError:
            return f"ok {out.handle.sequence}"

    def do_loan(self, name: str, samples: str) -> str:
        out = self._samples(name)
        with out.handle.loan(int(samples)) as place:
            place[:] = out.samples(out.next, int(samples))
            answer("lent")
            sys.stdin.readline()
        out.next += int(samples)
        return f"ok {out.handle.sequence}"

    def do_finish(self, name: str, ms: str) -> None:
        self.outputs[name].handle.finish(seconds(ms))

    def do_abandon(self, name: str) -> None:
        self.outputs.pop(name).handle.abandon()

    def do_drop(self, name: str) -> None:
        if name in self.outputs:
            self.outputs.pop(name).handle.finish(10.0)
        for ends in (self.inputs, self.clients, self.servers):
            if name in ends:
                found: Any = ends.pop(name)
                getattr(found, "handle", found).close()

    def do_take(self, name: str, count: str, ms: str) -> str:
        port = self._packets(name)

        def receive() -> str:
            with port.handle.receive(seconds(ms)) as packet:
                return port.token(packet)

        return tokens(port, int(count), receive)

    def do_hold(self, name: str, key: str, ms: str) -> str:
        port = self._packets(name)

        def receive() -> str:
            packet = port.handle.receive(seconds(ms))
            self.held[key] = (port, packet)
            return port.token(packet)

        return in_place_of_packet(port, receive)[0]

    def do_check(self, key: str) -> str:
        port, packet = self.held[key]
        return port.token(packet)

    def do_release(self, key: str) -> None:
        self.held.pop(key)[1].release()

    def do_refuse(self, key: str, *reason: str) -> None:
        self.held.pop(key)[1].refuse(" ".join(reason))

    def do_window(self, name: str, count: str, samples: str, hop: str, ms: str) -> str:
        port = self.inputs[name]
        assert isinstance(port, Windows)
        handle = port.handle

        def receive() -> str:
            window = handle.window(int(samples), hop=int(hop), timeout=seconds(ms))
            return f"{port.token(window)}/{'whole' if window.is_whole else 'short'}"

        return tokens(port, int(count), receive)

    def do_describe(self, name: str, ms: str) -> str:
        port = self._packets(name)

        def receive() -> str:
            with port.handle.receive(seconds(ms)) as packet:
                return description(packet)

        return in_place_of_packet(port, receive)[0]

    def do_refusals(self, name: str) -> str:
        texts = [f"{it.connection}: {it.reason}" for it in self.inputs[name].handle.refusals()]
        return "ok " + " | ".join(texts)

    def do_watch(self, name: str) -> None:
        """Ctrl-C ends any wait."""

    def do_client(self, name: str, service: str, ms: str) -> None:
        self.clients[name] = self._node().client(service, deadline=seconds(ms))

    def do_servers(self, name: str, count: str) -> str:
        try:
            self.clients[name].wait_for_servers(int(count), TIMEOUT_S)
        except TimeoutError:
            return "empty"
        return "ok"

    def do_call(self, name: str, operation: str, number: str, request: str = "") -> str:
        argument = number if "(text)" in request else int(number)
        return f"ok {self.clients[name].operation(operation)(argument)}"

    def do_server(self, name: str, service: str) -> None:
        self.servers[name] = self._node().server(Desk(), service=service)

    def do_serve(self, name: str, count: str, ms: str) -> str:
        is_served = all(self.servers[name].serve_one(seconds(ms)) for _ in range(int(count)))
        return "ok" if is_served else "empty"


class CtrlC:
    """Ends the command under way, or else the next one."""

    def __init__(self) -> None:
        self.is_working = self.is_pending = False
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, *_: object) -> None:
        if self.is_working:
            raise KeyboardInterrupt
        self.is_pending = True

    def run(self, work: Callable[[], str]) -> str:
        try:
            self.is_working = True
            if self.is_pending:
                self.is_pending = False
                raise KeyboardInterrupt
            return work()
        except KeyboardInterrupt:
            return "error interrupted by Ctrl-C"
        except stripline.Error as error:
            return failed(error)
        finally:
            self.is_working = False


def main() -> None:
    end, ctrl_c = End(), CtrlC()
    answer("ready")
    for line in sys.stdin:
        command = line.rstrip("\n")
        answer(ctrl_c.run(lambda: end.perform(command)))
    end.do_close()


if __name__ == "__main__":
    main()

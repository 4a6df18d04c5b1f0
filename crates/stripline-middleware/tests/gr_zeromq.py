"""A flowgraph with GNU Radio's own ZeroMQ blocks joins a waveform: samples with tags go into it and
come back.

    gr_zeromq.py COMMAND [SAMPLES]      COMMAND: `stripline` with the feature `zeromq`
"""

from __future__ import annotations

import contextlib
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pmt
import zmq
from gnuradio import blocks, gr, zeromq

from free_port import free_port

COMMAND = sys.argv[1]
SAMPLES = int(float(sys.argv[2])) if len(sys.argv) > 2 else 200_000
# A time limit that only ends a hang.
TIMEOUT_S = 120.0

Form = tuple[int, str, str, str]


def tag(offset: int, key: str, value: object, source: object = pmt.PMT_F) -> gr.tag_t:
    made = gr.tag_t()
    made.offset, made.key, made.value, made.srcid = offset, pmt.intern(key), value, source
    return made


def form(of: gr.tag_t) -> Form:
    value, source = pmt.serialize_str(of.value), pmt.serialize_str(of.srcid)
    return of.offset, pmt.symbol_to_string(of.key), value.hex(), source.hex()


def tags() -> list[gr.tag_t]:
    """Returns tags of rate, frequency and time, and random tags in between."""
    random = np.random.default_rng(7)
    found = [
        tag(0, "rx_rate", pmt.from_double(1e6)),
        tag(0, "rx_freq", pmt.from_double(100e6)),
        tag(0, "rx_time", pmt.make_tuple(pmt.from_uint64(1_700_000_000), pmt.from_double(0.25))),
        tag(SAMPLES // 2, "rx_rate", pmt.from_double(2e6)),
        tag(SAMPLES - 1, "last", pmt.dict_add(pmt.make_dict(), pmt.intern("taps"), pmt.init_f32vector(3, [1, 2, 3]))),
    ]
    for number, offset in enumerate(random.integers(SAMPLES, size=500)):
        found.append(tag(int(offset), "burst", pmt.from_long(number), pmt.intern("here")))
    return found


class Sender(gr.top_block):
    def __init__(self, path: pathlib.Path, port: int, pattern: str, given: list[gr.tag_t] | None) -> None:
        super().__init__()
        # Samples published before a subscriber connects are lost, so they are published again.
        repeats = pattern == "pub-sub"
        source = blocks.file_source(gr.sizeof_gr_complex, str(path), repeats)
        make = zeromq.push_sink if pattern == "push-pull" else zeromq.pub_sink
        sink = make(gr.sizeof_gr_complex, 1, f"tcp://127.0.0.1:{port}", 100, given is not None)
        if repeats:
            throttle = blocks.throttle(gr.sizeof_gr_complex, SAMPLES)
            self.connect(source, throttle, sink)
        elif given:
            # This chain outputs zeros, so that only the tags are added.
            tagged = blocks.vector_source_c([0] * SAMPLES, False, 1, given)
            nothing = blocks.multiply_const_cc(0)
            add = blocks.add_vcc(1)
            self.connect(tagged, nothing, (add, 1))
            self.connect(source, (add, 0))
            self.connect(add, sink)
        else:
            self.connect(source, sink)


class Receiver(gr.top_block):
    def __init__(self, path: pathlib.Path, port: int, pattern: str, has_tags: bool) -> None:
        super().__init__()
        make = zeromq.pull_source if pattern == "push-pull" else zeromq.sub_source
        source = make(gr.sizeof_gr_complex, 1, f"tcp://127.0.0.1:{port}", 100, has_tags)
        sink = blocks.file_sink(gr.sizeof_gr_complex, str(path))
        sink.set_unbuffered(True)
        self.debug = blocks.tag_debug(gr.sizeof_gr_complex, "")
        self.debug.set_display(False)
        self.debug.set_save_all(True)
        self.connect(source, sink)
        self.connect(source, self.debug)


def has_come(found: bytes, sent: bytes, pattern: str) -> bool:
    return sent in found if pattern == "pub-sub" else found == sent


def start(
    folder: pathlib.Path, port: int, options: str, end: str, stderr: int | None = None
) -> subprocess.Popen[str]:
    """Runs a waveform with a source for a flowgraph, and an end."""
    path = folder / "waveform.toml"
    path.write_text(
        f"""
        [waveform]
        name = "gr-zeromq-{port}"
        [component.radio]
        type = "gr-zeromq-source"
        properties = {{ address = "tcp://127.0.0.1:{port}", {options} }}
        [component.end]
        {end}
        [[connection]]
        from = "radio.out"
        to = "end.in"
        """
    )
    return subprocess.Popen([COMMAND, "run", str(path), "--quiet"], stderr=stderr, text=True)


def check(pattern: str, has_tags: bool) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        sent, found = folder / "sent", folder / "found"
        values = np.random.default_rng(1).standard_normal(2 * SAMPLES, dtype=np.float32)
        # A flowgraph that adds changes -0 to 0.
        values[values == 0] = 1
        sent.write_bytes(values.tobytes())
        ports = free_port(), free_port()
        options = f'pattern = "{pattern}", tags = {str(has_tags).lower()}'
        address = f"tcp://127.0.0.1:{ports[1]}"
        # The tags that come back are compared with those that were sent.
        back = f'type = "gr-zeromq-sink"\nproperties = {{ address = "{address}", repeat_s = 0.0, {options} }}'
        waveform = start(folder, ports[0], options, back)
        receiver = Receiver(found, ports[1], pattern, has_tags)
        receiver.start()
        given = tags() if has_tags else None
        sender = Sender(sent, ports[0], pattern, given)
        sender.start()
        end = time.monotonic() + TIMEOUT_S
        try:
            while not found.exists() or not has_come(found.read_bytes(), sent.read_bytes(), pattern):
                assert time.monotonic() < end, f"{pattern}: {found.stat().st_size} bytes came, and not what was sent"
                time.sleep(0.1)
            # The file and the tags have a thread each.
            while pattern == "push-pull" and len(receiver.debug.current_tags()) < len(given or []):
                assert time.monotonic() < end, "tags are missing"
                time.sleep(0.1)
        finally:
            for flowgraph in (sender, receiver):
                flowgraph.stop()
                flowgraph.wait()
            waveform.send_signal(signal.SIGINT)
            assert waveform.wait(TIMEOUT_S) == 0
        if pattern == "push-pull":
            assert sorted(map(form, receiver.debug.current_tags())) == sorted(map(form, given or [])), "other tags"
    print(f"{pattern}, {'with' if has_tags else 'without'} tags: {SAMPLES} samples came back as they were")


def check_refused(options: str, item_bytes: int, items: int, has_tags: bool, words: str) -> None:
    """Samples of the wrong form from a flowgraph end the waveform, and the error names them."""
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "sent").write_bytes(bytes(items * item_bytes))
        port = free_port()
        waveform = start(folder, port, options, 'type = "null-sink"', stderr=subprocess.PIPE)
        flowgraph = gr.top_block()
        source = blocks.file_source(item_bytes, str(folder / "sent"))
        sink = zeromq.push_sink(item_bytes, 1, f"tcp://127.0.0.1:{port}", 100, has_tags)
        flowgraph.connect(source, sink)
        flowgraph.start()
        printed = waveform.communicate(timeout=TIMEOUT_S)[1]
        flowgraph.stop()
        flowgraph.wait()
        assert waveform.returncode == 1 and words in printed, f"{waveform.returncode}: {printed}"
    print(f"refused: {words}")


def check_example() -> None:
    """Runs the two commands of the README, which show the waterfall of a flowgraph's samples."""
    folder = pathlib.Path(__file__).parents[3] / "examples" / "gr-zeromq"
    with tempfile.NamedTemporaryFile() as printed:
        waveform = subprocess.Popen([COMMAND, "run", folder / "waveform.toml"], stdout=printed, stderr=printed)
        try:
            subprocess.run([sys.executable, folder / "flowgraph.py", "2"], check=True, timeout=TIMEOUT_S)
            end = time.monotonic() + TIMEOUT_S
            while "\u2588" not in (text := pathlib.Path(printed.name).read_text()):
                assert time.monotonic() < end, f"the waterfall has no tone: {text}"
                time.sleep(0.1)
        finally:
            waveform.send_signal(signal.SIGINT)
            assert waveform.wait(TIMEOUT_S) == 0
    assert "99.950 MHz" in text and "100.050 MHz" in text, f"its tags do not describe the stream: {text}"
    print("the example draws what its flowgraph sends")


def threads_of(process: int) -> list[str]:
    """Returns the names of the threads of a process and its children."""
    found = []
    # Threads may end in the meantime.
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(OSError):
                found.append((task / "comm").read_text().strip())
                for child in (task / "children").read_text().split():
                    found += threads_of(int(child))
    return found


def check_unread() -> None:
    """Checks that a connected program that does not read cannot delay the end of the waveform."""
    with tempfile.TemporaryDirectory() as place:
        port = free_port()
        path = pathlib.Path(place) / "waveform.toml"
        path.write_text(
            f"""
            [waveform]
            name = "unread-{port}"
            [component.source]
            type = "null-source"
            properties = {{ packets = 900 }}
            [component.sink]
            type = "gr-zeromq-sink"
            properties = {{ address = "tcp://127.0.0.1:{port}" }}
            [[connection]]
            from = "source.out"
            to = "sink.in"
            """
        )
        waveform = subprocess.Popen([COMMAND, "run", str(path), "--quiet"], stderr=subprocess.PIPE, text=True)
        with zmq.Context() as context, context.socket(zmq.PULL) as socket:
            socket.linger, socket.rcvhwm = 0, 1
            socket.connect(f"tcp://127.0.0.1:{port}")
            assert socket.poll(1000 * TIMEOUT_S), "nothing comes"
            # The sink then has all packets, and more than the kernel's buffers hold.
            end = time.monotonic() + TIMEOUT_S
            while "gr-zeromq-end" not in threads_of(waveform.pid):
                assert time.monotonic() < end, "the sink does not come to its end"
                time.sleep(0.01)
            waveform.send_signal(signal.SIGINT)
            printed = waveform.communicate(timeout=TIMEOUT_S)[1]
        assert waveform.returncode == 0 and "had not taken are lost" in printed, printed
    print("a peer that does not read does not hold up the end, and the lost data is named")


check_example()
check_unread()
check_refused("tags = true", 8, 100, False, "the message has no tags; set `tags` to false")
check_refused("tags = false", 8, 100, True, "sends messages with tags; set `tags` to true")
check_refused("tags = false", 1, 3, False, "sent 3 bytes, which are not whole items of 8")
for each in ("push-pull", "pub-sub"):
    for with_tags in (False, True):
        check(each, with_tags)

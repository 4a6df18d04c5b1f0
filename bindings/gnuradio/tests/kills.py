"""Processes of a waveform are killed between flowgraphs: a tag has the count of the missing
samples.

Each number is the index of its sample, so that a jump shows how many are missing.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from array import array
from pathlib import Path

COMMAND = os.environ["STRIPLINE_COMMAND"]
TIMEOUT_S = 60
# The numbers that are sent before the file `go` exists. After that, more are sent until `end`
# exists.
FIRST = 10_000
PACKET = 250

SOURCE = f"""
import time
from pathlib import Path

import numpy
from gnuradio import gr, stripline

FOLDER = Path(__file__).parent

class Numbers(gr.sync_block):
    def __init__(self):
        gr.sync_block.__init__(self, "numbers", None, [numpy.int32])
        self.at = 0

    def work(self, inputs, outputs):
        limit = {FIRST}
        if self.at >= {FIRST}:
            if (FOLDER / "end").exists():
                return -1
            time.sleep(0.01)
            if not (FOLDER / "go").exists():
                return 0
            limit = self.at + 1000
        part = min(len(outputs[0]), limit - self.at)
        outputs[0][:part] = numpy.arange(self.at, self.at + part)
        self.at += part
        return part

class Source(gr.top_block):
    def __init__(self):
        gr.top_block.__init__(self, "source")
        self.numbers = Numbers()
        sink = stripline.sink("u32", "out", packet_items={PACKET})
        # All packets have the same number of items.
        sink.set_output_multiple({PACKET})
        self.connect(self.numbers, sink)

stripline.main(Source)
"""
SINK = """
import os
from pathlib import Path

import numpy
import pmt
from gnuradio import gr, stripline

FOLDER = Path(__file__).parent

class Kept(gr.sync_block):
    def __init__(self):
        gr.sync_block.__init__(self, "kept", [numpy.int32], None)
        self.items = open(FOLDER / f"items-{os.getpid()}", "wb", buffering=0)
        self.gaps = open(FOLDER / f"gaps-{os.getpid()}", "w", buffering=1)

    def work(self, inputs, outputs):
        # A gap is reported before the items behind it.
        for tag in self.get_tags_in_window(0, 0, len(inputs[0]), pmt.intern("gap")):
            gap = pmt.to_python(tag.value)
            print(tag.offset, gap["packets"], gap["samples"], gap["reason"], file=self.gaps)
        self.items.write(inputs[0].tobytes())
        return len(inputs[0])

class Sink(gr.top_block):
    def __init__(self):
        gr.top_block.__init__(self, "sink")
        self.kept = None
        self.source = stripline.source("u32", "in")

    def start(self, *arguments):
        # Not where the component is only described.
        self.kept = Kept()
        self.connect(self.source, self.kept)
        gr.top_block.start(self, *arguments)

stripline.main(Sink)
"""
MIDDLE = """
from gnuradio import gr, stripline

class Middle(gr.top_block):
    def __init__(self):
        gr.top_block.__init__(self, "middle")
        self.connect(stripline.source("u32", "in"), stripline.sink("u32", "out"))

stripline.main(Middle)
"""
WAVEFORM = """
[waveform]
name = "{name}"
[component.source]
exec = ["{python}", "source.py"]
restart = "on-failure"
[component.sink]
exec = ["{python}", "sink.py"]
restart = "on-failure"
"""
DIRECT = """
[[connection]]
from = "source.out"
to = "sink.in"
"""
BETWEEN = """
[component.middle]
{}
restart = "on-failure"
[[connection]]
from = "source.out"
to = "middle.in"
[[connection]]
from = "middle.out"
to = "sink.in"
"""
FORWARDER = BETWEEN.format('type = "throttle"\nproperties = { rate = 1e9 }')
FLOWGRAPH = BETWEEN.format(f'exec = ["{sys.executable}", "middle.py"]')


class Kills(unittest.TestCase):
    def run_waveform(self, middle):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.name = f"kills-{os.getpid()}-{self._testMethodName[:40]}"
        for name, text in {"source": SOURCE, "sink": SINK, "middle": MIDDLE}.items():
            (self.folder / f"{name}.py").write_text(text)
        path = self.folder / "waveform.toml"
        path.write_text(WAVEFORM.format(name=self.name, python=sys.executable) + middle)
        self.process = subprocess.Popen(
            [COMMAND, "run", path], stdout=open(self.folder / "printed", "wb"), stderr=subprocess.STDOUT)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.wait_until(lambda: self.items() and len(self.items()[0]) == FIRST)

    def wait_until(self, is_met):
        until = time.monotonic() + TIMEOUT_S
        while not is_met():
            self.assertLess(time.monotonic(), until, (self.folder / "printed").read_text())
            self.assertIsNone(self.process.poll(), (self.folder / "printed").read_text())
            time.sleep(0.01)

    def items(self):
        """Returns the numbers of each process of the sink, in the order of their first numbers."""
        found = []
        for path in self.folder.glob("items-*"):
            content = path.read_bytes()
            if content:
                found.append(array("i", content[:len(content) // 4 * 4]))
        return sorted(found, key=lambda numbers: numbers[0])

    def gaps(self):
        """Returns the tags of all processes of the sink: item, packets, samples, reason."""
        lines = [line.split() for path in self.folder.glob("gaps-*") for line in path.read_text().splitlines()]
        return [(*map(int, line[:3]), line[3]) for line in lines]

    def process_of(self, component):
        command = [COMMAND, "waveforms", self.name, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        if done.returncode != 0:
            return None
        # None if the launcher does not answer in time.
        found = (components["components"] for components in json.loads(done.stdout)["waveforms"])
        return next((it["pid"] for it in itertools.chain(*found) if it["name"] == component), None)

    def kill(self, component):
        while (before := self.process_of(component)) is None:
            time.sleep(0.01)
        os.kill(before, signal.SIGKILL)
        self.wait_until(lambda: self.process_of(component) not in (None, before))

    def end(self):
        (self.folder / "end").touch()
        self.assertEqual(self.process.wait(TIMEOUT_S), 0, (self.folder / "printed").read_text())

    def go(self):
        (self.folder / "go").touch()

    def check_jumps(self, numbers, gaps):
        """Checks that the samples missing before an item are the sum of its tags. Returns the
        number of items with tags."""
        jumps = {at: numbers[at] - numbers[at - 1] - 1 for at in range(1, len(numbers)) if numbers[at] != numbers[at - 1] + 1}
        lost = {}
        for at, _, samples, _ in gaps:
            lost[at] = lost.get(at, 0) + samples
        # A restart need not lose anything.
        self.assertEqual({at: samples for at, samples in lost.items() if samples}, jumps)
        return len(lost)

    def test_a_sink_that_is_killed_begins_with_a_tag_that_has_what_it_has_missed(self):
        self.run_waveform(FORWARDER)
        self.go()
        self.kill("sink")
        self.wait_until(lambda: len(self.items()) == 2)
        self.end()
        first, second = self.items()
        gaps = self.gaps()
        if not gaps:
            # The killed process had taken all packets that were sent, which can happen on a busy
            # machine.
            self.assertEqual(list(second), list(range(second[0], second[0] + len(second))))
            self.assertGreaterEqual(second[0], len(first))
            return
        ((at, packets, samples, reason),) = gaps
        self.assertEqual((at, reason), (0, "peer-restart"))
        self.assertEqual(samples, packets * PACKET)
        # The killed process may have taken more than it has written.
        self.assertEqual(list(first), list(range(len(first))))
        self.assertGreater(packets, 0)
        self.assertGreaterEqual(second[0] - packets * PACKET, len(first))
        self.assertEqual(list(second), list(range(second[0], second[0] + len(second))))

    def test_a_sink_that_is_killed_while_nothing_comes_misses_exactly_its_tag(self):
        self.run_waveform(FORWARDER)
        before = self.process_of("sink")
        os.kill(before, signal.SIGKILL)
        self.go()
        self.wait_until(lambda: len(self.items()) == 2)
        self.end()
        first, second = self.items()
        self.assertEqual(len(first), FIRST)
        gaps = self.gaps()
        missing = second[0] - FIRST
        # A quick restart loses nothing, and then needs no tag.
        if missing or gaps:
            self.assertEqual(gaps, [(0, missing // PACKET, missing, "peer-restart")])

    def test_a_component_that_is_killed_in_between_is_a_tag_with_what_is_missing(self):
        self.run_waveform(FORWARDER)
        self.go()
        for _ in range(2):
            self.kill("middle")
            before = len(self.items()[0])
            self.wait_until(lambda: len(self.items()[0]) > before + 5000)
        self.end()
        (numbers,) = self.items()
        self.assertEqual(self.check_jumps(numbers, self.gaps()), 2)
        self.assertEqual({reason for *_, reason in self.gaps()}, {"peer-restart"})

    def test_a_flowgraph_that_is_killed_in_between_passes_on_the_tag_with_what_it_has_missed(self):
        self.run_waveform(FLOWGRAPH)
        os.kill(self.process_of("middle"), signal.SIGKILL)
        self.go()
        self.wait_until(lambda: len(self.items()[0]) > FIRST)
        self.end()
        (numbers,) = self.items()
        # The restart of the process, and the packets that it has missed in the meantime, if any.
        missing = numbers[FIRST] - FIRST
        self.assertEqual(
            sorted((at, packets * PACKET, samples) for at, packets, samples, _ in self.gaps()),
            [(FIRST, 0, 0)] + ([(FIRST, missing, missing)] if missing else []))

    def test_a_sender_that_is_killed_is_a_tag_without_a_count(self):
        self.run_waveform(DIRECT)
        self.kill("source")
        self.wait_until(lambda: len(self.items()[0]) == 2 * FIRST)
        self.end()
        # The samples that it would have sent were not counted: it begins anew.
        self.assertEqual(list(self.items()[0]), 2 * list(range(FIRST)))
        self.assertEqual([(at, samples) for at, _, samples, _ in self.gaps()], [(FIRST, 0)])


if __name__ == "__main__":
    unittest.main()

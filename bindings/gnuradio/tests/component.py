"""Flowgraphs as components of waveforms, beside stock components, run by the command."""

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

from companion import compile_all, write

COMMAND = os.environ["STRIPLINE_COMMAND"]
EXAMPLE = Path(__file__).resolve().parents[1] / "examples/gain.py"
TIMEOUT_S = 60
WAVEFORM = """
[waveform]
name = "{name}"
[component.source]
type = "signal-generator"
properties = {{ waveform = "constant", rate = 48e3, packet = 480, duration_s = {seconds} }}
[component.gain]
exec = ["{python}", "{script}"]
{keys}
[component.end]
type = "file-sink"
properties = {{ path = "{name}.items" }}
[[connection]]
from = "source.out"
to = "gain.in"
[[connection]]
from = "gain.out"
to = "end.in"
"""
# The gain of the example, with several variables and different ways to begin and end.
SCRIPT = """
from gnuradio import blocks, gr, stripline

class Gain(gr.top_block):
    def __init__(self):
        gr.top_block.__init__(self, "gain")
        self.first, self.second, self.name, self.is_on, self.taps = 1, 2.5, "none", True, [1, 2]
        {begin}
        self.connect(stripline.source("complex", "in"), stripline.sink("complex", "out"))
    def get_first(self): return self.first
    def set_first(self, value): self.first = value
    def get_second(self): return self.second
    def set_second(self, value):
        if value > 10: raise ValueError(f"{{value}} is too much while first is {{self.first}}")
        if value < 0: {raised}
        self.second = value
    def get_name(self): return self.name
    def set_name(self, value): self.name = value
    def get_is_on(self): return self.is_on
    def set_is_on(self, value): self.is_on = value
    def get_taps(self): return self.taps
    def set_taps(self, value): self.taps = value

if __name__ == "__main__":
    stripline.main(Gain)
"""
# A component of messages.
MESSAGES = """
from gnuradio import gr, stripline

class Notes(gr.top_block):
    def __init__(self):
        gr.top_block.__init__(self, "notes")
        self.source, self.sink = stripline.message_source("in"), stripline.message_sink("out", type="message/note{n:s64}")
        self.msg_connect(self.source, "out", self.sink, "in")

if __name__ == "__main__":
    stripline.main(Notes)
"""
# Self-tests and readouts. A subclass adds them to the gain of the script.
REPORTS = """
from script import Gain
from gnuradio import stripline

class Reports(Gain):
    calls = 0

    @stripline.self_test("passes in words of its own")
    def own_words(self):
        return stripline.TestResult(True, "measured three", 3.0)

    @stripline.self_test("passes")
    def plain(self):
        return None

    @stripline.self_test("fails", name="failing")
    def fails(self):
        return stripline.TestResult(False, f"first is {self.first}")

    @stripline.self_test("raises")
    def raising(self):
        raise ValueError("the antenna is off")

    @stripline.self_test("returns a number")
    def wrong(self):
        return 7

    @stripline.readout("calls of this readout", unit="calls", name="call-count")
    def count(self):
        self.calls += 1
        return self.calls

    @stripline.readout("twice the first variable")
    def twice(self): return 2.0 * self.first
    @stripline.readout("a text")
    def text(self): return f"<{self.name}>"
    @stripline.readout("a switch")
    def is_off(self): return not self.is_on
    @stripline.readout("raises at a value of the first variable")
    def broken(self):
        if self.first == {bad}: {action}
        return float(self.first)

if __name__ == "__main__":
    stripline.main(Reports)
"""
_numbers = itertools.count()


def stripline(*arguments):
    """Runs the command to its end. Returns the exit code, and all its output."""
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return done.returncode, done.stdout + done.stderr


def describe(script):
    done = subprocess.run(
        [sys.executable, script, "--describe"], stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=True)
    (found,) = json.loads(done.stdout)
    return found


class Components(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.name = f"gr-{os.getpid()}-{next(_numbers)}"
        self.path = self.folder / f"{self.name}.toml"

    def script(self, begin="pass", raised="raise KeyError(value)"):
        path = self.folder / "script.py"
        path.write_text(SCRIPT.format(begin=begin, raised=raised))
        return path

    def write(self, script=EXAMPLE, keys="", seconds=0):
        self.path.write_text(WAVEFORM.format(
            name=self.name, python=sys.executable, script=script, keys=keys, seconds=seconds))

    def start(self):
        process = subprocess.Popen(
            [COMMAND, "run", self.path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if "is running" in line:
                return process
        raise AssertionError("it does not run")

    def end(self, process, code=0):
        text, _ = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, code, text)
        return text

    def stop(self, process):
        self.assertEqual(stripline("stop", self.name)[0], 0)
        return self.end(process)

    def set(self, *values, code=0):
        found, text = stripline("set", self.name, *values)
        self.assertEqual(found, code, text)
        return text

    def get(self, name):
        code, text = stripline("get", self.name, name, "--json")
        return json.loads(text)[0]["value"] if code == 0 else None

    def levels(self):
        """Returns the recorded levels without repetitions, and the number of samples."""
        found = array("f", (self.folder / f"{self.name}.items").read_bytes())
        self.assertEqual(set(found[1::2]), {0})
        return [level for level, _ in itertools.groupby(found[::2])], len(found) // 2

    def wait_for_samples(self):
        """Waits until the file at the end has grown by more than the packets under way."""
        path = self.folder / f"{self.name}.items"
        size = lambda: path.stat().st_size if path.exists() else 0
        before = size()
        self.wait_until(lambda: size() > before + 80_000)

    def wait_until(self, is_met):
        until = time.monotonic() + TIMEOUT_S
        while not is_met():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)

    def process_of_gain(self):
        """Returns the entry of the component `gain`, with the process and the restarts."""
        listed = subprocess.run(
            [COMMAND, "waveforms", self.name, "--json"], stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=True)
        (found,) = json.loads(listed.stdout)["waveforms"]
        (gain,) = [it for it in found["components"] if it["name"] == "gain"]
        return gain

    def test_set_changes_a_variable_while_it_runs(self):
        self.write(keys="properties = { factor = 2.0 }")
        process = self.start()
        self.wait_for_samples()
        self.assertIn("gain.factor = 3.5 (was 2)", self.set("gain.factor=3.5"))
        self.wait_for_samples()
        self.assertIn("a factor of 0 would hide the signal", self.set("gain.factor=0", code=1))
        self.assertEqual(self.get("gain.factor"), 3.5)
        self.wait_for_samples()
        self.stop(process)
        self.assertEqual(self.levels()[0], [2, 3.5])

    def test_the_end_of_the_stream_ends_it(self):
        self.write(seconds=0.5)
        self.end(self.start())
        self.assertEqual(self.levels(), ([1], 24000))

    def test_a_killed_one_is_started_again_with_the_value_that_was_set(self):
        self.write(keys='restart = "on-failure"')
        process = self.start()
        self.wait_for_samples()
        self.set("gain.factor=4")
        self.wait_for_samples()
        before = self.process_of_gain()["pid"]
        os.kill(before, signal.SIGKILL)
        self.wait_until(lambda: self.process_of_gain()["pid"] not in (None, before))
        self.wait_for_samples()
        self.assertEqual(self.get("gain.factor"), 4)
        self.stop(process)
        self.assertEqual(self.levels()[0], [1, 4])

    def test_variables_have_the_types_of_their_values(self):
        self.write(self.script(), 'properties = { first = 7, name = "a", is_on = false }')
        process = self.start()
        self.assertEqual(
            [self.get(f"gain.{name}") for name in ("first", "second", "name", "is_on")], [7, 2.5, "a", False])
        self.set("gain.second=3", "gain.name=b", "gain.is_on=true")
        self.assertEqual([self.get(f"gain.{name}") for name in ("second", "name", "is_on")], [3, "b", True])
        self.set("gain.first=1.5", code=2)
        self.assertIsNone(self.get("gain.taps"))
        self.stop(process)

    def test_of_two_values_both_are_taken_or_none(self):
        self.write(self.script())
        process = self.start()
        self.assertIn("11.0 is too much while first is 9", self.set("gain.first=9", "gain.second=11", code=1))
        # The first value was restored.
        self.assertIn("11.0 is too much while first is 1", self.set("gain.second=11", code=1))
        self.assertIn("KeyError: -1.0", self.set("gain.second=-1", code=1))
        self.assertEqual((self.get("gain.first"), self.get("gain.second")), (1, 2.5))
        self.stop(process)

    def reports(self, bad=5, action='raise RuntimeError("the first is 5")'):
        self.script()
        path = self.folder / "reports.py"
        path.write_text(REPORTS.replace("{bad}", str(bad)).replace("{action}", action))
        return path

    def test_self_tests_of_a_flowgraph_run_while_it_runs(self):
        self.write(self.reports())
        process = self.start()
        self.wait_for_samples()
        self.set("gain.first=4")
        code, text = stripline("test", self.name, "gain")
        self.assertEqual(code, 1, text)
        for words in ("measured three", "first is 4", "the antenna is off", "has returned 7, which is not a `TestResult`"):
            self.assertIn(words, text)
        results = {it["test"]: it for it in json.loads(stripline("test", self.name, "gain", "--json")[1])}
        self.assertEqual(
            {name: it["result"]["passed"] for name, it in results.items()},
            {"own_words": True, "plain": True, "failing": False, "raising": False, "wrong": False})
        self.assertEqual((results["own_words"]["result"]["value"], results["plain"]["result"]["text"]), (3.0, "passes"))
        # The samples continue.
        self.wait_for_samples()
        self.stop(process)

    def test_readouts_of_a_flowgraph_are_read_only_properties(self):
        self.write(self.reports())
        process = self.start()
        self.wait_until(lambda: (self.get("gain.call-count") or 0) > 3)
        self.assertEqual([self.get(f"gain.{name}") for name in ("twice", "text", "is_off")], [2.0, "<none>", False])
        self.set("gain.first=4", "gain.name=b", "gain.is_on=false")
        self.wait_until(
            lambda: [self.get(f"gain.{name}") for name in ("twice", "text", "is_off")] == [8.0, "<b>", True])
        self.assertIn("read-only", self.set("gain.twice=1", code=2))
        # A readout that raises keeps its value, and the others continue.
        self.wait_until(lambda: self.get("gain.broken") == 4.0)
        self.set("gain.first=5")
        self.wait_until(lambda: self.get("gain.twice") == 10.0)
        self.assertEqual(self.get("gain.broken"), 4.0)
        text = self.stop(process)
        self.assertEqual(text.count("readout `broken` keeps its value: the first is 5"), 1)

    def test_mistakes_of_readouts_and_self_tests_are_found_by_the_check(self):
        for action, words in {
            'raise RuntimeError("no probe")': "no probe", "return []": "readout `broken` is []",
            "return 2**63": "broken"}.items():
            with self.subTest(action=action):
                self.write(self.reports(1, action))
                code, text = stripline("check", str(self.path))
                self.assertEqual(code, 2, text)
                self.assertIn(words, text)

    def test_two_with_one_name_are_refused(self):
        path = self.reports()
        for mark in ('name="failing"', 'name="call-count"'):
            with self.subTest(mark=mark):
                name = "plain" if "failing" in mark else "twice"
                path.write_text(self.reports().read_text().replace(mark, f'name="{name}"'))
                self.write(path)
                code, text = stripline("check", str(self.path))
                self.assertEqual(code, 2, text)
                self.assertIn(f"two methods are marked as `{name}`", text)

    def test_messages_are_ports_of_a_component(self):
        path = self.folder / "script.py"
        path.write_text(MESSAGES)
        found = describe(path)
        self.assertEqual(
            {port["name"]: (port["direction"], port["types"]) for port in found["ports"]},
            {"in": ("input", {"one-of": ["message/cbor"]}), "out": ("output", {"one-of": ["message/note{n:s64}"]})})

    def test_sys_exit_in_a_setter_only_refuses(self):
        self.write(self.script(raised='sys.exit("no")', begin="global sys; import sys"))
        process = self.start()
        self.assertIn("no", self.set("gain.second=-1", code=1))
        self.wait_for_samples()
        self.stop(process)

    def test_a_value_of_the_file_that_is_refused_is_the_failure(self):
        self.write(keys="properties = { factor = 0.0 }")
        code, text = stripline("run", str(self.path))
        self.assertEqual(code, 1, text)
        self.assertIn("component gain failed: a factor of 0 would hide the signal", text)

    def test_mistakes_are_found_by_the_check(self):
        source = 'stripline.source("complex", "in"'
        for begin, words in {
            'raise RuntimeError("no receiver is plugged in")': "no receiver is plugged in",
            f'{source}, policy="depth = 8")': "`policy` and `domain` are for",
            f'{source}, domain="there")': "`policy` and `domain` are for",
            f"{source})": "`in`",
            'stripline.source("complex", "a b")': "a b",
            "self.first = 2**63": "`first` is 9223372036854775808",
            'self.second = float("nan")': "second",
        }.items():
            with self.subTest(begin=begin):
                self.write(self.script(begin=begin))
                code, text = stripline("check", str(self.path))
                self.assertEqual(code, 2, text)
                self.assertIn(words, text)
        path = self.script()
        path.write_text(path.read_text().replace("main(Gain)", "main(dict)"))
        self.assertIn("`main` takes a top block", stripline("check", str(self.path))[1])

    def test_what_a_flowgraph_prints_is_not_in_its_description(self):
        found = describe(self.script(begin='import os; print("hello"); os.system("echo world")'))
        ports = [(port["name"], port["direction"]) for port in found["ports"]]
        self.assertEqual(ports, [("in", "input"), ("out", "output")])

    def test_a_flowgraph_of_the_companion(self):
        write(
            self.folder, "radio", ("source", "stripline_source", {"type": "float", "topic": "in"}),
            ("sink", "stripline_sink", {"type": "float", "topic": "out"}),
            ("gain", "variable", {"value": "20.5"}), ("samp_rate", "variable", {"value": "32000"}),
            ("antenna", "variable", {"value": "'TX/RX'"}))
        compile_all(self.folder)
        path = self.folder / "component.py"
        path.write_text("from gnuradio import stripline\nfrom radio import radio\n\nstripline.main(radio)\n")
        found = describe(path)
        self.assertEqual(found["name"], "radio")
        self.assertEqual(
            {it["name"]: (it["default"], it["access"]) for it in found["properties"]},
            {"gain": (20.5, "changeable"), "samp_rate": (32000, "changeable"), "antenna": ("TX/RX", "changeable")})
        self.assertEqual([port["types"] for port in found["ports"]], [{"one-of": ["f32"]}] * 2)


if __name__ == "__main__":
    unittest.main()

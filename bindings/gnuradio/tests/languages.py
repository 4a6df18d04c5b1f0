"""The waveform in four languages of `examples/languages`. Each component is listed, read, changed,
tested and killed."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
COMMAND = os.environ["STRIPLINE_COMMAND"]
TIMEOUT_S = 60
# The components that are not built in, each with a property that can be changed.
OWN = {"gain": "factor", "detector": "threshold", "sink": "alpha"}


class Languages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.name = f"languages-{os.getpid()}"
        for name in ("detector.py", "meter.py"):
            shutil.copy(ROOT / "examples/languages" / name, self.folder)
        shutil.copy(os.environ["STRIPLINE_GAIN_CPP"], self.folder / "gain")
        text = (ROOT / "examples/languages/waveform.toml").read_text()
        self.path = self.folder / "waveform.toml"
        self.path.write_text(text.replace('name = "languages"', f'name = "{self.name}"'))
        # The Python that has the package comes first.
        path = f"{os.environ['STRIPLINE_VENV']}/bin:{os.environ['PATH']}"
        self.environment = dict(os.environ, PATH=path)
        self.result = self.folder / "result.json"

    def stripline(self, verb, *arguments, code=0):
        done = subprocess.run([COMMAND, verb, self.name, *arguments], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def value(self, place):
        return float(self.stripline("get", place))

    def wait_until(self, what, is_so):
        end = time.monotonic() + TIMEOUT_S
        while not is_so():
            self.assertLess(time.monotonic(), end, f"waited for {what}")
            time.sleep(0.02)

    def process_of(self, component):
        """Returns the number of a component's process, or None if the component does not run."""
        children = Path(f"/proc/{self.launcher.pid}/task/{self.launcher.pid}/children")
        threads = children.parents[1].glob("*/children")
        for number in " ".join(path.read_text() for path in threads).split():
            try:
                words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"component" in words and component.encode() in words:
                return int(number)
        return None

    def value_there(self, place):
        """Returns the value, or -1 while the component does not run."""
        done = subprocess.run([COMMAND, "get", self.name, place], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        return float(done.stdout) if done.returncode == 0 else -1

    def grows(self, place, by=1):
        before = self.value_there(place)
        self.wait_until(f"{place} to grow", lambda: self.value_there(place) >= before + by)

    def test_each_component_is_controlled_and_started_again(self):
        self.launcher = subprocess.Popen([COMMAND, "run", self.path, "--json", "--output", self.result],
                                    env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.launcher.stdout.close)
        self.addCleanup(self.launcher.wait)
        self.addCleanup(self.launcher.kill)
        for component in OWN:
            self.wait_until(component, lambda: self.value_there(f"{component}.{OWN[component]}") >= 0 or self.launcher.poll() is not None)
        listed = self.stripline("waveforms")
        for component in ("source", *OWN):
            self.assertIn(component, listed)
        self.wait_until("the first detection", lambda: self.value_there("detector.detections") > 0)
        for component, name in OWN.items():
            place = f"{component}.{name}"
            self.stripline("set", f"{place}=0.5")
            self.assertEqual(self.value(place), 0.5)
        self.assertIn("is not a share of the newest sample", self.stripline("set", "sink.alpha=2", code=1))
        # A factor of 0.5 leaves a power of 0.25, which the threshold of 0.5 does not pass.
        self.stripline("set", "gain.factor=2")
        self.grows("detector.detections")
        self.assertIn("a one becomes the factor", self.stripline("test", "gain"))
        self.assertIn("a packet of ones has a mean power of one", self.stripline("test", "detector"))
        self.wait_until("a power", lambda: self.value("sink.power") > 0)
        self.assertIn("the mean power is ", self.stripline("test", "sink"))
        for component in OWN:
            before = self.process_of(component)
            os.kill(before, signal.SIGKILL)
            self.wait_until(f"{component} to be started again",
                            lambda: self.process_of(component) not in (None, before))
            self.wait_until("its answers", lambda: self.value_there(f"{component}.{OWN[component]}") >= 0)
            self.grows("detector.detections")
        # A restarted receiver begins the figures anew, and measures only some packets.
        self.grows("detector.detections", by=300)
        self.stripline("stop")
        text, _ = self.launcher.communicate(timeout=TIMEOUT_S)
        self.assertEqual(self.launcher.returncode, 0, text)
        connections = json.loads(self.result.read_text())["connections"]
        self.assertEqual(len(connections), 3)
        for connection in connections:
            self.assertGreater(connection["packets"], 0, connection)
            self.assertGreater(connection["latency_ns"]["samples"], 0, connection)


if __name__ == "__main__":
    unittest.main()

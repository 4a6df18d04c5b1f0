"""The examples beside the guide's programs in C, and the page that shows their output."""

import os
import signal
import sys
import unittest
from pathlib import Path

from support import domain, started

# A shell starts its background jobs with Ctrl-C ignored. Programs of the tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "bindings/gnuradio/examples"
# The folder in which `check` has compiled publisher.c and subscriber.c.
PROGRAMS = Path(os.environ["STRIPLINE_INSTALLED"]).parent / "programs"
PAGE = (ROOT / "docs/gnuradio.md").read_text()


def line(process, words):
    """Returns the next line with these words. The page must contain them as well."""
    assert words in PAGE, f"docs/gnuradio.md does not have `{words}`"
    for found in process.stdout:
        if words in found:
            return found
    raise AssertionError(f"no line with `{words}`")


class Examples(unittest.TestCase):
    def test_a_flowgraph_receives_what_the_publisher_sends(self):
        environment = dict(os.environ, STRIPLINE_DOMAIN=domain("power"))
        with started(sys.executable, EXAMPLES / "power.py", env=environment) as graph, \
                started(PROGRAMS / "publisher", env=environment) as publisher:
            line(graph, "waiting for `iq`; Ctrl-C ends it")
            line(publisher, "publishing `iq`; Ctrl-C ends it")
            line(graph, "power 1.000 after ")
            publisher.send_signal(signal.SIGINT)
            line(publisher, "published ")
            line(graph, "samples, lost 0")
            self.assertEqual(graph.wait(60), 0)

    def test_the_subscriber_receives_what_a_flowgraph_sends(self):
        environment = dict(os.environ, STRIPLINE_DOMAIN=domain("tone"))
        with started(PROGRAMS / "subscriber", env=environment) as subscriber, \
                started(sys.executable, EXAMPLES / "tone.py", env=environment) as graph:
            line(subscriber, "waiting for `iq`; Ctrl-C ends it")
            line(graph, "publishing `iq`; Ctrl-C ends it")
            # At the second line, a second later, the flowgraph waits for the signal.
            line(subscriber, "of `tone`: 1000 samples, power 1.000")
            line(subscriber, "of `tone`: 1000 samples, power 1.000")
            graph.send_signal(signal.SIGINT)
            line(subscriber, "end of the stream")
            line(subscriber, "packets, lost 0")
            self.assertEqual(graph.wait(60), 0)

    def test_messages_tune_a_flowgraph(self):
        environment = dict(os.environ, STRIPLINE_DOMAIN=domain("tuned"))
        with started(sys.executable, EXAMPLES / "tuned_tone.py", env=environment) as graph:
            self.assertIn("waiting for `tune`", graph.stdout.readline())
            with started(os.environ["STRIPLINE_VENV"] + "/bin/python3", "tune_peer.py", env=environment) as peer:
                self.assertEqual(peer.stdout.readline(), "tuned {'freq': 2000.0}\n")
                self.assertEqual(peer.stdout.readline(), "2000 Hz\n")
                self.assertEqual(peer.wait(60), 0)


if __name__ == "__main__":
    unittest.main()

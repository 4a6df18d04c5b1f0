"""A mistake of a user is an error that names it."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

from gnuradio import blocks, gr, stripline
from support import domain

INSTALLED = Path(os.environ["STRIPLINE_INSTALLED"])


class BadInput(unittest.TestCase):
    def test_wrong_options_are_refused_at_once(self):
        place = domain("options")
        cases = [
            (dict(type="banana"), "`banana` is not a sample type; use byte, short, int, float, complex"),
            (dict(type=""), "`` is not a sample type"),
            (dict(type="c"), "`c` is not a sample type"),
            (dict(type="ccf32"), "`ccf32` is not a sample type"),
            (dict(topic=""), "topic"),
            (dict(topic=b"\xff"), "UTF-8"),
            (dict(topic="a\0b"), "NUL"),
            (dict(domain="no domain"), "no domain"),
            (dict(domain="a\0b"), "NUL"),
            (dict(vlen=0), "`vlen` is 0; a vector of cf32 has 1 to"),
            (dict(vlen=2**60), f"`vlen` is {2**60}; a vector of cf32 has 1 to"),
            (dict(policy='overflow = "banana"'), "banana"),
            (dict(policy='transport = "banana"'), "banana"),
            (dict(policy='transport = "shm" depth = 8'), "topics"),
            (dict(policy='nothing = 8'), "nothing"),
            (dict(policy='depth = -1\noverflow = "block"'), "depth"),
            (dict(policy='} } [default] depth = 3'), ""),
            (dict(policy="a\0b"), "NUL"),
        ]
        for make in (stripline.source, stripline.sink):
            for wrong, words in cases:
                with self.subTest(make=make.__name__, wrong=wrong):
                    with self.assertRaises(ValueError) as caught:
                        make(**{**dict(type="complex", topic="iq", domain=place), **wrong})
                    self.assertIn(words, str(caught.exception))
                    self.assertIn("stripline", str(caught.exception))

    def test_wrong_options_of_a_sink(self):
        place = domain("sink")
        cases = [
            (dict(stream="a\0b"), "NUL"),
            (dict(sample_rate=-1.0), "`sample_rate`"),
            (dict(sample_rate=float("nan")), "`sample_rate`"),
            (dict(center_freq=float("inf")), "`center_freq`"),
        ]
        for wrong, words in cases:
            with self.subTest(wrong=wrong):
                with self.assertRaises(ValueError) as caught:
                    stripline.sink("complex", "iq", domain=place, **wrong)
                self.assertIn(words, str(caught.exception))

    def test_wrong_kinds_of_arguments_are_type_errors(self):
        for wrong in (dict(topic="\udc80"), dict(vlen=-1), dict(vlen="3"), dict(topic=7), dict(nothing=1)):
            with self.subTest(wrong=wrong), self.assertRaises(TypeError):
                stripline.source(**{**dict(type="complex", topic="iq"), **wrong})

    def test_right_policies_are_taken(self):
        place = domain("policies")
        # A topic may have any text on one line.
        for topic in ("a b", 'a"]b', "a\\b", "ä"):
            with self.subTest(topic=topic):
                stripline.sink("complex", topic, policy='depth = 8', domain=place)
        for topic in ("a\nb", "x" * 256):
            with self.subTest(topic=topic), self.assertRaisesRegex(ValueError, "is not a valid topic name"):
                stripline.sink("complex", topic, domain=place)
        for policy in ("", "  ", 'overflow = "block", depth = 8', 'overflow = "drop-oldest"\ndepth = 4\n',
                       'transport = "uds"', 'transport = "shm", buffer = 1048576'):
            with self.subTest(policy=policy):
                stripline.source("complex", "iq-1", policy=policy, domain=place)
                stripline.sink("complex", "iq-2", policy=policy, domain=place)

    def test_ports_of_another_size_are_refused_by_gnu_radio(self):
        graph = gr.top_block()
        with self.assertRaises(ValueError):
            graph.connect(blocks.null_source(gr.sizeof_float), stripline.sink("complex", "iq", domain=domain("ports")))

    def test_a_sender_of_another_type_is_named(self):
        place = domain("types")
        sink = stripline.sink("complex", "iq", domain=place)
        source = stripline.source("float", "iq", domain=place)
        while not source.refused():
            pass
        self.assertIn("cf32", source.refused()[0])
        self.assertIn("f32", source.refused()[0])
        self.assertEqual(sink.receivers(), 0)

    def test_a_missing_library_is_named_with_the_remedy(self):
        library = INSTALLED / "lib" / "libstripline.so.0"
        away = library.with_suffix(".away")
        library.rename(away)
        self.addCleanup(away.rename, library)
        done = subprocess.run(
            [sys.executable, "-c", "from gnuradio import stripline"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("libstripline.so.0: cannot open shared object file", done.stderr)
        self.assertIn("Install the library with packaging/cpp-install", done.stderr)


if __name__ == "__main__":
    unittest.main()

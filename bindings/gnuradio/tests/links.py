"""Flowgraphs that send and receive: samples, tags, ends."""

import os
import unittest

import numpy
import pmt
from gnuradio import blocks, gr, stripline


def domain(name):
    """A domain that no other test has."""
    return f"gr-{os.getpid()}-{name}"


def wait_for_receivers(sink_options):
    """What makes a sink wait for its receiver, so that nothing is sent to none."""
    return dict(receivers=1, **sink_options)


class Links(unittest.TestCase):
    def test_complex_samples_arrive_unchanged(self):
        sent = numpy.arange(100_000, dtype=numpy.float32).view(numpy.complex64)
        place = domain("complex")
        out = gr.top_block()
        sink = stripline.sink("complex", "iq", domain=place, receivers=1)
        out.connect(blocks.vector_source_c(sent, False), sink)
        back = gr.top_block()
        source = stripline.source("complex", "iq", domain=place)
        found = blocks.vector_sink_c(reserve_items=len(sent))
        back.connect(source, found)
        back.start()
        out.run()
        back.wait()
        self.assertEqual(numpy.array(found.data(), numpy.complex64).tobytes(), sent.tobytes())
        self.assertEqual((source.lost_packets(), source.failure(), sink.failure()), (0, "", ""))


if __name__ == "__main__":
    unittest.main()

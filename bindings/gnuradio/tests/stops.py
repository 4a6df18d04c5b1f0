"""Stops of flowgraphs at random moments, while a block waits.

In this test, no block checks periodically whether it must stop: a wait that a stop does not end
lasts an hour.
"""

import random
import threading
import time
import unittest

import pmt
from gnuradio import blocks, gr, stripline
from support import domain

STOPS = 100
# A limit that only ends a hang.
TIMEOUT_S = 60
SLOW = 'overflow = "block", depth = 2'


class Silent(gr.basic_block):
    """A block that could post messages."""

    def __init__(self):
        gr.basic_block.__init__(self, "silent", None, None)
        self.message_port_register_out(pmt.intern("out"))


class Stops(unittest.TestCase):
    def setUp(self):
        stripline.source._set_reader_check(3600)
        self.addCleanup(stripline.source._set_reader_check, 0.02)
        self.generator = random.Random(16)

    def stop_often(self, make):
        """Stops flowgraphs at random moments. `make` returns a flowgraph, the objects that must
        stay alive, and whether it waits."""
        for number in range(STOPS):
            with self.subTest(number=number):
                graph, kept, waits = make(domain("stops"))
                graph.start()
                if number % 2 == 0:
                    until = time.monotonic() + TIMEOUT_S
                    while not waits():
                        self.assertLess(time.monotonic(), until)
                # A moment between the start of the threads and a long wait.
                time.sleep(self.generator.uniform(0, 0.004))
                graph.stop()
                waiter = threading.Thread(target=gr.top_block_wait_unlocked, args=(graph._impl,), daemon=True)
                waiter.start()
                waiter.join(TIMEOUT_S)
                self.assertFalse(waiter.is_alive(), "a wait goes on")
                del kept

    def test_while_a_source_waits_for_a_sender(self):
        def make(place):
            graph = gr.top_block()
            graph.connect(stripline.source("float", "iq", domain=place), blocks.null_sink(gr.sizeof_float))
            return graph, None, lambda: True

        self.stop_often(make)

    def test_while_a_source_waits_for_a_packet(self):
        def make(place):
            graph, out = gr.top_block(), gr.top_block()
            source = stripline.source("float", "iq", domain=place)
            graph.connect(source, blocks.null_sink(gr.sizeof_float))
            sink = stripline.sink("float", "iq", domain=place, receivers=1)
            out.connect(blocks.vector_source_f([1.0] * 10), sink)
            # The stream has no end.
            sink.abandon()
            out.start()
            self.addCleanup(lambda: (out.stop(), gr.top_block_wait_unlocked(out._impl)))
            return graph, (out, sink), lambda: source.nitems_written(0) == 10

        self.stop_often(make)

    def test_while_a_sink_waits_for_a_receiver(self):
        def make(place):
            graph = gr.top_block()
            graph.connect(blocks.null_source(gr.sizeof_float), stripline.sink("float", "iq", domain=place, receivers=1))
            return graph, None, lambda: True

        self.stop_often(make)

    def test_while_a_sink_waits_for_room(self):
        def make(place):
            # This source is not started, so the queue fills.
            source = stripline.source("float", "iq", policy=SLOW, domain=place)
            graph = gr.top_block()
            sink = stripline.sink("float", "iq", policy=SLOW, domain=place, receivers=1)
            graph.connect(blocks.null_source(gr.sizeof_float), sink)
            return graph, (source, sink), lambda: sink.packets() >= 2

        self.stop_often(make)

    def test_while_a_source_of_messages_waits(self):
        def make(place):
            graph = gr.top_block()
            source, found = stripline.message_source("events", domain=place), blocks.message_debug(False)
            graph.msg_connect(source, "out", found, "store")
            return graph, (source, found), lambda: True

        self.stop_often(make)

    def test_while_a_sink_of_messages_waits_for_room(self):
        def make(place):
            receiver = stripline.message_source("events", policy=SLOW, domain=place)
            graph = gr.top_block()
            sink = stripline.message_sink("events", policy=SLOW, domain=place, receivers=1)
            silent = Silent()
            graph.msg_connect(silent, "out", sink, "in")
            for _ in range(10):
                sink.to_basic_block()._post(pmt.intern("in"), pmt.PMT_T)
            return graph, (receiver, silent, sink), lambda: sink.messages() >= 2

        self.stop_often(make)


if __name__ == "__main__":
    unittest.main()

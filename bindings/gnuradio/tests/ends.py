"""The ends of streams and flowgraphs, programs in Rust at the other end, and gaps."""

import threading
import unittest

import numpy
import pmt
from gnuradio import blocks, gr, stripline
from support import domain, receiver, run_together, sender, started

# A limit that only ends a hang.
TIMEOUT_S = 60


def ended(graph):
    """Returns whether all blocks of a flowgraph have ended in time."""
    waiter = threading.Thread(target=gr.top_block_wait_unlocked, args=(graph._impl,), daemon=True)
    waiter.start()
    waiter.join(TIMEOUT_S)
    return not waiter.is_alive()


def connect(graph, *chain):
    """Connects blocks, and keeps them: GNU Radio does not keep blocks written in Python."""
    graph.connect(*chain)
    graph.kept = chain


def gaps(found):
    """Returns the tags `gap` of a vector sink: item, packets, samples, reason."""
    return [
        (tag.offset, *(pmt.to_python(tag.value)[key] for key in ("packets", "samples", "reason")))
        for tag in found.tags() if pmt.symbol_to_string(tag.key) == "gap"]


class Numbers(gr.sync_block):
    """Items 0, 1, 2 … The first items pass at once, and the others after `go` is set."""

    def __init__(self, count, first=0, go=None):
        gr.sync_block.__init__(self, "numbers", None, [numpy.int32])
        self.count, self.first, self.go, self.at = count, first, go, 0

    def work(self, inputs, outputs):
        if self.at >= self.count:
            return -1
        limit = self.count
        if self.at < self.first:
            limit = self.first
        elif self.go is not None:
            self.go.wait(TIMEOUT_S)
        part = min(len(outputs[0]), limit - self.at)
        outputs[0][:part] = numpy.arange(self.at, self.at + part)
        self.at += part
        return part


class Refusing(gr.sync_block):
    """Ends at its first item."""

    def __init__(self):
        gr.sync_block.__init__(self, "refusing", [numpy.int32], None)

    def work(self, inputs, outputs):
        return -1


class Ends(unittest.TestCase):
    def test_a_program_in_rust_sends_to_a_flowgraph(self):
        for transport in ("shm", "uds", "tcp"):
            with self.subTest(transport=transport):
                policy, place = f'transport = "{transport}"', domain("from-rust")
                graph = gr.top_block()
                source = stripline.source("u32", "numbers", policy=policy, domain=place)
                found = blocks.vector_sink_i()
                graph.connect(source, found)
                graph.start()
                with sender(place, 500, 600, f'[default]\n{policy}') as process:
                    self.assertEqual(process.stdout.readline(), "sent 500\n")
                self.assertTrue(ended(graph))
                self.assertEqual(found.data(), list(range(500 * 600)))
                # The description of the stream has arrived once.
                rows = [(tag.offset, pmt.symbol_to_string(tag.key), pmt.to_double(tag.value)) for tag in found.tags()]
                self.assertEqual(rows, [(0, "rx_rate", 2.5e5)])

    def test_a_flowgraph_sends_to_a_program_in_rust(self):
        for transport in ("shm", "uds", "tcp"):
            with self.subTest(transport=transport):
                policy, place = f'transport = "{transport}"', domain("to-rust")
                with receiver(place, 500, 600, topics=f'[default]\n{policy}') as process:
                    self.assertEqual(process.stdout.readline(), "waits\n")
                    graph = gr.top_block()
                    sink = stripline.sink(
                        "u32", "numbers", policy=policy, domain=place, receivers=1, packet_items=600,
                        stream="of C++", sample_rate=5e5)
                    connect(graph, Numbers(300_000), sink)
                    # A packet has the items that GNU Radio passes on at once: here always 600.
                    sink.set_output_multiple(600)
                    graph.start()
                    self.assertTrue(ended(graph))
                    self.assertEqual(process.stdout.readline(), "received 500, and the end\n")

    def test_a_stop_ends_the_stream_and_an_abandoned_one_has_no_end(self):
        for abandons, words in ((False, "and the end"), (True, "and no end")):
            with self.subTest(abandons=abandons):
                place, never = domain("stopped"), threading.Event()
                role = "receive-part" if abandons else "receive"
                with receiver(place, 5, 600, role) as process:
                    self.assertEqual(process.stdout.readline(), "waits\n")
                    graph = gr.top_block()
                    sink = stripline.sink(
                        "u32", "numbers", domain=place, receivers=1, packet_items=600, stream="of C++", sample_rate=5e5)
                    sink.set_output_multiple(600)
                    numbers = Numbers(10**9, 3000, never)
                    connect(graph, numbers, sink)
                    graph.start()
                    while sink.packets() < 5:
                        pass
                    if abandons:
                        sink.abandon()
                    graph.stop()
                    numbers.count = 0
                    never.set()
                    self.assertTrue(ended(graph))
                    self.assertEqual(process.stdout.readline(), f"received 5, {words}\n")

    def test_a_flowgraph_stops_while_it_waits(self):
        slow = 'overflow = "block", depth = 2'

        def for_a_sender(place):
            graph = gr.top_block()
            graph.connect(stripline.source("float", "iq", domain=place), blocks.null_sink(gr.sizeof_float))
            return graph, lambda: True

        def for_a_packet(place):
            graph, _ = for_a_sender(place)
            out = gr.top_block()
            sink = stripline.sink("float", "iq", domain=place, receivers=1)
            out.connect(blocks.vector_source_f([1.0] * 10, True), sink)
            self.addCleanup(lambda: (out.stop(), ended(out)))
            out.start()
            return graph, lambda: sink.packets() > 0

        def for_a_receiver(place):
            graph = gr.top_block()
            graph.connect(
                blocks.null_source(gr.sizeof_float), stripline.sink("float", "iq", domain=place, receivers=1))
            return graph, lambda: True

        def for_room(place):
            # This source is not started, so the queue fills.
            source = stripline.source("float", "iq", policy=slow, domain=place)
            graph = gr.top_block()
            sink = stripline.sink("float", "iq", policy=slow, domain=place, receivers=1)
            numbers = blocks.null_source(gr.sizeof_float)
            connect(graph, numbers, sink)
            self.addCleanup(lambda: source)
            return graph, lambda: sink.packets() >= 2

        for wait in (for_a_sender, for_a_packet, for_a_receiver, for_room):
            for number in range(5):
                with self.subTest(wait=wait.__name__, number=number):
                    graph, is_there = wait(domain("waits"))
                    graph.start()
                    while not is_there():
                        pass
                    graph.stop()
                    self.assertTrue(ended(graph))

    def test_a_flowgraph_runs_again_after_its_end(self):
        place = domain("again")
        out, back = gr.top_block(), gr.top_block()
        items = blocks.vector_source_f([1.0, 2.0, 3.0])
        out.connect(items, stripline.sink("float", "iq", domain=place, receivers=1))
        found = blocks.vector_sink_f()
        back.connect(stripline.source("float", "iq", domain=place), found)
        for _ in range(3):
            run_together(back, out)
            items.rewind()
        self.assertEqual(list(found.data()), [1.0, 2.0, 3.0] * 3)

    def test_the_end_downstream_ends_the_source_and_not_its_sender(self):
        place = domain("head")
        graph = gr.top_block()
        source = stripline.source("u32", "numbers", domain=place)
        found = blocks.vector_sink_i()
        graph.connect(source, blocks.head(gr.sizeof_int, 1000), found)
        graph.start()
        with sender(place, 2000, 600) as process:
            self.assertTrue(ended(graph))
            self.assertEqual(process.wait(TIMEOUT_S), 0)
        self.assertEqual(found.data(), list(range(1000)))

    def test_the_end_downstream_ends_a_source_that_waits(self):
        place, never = domain("waits"), threading.Event()
        back, out = gr.top_block(), gr.top_block()
        connect(back, stripline.source("u32", "numbers", domain=place), Refusing())
        back.start()
        numbers = Numbers(10**9, 1000, never)
        connect(out, numbers, stripline.sink("u32", "numbers", domain=place, receivers=1))
        out.start()
        # Nothing follows the items that end the block downstream, and no end of stream.
        self.assertTrue(ended(back))
        out.stop()
        numbers.count = 0
        never.set()
        self.assertTrue(ended(out))

    def test_what_a_slow_flowgraph_loses_is_a_tag_with_the_right_counts(self):
        place, go = domain("slow"), threading.Event()
        total, packet = 2000 * 100, 100
        back = gr.top_block()
        source = stripline.source("u32", "numbers", policy='overflow = "drop-newest", depth = 4', domain=place)
        found = blocks.vector_sink_i()
        back.connect(source, found)
        # The source is not started: the queue of its port fills, and packets are lost until it
        # starts.
        out = gr.top_block()
        sink = stripline.sink("u32", "numbers", domain=place, receivers=1, packet_items=packet)
        # A packet has the items that GNU Radio passes on at once: here always the same number.
        sink.set_output_multiple(packet)
        connect(out, Numbers(total, total - packet, go), sink)
        out.start()
        while sink.packets() < total // packet - 1:
            pass
        back.start()
        while not found.data():
            pass
        go.set()
        self.assertTrue(ended(out))
        self.assertTrue(ended(back))
        self.check_gaps(found, source, total, packet, "overflow")

    def check_gaps(self, found, source, total, packet, reason):
        data, lost = list(found.data()), gaps(found)
        self.assertTrue(lost)
        for offset, packets, samples, why in lost:
            # The samples are really missing: the numbers jump by the count in the tag.
            self.assertEqual(data[offset] - data[offset - 1] - 1, samples)
            self.assertEqual((packets * packet, why), (samples, reason))
        jumps = [at for at in range(1, len(data)) if data[at] != data[at - 1] + 1]
        self.assertEqual(jumps, [offset for offset, *_ in lost])
        at_end = source.lost_samples() - sum(samples for _, _, samples, _ in lost)
        self.assertEqual(data[-1] + 1 + at_end, total)
        self.assertEqual(source.lost_packets() * packet, source.lost_samples())
        self.assertEqual(len(data) + source.lost_samples(), total)

    def test_a_killed_sender_is_a_gap_where_the_next_one_begins(self):
        place = domain("killed")
        back = gr.top_block()
        source = stripline.source("u32", "numbers", domain=place)
        found = blocks.vector_sink_i()
        back.connect(source, found)
        back.start()
        with started("/usr/bin/python3", "killed_sender.py", place) as process:
            self.assertEqual(process.stdout.readline(), "sent 10\n")
        while len(found.data()) < 6000:
            pass
        with sender(place, 3, 600) as process:
            self.assertEqual(process.wait(TIMEOUT_S), 0)
        self.assertTrue(ended(back))
        self.assertEqual(list(found.data()), [*range(6000), *range(1800)])
        # The number of samples that the killed sender would have sent is unknown.
        self.assertEqual(gaps(found), [(6000, 0, 0, "peer-restart")])
        # The description of the new stream appears once more.
        rates = [tag.offset for tag in found.tags() if pmt.symbol_to_string(tag.key) == "rx_rate"]
        self.assertEqual(rates, [0, 6000])

    def test_a_killed_receiver_does_not_stop_the_others(self):
        place = domain("receiver-killed")
        back, out = gr.top_block(), gr.top_block()
        source = stripline.source("u32", "numbers", domain=place)
        found = blocks.vector_sink_i()
        back.connect(source, found)
        back.start()
        go = threading.Event()
        with receiver(place, 10**6, 600) as process:
            self.assertEqual(process.stdout.readline(), "waits\n")
            sink = stripline.sink(
                "u32", "numbers", domain=place, receivers=2, packet_items=600, stream="of C++", sample_rate=5e5)
            connect(out, Numbers(600_000, 6000, go), sink)
            out.start()
            while sink.packets() < 10:
                pass
        go.set()
        self.assertTrue(ended(out))
        self.assertTrue(ended(back))
        self.assertEqual(found.data(), list(range(600_000)))
        self.assertEqual(source.lost_samples(), 0)


if __name__ == "__main__":
    unittest.main()

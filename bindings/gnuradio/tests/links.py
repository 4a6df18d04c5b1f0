"""Flowgraphs that send and receive: samples of each type, tags, gaps and ends."""

import unittest

import numpy
import pmt
from gnuradio import blocks, gr, stripline
from support import domain, run_together, sender, tag_rows

COMPLEX_SAMPLES = 10_000_000


def tag(offset, key, value):
    return gr.tag_utils.python_to_tag((offset, pmt.intern(key), value, pmt.intern("test")))


def time(seconds, fraction):
    return pmt.make_tuple(pmt.from_uint64(seconds), pmt.from_double(fraction))


class Links(unittest.TestCase):
    def through(self, kind, items, make_source, make_sink, tags=(), vlen=1, **options):
        """Returns the items that a second flowgraph receives, by a Stripline sink and a Stripline
        source."""
        place = domain("through")
        out, back = gr.top_block(), gr.top_block()
        sink = stripline.sink(kind, "iq", vlen=vlen, domain=place, receivers=1, **options)
        out.connect(make_source(items, False, vlen, list(tags)), sink)
        source = stripline.source(kind, "iq", vlen=vlen, domain=place)
        found = make_sink(vlen)
        back.connect(source, found)
        run_together(back, out)
        self.assertEqual((source.lost_packets(), source.failure(), sink.failure()), (0, "", ""))
        return found, sink

    def test_ten_million_complex_samples_and_their_tags_are_the_same(self):
        generator = numpy.random.default_rng(1)
        # Every bit pattern, not only valid numbers.
        bits = generator.integers(0, 2**32, 2 * COMPLEX_SAMPLES, dtype=numpy.uint32)
        place = domain("ten-million")
        bits.tofile(path := f"/tmp/{place}")
        self.addCleanup(__import__("os").remove, path)
        places = sorted(int(at) for at in generator.choice(COMPLEX_SAMPLES, 500, replace=False))
        tags = [
            tag(0, "rx_time", time(1_700_000_000, 0.25)),
            tag(0, "rx_rate", pmt.from_double(2.5e6)),
            tag(0, "rx_freq", pmt.from_double(1.09e9)),
            tag(4_000_001, "rx_freq", pmt.from_double(433.92e6)),
            tag(5_000_000, "rx_time", time(1_700_000_100, 1 / 3)),
            tag(5_000_000, "rx_rate", pmt.from_double(1e6)),
            # A time that only continues is carried as well.
            tag(6_000_000, "rx_time", time(1_700_000_101, 1 / 3)),
            tag(COMPLEX_SAMPLES - 1, "last", pmt.PMT_NIL),
        ]
        tags += [tag(at, "burst", pmt.to_pmt({"number": number, "phase": at / 7})) for number, at in enumerate(places)]
        out, back = gr.top_block(), gr.top_block()
        file = blocks.file_source(gr.sizeof_gr_complex, path, False)
        tagger = TagAdder(tags)
        sink = stripline.sink("complex", "iq", domain=place, receivers=1)
        out.connect(file, tagger, sink)
        source = stripline.source("complex", "iq", domain=place)
        found_file = blocks.file_sink(gr.sizeof_gr_complex, path + ".found")
        self.addCleanup(__import__("os").remove, path + ".found")
        found_tags = blocks.tag_debug(gr.sizeof_gr_complex, "")
        found_tags.set_display(False)
        found_tags.set_save_all(True)
        back.connect(source, found_file)
        back.connect(source, found_tags)
        run_together(back, out)
        found_file.close()
        self.assertEqual(numpy.fromfile(path + ".found", numpy.uint32).tobytes(), bits.tobytes())
        self.assertEqual(tag_rows(found_tags.current_tags()), tag_rows(tags))

    def test_every_type_and_vectors(self):
        kinds = [
            ("byte", numpy.uint8, blocks.vector_source_b, blocks.vector_sink_b),
            ("short", numpy.int16, blocks.vector_source_s, blocks.vector_sink_s),
            ("int", numpy.int32, blocks.vector_source_i, blocks.vector_sink_i),
            ("float", numpy.float32, blocks.vector_source_f, blocks.vector_sink_f),
            ("complex", numpy.complex64, blocks.vector_source_c, blocks.vector_sink_c),
        ]
        for kind, dtype, make_source, make_sink in kinds:
            for vlen in (1, 3, 1000):
                with self.subTest(kind=kind, vlen=vlen):
                    items = (numpy.arange(60_000) % 251).astype(dtype)
                    marks = [tag(0, "first", pmt.PMT_T), tag(59, "later", pmt.from_long(59))]
                    found, _ = self.through(kind, items.tolist(), make_source, make_sink, marks, vlen)
                    self.assertEqual(numpy.array(found.data(), dtype).tobytes(), items.tobytes())
                    self.assertEqual(tag_rows(found.tags()), tag_rows(marks))

    def test_vectors_go_on_over_the_borders_of_packets(self):
        # Packets of 600 samples, and vectors of 7.
        place = domain("borders")
        source = stripline.source("u32", "numbers", vlen=7, domain=place)
        found = blocks.vector_sink_i(7)
        graph = gr.top_block()
        graph.connect(source, found)
        graph.start()
        with sender(place, 700, 600) as process:
            self.assertEqual(process.wait(60), 0)
        graph.wait()
        self.assertEqual(found.data(), list(range(700 * 600)))
        self.assertEqual(source.lost_samples(), 0)

    def test_options_of_the_sink_are_tags_at_the_source(self):
        found, sink = self.through(
            "float", [1.0] * 5000, blocks.vector_source_f, blocks.vector_sink_f, packet_items=100,
            sample_rate=48e3, center_freq=0.0, stream="voice")
        self.assertEqual(
            [(at.offset, pmt.symbol_to_string(at.key), pmt.to_double(at.value)) for at in found.tags()],
            [(0, "rx_rate", 48e3), (0, "rx_freq", 0.0)])
        self.assertEqual(sink.packets(), 50)

    def test_tags_that_cannot_be_carried_cost_nothing_else(self):
        large = pmt.init_u8vector(50_000, [0] * 50_000)
        # Together, these tags are too large for one packet.
        many = [tag(at, f"many-{at}", pmt.init_u8vector(5000, [at] * 5000)) for at in (5, 6, 7, 7, 12)]
        tags = [tag(3, "large", large), *many, tag(19, "small", pmt.PMT_T)]
        found, _ = self.through("float", [1.0] * 20, blocks.vector_source_f, blocks.vector_sink_f, tags)
        self.assertEqual(tag_rows(found.tags()), tag_rows(tags[1:]))
        self.assertEqual(list(found.data()), [1.0] * 20)


class TagAdder(gr.sync_block):
    """Adds tags at their items."""

    def __init__(self, tags):
        gr.sync_block.__init__(self, "tag_adder", [numpy.complex64], [numpy.complex64])
        self.tags = sorted(tags, key=lambda tag: tag.offset)
        self.next = 0

    def work(self, inputs, outputs):
        outputs[0].view(numpy.uint64)[:] = inputs[0].view(numpy.uint64)
        end = self.nitems_written(0) + len(outputs[0])
        while self.next < len(self.tags) and self.tags[self.next].offset < end:
            at = self.tags[self.next]
            self.add_item_tag(0, at.offset, at.key, at.value, at.srcid)
            self.next += 1
        return len(outputs[0])


if __name__ == "__main__":
    unittest.main()

"""Messages of flowgraphs: their form, and the blocks that send and receive them."""

import math
import os
import random
import threading
import unittest

import pmt
from gnuradio import blocks, gr, pdu, stripline
from gnuradio.stripline import stripline_python
from support import domain, started

VENV_PYTHON = os.environ["STRIPLINE_VENV"] + "/bin/python3"
TIMEOUT_S = 60

encode, decode = stripline_python._encode_message, stripline_python._decode_message
s = pmt.intern


def dictionary(**entries):
    made = pmt.make_dict()
    for name, value in entries.items():
        made = pmt.dict_add(made, s(name), value)
    return made


def vector(*items):
    made = pmt.make_vector(len(items), pmt.PMT_NIL)
    for at, item in enumerate(items):
        pmt.vector_set(made, at, item)
    return made


def nested(depth):
    made = pmt.PMT_T
    for _ in range(depth):
        made = vector(made)
    return made


class Source(gr.basic_block):
    """Posts the given messages."""

    def __init__(self):
        gr.basic_block.__init__(self, "messages", None, None)
        self.message_port_register_out(s("out"))

    def send(self, *messages):
        for message in messages:
            self.message_port_pub(s("out"), message)

    def finish(self):
        self.to_basic_block()._post(s("system"), pmt.cons(s("done"), pmt.from_long(1)))


class Sink(gr.basic_block):
    """Stores the messages that it receives."""

    def __init__(self, hold=None):
        gr.basic_block.__init__(self, "kept", None, None)
        self.found, self.hold, self.changed = [], hold, threading.Condition()
        self.message_port_register_in(s("in"))
        self.set_msg_handler(s("in"), self.take)

    def take(self, message):
        if self.hold is not None:
            self.hold.wait(TIMEOUT_S)
        with self.changed:
            self.found.append(message)
            self.changed.notify_all()

    def wait_for(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.found) >= count, TIMEOUT_S), self.found


class Forms(unittest.TestCase):
    def test_a_value_and_its_bytes(self):
        # RFC 8949, appendix A, and the forms of the Python package.
        for value, expected in [
            (pmt.PMT_NIL, "f6"), (pmt.PMT_T, "f5"), (pmt.PMT_F, "f4"), (s("IETF"), "6449455446"), (s("ü"), "62c3bc"),
            (pmt.from_long(0), "00"), (pmt.from_long(23), "17"), (pmt.from_long(24), "1818"), (pmt.from_long(1000), "1903e8"),
            (pmt.from_long(1000000), "1a000f4240"), (pmt.from_uint64(2**64 - 1), "1bffffffffffffffff"),
            (pmt.from_long(-1), "20"), (pmt.from_long(-1000), "3903e7"), (pmt.from_long(-2**63), "3b7fffffffffffffff"),
            (pmt.from_double(1.1), "fb3ff199999999999a"), (pmt.from_double(math.inf), "fb7ff0000000000000"),
            (pmt.from_complex(1 - 2j), "82fb3ff0000000000000fbc000000000000000"),
            (pmt.init_u8vector(4, [1, 2, 3, 4]), "4401020304"), (pmt.make_dict(), "f6"),
            (dictionary(a=pmt.from_long(1), b=vector(pmt.from_long(2), pmt.PMT_F)), "a261610161628202f4"),
            (pmt.list3(pmt.from_long(1), s("a"), pmt.PMT_NIL), "83016161f6"),
            (pmt.make_tuple(pmt.from_long(1), pmt.PMT_T), "8201f5"),
            (pmt.init_s16vector(3, [-1, 0, 300]), "83200019012c"), (pmt.init_f32vector(2, [0.5, -2]), "82fa3f000000fac0000000"),
            (pmt.init_c32vector(1, [0.5 - 2j]), "8182fa3f000000fac0000000"),
            (pmt.cons(s("freq"), pmt.from_long(5)), "a1646672657105"),
            (pmt.cons(pmt.PMT_NIL, pmt.init_u8vector(1, [7])), "a2646d657461a064646174614107"),
        ]:
            with self.subTest(value=str(value)):
                self.assertEqual(encode(value).hex(), expected)

    def test_what_arrives_is_what_was_sent(self):
        for value in [
            pmt.PMT_NIL, pmt.PMT_T, s("a"), s(""), pmt.from_long(-2**63), pmt.from_uint64(2**64 - 1), pmt.from_double(1e300),
            dictionary(a=dictionary(b=vector(pmt.from_long(1), s("x")))), vector(), nested(127),
            pmt.init_u8vector(0, []), pmt.init_u8vector(300, [9] * 300),
            pmt.cons(dictionary(n=pmt.from_long(1)), pmt.init_u8vector(2, [1, 2])),
            pmt.cons(pmt.PMT_NIL, pmt.init_u8vector(2, [1, 2])),
        ]:
            with self.subTest(value=str(value)[:100]):
                found = decode(encode(value))
                self.assertTrue(pmt.equal(found, value) or str(found) == str(value), f"{found} {value}")
                self.assertEqual((pmt.is_dict(found), pmt.is_pdu(found)), (pmt.is_dict(value), pmt.is_pdu(value)))
        self.assertTrue(math.isnan(pmt.to_double(decode(encode(pmt.from_double(math.nan))))))

    def test_arrays_of_numbers_become_uniform_vectors(self):
        numbers, floats, complexes = [0, 1, 100], [0.5, -1.25], [0.5 - 2j, 1e10 + 0j]
        for kind, value in {
            "byte": pmt.init_u8vector(3, numbers), "s8": pmt.init_s8vector(3, [-128, 0, 127]),
            "u16": pmt.init_u16vector(3, numbers), "short": pmt.init_s16vector(2, [-2**15, 2**15 - 1]),
            "u32": pmt.init_u32vector(1, [2**32 - 1]), "int": pmt.init_s32vector(3, [-2**31, 0, 2**31 - 1]),
            "u64": pmt.init_u64vector(1, [2**64 - 1]), "s64": pmt.init_s64vector(2, [-2**63, 2**63 - 1]),
            "float": pmt.init_f32vector(2, floats), "f64": pmt.init_f64vector(2, floats),
            "complex": pmt.init_c32vector(2, complexes), "cf64": pmt.init_c64vector(2, complexes),
        }.items():
            with self.subTest(kind=kind):
                sent = pmt.cons(dictionary(n=pmt.from_long(1)), value)
                found = decode(encode(sent), kind)
                self.assertTrue(pmt.is_pdu(found))
                self.assertTrue(pmt.equal(pmt.cdr(found), value), f"{found}")
                self.assertEqual(pmt.is_u8vector(pmt.cdr(found)), kind == "byte")
                self.assertEqual(pmt.to_python(pmt.car(found)), {"n": 1})
        # Other arrays stay unchanged.
        mixed = vector(pmt.from_double(1), s("a"))
        self.assertTrue(pmt.equal(decode(encode(mixed), "float"), mixed))
        self.assertTrue(pmt.is_f32vector(decode(encode(vector(pmt.from_long(1), pmt.from_double(2))), "float")))
        # Without the option, a PDU of other numbers is a dictionary of the two parts.
        found = decode(encode(pmt.cons(pmt.PMT_NIL, pmt.init_f32vector(2, floats))))
        self.assertTrue(pmt.is_dict(found))
        with self.assertRaisesRegex(ValueError, r'^\["a"\]\[1\]: the number does not fit the type of `vectors`$'):
            decode(encode(dictionary(a=pmt.init_s32vector(2, [1, 300]))), "byte")
        with self.assertRaisesRegex(ValueError, "no uniform vectors; use complex"):
            stripline.message_source("events", vectors="sc16", domain=domain("vectors"))

    def test_a_map_of_one_entry_as_a_pair(self):
        pair = pmt.cons(s("freq"), pmt.from_double(1e6))
        self.assertTrue(pmt.equal(decode(encode(pair), pairs=True), pair))
        self.assertTrue(pmt.is_dict(decode(encode(pair))))
        self.assertTrue(pmt.is_dict(decode(encode(dictionary(a=pmt.PMT_T, b=pmt.PMT_F)), pairs=True)))

    def test_what_has_no_form_is_named_with_the_way_to_it(self):
        within = pmt.list1(s("a"))
        nothing = pmt.cons(pmt.from_long(1), pmt.from_long(2))
        pmt.set_cdr(within, within)
        for value, words in [
            (nothing, "a pair has a form in a message where it begins a list, is a PDU, or has a symbol first"),
            (dictionary(meta=vector(pmt.PMT_T, nothing)), r'\["meta"\]\[1\]: a pair has a form'),
            (pmt.cons(dictionary(x=nothing), pmt.init_u8vector(1, [1])), r'\["meta"\]\["x"\]: '),
            (pmt.dict_add(pmt.make_dict(), pmt.from_long(5), pmt.PMT_T), "the key 5 is not a symbol; use pmt.intern"),
            (nested(129), r"\[0\]\[0\]\[0\]\[0\]\[0\]\[0\]…: it is nested more than 128 deep"),
            (within, "it is a list within itself"),
        ]:
            with self.subTest(words=words), self.assertRaisesRegex(ValueError, f"^{words}"):
                encode(value)
        encode(nested(128))

    def test_other_bytes_of_cbor(self):
        for text, value in [
            ("f93c00", 1.0), ("f90001", 2**-24), ("f9c400", -4.0), ("f97c00", math.inf), ("fa47c35000", 1e5),
            # Strings in parts, an end instead of a length, and tags.
            ("7f657374726561646d696e67ff", "streaming"), ("9f0102ff", [1, 2]), ("bf61610161629f0203ffff", {"a": 1, "b": [2, 3]}),
            ("c11a514b67b0", 1363896240), ("d9d9f78101", [1]), ("f7", None), ("a10102", {1: 2}),
        ]:
            with self.subTest(text=text):
                self.assertEqual(pmt.to_python(decode(bytes.fromhex(text))), value)
        # If two entries have the same name, the last one counts.
        self.assertEqual(pmt.to_long(pmt.dict_ref(decode(bytes.fromhex("a2616101616102")), s("a"), pmt.PMT_NIL)), 2)
        self.assertEqual(pmt.to_python(decode(bytes.fromhex("5f42010243030405ff"))).tolist(), [1, 2, 3, 4, 5])

    def test_hostile_bytes_are_refused(self):
        for text, words in [
            ("", "it ends early"), ("18", "it ends early"), ("62c3", "it ends early"), ("9bffffffffffffffff", "it ends early"),
            ("9a7fffffff00", "it ends early"), ("bbffffffffffffffff0000", "it ends early"), ("7bffffffffffffffff61", "it ends early"),
            ("9f01", "it ends early"), ("62c328", "UTF-8"), ("63eda080", "UTF-8"), ("64f5808080", "UTF-8"), ("61ff", "UTF-8"),
            ("3bffffffffffffffff", "below -2\\^63"), ("0000", "1 bytes follow the message"), ("ff", "not CBOR .* at byte 1"),
            ("1c", "not CBOR"), ("1f", "not CBOR"), ("df", "not CBOR"), ("f818", "not CBOR"), ("f0", "not CBOR"), ("7f4101ff", "not CBOR"),
            ("a1a000", "a key of a map"), ("a1f500", "a key of a map"), ("81" * 200 + "00", "nested more than 128 deep"),
            ("9f" * 10_000, "nested"), ("c1" * 100_000, "it ends early"), ("a1616182183c62c3", r'^\["a"\]\[1\]: it ends early'),
        ]:
            for vectors in ("", "complex", "byte"):
                with self.subTest(text=text[:40], vectors=vectors), self.assertRaisesRegex(ValueError, words):
                    decode(bytes.fromhex(text), vectors)

    def test_any_bytes_are_a_value_or_a_problem(self):
        generator = random.Random(16)
        whole = encode(pmt.cons(
            dictionary(a=vector(pmt.from_double(1.5), s("text")), b=pmt.from_long(-70000)), pmt.init_u8vector(40, [1] * 40)))
        cases = [whole[:length] for length in range(len(whole))]
        for _ in range(30_000):
            mutated = bytearray(whole)
            for _ in range(generator.randint(1, 4)):
                mutated[generator.randrange(len(mutated))] = generator.randrange(256)
            cases.append(bytes(mutated))
            cases.append(bytes(generator.randrange(256) for _ in range(generator.randint(0, 12))))
        values = 0
        for case in cases:
            for vectors in ("", "float", "complex"):
                try:
                    found = decode(case, vectors)
                except ValueError:
                    continue
                values += 1
                try:
                    encode(found)
                except ValueError as problem:
                    # Keys that are numbers can be received, but not sent.
                    self.assertIn("is not a symbol", str(problem))
        self.assertGreater(values, 1000)


class Links(unittest.TestCase):
    def setUp(self):
        self.place = domain("messages")

    def graphs(self, receive=(), hold=None, **options):
        """Makes a sending and a receiving flowgraph, and starts the receiving flowgraph."""
        out, back = gr.top_block(), gr.top_block()
        source, sink = Source(), stripline.message_sink("events", receivers=1, domain=self.place, **options)
        out.msg_connect(source, "out", sink, "in")
        found, gaps = Sink(hold), Sink()
        incoming = stripline.message_source("events", domain=self.place, **dict(receive))
        back.msg_connect(incoming, "out", found, "in")
        back.msg_connect(incoming, "gaps", gaps, "in")
        for graph in (out, back):
            # GNU Radio does not keep blocks that are written in Python.
            graph.kept = (source, sink, found, gaps, incoming)
            self.addCleanup(lambda graph=graph: (graph.stop(), gr.top_block_wait_unlocked(graph._impl)))
        return out, back

    def wait(self, graph):
        waiter = threading.Thread(target=gr.top_block_wait_unlocked, args=(graph._impl,), daemon=True)
        waiter.start()
        waiter.join(TIMEOUT_S)
        self.assertFalse(waiter.is_alive(), "the flowgraph has not ended")

    def test_messages_go_from_one_flowgraph_to_another_until_its_end(self):
        out, back = self.graphs()
        source, sink, found, gaps, incoming = out.kept
        back.start()
        out.start()
        sent = [dictionary(number=pmt.from_long(number), text=s("a")) for number in range(2000)]
        source.send(*sent)
        source.finish()
        # The end of the first block ends both flowgraphs.
        self.wait(out)
        self.wait(back)
        self.assertEqual([pmt.to_python(one) for one in found.found], [pmt.to_python(one) for one in sent])
        self.assertEqual((sink.messages(), sink.receivers(), incoming.messages()), (2000, 1, 2000))
        self.assertEqual((gaps.found, incoming.lost_messages(), incoming.failure(), sink.failure()), ([], 0, "", ""))

    def test_a_message_without_a_form_is_left_out_and_named(self):
        out, back = self.graphs()
        source, sink, found, *_ = out.kept
        back.start()
        out.start()
        source.send(pmt.from_long(1), dictionary(meta=vector(pmt.cons(pmt.PMT_T, pmt.PMT_F))), pmt.from_long(2))
        found.wait_for(2)
        self.assertEqual([pmt.to_long(one) for one in found.found], [1, 2])
        self.assertEqual(sink.refused_messages(), 1)
        self.assertIn('a message is not sent: ["meta"][0]: a pair has a form', sink.last_refusal())

    def test_messages_to_and_from_python(self):
        for role in ("send", "receive"):
            with self.subTest(role=role), started(VENV_PYTHON, "messages_peer.py", role, self.place) as process:
                if role == "send":
                    graph = gr.top_block()
                    found = Sink()
                    incoming = stripline.message_source("events", vectors="complex", domain=self.place)
                    graph.msg_connect(incoming, "out", found, "in")
                    graph.start()
                    self.wait(graph)
                    self.assertEqual([pmt.to_python(one) for one in found.found[:2]], [
                        {"name": "burst", "snr": 12.5, "frames": [{"n": -3}, None, True], "big": 2**64 - 1}, [1, 2, 3]])
                    self.assertTrue(pmt.is_pdu(found.found[2]))
                    self.assertEqual(list(pmt.to_python(pmt.cdr(found.found[2]))), [0.5 - 2j, 1])
                    self.assertEqual(pmt.u8vector_elements(found.found[3]), [0, 255])
                else:
                    self.assertEqual(process.stdout.readline(), "waits\n")
                    out, source = gr.top_block(), Source()
                    sink = stripline.message_sink("events", receivers=1, domain=self.place)
                    out.msg_connect(source, "out", sink, "in")
                    out.start()
                    source.send(
                        dictionary(name=s("burst"), at=pmt.from_double(0.5)), pmt.cons(s("freq"), pmt.from_long(7)),
                        pmt.cons(dictionary(n=pmt.from_long(1)), pmt.init_c32vector(1, [1 - 1j])), pmt.init_u8vector(2, [0, 255]))
                    source.finish()
                    self.wait(out)
                    self.assertEqual(
                        process.stdout.read(),
                        "[{'name': 'burst', 'at': 0.5}, {'freq': 7}, {'meta': {'n': 1}, 'data': [[1.0, -1.0]]}, b'\\x00\\xff']\n")
                self.assertEqual(process.wait(TIMEOUT_S), 0)

    def test_a_message_that_cannot_be_read_is_left_out_and_its_sender_gets_the_reason(self):
        graph, found = gr.top_block(), Sink()
        incoming = stripline.message_source("events", vectors="byte", domain=self.place)
        graph.msg_connect(incoming, "out", found, "in")
        graph.start()
        with started(VENV_PYTHON, "messages_peer.py", "refused", self.place) as process:
            words = 'a message cannot be read: ["a"][1]: the number does not fit the type of `vectors`'
            self.assertIn(words, process.stdout.readline())
            self.assertEqual(process.wait(TIMEOUT_S), 0)
        self.wait(graph)
        self.assertEqual((incoming.refused_messages(), incoming.last_refusal()), (1, words))
        self.assertEqual([pmt.u8vector_elements(one) for one in found.found], [[3]])

    def test_a_schema_is_compared(self):
        sink = stripline.message_sink("events", type="message/tune{hz:f64}", domain=self.place)
        other = stripline.message_source("events", type="message/tune{hz:u32}", domain=self.place)
        any_type = stripline.message_source("events", domain=self.place)
        while not other.refused():
            pass
        self.assertIn("tune", other.refused()[0])
        self.assertEqual(any_type.refused(), [])
        del sink

    def test_what_is_lost_is_a_message_at_the_port_for_gaps(self):
        hold = threading.Event()
        out, back = self.graphs(receive={"policy": 'overflow = "drop-oldest", depth = 4'}, hold=hold)
        source, sink, found, gaps, incoming = out.kept
        back.start()
        out.start()
        total = 2000
        source.send(*(pmt.from_long(number) for number in range(total - 1)))
        while sink.messages() < total - 1:
            pass
        hold.set()
        source.send(pmt.from_long(total - 1))
        source.finish()
        self.wait(out)
        self.wait(back)
        numbers = [pmt.to_long(one) for one in found.found]
        jumps = [after - before - 1 for before, after in zip([-1, *numbers], numbers) if after != before + 1]
        lost = [pmt.to_python(one) for one in gaps.found]
        self.assertEqual([one["packets"] for one in lost], jumps)
        self.assertEqual({one["reason"] for one in lost}, {"overflow"})
        self.assertGreater(incoming.lost_messages(), 0)
        self.assertEqual(len(numbers) + incoming.lost_messages(), total)

    def test_a_slow_block_holds_the_sender_back(self):
        hold = threading.Event()
        out, back = self.graphs(receive={"policy": 'overflow = "block", depth = 4'}, hold=hold)
        source, sink, found, _, incoming = out.kept
        back.start()
        out.start()
        source.send(*(pmt.from_long(number) for number in range(500)))
        # 64 messages wait at the block, one is in its handler, and some are on their way.
        while incoming.messages() < 65:
            pass
        self.assertLess(sink.messages(), 100)
        hold.set()
        found.wait_for(500)
        self.assertEqual([pmt.to_long(one) for one in found.found], list(range(500)))

    def test_flowgraphs_of_messages_stop_while_they_wait(self):
        def nothing(out, back):
            back.start()
            return back

        def no_receiver(out, back):
            out.start()
            out.kept[0].send(pmt.PMT_T)
            return out

        def no_room(out, back):
            out.start()
            out.kept[0].send(*(s("a") for _ in range(100)))
            while out.kept[1].messages() < 2:
                pass
            return out

        for wait in (nothing, no_receiver, no_room):
            for _ in range(5):
                with self.subTest(wait=wait.__name__):
                    self.place = domain("stops")
                    out, back = self.graphs(receive={"policy": 'overflow = "block", depth = 2'})
                    if wait is no_receiver:
                        back.kept = out.kept = out.kept[:3]
                        self.place = domain("stops")
                        sink = stripline.message_sink("nothing", receivers=1, domain=self.place)
                        out = gr.top_block()
                        source = Source()
                        out.msg_connect(source, "out", sink, "in")
                        out.kept = (source, sink)
                    graph = wait(out, back)
                    graph.stop()
                    self.wait(graph)

    def test_a_flowgraph_of_messages_runs_again(self):
        out, back = self.graphs()
        source, _, found, *_ = out.kept
        for number in range(3):
            back.start()
            out.start()
            source.send(pmt.from_long(number))
            source.finish()
            self.wait(out)
            self.wait(back)
        self.assertEqual([pmt.to_long(one) for one in found.found], [0, 1, 2])

    def test_pdus_of_samples_become_a_stream(self):
        data = [complex(number, -number) for number in range(100)]
        out, source = gr.top_block(), Source()
        sink = stripline.message_sink("events", receivers=1, domain=self.place)
        out.msg_connect(source, "out", sink, "in")
        back = gr.top_block()
        incoming = stripline.message_source("events", vectors="complex", domain=self.place)
        stream, found = pdu.pdu_to_tagged_stream(gr.types.complex_t, "length"), blocks.vector_sink_c()
        back.msg_connect(incoming, "out", stream, "pdus")
        back.connect(stream, found)
        back.start()
        out.start()
        source.send(pmt.cons(dictionary(burst=pmt.from_long(1)), pmt.init_c32vector(100, data)))
        while len(found.data()) < 100:
            pass
        for graph in (out, back):
            graph.stop()
            self.wait(graph)
        self.assertEqual(list(found.data()), data)
        self.assertEqual(
            {pmt.symbol_to_string(tag.key): pmt.to_long(tag.value) for tag in found.tags()}, {"length": 100, "burst": 1})

    def test_wrong_options_are_refused(self):
        place = domain("options")
        for wrong, words in [
            (dict(topic=""), "the topic is empty"), (dict(type="banana"), "banana"), (dict(type="a\0b"), "NUL"),
            (dict(type="message/tune{"), "is not a schema"), (dict(policy="depth = -1\n"), "depth"), (dict(domain="a b"), "a b"),
        ]:
            for make in (stripline.message_source, stripline.message_sink):
                with self.subTest(make=make.__name__, wrong=wrong), self.assertRaises(ValueError) as caught:
                    make(**{"topic": "events", "domain": place, **wrong})
                self.assertIn(words, str(caught.exception))
        with self.assertRaisesRegex(ValueError, "`banana` is not a sample type"):
            stripline.message_source("events", vectors="banana", domain=place)


if __name__ == "__main__":
    unittest.main()

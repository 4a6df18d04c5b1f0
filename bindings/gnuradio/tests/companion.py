"""GNU Radio Companion: flowgraphs with the blocks in grc/ compile and run."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import messages
import pmt
from gnuradio import gr, stripline
from support import domain

INSTALLED = Path(os.environ["STRIPLINE_INSTALLED"])
HEAD = """
options:
  parameters: {{id: {name}, title: {name}, generate_options: no_gui, run_options: run, output_language: python}}
  states: {{coordinate: [0, 0], rotation: 0, state: enabled}}
blocks:
"""
BLOCK = """
- name: {name}
  id: {id}
  parameters: {parameters}
  states: {{coordinate: [0, 0], rotation: 0, state: enabled}}
"""
TAIL = """
connections:
- [{first}, '{out}', {second}, '{into}']
metadata: {{file_format: 1}}
"""


def write(folder, name, first, second, *variables, ports=("0", "0")):
    """Writes a flowgraph of two blocks and variables. Each has a name, an identifier and
    parameters."""
    text = HEAD.format(name=name)
    for block, identifier, parameters in (first, second, *variables):
        text += BLOCK.format(name=block, id=identifier, parameters=parameters)
    text += TAIL.format(first=first[0], second=second[0], out=ports[0], into=ports[1])
    (folder / f"{name}.grc").write_text(text)


def compile_all(folder):
    """Makes a program from each flowgraph in the folder."""
    environment = dict(os.environ, GRC_BLOCKS_PATH=str(INSTALLED / "share/gnuradio/grc/blocks"))
    graphs = sorted(folder.glob("*.grc"))
    done = subprocess.run(
        ["/usr/bin/grcc", "-o", folder, *graphs], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not all(graph.with_suffix(".py").exists() for graph in graphs):
        raise AssertionError(f"grcc: {done.stdout}{done.stderr}")


class Companion(unittest.TestCase):
    def test_flowgraphs_of_every_type_compile_and_run(self):
        place = domain("companion")
        sizes = {"complex": 8, "float": 4, "int": 4, "short": 2, "byte": 1}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for kind, size in sizes.items():
                (folder / f"{kind}.items").write_bytes(bytes(number % 253 for number in range(16 * 1000 * size)))
                common = {"type": kind, "vlen": "16", "topic": f"of {kind}", "domain_name": place}
                write(
                    folder, f"receive_{kind}",
                    ("source", "stripline_source", {**common, "policy": 'overflow = "block"'}),
                    ("file", "blocks_file_sink",
                     {"type": kind, "vlen": "16", "file": str(folder / f"{kind}.found"), "unbuffered": "True"}))
                write(
                    folder, f"send_{kind}",
                    ("file", "blocks_file_source",
                     {"type": kind, "vlen": "16", "file": str(folder / f"{kind}.items"), "repeat": "False"}),
                    ("sink", "stripline_sink", {**common, "receivers": "1", "sample_rate": "48e3"}))
            compile_all(folder)
            # The option `run` waits for the flowgraph's own end.
            processes = [subprocess.Popen([sys.executable, script]) for script in folder.glob("*_*.py")]
            self.assertEqual(len(processes), 2 * len(sizes))
            for process in processes:
                self.assertEqual(process.wait(60), 0)
            for kind in sizes:
                with self.subTest(kind=kind):
                    found, items = folder / f"{kind}.found", folder / f"{kind}.items"
                    self.assertEqual(found.read_bytes(), items.read_bytes())

    def test_a_flowgraph_of_messages_compiles_and_runs(self):
        place = domain("companion")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            common = {"domain_name": place, "type": "message/cbor"}
            write(
                folder, "pass_on",
                ("source", "stripline_message_source", {**common, "topic": "a", "vectors": "float", "pairs": "True"}),
                ("sink", "stripline_message_sink", {**common, "topic": "b", "receivers": "1"}), ports=("out", "in"))
            compile_all(folder)
            back, out, found, items = gr.top_block(), gr.top_block(), messages.Sink(), messages.Source()
            source = stripline.message_source("b", vectors="float", domain=place)
            back.msg_connect(source, "out", found, "in")
            back.start()
            sink = stripline.message_sink("a", receivers=1, domain=place)
            out.msg_connect(items, "out", sink, "in")
            out.start()
            process = subprocess.Popen([sys.executable, folder / "pass_on.py"])
            vector = pmt.init_f32vector(2, [1.5, -2])
            items.send(pmt.cons(pmt.intern("freq"), pmt.from_double(5)), pmt.cons(pmt.make_dict(), vector))
            items.finish()
            self.assertEqual(process.wait(60), 0)
            for graph in (out, back):
                gr.top_block_wait_unlocked(graph._impl)
            self.assertEqual(pmt.to_python(found.found[0]), {"freq": 5.0})
            self.assertTrue(pmt.equal(pmt.cdr(found.found[1]), vector))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Prints the power of the topic `iq`, until its stream ends. docs/gnuradio.md explains it.

Usage: python3 power.py
"""

import threading

import pmt
from gnuradio import blocks, gr, stripline


class Losses(gr.sync_block):
    """Prints the tags `gap`: the missing packets and samples, and their place."""

    def __init__(self):
        gr.sync_block.__init__(self, "losses", ["complex64"], None)

    def work(self, inputs, _):
        for tag in self.get_tags_in_window(0, 0, len(inputs[0]), pmt.intern("gap")):
            gap = pmt.to_python(tag.value)
            print(f"lost {gap['samples']} samples before item {tag.offset}: {gap['reason']}", flush=True)
        return len(inputs[0])


class Power(gr.top_block):
    def __init__(self):
        gr.top_block.__init__(self, "power")
        self.source = stripline.source("complex", "iq")
        self.losses = Losses()
        self.mean = blocks.moving_average_ff(1000, 1 / 1000)
        self.probe = blocks.probe_signal_f()
        self.connect(self.source, blocks.complex_to_mag_squared(), self.mean, self.probe)
        self.connect(self.source, self.losses)


def main():
    graph = Power()
    graph.start()
    print("waiting for `iq`; Ctrl-C ends it", flush=True)
    ended = threading.Event()

    def report():
        while not ended.wait(1):
            if graph.source.nitems_written(0) > 0:
                print(f"power {graph.probe.level():.3f} after {graph.source.nitems_written(0)} samples", flush=True)

    reporter = threading.Thread(target=report)
    reporter.start()
    # The end of the stream, or Ctrl-C, ends the flowgraph.
    graph.wait()
    ended.set()
    reporter.join()
    print(f"took {graph.source.nitems_written(0)} samples, lost {graph.source.lost_samples()}")


if __name__ == "__main__":
    main()

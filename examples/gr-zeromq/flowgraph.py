#!/usr/bin/env python3
"""A flowgraph with blocks of GNU Radio alone: a tone that sweeps, for the waveform beside it.

Usage: python3 flowgraph.py [SECONDS]     10 seconds by default
"""

import sys

import pmt
from gnuradio import analog, blocks, gr, zeromq

SAMPLE_RATE_HZ = 100e3
CENTER_HZ = 100e6
ADDRESS = "tcp://127.0.0.1:5555"


def tag(key, value):
    """Returns a tag at the first sample, as the block of a radio makes such tags."""
    made = gr.tag_t()
    made.offset, made.key, made.value = 0, pmt.intern(key), pmt.from_double(value)
    return made


class Sweep(gr.top_block):
    def __init__(self, seconds):
        gr.top_block.__init__(self, "sweep")
        samples = int(seconds * SAMPLE_RATE_HZ)
        # The frequency goes from -40 kHz to 40 kHz and back once in four seconds.
        frequency = analog.sig_source_f(SAMPLE_RATE_HZ, analog.GR_TRI_WAVE, 0.25, 80e3, -40e3)
        tone = blocks.vco_c(SAMPLE_RATE_HZ, 6.2832, 1)
        noise = analog.noise_source_c(analog.GR_GAUSSIAN, 0.01)
        # Tags describe the stream, as with the tags of a radio.
        tags = [tag("rx_rate", SAMPLE_RATE_HZ), tag("rx_freq", CENTER_HZ)]
        described = blocks.vector_source_c([0] * samples, False, 1, tags)
        add = blocks.add_cc()
        clock = blocks.throttle(gr.sizeof_gr_complex, SAMPLE_RATE_HZ)
        sink = zeromq.push_sink(gr.sizeof_gr_complex, 1, ADDRESS, 100, True)
        self.connect(frequency, tone, (add, 0))
        self.connect(noise, (add, 1))
        self.connect(described, (add, 2))
        self.connect(add, clock, sink)


def main():
    graph = Sweep(float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    graph.start()
    print(f"sending to {ADDRESS}; Ctrl-C ends it", flush=True)
    graph.wait()


if __name__ == "__main__":
    main()

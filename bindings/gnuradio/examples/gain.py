#!/usr/bin/env python3
"""A component of a waveform: multiplies every sample by a factor. docs/gnuradio.md explains it.

    [component.gain]
    exec = ["/usr/bin/python3", "gain.py"]
    properties = { factor = 2.0 }
"""

from gnuradio import blocks, gr, stripline


class Gain(gr.top_block):
    """Multiplies every sample by a factor."""

    def __init__(self):
        gr.top_block.__init__(self, "gain")
        self.factor = 1.0
        self.multiply = blocks.multiply_const_cc(self.factor)
        self.connect(stripline.source("complex", "in"), self.multiply, stripline.sink("complex", "out"))

    def get_factor(self):
        return self.factor

    def set_factor(self, factor):
        if factor == 0:
            raise ValueError("a factor of 0 would hide the signal")
        self.factor = factor
        self.multiply.set_k(factor)


if __name__ == "__main__":
    stripline.main(Gain)

#!/usr/bin/env python3
"""Publishes a tone on the topic `iq`, for the subscriber of the guide in any language.

Usage: python3 tone.py
"""

from gnuradio import analog, blocks, gr, stripline

SAMPLE_RATE_HZ = 100e3
TONE_HZ = 1e3
# The number of samples in a packet: a hundredth of a second.
PACKET_SAMPLES = 1000


class Tone(gr.top_block):
    def __init__(self):
        gr.top_block.__init__(self, "tone")
        tone = analog.sig_source_c(SAMPLE_RATE_HZ, analog.GR_COS_WAVE, TONE_HZ, 1)
        clock = blocks.throttle(gr.sizeof_gr_complex, SAMPLE_RATE_HZ)
        # GNU Radio passes on at most this number of items at once, so no packet waits for more.
        clock.set_max_noutput_items(PACKET_SAMPLES)
        sink = stripline.sink("complex", "iq", stream="tone", sample_rate=SAMPLE_RATE_HZ)
        sink.set_output_multiple(PACKET_SAMPLES)
        self.connect(tone, clock, sink)


def main():
    graph = Tone()
    graph.start()
    print("publishing `iq`; Ctrl-C ends it", flush=True)
    graph.wait()


if __name__ == "__main__":
    main()

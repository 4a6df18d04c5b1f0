#!/usr/bin/env python3
"""Publishes a tone on the topic `iq`. Messages of the topic `tune` change the tone.
docs/gnuradio.md explains it.

Usage: python3 tuned_tone.py
"""

from gnuradio import analog, blocks, gr, stripline

SAMPLE_RATE_HZ = 100e3
PACKET_SAMPLES = 1000


class TunedTone(gr.top_block):
    def __init__(self):
        gr.top_block.__init__(self, "tuned_tone")
        self.tone = analog.sig_source_c(SAMPLE_RATE_HZ, analog.GR_COS_WAVE, 1e3, 1)
        clock = blocks.throttle(gr.sizeof_gr_complex, SAMPLE_RATE_HZ)
        # GNU Radio passes on at most this number of items at once, so no packet waits for more.
        clock.set_max_noutput_items(PACKET_SAMPLES)
        self.connect(self.tone, clock, stripline.sink("complex", "iq", stream="tone", sample_rate=SAMPLE_RATE_HZ))
        # The tone takes {"freq": 2000.0} as a pair.
        self.commands = stripline.message_source("tune", pairs=True)
        self.msg_connect(self.commands, "out", self.tone, "cmd")
        # The messages that the tone has taken, for all programs to see.
        self.taken = stripline.message_sink("tuned")
        self.msg_connect(self.commands, "out", self.taken, "in")


def main():
    graph = TunedTone()
    graph.start()
    print("publishing `iq`, and waiting for `tune`; Ctrl-C ends it", flush=True)
    graph.wait()


if __name__ == "__main__":
    main()

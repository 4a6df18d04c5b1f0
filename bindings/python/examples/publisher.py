"""Publishes a tone, for `subscriber.py` in another terminal. docs/python.md explains both.

    python publisher.py        over the transport that the topics' rules name: `shm`
    python publisher.py tcp    over this one
"""

import sys
import time

import numpy as np

import stripline

SAMPLE_RATE_HZ = 100e3
TONE_HZ = 1e3
# The number of samples in a packet: a hundredth of a second.
PACKET_SAMPLES = 1000


def main() -> None:
    # Without options, the environment sets the domain and the topics.
    topics = {"topic": {"iq": {"transport": sys.argv[1]}}} if sys.argv[1:] else None
    about = stripline.StreamInfo("tone", sample_rate_hz=SAMPLE_RATE_HZ)
    with stripline.Node(topics=topics) as node:
        out = node.publisher("iq", np.complex64, stream=about)
        print("publishing `iq`; Ctrl-C ends it", flush=True)
        index = np.arange(PACKET_SAMPLES)
        try:
            while True:
                # No subscriber need be connected.
                with out.loan(PACKET_SAMPLES) as y:
                    y[:] = np.exp(2j * np.pi * TONE_HZ / SAMPLE_RATE_HZ * index)
                index += PACKET_SAMPLES
                time.sleep(PACKET_SAMPLES / SAMPLE_RATE_HZ)
        except KeyboardInterrupt:
            print(f"published {out.sequence} packets", flush=True)
        # The end of the stream. By it, a subscriber distinguishes the end from a crash.
        out.finish()


if __name__ == "__main__":
    main()

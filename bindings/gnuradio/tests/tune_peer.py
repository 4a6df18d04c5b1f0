"""Tunes the example `tuned_tone.py`, and measures the tone."""

import numpy
import stripline

node = stripline.Node()
taken = node.message_subscriber("tuned")
iq = node.subscriber("iq", numpy.complex64)
# The publisher stays open: the end of this stream would end the source of messages.
tune = node.message_publisher("tune")
tune.wait_for_receivers(1, timeout=60)
while True:
    tune.send({"freq": 2000.0})
    try:
        # A message that leaves the flowgraph before this end is connected does not arrive. The next
        # one does.
        print("tuned", taken.receive(timeout=1).value, flush=True)
        break
    except TimeoutError:
        continue
while True:
    samples = iq.receive(timeout=60).samples
    steps = numpy.angle(samples[1:] * samples[:-1].conj()) / (2 * numpy.pi) * 100e3
    # Packets that were made before still have the old frequency.
    if abs(steps - 2000).max() < 1:
        print(f"{steps.mean():.0f} Hz", flush=True)
        break

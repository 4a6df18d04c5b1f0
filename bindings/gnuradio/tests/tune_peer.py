"""Tunes the example `tuned_tone.py`, and measures the tone."""

import numpy
import stripline

node = stripline.Node()
taken = node.message_subscriber("tuned")
iq = node.subscriber("iq", numpy.complex64)
# The publisher stays: the end of its stream would end the source of messages.
tune = node.message_publisher("tune")
tune.wait_for_receivers(1, timeout=60)
tune.send({"freq": 2000.0})
print("tuned", taken.receive(timeout=60).value, flush=True)
while True:
    samples = iq.receive(timeout=60).samples
    steps = numpy.angle(samples[1:] * samples[:-1].conj()) / (2 * numpy.pi) * 100e3
    # Packets that were made before still have the old frequency.
    if abs(steps - 2000).max() < 1:
        print(f"{steps.mean():.0f} Hz", flush=True)
        break

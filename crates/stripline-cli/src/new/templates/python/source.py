"""A source of pulses."""

import sys

import numpy as np

import stripline


class Source(stripline.Component, name="source"):
    """Sends pulses of 10 samples."""

    out = stripline.output_port(np.float32, "1 within a pulse, 0 between")
    period = stripline.integer_property(1000, "from pulse to pulse", range=(10, 1 << 30), unit="samples")
    sample_rate = stripline.float_property(48e3, "of the stream", range=(1, 1e12), unit="Hz")
    duration_s = stripline.float_property(
        0.0, "length of the signal; 0: for ever", range=(0, 1e9), unit="s"
    )
    rate = stripline.float_property(
        0.0, "pace; 0: as fast as the receivers take them", range=(0, 1e12), unit="samples/s"
    )
    packet = stripline.integer_property(480, "samples in a packet", range=(1, 1 << 27), unit="samples")

    def run(self) -> None:
        self.out.set_stream(stripline.StreamInfo(self.ports.component, sample_rate_hz=self.sample_rate))
        pace = stripline.Pace(self.ports, self.rate)
        end = round(self.duration_s * self.sample_rate) or sys.maxsize
        for first in range(0, end, self.packet):
            behind = min(first + self.packet, end)
            samples = (np.arange(first, behind) % self.period < 10).astype(np.float32)
            # Each packet is sent when its last sample is due.
            due_ns = pace.wait_for(behind)
            self.out.send(samples, intended_ns=due_ns)


if __name__ == "__main__":
    stripline.main(Source)

"""A component that multiplies every sample by a factor."""

import numpy as np

import stripline


class Filter(stripline.Component, name="filter"):
    """Multiplies every sample by a factor."""

    in_ = stripline.input_port(np.float32, "samples")
    out = stripline.output_port(np.float32, "samples times the factor")
    factor = stripline.float_property(2.0, "linear gain", range=(0, 1e6), changeable=True)

    def run(self) -> None:
        # The loop takes changes of the factor between two packets.
        for packet in self.in_:
            # The same stream, sample index and time.
            with self.out.loan(len(packet), like=packet) as y:
                np.multiply(packet.samples, np.float32(self.factor), out=y)


if __name__ == "__main__":
    stripline.main(Filter)

"""A component: multiplies every sample by a factor, which can be changed while it runs.

docs/python.md explains it.

    [component.gain]
    exec = ["python3", "gain.py"]
    properties = { factor = 2.0 }
"""

import numpy as np

import stripline


class Gain(stripline.Component):
    """Multiplies every sample by a factor."""

    in_ = stripline.input_port(np.complex64, "samples")
    out = stripline.output_port(np.complex64, "samples times the factor")
    factor = stripline.float_property(1.0, "linear gain", range=(0, 1e6), changeable=True)
    packets = stripline.integer_property(0, "packets so far", read_only=True)

    def run(self) -> None:
        # The setter and the self-test are called in this loop.
        for packet in self.in_:
            with self.out.loan(len(packet), like=packet) as y:
                # The samples as real numbers: a complex product would change signs of zeros.
                x = packet.samples.view(np.float32)
                np.multiply(x, np.float32(self.factor), out=y.view(np.float32))
            self.packets += 1

    # The range has been checked. An exception refuses the value, and the message is the reason.
    @factor.setter
    def set_factor(self, factor: float) -> None:
        if factor == 0:
            raise ValueError("a factor of 0 would hide the signal")

    @stripline.self_test("a one becomes the factor")
    def unity(self) -> stripline.TestResult:
        factor = np.float32(self.factor)
        return stripline.TestResult(np.complex64(1) * factor == factor, value=float(factor))


if __name__ == "__main__":
    stripline.main(Gain)

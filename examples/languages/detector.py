"""A component in Python: counts the packets with more power than a threshold, and passes all on."""

import numpy as np

import stripline


class Detector(stripline.Component):
    """Counts packets above a threshold."""

    in_ = stripline.input_port(np.complex64, "samples")
    out = stripline.output_port(np.complex64, "the same samples")
    threshold = stripline.float_property(1.0, "mean power", range=(0, 1e12), changeable=True)
    detections = stripline.integer_property(0, "packets above the threshold so far", read_only=True)

    def run(self) -> None:
        for packet in self.in_:
            x = packet.samples
            if np.vdot(x, x).real > self.threshold * len(x):
                self.detections += 1
            self.out.send(x, like=packet)

    @stripline.self_test("a packet of ones has a mean power of one")
    def power(self) -> stripline.TestResult:
        ones = np.ones(480, np.complex64)
        return stripline.TestResult(bool(np.vdot(ones, ones).real == 480))


if __name__ == "__main__":
    stripline.main(Detector)

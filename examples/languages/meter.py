#!/usr/bin/env python3
"""A component in GNU Radio: the mean power of a signal, over a time that can be changed."""

from gnuradio import analog, gr, stripline


class Meter(gr.top_block):
    """Measures the mean power of a signal."""

    def __init__(self):
        gr.top_block.__init__(self, "meter")
        self.alpha = 1e-3
        self.probe = analog.probe_avg_mag_sqrd_c(-100, self.alpha)
        self.connect(stripline.source("complex", "in"), self.probe)

    def get_alpha(self):
        return self.alpha

    def set_alpha(self, alpha):
        if not 0 < alpha <= 1:
            raise ValueError(f"{alpha} is not a share of the newest sample; it is from 0 to 1")
        self.alpha = alpha
        self.probe.set_alpha(alpha)

    @stripline.readout("mean power of the signal")
    def power(self):
        return self.probe.level()

    @stripline.self_test("a signal arrives")
    def signal(self):
        power = self.probe.level()
        return stripline.TestResult(power > 0, f"the mean power is {power:.3f}", power)


if __name__ == "__main__":
    stripline.main(Meter)

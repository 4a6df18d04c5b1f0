"""A component that takes windows of its own length: the mean power of each."""

from dataclasses import replace

import numpy as np

import stripline


class Power(stripline.Component, name="power"):
    """Measures the mean power of windows of samples."""

    in_ = stripline.windowed_input_port(np.float32, "samples")
    out = stripline.output_port(np.float32, "their power, at a lower rate")
    length = stripline.integer_property(100, "samples that become one", range=(1, 1 << 20), unit="samples")

    def run(self) -> None:
        stream = None
        # To overlap windows: `windows(self.length, hop=self.length // 2)`.
        for window in self.in_.windows(self.length):
            # Before a gap, a new stream or the end a window may be shorter.
            if not window.is_whole:
                continue
            if window.stream != stream:
                stream = window.stream
                rate = stream.sample_rate_hz
                lower = None if rate is None else rate / self.length
                self.out.set_stream(replace(stream, sample_rate_hz=lower))
            power = np.mean(window.samples**2, keepdims=True)
            index = window.sample_index // self.length
            self.out.send(power, time_ns=window.time_ns, sample_index=index)


if __name__ == "__main__":
    stripline.main(Power)

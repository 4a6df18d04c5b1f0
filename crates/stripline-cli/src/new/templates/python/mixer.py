"""A mixer: shifts complex samples in frequency."""

import numpy as np

import stripline


class Mixer(stripline.Component, name="mixer"):
    """Shifts complex samples in frequency."""

    in_ = stripline.input_port(np.complex64, "samples, with a sample rate")
    out = stripline.output_port(np.complex64, "shifted samples")
    shift = stripline.float_property(
        1000.0, "how far the spectrum moves up", range=(-1e9, 1e9), unit="Hz", changeable=True
    )

    def run(self) -> None:
        # In turns, 0 to 1: the phase goes on where the last packet ended.
        phase = 0.0
        # The loop takes changes of the shift between two packets.
        for packet in self.in_:
            sample_rate = packet.stream.sample_rate_hz
            if sample_rate is None:
                raise ValueError("the stream has no sample rate; set it in the source")
            turns = phase + self.shift / sample_rate * np.arange(len(packet) + 1)
            # The same stream, sample index and time.
            with self.out.loan(len(packet), like=packet) as y:
                np.multiply(packet.samples, np.exp(2j * np.pi * turns[:-1]).astype(np.complex64), out=y)
            phase = float(turns[-1]) % 1


if __name__ == "__main__":
    stripline.main(Mixer)

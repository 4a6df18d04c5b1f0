"""A detector: a message for each time the signal rises above a threshold."""

import numpy as np

import stripline

# The number of a sample within its stream, and the value of the sample. A message is a dict; with a
# dataclass in place of this text, a message is an object of it.
DETECTION = "message/detection{sample:u64,level:f64}"


class Detector(stripline.Component, name="detector"):
    """Detects where the signal rises above a threshold."""

    in_ = stripline.input_port(np.float32, "samples")
    out = stripline.message_output_port(DETECTION, "detections")
    threshold = stripline.float_property(0.5, "level to exceed", changeable=True)

    def run(self) -> None:
        stream, was_above = None, False
        # The loop takes changes of the threshold between two packets.
        for packet in self.in_:
            # A sample behind a gap has no level before it to compare with.
            if packet.gap is not None or packet.stream != stream:
                stream, was_above = packet.stream, False
            is_above = np.concatenate(([was_above], packet.samples > self.threshold))
            for index in np.flatnonzero(is_above[1:] & ~is_above[:-1]):
                number, level = packet.sample_index + int(index), float(packet.samples[index])
                self.out.send({"sample": number, "level": level})
            was_above = bool(is_above[-1])


if __name__ == "__main__":
    stripline.main(Detector)

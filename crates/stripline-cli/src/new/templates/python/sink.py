"""A sink of messages: prints each detection."""

import stripline
from detector import DETECTION


class Sink(stripline.Component, name="sink"):
    """Prints detections."""

    in_ = stripline.message_input_port(DETECTION, "detections")

    def run(self) -> None:
        for message in self.in_:
            print(line(message.value), flush=True)


def line(detection: dict[str, float]) -> str:
    """Returns a detection as a line for users."""
    return f"sample {detection['sample']}: level {detection['level']:.3g}"


if __name__ == "__main__":
    stripline.main(Sink)

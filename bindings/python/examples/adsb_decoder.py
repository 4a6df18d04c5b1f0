"""A component: the decoder of waveforms/adsb.toml in Python, with the stock decoder's frames.

    [component.decoder]
    exec = ["python3", "adsb_decoder.py"]
"""

from collections import deque

import numpy as np

import stripline

CANDIDATE = stripline.SampleType(
    "mode-s-candidate{sample:u64,fraction:f32,level_dbfs:f32,snr_db:f32,error:f32,"
    "bytes:u8[14],length:u8,reserved:u8}"
)
FRAME = stripline.SampleType(
    "mode-s-frame{sample:u64,fraction:f32,level_dbfs:f32,bytes:u8[14],length:u8,corrected_bits:u8}"
)
SAMPLE_RATE_HZ = 2_000_000
PREAMBLE_SAMPLES, LONG_FRAME_SAMPLES = 16, 240
ADDRESSES_MAX = 4096
# Remainders that an all-call reply to an interrogator may have.
INTERROGATOR_CODES = 80


def syndromes() -> list[int]:
    """Returns the remainder of an error in each bit of a long frame: the powers of x."""
    found = [1]
    while len(found) < 112:
        found.append(found[-1] << 1 if found[-1] < 0x800000 else found[-1] << 1 ^ 0x1FFF409)
    return found[::-1]


SYNDROMES = syndromes()


def remainder(frame: bytes) -> int:
    """Returns the remainder after division by the parity's polynomial."""
    bits, found = int.from_bytes(frame, "big"), 0
    for place in range(8 * len(frame)):
        if bits >> place & 1:
            found ^= SYNDROMES[111 - place]
    return found


class AdsbDecoder(stripline.Component, name="adsb-decoder"):
    """Passes on the Mode S frames with correct parity."""

    in_ = stripline.input_port(CANDIDATE, "candidates")
    out = stripline.output_port(FRAME, "frames")
    correct_bits = stripline.integer_property(
        1, "longest run of wrong bits that is corrected", range=(0, 24), changeable=True
    )
    correct_unknown = stripline.boolean_property(
        False, "whether a corrected frame may be the first one of an aircraft", changeable=True
    )
    address_lifetime_s = stripline.float_property(
        60.0, "how long an address stays confirmed", range=(0, 1e6), unit="s", changeable=True
    )
    frames = stripline.integer_property(0, "frames so far", read_only=True)
    aircraft = stripline.integer_property(0, "addresses stored now", read_only=True)

    def __init__(self) -> None:
        # By address: the time of the last confirmation; code and time of the last reply.
        self.confirmed: dict[int, int] = {}
        self.replies: dict[int, tuple[int, int]] = {}
        self.recent: deque[tuple[int, int, bytes]] = deque(maxlen=32)

    def run(self) -> None:
        for packet in self.in_:
            accepted = [it for candidate in packet.samples if (it := self.decode(candidate))]
            self.frames += len(accepted)
            self.aircraft = len(self.confirmed)
            if accepted:
                self.out.set_stream(packet.stream)
                self.out.send(np.array(accepted, self.out.dtype), time_ns=packet.time_ns)

    def decode(self, candidate: np.void) -> tuple[object, ...] | None:
        sample, length = int(candidate["sample"]), int(candidate["length"])
        frame = candidate["bytes"].tobytes()
        if length != (14 if frame[0] & 0x80 else 7):
            return None
        proved = self.prove(frame[:length], sample)
        if proved is None:
            return None
        frame, address, is_whole, corrected = proved
        for start, end, before in self.recent:
            if start <= sample < end and (before == frame or not is_whole):
                return None
        if is_whole:
            self.confirm(address, sample)
        self.recent.append((sample, sample + PREAMBLE_SAMPLES + 16 * length, frame))
        padded = np.frombuffer(frame.ljust(14, b"\0"), np.uint8)
        return sample, candidate["fraction"], candidate["level_dbfs"], padded, length, corrected

    def prove(self, frame: bytes, sample: int) -> tuple[bytes, int, bool, int] | None:
        """Returns the frame, its address, whether parity alone proves it, and corrected bits."""
        left, kind = remainder(frame), min(frame[0] >> 3, 24)
        if kind in (0, 4, 5, 16, 20, 21, 24):
            return (frame, left, False, 0) if self.knows(left, sample) else None
        address = int.from_bytes(frame[1:4], "big")
        if kind not in (11, 17, 18) or address == 0:
            return None
        if left == 0:
            return frame, address, True, 0
        if kind == 11 and self.is_code_again(address, left, sample):
            return frame, address, False, 0
        return self.correct(frame, left, sample)

    def knows(self, address: int, sample: int) -> bool:
        at = self.confirmed.get(address)
        return at is not None and sample - at <= int(self.address_lifetime_s * SAMPLE_RATE_HZ)

    def is_code_again(self, address: int, code: int, sample: int) -> bool:
        if code >= INTERROGATOR_CODES or not self.knows(address, sample):
            return False
        before, at = self.replies.get(address, (None, 0))
        # The same transmission, decoded at two positions, is not evidence.
        is_again = before == code and sample - at >= LONG_FRAME_SAMPLES
        if is_again or before != code:
            self.replies[address] = (code, sample)
        return is_again

    def correct(self, frame: bytes, left: int, sample: int) -> tuple[bytes, int, bool, int] | None:
        bits = 8 * len(frame)
        single = SYNDROMES[-bits:]
        runs = [0] * bits
        for length in range(1, self.correct_bits + 1):
            # The run from each bit on, after the format, has one bit more.
            runs = [run ^ last for run, last in zip(runs, single[4 + length :], strict=False)]
            if left in runs:
                wrong = (1 << length) - 1 << bits - length - 5 - runs.index(left)
                frame = (int.from_bytes(frame, "big") ^ wrong).to_bytes(len(frame), "big")
                address = int.from_bytes(frame[1:4], "big")
                is_accepted = self.correct_unknown or self.knows(address, sample)
                return (frame, address, False, length) if is_accepted else None
        return None

    def confirm(self, address: int, sample: int) -> None:
        if address not in self.confirmed and len(self.confirmed) >= ADDRESSES_MAX:
            oldest = min(self.confirmed, key=lambda it: (self.confirmed[it], it))
            del self.confirmed[oldest]
            self.replies.pop(oldest, None)
        self.confirmed[address] = sample


if __name__ == "__main__":
    stripline.main(AdsbDecoder)

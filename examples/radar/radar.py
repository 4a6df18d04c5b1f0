"""A pulse-Doppler radar: a source of echoes, a map of range and velocity, and a detector.

docs/radar.md builds it step by step; waveforms/radar.toml runs it.
"""

import time
from dataclasses import dataclass

import numpy as np

import stripline
from stripline import Axis, StreamInfo

# An echo is sampled at 10 MHz, so that a range cell has 15 m. 10,000 pulses a second at 3 GHz.
CHANNELS, PULSES, CELLS = 4, 256, 64
CELL_M, PULSE_S, WAVELENGTH_M = 15.0, 1e-4, 0.1
RATE_HZ = CHANNELS * CELLS / PULSE_S  # Samples of all channels.
CHIRP = np.exp(1j * np.pi * (np.arange(16) - 7.5) ** 2 / 16)
ECHOES = StreamInfo(
    "echoes",
    sample_rate_hz=RATE_HZ,
    center_frequency_hz=3e9,
    row_length=CELLS,
    frame_rows=PULSES,
    axes=(Axis(0, CELL_M, "m"), Axis(0, PULSE_S, "s"), Axis(0, PULSES * PULSE_S, "s")),
    channels=("a", "b", "c", "d"),
)


class Source(stripline.Component):
    """The echoes of a target that comes nearer and leaves again, in noise."""

    out = stripline.output_port(np.complex64, "channels x pulses x range cells")
    frames = stripline.integer_property(0, "frames to send; 0: for ever", range=(0, 1 << 40))
    amplitude = stripline.float_property(0.2, "amplitude of the echo; noise has 1", changeable=True)
    speed = stripline.float_property(60.0, "speed of the target", unit="m/s", range=(0, 240))

    def run(self) -> None:
        self.out.set_stream(ECHOES)
        pace = stripline.Pace(self.ports, RATE_HZ)
        random, pulse = np.random.default_rng(1), np.arange(PULSES)
        range_m, velocity, number, began_ns = 600.0, -self.speed, 0, time.time_ns()
        while number < (self.frames or 1 << 40):
            due = pace.wait_for((number + 1) * CHANNELS * PULSES * CELLS)
            now_ns = began_ns + round(number * PULSES * PULSE_S * 1e9)
            with self.out.loan(ECHOES.frame_shape, time_ns=now_ns, intended_ns=due) as echoes:
                noise = random.standard_normal((CHANNELS, PULSES, CELLS, 2), np.float32)
                echoes[:] = noise.view(np.complex64)[..., 0] / np.sqrt(2)
                turns = 2 * (range_m + velocity * PULSE_S * pulse) / WAVELENGTH_M
                first = round(range_m / CELL_M)
                last = min(first + len(CHIRP), CELLS)
                echo = self.amplitude * np.exp(-2j * np.pi * turns)[:, None] * CHIRP[: last - first]
                echoes[:, :, first:last] += echo
            range_m += velocity * PULSES * PULSE_S
            if not 150 < range_m < 600:
                velocity = -velocity
            number += 1


STEP_MPS = WAVELENGTH_M / (2 * PULSES * PULSE_S)
MAP = StreamInfo(
    "map",
    row_length=CELLS,
    frame_rows=PULSES,
    axes=(Axis(0, CELL_M, "m"), Axis(-PULSES / 2 * STEP_MPS, STEP_MPS, "m/s")),
)


class Map(stripline.Component):
    """Matched filter and Doppler transform: the power of each velocity and range."""

    in_ = stripline.windowed_input_port(np.complex64, "echoes", shape="frames")
    out = stripline.output_port(np.float32, "velocities x range cells, in dB")
    cut = stripline.integer_property(0, "frames with missing samples", read_only=True)

    def run(self) -> None:
        self.out.set_stream(MAP)
        matched = np.conj(np.fft.fft(CHIRP, CELLS)) / len(CHIRP)
        taper = np.hanning(PULSES)[:, None] / np.sqrt(PULSES)
        for window in self.in_.windows(frames=1):
            if window.is_whole:
                filtered = np.fft.ifft(np.fft.fft(window.frame) * matched) * taper
                spectrum = np.fft.fftshift(PULSES * np.fft.ifft(filtered, axis=1), axes=1)
                power = np.mean(np.abs(spectrum) ** 2, axis=0)
                self.out.send((10 * np.log10(power)).astype(np.float32), time_ns=window.time_ns)
            else:
                self.cut += 1


@dataclass
class Detection:
    """A cell of the map that is above its neighbours."""

    range_m: float
    velocity_mps: float
    level_db: float


class Detector(stripline.Component):
    """CFAR: finds cells that exceed the mean of the cells around them."""

    in_ = stripline.windowed_input_port(np.float32, "maps", shape="frames")
    out = stripline.message_output_port(Detection, "detections")
    marked = stripline.output_port(np.float32, "maps with marks", optional=True)
    threshold = stripline.float_property(
        9.0, "level above the neighbours", unit="dB", range=(1, 60), changeable=True
    )
    cut = stripline.integer_property(0, "maps with missing samples", read_only=True)

    def run(self) -> None:
        self.marked.set_stream(MAP)
        for window in self.in_.windows(frames=1):
            if window.is_whole:
                marked = window.frame.copy()
                for velocity, cell, level in detections(window.frame, self.threshold):
                    speed = MAP.axes[1].start + velocity * STEP_MPS
                    found = Detection(cell * CELL_M, round(speed, 1), round(level, 1))
                    self.out.send(found, time_ns=window.time_ns)
                    box = np.s_[max(velocity - 6, 0) : velocity + 7, max(cell - 2, 0) : cell + 3]
                    marked[box][[0, -1]] = marked[box][:, [0, -1]] = marked.max()
                self.marked.send(marked, time_ns=window.time_ns)
            else:
                self.cut += 1


def detections(levels_db: np.ndarray, threshold: float) -> list[tuple[int, int, float]]:
    """Returns the velocity, the range cell and the level of each cell that stands out."""
    power = 10 ** (levels_db / 10)
    around = [np.roll(power, shift, axis=0) for shift in range(-12, 13) if abs(shift) > 3]
    above = levels_db - 10 * np.log10(np.mean(around, axis=0))
    shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    is_peak = levels_db >= np.max([np.roll(levels_db, shift, (0, 1)) for shift in shifts], axis=0)
    places = np.argwhere(is_peak & (above > threshold))
    return [(int(v), int(r), float(above[v, r])) for v, r in places]


if __name__ == "__main__":
    stripline.main(Source, Map, Detector)

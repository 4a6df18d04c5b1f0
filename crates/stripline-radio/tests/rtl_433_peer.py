"""`rtl_433`, a decoder for dongles, tunes a simulated receiver behind `rtl-tcp-sink`, and records.

    rtl_433_peer.py COMMAND    COMMAND: `stripline`
"""

from __future__ import annotations

import cmath
import math
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

COMMAND = str(pathlib.Path(sys.argv[1]).resolve())
# A time limit that only ends a hang.
TIMEOUT_S = 120.0
RATE_HZ = 250_000
FREQUENCY_HZ = 433_920_000
OFFSET_HZ = 30_000
POWER_DB = -6.0
SAMPLES = 500_000
WAVEFORM = """
[component.receiver]
type = "simulated-receiver"
properties = {{ carriers = "{carrier}:{power}", frequency = 100e6, sample_rate = {rate}, rate = {rate}, tuner = "{service}" }}

[component.sink]
type = "rtl-tcp-sink"
properties = {{ address = "{address}", tuner = "{service}" }}

[[connection]]
from = "receiver"
to = "sink"
"""


def free_address() -> str:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{unused.getsockname()[1]}"


def check(recorded: bytes) -> None:
    """Compares the newest samples, which were taken behind the retune, with the carrier."""
    assert len(recorded) == 2 * SAMPLES, len(recorded)
    last = recorded[-(1 << 17) :]
    numbers = [(byte - 127.5) / 127.5 for byte in last]
    samples = [complex(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
    power_db = 10 * math.log10(sum(abs(sample) ** 2 for sample in samples) / len(samples))
    turn = sum(later * sample.conjugate() for sample, later in zip(samples, samples[1:], strict=False))
    offset_hz = cmath.phase(turn) / (2 * math.pi) * RATE_HZ
    assert abs(power_db - POWER_DB) < 0.5, power_db
    assert abs(offset_hz - OFFSET_HZ) < 100, offset_hz


def main() -> None:
    address, service = free_address(), f"rtl-433-{os.getpid()}"
    carrier = FREQUENCY_HZ + OFFSET_HZ
    text = WAVEFORM.format(carrier=carrier, power=POWER_DB, rate=RATE_HZ, service=service, address=address)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        waveform, record = folder / "served.toml", folder / "recorded.cu8"
        waveform.write_text(text, encoding="utf-8")
        run = subprocess.Popen([COMMAND, "run", str(waveform), "--quiet"], stderr=subprocess.PIPE, text=True)
        assert run.stderr is not None
        try:
            for line in run.stderr:
                if "listening at" in line:
                    break
            client = ["rtl_433", "-d", f"rtl_tcp:{address}", "-f", str(FREQUENCY_HZ), "-s", str(RATE_HZ)]
            client += ["-n", str(SAMPLES), "-w", str(record)]
            subprocess.run(client, check=True, timeout=TIMEOUT_S, capture_output=True)
            call = [COMMAND, "call", service, "frequency", "null"]
            called = subprocess.run(call, check=True, timeout=TIMEOUT_S, capture_output=True, text=True)
            assert float(called.stdout) == FREQUENCY_HZ, called.stdout
            check(record.read_bytes())
        finally:
            run.terminate()
            run.communicate(timeout=TIMEOUT_S)
        assert run.returncode == 0, run.returncode
    print("rtl_433 tunes a simulated receiver, and records it")


main()

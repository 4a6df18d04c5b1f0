#!/usr/bin/env python3
"""Subscribes to the topic `iq` of the waveform beside it, with the package `cyclonedds` from PyPI.

Usage: python3 subscriber.py [MESSAGES]     for ever by default
"""

import os
import sys
from dataclasses import dataclass

# Uses the loopback interface only, as the waveform does.
os.environ.setdefault(
    "CYCLONEDDS_URI",
    """<CycloneDDS><Domain id="any"><General><AllowMulticast>false</AllowMulticast>
    <Interfaces><NetworkInterface name="lo" multicast="false"/></Interfaces></General>
    <Discovery><ParticipantIndex>auto</ParticipantIndex>
    <MaxAutoParticipantIndex>110</MaxAutoParticipantIndex>
    <Peers><Peer address="127.0.0.1"/></Peers></Discovery></Domain></CycloneDDS>""",
)

from cyclonedds.core import Policy, Qos  # noqa: E402
from cyclonedds.domain import DomainParticipant  # noqa: E402
from cyclonedds.idl import IdlStruct, annotations  # noqa: E402
from cyclonedds.idl.types import float32, float64, sequence, uint64  # noqa: E402
from cyclonedds.sub import DataReader  # noqa: E402
from cyclonedds.topic import Topic  # noqa: E402
from cyclonedds.util import duration  # noqa: E402


# The types of crates/stripline-dds-sys/idl/Stripline.idl. `idlc -l py` generates the same types.
@dataclass
@annotations.final
class SampleInfo(IdlStruct, typename="stripline.SampleInfo"):
    sample_index: uint64
    time_ns: uint64
    rate_hz: float64
    frequency_hz: float64


@dataclass
@annotations.final
class ComplexFloatSamples(IdlStruct, typename="stripline.ComplexFloatSamples"):
    info: SampleInfo
    samples: sequence[float32]


def main():
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else None
    participant = DomainParticipant(0)
    reliable = Qos(Policy.Reliability.Reliable(duration(seconds=10)), Policy.History.KeepAll)
    reader = DataReader(participant, Topic(participant, "iq", ComplexFloatSamples), reliable)
    print("waiting for `iq`; Ctrl-C ends it", flush=True)
    received = 0
    for message in reader.take_iter(timeout=duration(infinite=True)):
        parts = message.samples
        power = sum(part * part for part in parts) / (len(parts) / 2)
        rate = message.info.rate_hz
        print(f"sample {message.info.sample_index}: {len(parts) // 2} samples at {rate:g} Hz, power {power:.3f}")
        received += 1
        if received == messages:
            break


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass

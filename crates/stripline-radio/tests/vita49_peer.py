"""Another maker of packets, written by ANSI/VITA 49.2 and IEEE-ISTO 4900-2021 (DIFI 1.1).

vita49_peer.py FORMAT SAMPLES     prints its port, checks packets, and prints them as JSON
"""

import json
import socket
import struct
import sys

SECOND = 1_700_000_000
PS = 10**12
DIFI = 0x6A621E
# Name and number of words of each field of the indicator field 0, from bit 30 down.
FIELDS = [
    ("reference_point", 1),
    ("bandwidth", 2),
    ("if_frequency", 2),
    ("rf_frequency", 2),
    ("rf_offset", 2),
    ("band_offset", 2),
    ("reference_level", 1),
    ("gain", 1),
    ("over_ranges", 1),
    ("sample_rate", 2),
    ("adjustment", 2),
    ("calibration", 1),
    ("temperature", 1),
    ("device", 2),
    ("state", 1),
    ("format", 2),
]


def parse(datagram):
    """Returns the fields of a packet."""
    (header,) = struct.unpack_from(">I", datagram)
    assert (header & 0xFFFF) * 4 == len(datagram), "the size in words"
    packet = {
        "type": header >> 28,
        "bits": header >> 24 & 7,
        "tsi": header >> 22 & 3,
        "tsf": header >> 20 & 3,
        "count": header >> 16 & 15,
        "class": None,
        "pad": 0,
    }
    assert packet["type"] in (1, 4, 5), packet
    (packet["stream"],) = struct.unpack_from(">I", datagram, 4)
    at = 8
    if header >> 27 & 1:
        oui, information, kind = struct.unpack_from(">IHH", datagram, at)
        packet["pad"] = oui >> 27
        assert oui >> 24 & 7 == 0, "reserved bits of the class"
        packet["class"] = [oui & 0xFFFFFF, information, kind]
        at += 8
    assert (packet["tsi"], packet["tsf"]) == (1, 2), "seconds of UTC, and picoseconds"
    second, ps = struct.unpack_from(">IQ", datagram, at)
    assert ps < PS
    packet["ps"] = second * PS + ps
    packet["payload"] = datagram[at + 12 :]
    return packet


def context(payload):
    """Returns the fields of a context."""
    (listed,) = struct.unpack_from(">I", payload)
    assert listed & 0x7FFF == 0, "further fields"
    found, at = {"changed": listed >> 31}, 4
    for bit, (name, words) in zip(range(30, 14, -1), FIELDS):
        if listed >> bit & 1:
            (found[name],) = struct.unpack_from(">q" if words == 2 else ">i", payload, at)
            at += 4 * words
    assert at == len(payload), "fields and size"
    for name in ("bandwidth", "if_frequency", "rf_frequency", "band_offset", "sample_rate"):
        found[name] /= 1 << 20
    # Two gains of 16 bits: stage 2 is above.
    gain = struct.unpack(">hh", struct.pack(">i", found["gain"]))
    found["gain"] = [stage / 128 for stage in gain]
    assert found["reference_level"] >> 16 in (0, -1)
    found["reference_level"] = struct.unpack(">hh", struct.pack(">i", found["reference_level"]))[1] / 128
    found["format"] &= (1 << 64) - 1
    return found


def receive(name, count):
    """Receives so many samples, and checks each packet."""
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    peer.bind(("127.0.0.1", 0))
    peer.settimeout(60)
    print(peer.getsockname()[1], flush=True)
    code = {"cs16": "h", "cs8": "b", "cf32": "f"}[name]
    class_of = {1: [DIFI, 0, 0], 4: [DIFI, 0, 1], 5: [DIFI, 1, 4]}
    counts, contexts, samples, places, streams = {}, [], [], [], set()
    described_ps, span_ps, versions = None, 0, 0
    while len(samples) < count:
        packet = parse(peer.recv(65536))
        kind = packet["type"]
        assert counts.setdefault(kind, packet["count"]) == packet["count"], (kind, packet["count"])
        counts[kind] = (packet["count"] + 1) & 15
        assert packet["class"] == (None if name == "cf32" else class_of[kind]), packet["class"]
        assert packet["bits"] == (0 if kind == 1 else 1), "reserved bits, and the coarse stamp of a context"
        assert packet["pad"] == 0
        streams.add(packet["stream"])
        payload = packet["payload"]
        if kind == 1:
            assert contexts, "a context is first"
            numbers = struct.unpack(f">{len(payload) // struct.calcsize(code)}{code}", payload)
            places.append([packet["ps"] - SECOND * PS, len(samples)])
            samples += [list(pair) for pair in zip(numbers[::2], numbers[1::2])]
            span_ps = max(span_ps, packet["ps"] - described_ps)
        elif kind == 4:
            contexts.append(context(payload))
            described_ps = packet["ps"]
        else:
            listed, indicator, standard, build = struct.unpack(">IIII", payload)
            assert (listed & 0x7FFFFFFF, indicator, standard) == (2, 12, 4)
            assert 1 <= build >> 16 & 0x1FF <= 366 and build >> 25 >= 21, "year and day"
            versions += 1
    print(
        json.dumps(
            {
                "samples": samples,
                "places": places,
                "contexts": contexts,
                "versions": versions,
                "streams": sorted(streams),
                "span_ps": span_ps,
            }
        )
    )


receive(sys.argv[1], int(sys.argv[2]))

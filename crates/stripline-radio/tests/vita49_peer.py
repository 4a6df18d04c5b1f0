"""Another maker of packets, written by ANSI/VITA 49.2 and IEEE-ISTO 4900-2021 (DIFI 1.1).

vita49_peer.py receive FORMAT SAMPLES     prints its port, checks packets, prints them as JSON
vita49_peer.py send FORMAT ADDRESS        sends a context and packets, some of them lost
"""

import json
import socket
import struct
import sys

RATE_HZ = 1_000_000
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


def pack(kind, count, index, payload, stream=0x51, class_id=(DIFI, 0, 0), trailer=None):
    """Returns a packet with the stamp of a sample."""
    ps = SECOND * PS + index * PS // RATE_HZ
    words = 7 + len(payload) // 4 + (trailer is not None)
    header = kind << 28 | 1 << 27 | (trailer is not None) << 26 | 1 << 22 | 2 << 20 | (count & 15) << 16 | words
    head = struct.pack(">IIIHHIQ", header, stream, *class_id, ps // PS, ps % PS)
    return head + payload + (b"" if trailer is None else struct.pack(">I", trailer))


def numbers(name, values):
    """Packs numbers densely: each at the upper end of what is left, padded to words."""
    if name == "cf32":
        return struct.pack(f">{len(values)}f", *values)
    bits = int(name[2:])
    text = "".join(format(value & (1 << bits) - 1, f"0{bits}b") for value in values)
    assert len(text) % 32 == 0
    return int(text, 2).to_bytes(len(text) // 8, "big")


def send(name, address):
    """Sends 120 packets of 160 samples: sample n is n % 100 - 50, and -(n % 7)."""
    host, port = address.split(":")
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    peer.connect((host, int(port)))
    size = 160
    bits = 32 if name == "cf32" else int(name[2:])
    item = 0b01110 if name == "cf32" else 0
    fields = struct.pack(">I", 1 << 31 | 1 << 29 | 1 << 27 | 1 << 24 | 1 << 23 | 1 << 21 | 1 << 15)
    fields += struct.pack(">qq", 800_000 << 20, 100_500_000 << 20)
    # -12.5 dBm; 20 dB in stage 1, and 1.5 dB in stage 2.
    fields += struct.pack(">hhhh", 0, -1600, 192, 2560)
    fields += struct.pack(">q", RATE_HZ << 20)
    # Dense, complex, and the sizes of number and field less one.
    fields += struct.pack(">II", 1 << 31 | 1 << 29 | item << 24 | (bits - 1) << 6 | bits - 1, 0)
    peer.send(pack(4, 0, 0, fields, class_id=(DIFI, 0, 1)))
    for packet in range(120):
        index = packet * size
        values = []
        for sample in range(index, index + size):
            values += [sample % 100 - 50, -(sample % 7)]
        data = pack(1, packet, index, numbers(name, values))
        # One lost packet, a burst of 37, and 16, which the count alone does not show.
        if packet == 7 or 30 <= packet < 67 or 80 <= packet < 96:
            continue
        if packet == 100:
            peer.send(pack(1, 3, index, b"\0" * 8, stream=0x52))
            data = pack(1, packet, index, numbers(name, values), trailer=1 << 25 | 1 << 13)
        peer.send(data)
        if packet == 20:
            peer.send(data)


if sys.argv[1] == "receive":
    receive(sys.argv[2], int(sys.argv[3]))
else:
    send(sys.argv[2], sys.argv[3])

"""Receives the packets of `publisher.py` in another terminal, and prints the losses.

    python subscriber.py       waits for room: nothing is lost
    python subscriber.py 50    takes 50 ms over each packet, and drops packets without room

docs/python.md explains both.
"""

import sys
import time

import numpy as np

import stripline

# The number of packets between two lines of output.
EVERY = 100


def show(packet: stripline.Packet) -> None:
    # A loss is reported with the next packet, at its place in the stream.
    if gap := packet.gap:
        print(f"lost {gap.packets} packets from {gap.first} on ({gap.reason}): {gap.samples} samples", flush=True)
    if packet.sequence % EVERY == 0:
        # The samples stay in the publisher's memory until the packet and its arrays are gone.
        power = np.mean(np.abs(packet.samples) ** 2)
        number, name = packet.sequence, packet.stream.id
        print(f"packet {number} of `{name}`: {len(packet)} samples, power {power:.3f}", flush=True)


def main() -> None:
    pause_ms = float(sys.argv[1]) if sys.argv[1:] else 0
    # The receiver chooses the policy for packets that arrive faster than it takes them.
    topics = {"topic": {"iq": {"overflow": "drop-oldest", "depth": 8}}} if pause_ms else None
    with stripline.Node(topics=topics) as node:
        in_ = node.subscriber("iq", np.complex64)
        print("waiting for `iq`; Ctrl-C ends it", flush=True)
        try:
            for packet in in_:
                show(packet)
                time.sleep(pause_ms / 1000)
            print("end of the stream", flush=True)
        except KeyboardInterrupt:
            pass
        for connection in node.connections():
            print(f"took {connection.packets} packets, lost {connection.lost}", flush=True)


if __name__ == "__main__":
    main()

"""The other end of the messages of a flowgraph: values of the Python package."""

import sys

import numpy
import stripline

role, place = sys.argv[1:]
node = stripline.Node(domain=place)
if role == "send":
    out = node.message_publisher("events")
    out.wait_for_receivers(1, timeout=60)
    out.send({"name": "burst", "snr": 12.5, "frames": [{"n": -3}, None, True], "big": 2**64 - 1})
    out.send([1, 2, 3])
    out.send({"meta": {"n": 1}, "data": numpy.array([0.5 - 2j, 1], numpy.complex64)})
    out.send(b"\x00\xff")
    out.finish()
elif role == "refused":
    out = node.message_publisher("events")
    out.wait_for_receivers(1, timeout=60)
    try:
        out.send({"a": [1, 2.5]}, scope="target")
    except stripline.Error as problem:
        print(problem)
    out.send([3])
    out.finish()
else:
    with node.message_subscriber("events") as subscriber:
        print("waits", flush=True)
        print([message.value for message in subscriber], flush=True)

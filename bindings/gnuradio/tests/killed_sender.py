"""A flowgraph that sends ten packets of 600 numbers, and then waits to be killed."""

import sys
import threading

from ends import Numbers, connect
from gnuradio import gr, stripline

graph = gr.top_block()
sink = stripline.sink(
    "u32", "numbers", domain=sys.argv[1], receivers=1, packet_items=600, sample_rate=1e3)
connect(graph, Numbers(10**9, 6000, threading.Event()), sink)
graph.start()
while sink.packets() < 10:
    pass
print("sent 10", flush=True)
threading.Event().wait()

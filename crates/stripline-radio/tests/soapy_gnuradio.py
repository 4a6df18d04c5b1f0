"""GNU Radio's own source for SoapySDR plays a device. Prints its samples and time tags as JSON.

soapy_gnuradio.py DEVICE SAMPLES
"""

import json
import sys

import pmt
from gnuradio import blocks, gr, soapy

DEVICE, SAMPLES = sys.argv[1], int(sys.argv[2])

flowgraph = gr.top_block()
source = soapy.source(DEVICE, "sc16", 1, "", "", [""], [""])
source.set_sample_rate(0, 1e6)
source.set_frequency(0, 100e6)
head = blocks.head(4, SAMPLES)
sink = blocks.vector_sink_s(2)
flowgraph.connect(source, head, sink)
flowgraph.run()

times = []
for tag in sink.tags():
    if pmt.symbol_to_string(tag.key) == "rx_time":
        seconds, part = (pmt.tuple_ref(tag.value, place) for place in (0, 1))
        times.append([tag.offset, pmt.to_uint64(seconds), pmt.to_double(part)])
print(json.dumps({"samples": list(sink.data()), "times": times}))

#!/usr/bin/env python3
"""Measures a link between the flowgraphs of two processes beside gr-zeromq, and the duration of a
stop.

Usage: /usr/bin/python3 links.py [--samples N] [--rounds N] [--bursts N] [--json | --stops]

The kinds of link take turns within each round. As a null test, a Stripline link is compared with
itself, measured twice a round. Each figure is the median of the rounds; a ratio is the median of
the ratios in a round. The rate is measured at the receiver, from its first item to its last.
Processor time is the sum of both processes, from the start of their flowgraphs. A block of vectors
writes the payload, and a block that squares reads it. gr-zeromq pushes and pulls over a Unix
socket, so that nothing is lost.

The latency of a burst is the time from the end of the block that makes it to the end of a block in
the other process that has read the last sample. The latency of a measurement is the median, without
the first third of the bursts. 1000 samples come every 3 ms. The blocks are in C++:
packaging/gnuradio-install installs the program.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

try:
    from gnuradio import blocks, gr, zeromq
except ImportError as error:
    raise SystemExit(f"GNU Radio is missing: {error} (Debian: gnuradio; --gnuradio-python FILE names its Python)")
try:
    from gnuradio import stripline
except ImportError as error:
    raise SystemExit(f"its blocks are missing: {error} (packaging/gnuradio-install DIR, and PYTHONPATH as it prints)")

PACKET = [complex(number % 251, 1) for number in range(100_000)]
KINDS = ("stripline", "zeromq", "stripline-again", "one-process")
LINKS = (*KINDS[:3], "spinning")
BURST_SAMPLES = 1000
# The program is installed beside the module: PREFIX/lib/pythonX.Y/site-packages/gnuradio/stripline.
BURST_PROGRAM = Path(stripline.__file__).parents[5] / "libexec/stripline-gr-burst"


def processor_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def sink_of(kind, address):
    if kind == "zeromq":
        return zeromq.push_sink(gr.sizeof_gr_complex, 1, f"ipc:///tmp/{address}")
    return stripline.sink("complex", "iq", domain=address, receivers=1)


def source_of(kind, address):
    if kind == "zeromq":
        return zeromq.pull_source(gr.sizeof_gr_complex, 1, f"ipc:///tmp/{address}")
    return stripline.source("complex", "iq", domain=address)


def run(graph, samples, last):
    """Runs a flowgraph, and returns the rate at a block and the processor time."""
    before = processor_s()
    graph.start()
    while last.nitems_read(0) == 0:
        time.sleep(0.0005)
    first, begin = last.nitems_read(0), time.monotonic()
    gr.top_block_wait_unlocked(graph._impl)
    seconds = time.monotonic() - begin
    return {"rate": (samples - first) / seconds, "processor_s": processor_s() - before}


def receiver(kind, address, samples):
    graph = gr.top_block()
    square, last = blocks.complex_to_mag_squared(), blocks.null_sink(gr.sizeof_float)
    head = blocks.head(gr.sizeof_gr_complex, samples)
    if kind == "one-process":
        graph.connect(blocks.vector_source_c(PACKET, True), head, square, last)
    else:
        graph.connect(source_of(kind, address), head, square, last)
        print("ready", flush=True)
    print(json.dumps(run(graph, samples, last)), flush=True)


def sender(kind, address):
    graph = gr.top_block()
    graph.connect(blocks.vector_source_c(PACKET, True), sink_of(kind, address))
    before = processor_s()
    graph.start()
    # The sender continues until the receiver has all.
    sys.stdin.readline()
    graph.stop()
    gr.top_block_wait_unlocked(graph._impl)
    print(json.dumps({"processor_s": processor_s() - before}), flush=True)


def process(*arguments):
    return subprocess.Popen(
        [sys.executable, __file__, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def measure(kind, number, samples):
    """Runs one link, and returns its rate and its processor time per sample."""
    address = f"gr-bench-{os.getpid()}-{number}-{kind}"
    receives = process("receiver", kind, address, samples)
    parts = [receives]
    if kind != "one-process":
        receives.stdout.readline()
        parts.append(process("sender", kind, address))
    found = json.loads(receives.stdout.readline())
    used = found["processor_s"]
    for part in parts[1:]:
        part.stdin.write("done\n")
        part.stdin.flush()
        used += json.loads(part.stdout.readline())["processor_s"]
    for part in parts:
        part.wait()
        part.stdin.close()
        part.stdout.close()
    return {"rate": found["rate"], "processor_ns": used / samples * 1e9}


def burst(kind, number, count):
    """Runs one link with bursts, and returns the median of their latencies."""
    address = f"gr-burst-{os.getpid()}-{number}-{kind}"
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    common = [kind.removesuffix("-again"), address, str(count), str(BURST_SAMPLES)]
    with subprocess.Popen([BURST_PROGRAM, "receive", *common], **pipes) as receives:
        if receives.stdout.readline() != "ready\n":
            raise SystemExit("the receiver of bursts has not begun")
        with subprocess.Popen([BURST_PROGRAM, "send", *common], **pipes) as sends:
            found, _ = receives.communicate()
            sends.communicate("done\n")
    latencies = [int(line) for line in found.split()]
    if receives.returncode != 0 or len(latencies) != count:
        raise SystemExit(f"{len(latencies)} of {count} bursts have arrived")
    # gr-zeromq sleeps a quarter of a second after a pause, for example before the first burst.
    return statistics.median(latencies[count // 3 :])


def in_turn(kinds, number):
    """Returns the kinds of link, beginning with another one in each round."""
    first = number % len(kinds)
    return kinds[first:] + kinds[:first]


def stops(waits_for, times=50):
    """Returns the milliseconds from stop() to the end of all blocks, for a flowgraph that waits."""
    found = []
    for number in range(times):
        graph, place = gr.top_block(), f"gr-stop-{os.getpid()}-{waits_for}-{number}"
        kept = None
        if waits_for == "sender":
            graph.connect(stripline.source("complex", "iq", domain=place), blocks.null_sink(gr.sizeof_gr_complex))
        else:
            sink = stripline.sink("complex", "iq", domain=place, receivers=1)
            graph.connect(blocks.null_source(gr.sizeof_gr_complex), sink)
            if waits_for == "room":
                kept = stripline.source("complex", "iq", policy='overflow = "block", depth = 2', domain=place)
        graph.start()
        time.sleep(0.03 + 0.0003 * number)
        begin = time.monotonic()
        graph.stop()
        gr.top_block_wait_unlocked(graph._impl)
        found.append((time.monotonic() - begin) * 1e3)
        del kept
    return found


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--samples", type=int, default=50_000_000)
    options.add_argument("--rounds", type=int, default=11)
    options.add_argument("--bursts", type=int, default=300)
    options.add_argument("--json", action="store_true", help="print the ratios of each round")
    options.add_argument("--stops", action="store_true", help="measure how long a stop takes, and nothing else")
    chosen = options.parse_args()
    if chosen.stops:
        for waits_for in ("sender", "receiver", "room"):
            found = sorted(stops(waits_for))
            print(f"stop while waiting for a {waits_for}: median {statistics.median(found):.1f} ms, most {found[-1]:.1f} ms")
        return
    has_bursts = BURST_PROGRAM.exists() and chosen.bursts > 0
    rounds = []
    for number in range(chosen.rounds):
        one = {kind: measure(kind, number, chosen.samples) for kind in in_turn(KINDS, number)}
        for kind in in_turn(LINKS, number) if has_bursts else ():
            one.setdefault(kind, {})["burst_ns"] = burst(kind, number, chosen.bursts)
        rounds.append(one)

    def median(key, kind):
        return statistics.median(one[kind][key] for one in rounds)

    def ratios(key, above, below):
        return [one[above][key] / one[below][key] for one in rounds if key in one.get(above, {})]

    def ratio(key, above, below):
        found = sorted(ratios(key, above, below))
        return f"{statistics.median(found):.2f} (from {found[0]:.2f} to {found[-1]:.2f})"

    if chosen.json:
        print(json.dumps({
            "rate": ratios("rate", "stripline", "zeromq"),
            "processor_time": ratios("processor_ns", "stripline", "zeromq"),
            "one_process": ratios("rate", "stripline", "one-process"),
            "null_rate": ratios("rate", "stripline-again", "stripline"),
            "null_processor_time": ratios("processor_ns", "stripline-again", "stripline"),
            "burst_latency": ratios("burst_ns", "stripline", "zeromq"),
            "spinning_burst_latency": ratios("burst_ns", "spinning", "zeromq"),
            "null_burst_latency": ratios("burst_ns", "stripline-again", "stripline"),
        }))
        return
    for kind in KINDS:
        print(f"{kind}: {median('rate', kind) / 1e6:.0f} Msample/s, {median('processor_ns', kind):.2f} ns a sample")
    print("rate over gr-zeromq:", ratio("rate", "stripline", "zeromq"))
    print("processor time over gr-zeromq:", ratio("processor_ns", "stripline", "zeromq"))
    print("rate over one process:", ratio("rate", "stripline", "one-process"))
    print("null, rate:", ratio("rate", "stripline-again", "stripline"))
    print("null, processor time:", ratio("processor_ns", "stripline-again", "stripline"))
    if not has_bursts:
        print(f"no bursts: {BURST_PROGRAM} is missing, or --bursts is 0")
        return
    for kind in LINKS:
        print(f"{kind}: a burst takes {median('burst_ns', kind) / 1e3:.0f} µs")
    print("latency of a burst over gr-zeromq:", ratio("burst_ns", "stripline", "zeromq"))
    print("the same, the source polling for it:", ratio("burst_ns", "spinning", "zeromq"))
    print("null, latency of a burst:", ratio("burst_ns", "stripline-again", "stripline"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["receiver"]:
        receiver(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    elif sys.argv[1:2] == ["sender"]:
        sender(sys.argv[2], sys.argv[3])
    else:
        main()

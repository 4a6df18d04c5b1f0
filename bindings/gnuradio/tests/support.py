"""Shared parts of the tests: unique domains, and Rust programs at the other end of a link."""

import contextlib
import itertools
import os
import subprocess

import pmt
from gnuradio import gr

# The path of the program that sends and receives numbers. `check` sets the variable.
NUMBERS = os.environ["STRIPLINE_NUMBERS"]

_count = itertools.count()


def domain(name):
    """Returns a domain that no other test uses."""
    return f"gr-{os.getpid()}-{next(_count)}-{name}"


def run_together(receiver, *senders):
    """Runs flowgraphs until all have ended. The receiver starts first, so it gets every item."""
    receiver.start()
    for graph in senders:
        graph.start()
    for graph in (*senders, receiver):
        graph.wait()


def tag_rows(tags):
    """Returns the tags in a form for comparison: the tags of an item have no order."""
    return sorted(
        (tag.offset, pmt.symbol_to_string(tag.key), pmt.serialize_str(tag.value), pmt.serialize_str(tag.srcid))
        for tag in tags)


@contextlib.contextmanager
def started(*command, **options):
    """Starts a process, and kills the process at the end of the block if it still runs."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def sender(place, packets, samples, topics=""):
    """Starts a Rust program that sends the numbers 0, 1, 2, ... as u32 on the topic `numbers`."""
    return started(NUMBERS, "send", place, topics, str(packets), str(samples))


def receiver(place, packets, samples, role="receive", topics=""):
    """Starts a Rust program that receives the numbers of `sender`, and checks them."""
    return started(NUMBERS, role, place, topics, str(packets), str(samples))

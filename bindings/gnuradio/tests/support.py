"""Shared parts of the tests: unique domains, and programs in Rust at the other end."""

import contextlib
import itertools
import os
import subprocess

import pmt
from gnuradio import gr

# The program that sends and receives numbers, and the installation. `check` sets both.
NUMBERS = os.environ["STRIPLINE_NUMBERS"]

_count = itertools.count()


def domain(name):
    """Returns a domain that no other test uses."""
    return f"gr-{os.getpid()}-{next(_count)}-{name}"


def run_together(receiver, *senders):
    """Runs flowgraphs to their ends. The receiver gets the first item."""
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
    """A process, which is killed at the end if it still runs."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def sender(place, packets, samples, topics=""):
    """A program in Rust that sends the numbers from 0 on as u32, on the topic `numbers`."""
    return started(NUMBERS, "send", place, topics, str(packets), str(samples))


def receiver(place, packets, samples, role="receive", topics=""):
    """A program in Rust that receives such numbers, and checks them."""
    return started(NUMBERS, role, place, topics, str(packets), str(samples))

"""Fixtures and helpers of the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import stripline

# A limit that only ends a hang.
TIMEOUT_S = 60.0

# A shell starts its background jobs with Ctrl-C ignored. Programs of the tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def node() -> Iterator[stripline.Node]:
    with stripline.Node.isolated() as node:
        yield node


@pytest.fixture
def domain(request: pytest.FixtureRequest) -> str:
    return f"py-{os.getpid()}-{abs(hash(request.node.nodeid)) % 10**9}"


def linked(
    node: stripline.Node, dtype: object = np.float32, **options: object
) -> tuple[stripline.Publisher, stripline.Subscriber]:
    """Returns both ends of a connection."""
    subscriber = node.subscriber("topic", dtype, **options)  # type: ignore[arg-type]
    publisher = node.publisher("topic", dtype)  # type: ignore[arg-type]
    publisher.wait_for_receivers(1, TIMEOUT_S)
    return publisher, subscriber


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    """Runs a program, and returns what it has printed."""
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)


_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _end_programs() -> Iterator[None]:
    """Ends the processes that a test has started."""
    yield
    while _started:
        with _started.pop() as process:
            process.kill()


def start(*command: str) -> subprocess.Popen[str]:
    """Starts a program. The test reads its lines."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)
    _started.append(process)
    return process


def start_python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a program in Python."""
    return start(sys.executable, "-u", "-W", "error", "-c", code, *arguments)


def line(process: subprocess.Popen[str]) -> str:
    """Returns the next line of a program."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")

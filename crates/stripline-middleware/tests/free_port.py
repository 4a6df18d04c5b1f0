"""Ports of this host for tests."""

from __future__ import annotations

import contextlib
import socket

RESERVED: list[socket.socket] = []


def free_port() -> int:
    """Returns a port that no other test gets until this program ends.

    The system gives ports from 32768 on to programs that do not choose. A socket in the abstract
    namespace reserves the number, and the port itself stays closed.
    """
    for port in range(20_000, 32_768):
        with contextlib.suppress(OSError), socket.socket() as tcp:
            reserved = socket.socket(socket.AF_UNIX)
            reserved.bind(f"\0stripline-test-port-{port}")
            RESERVED.append(reserved)
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tcp.bind(("127.0.0.1", port))
            return port
    message = "no port from 20000 to 32767 is free"
    raise OSError(message)

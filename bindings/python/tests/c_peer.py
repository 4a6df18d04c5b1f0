"""A publisher of messages in C, which can send any bytes."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Iterator


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(os.environ["STRIPLINE_C_LIBRARY"])


class _Handle(ctypes.Structure):
    """A handle of the library."""


_Pointer = ctypes.POINTER(_Handle)


def _check(status: int) -> None:
    assert status == 0, status


class CPublisher:
    def __init__(self, handle: object) -> None:
        self._handle = handle

    def send(self, message: bytes) -> None:
        """Sends bytes as a message."""
        _check(_library().stripline_publisher_send(self._handle, message, ctypes.c_size_t(len(message)), None, None))


@contextlib.contextmanager
def c_publisher(topic: str) -> Iterator[CPublisher]:
    """Makes a publisher in a node of its own, in the domain of the environment."""
    node, publisher = _Pointer(), _Pointer()
    _check(_library().stripline_node_new(None, ctypes.byref(node), None))
    make = _library().stripline_message_publisher_new
    _check(make(node, topic.encode(), None, ctypes.byref(publisher), None))
    try:
        yield CPublisher(publisher)
    finally:
        _library().stripline_publisher_free(publisher)
        _library().stripline_node_free(node)

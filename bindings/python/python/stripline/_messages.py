"""Messages and their values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._types import Gap

_PLAIN = (bool, int, float, complex, str, bytes)


@dataclass(frozen=True)
class Message:
    """A received message."""

    value: Any
    """The value that was sent: dict, list, str, int, float, bool, None or bytes, and nested values
    of these types. A structure of Rust is a dict, a tuple is a list."""
    sequence: int
    """The number of the message among all messages of its sender, from 0."""
    gap: Gap | None
    """The gap just before the message; None if nothing is missing."""
    connection: str
    """The connection that the message arrived on, as `from -> to`."""


def _plain(value: Any) -> Any:
    """Returns a dataclass, or a numpy number, as a plain Python value; None for all other types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, np.generic):
        plain = value.item()
        return plain if type(plain) in _PLAIN else None
    return None

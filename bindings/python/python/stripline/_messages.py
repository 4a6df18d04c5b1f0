"""Messages, and what their values are made of."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._types import Gap

_PLAIN = (bool, int, float, complex, str, bytes)


@dataclass(frozen=True)
class Message:
    """A message that was received."""

    value: Any
    """What was sent: dict, list, str, int, float, bool, None or bytes, and these within each other.
    A structure of Rust is a dict, a tuple is a list."""
    sequence: int
    """Its number among those of its sender, from 0."""
    gap: Gap | None
    """What is missing just before it; None where nothing is."""
    connection: str
    """The connection that it arrived on, as `from -> to`."""


def _plain(value: Any) -> Any:
    """Returns a dataclass, or a number of numpy, as a value of Python; None for all others."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, np.generic):
        plain = value.item()
        return plain if type(plain) in _PLAIN else None
    return None

"""Messages and their values."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from ._types import Gap, StreamInfo

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

_PLAIN = (bool, int, float, complex, str, bytes)


@dataclass(frozen=True)
class Message(Generic[T]):
    """A received message."""

    value: T
    """The value: an instance of the dataclass that the subscriber was made with; or else dict,
    list, str, int, float, bool, None or bytes, and nested values of these types. A structure of
    Rust is a dict, a tuple is a list."""
    sequence: int
    """The number of the message among all messages of its sender, from 0."""
    gap: Gap | None
    """The gap just before the message; None if nothing is missing."""
    connection: str
    """The connection that the message arrived on, as `from -> to`."""
    time_ns: int = 0
    """The time that the sender has set, in nanoseconds since the Unix epoch; 0: unknown."""
    sample_index: int = 0
    """The sample index that the sender has set, by default the next number."""
    _stamps: Any = field(default=None, repr=False, compare=False)

    @property
    def stream(self) -> StreamInfo:
        """The description of the stream that the message belongs to."""
        if self._stamps is None:
            return StreamInfo()
        found: StreamInfo = self._stamps.stream()
        return found


def _plain(value: Any) -> Any:
    """Returns a dataclass, an Enum, or a numpy number, as a plain Python value; None for all other
    types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, enum.Enum):
        value = value.value
    else:
        return None
    return value if type(value) in _PLAIN else None

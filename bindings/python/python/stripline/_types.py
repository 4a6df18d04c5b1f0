"""Sample types, descriptions of streams, gaps, and options of topics."""

from __future__ import annotations

import json
import math
import numbers
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ._errors import UsageError
from ._stripline import _check_layout

_NAMES = {
    "u1": "u8", "u2": "u16", "u4": "u32", "u8": "u64",
    "i1": "s8", "i2": "s16", "i4": "s32", "i8": "s64",
    "f4": "f32", "f8": "f64", "c8": "cf32", "c16": "cf64",
}  # fmt: skip
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_METADATA = "stripline"


class SampleType:
    """The type of a topic's samples, with the name that both ends compare.

    `SampleType("cs16")` is a built-in type, and `SampleType("det{range_bin:u32,level_db:f32}")` is
    a type with a layout (docs/layouts.md). `SampleType("det", dtype)` gives a structured dtype its
    name. Padding, pointers, Python objects and text are refused. A dtype of plain numbers needs no
    name.
    """

    __slots__ = ("dtype", "layout")

    layout: str
    """The text that both ends compare."""
    dtype: np.dtype[Any]
    """The type for numpy. A pair of whole numbers has the fields `re` and `im`."""

    def __init__(self, name: str, dtype: npt.DTypeLike | None = None) -> None:
        if dtype is None:
            # The library checks the name. The reader below can read every name that it accepts.
            _check_layout(name)
            self.layout, self.dtype = name, _Reader(name).read()
            return
        found = np.dtype(dtype)
        if found.names is None:
            raise _refused(f"`{found}` has no fields; pass it without a name")
        layout = f"{name}{_fields(found, name)}"
        size, _ = _check_layout(layout)
        if size != found.itemsize:
            raise _refused(f"a sample of `{layout}` has {size} bytes, but {found.itemsize} in numpy")
        self.layout = layout
        self.dtype = np.dtype(found, metadata={_METADATA: layout})

    def __repr__(self) -> str:
        return f"stripline.SampleType({self.layout!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SampleType) and self.layout == other.layout

    def __hash__(self) -> int:
        return hash(self.layout)


def _refused(problem: str) -> UsageError:
    remedy = "Change the argument that the text names."
    return UsageError(problem, code="invalid-argument", remedy=remedy)


def _resolve(given: Any) -> tuple[str, np.dtype[Any]]:
    """Returns the layout and the dtype for the type of samples that a program gives."""
    if isinstance(given, SampleType):
        return given.layout, given.dtype
    # Stripline's names come before numpy's names, where "u8" has 8 bytes.
    if isinstance(given, str) and _is_own_name(given):
        return given, _Reader(given).read()
    try:
        dtype = np.dtype(given)
    except TypeError as error:
        raise _refused(f"{given!r} is neither a dtype nor a `SampleType`: {error}") from None
    return _text(dtype, str(dtype)), dtype


def _is_own_name(name: str) -> bool:
    """Returns whether a built-in type of the library has this name, as in a waveform file."""
    return name in _DTYPES or (name[:1] == "c" and name[1:] in _DTYPES)


def _text(dtype: np.dtype[Any], where: str) -> str:
    """Returns the layout of a dtype."""
    if dtype.metadata is not None and _METADATA in dtype.metadata:
        return str(dtype.metadata[_METADATA])
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return _text(base, where) + "".join(f"[{length}]" for length in shape)
    if dtype.hasobject:
        raise _refused(f"`{where}` has Python objects, which cannot leave their process")
    if dtype.names is not None:
        raise _refused(
            f"`{where}` is a structure without a name; give it one: stripline.SampleType(\"name\", dtype)"
        )
    if not dtype.isnative:
        raise _refused(f"`{where}` has swapped bytes; use dtype.newbyteorder(\"=\")")
    name = _NAMES.get(f"{dtype.kind}{dtype.itemsize}")
    if name is None:
        known = ", ".join(str(np.dtype(known)) for known in _NAMES)
        raise _refused(f"`{where}` of {dtype} is not a type of samples; use one of {known}, or fields of them")
    return name


def _fields(dtype: np.dtype[Any], where: str) -> str:
    """Returns the fields of a structure in the form of a layout. Each field begins at the
    end of the previous field."""
    parts, end = [], 0
    assert dtype.names is not None and dtype.fields is not None
    for name in dtype.names:
        kind, offset = dtype.fields[name][:2]
        if offset != end:
            raise _refused(
                f"`{where}` has padding before the field `{name}`, or fields over each other; "
                "add a field for it, or order the fields by their size"
            )
        end = offset + kind.itemsize
        text = _text(kind, f"{where}.{name}")
        # The lengths of arrays come after the base type.
        parts.append(f"{name}:{text}")
    if end != dtype.itemsize:
        raise _refused(f"`{where}` has padding at its end; add a field for it")
    return "{" + ",".join(parts) + "}"


class _Reader:
    """Reads a layout that the library has checked."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> np.dtype[Any]:
        start = self._at
        found = re.compile(r"[a-z0-9/.-]+").match(self._text, start)
        assert found is not None
        self._at = found.end()
        if self._next() != "{":
            return self._built_in(found.group())
        fields: list[Any] = []
        while self._next() in "{,":
            self._at += 1
            end = self._text.index(":", self._at)
            name, self._at = self._text[self._at : end], end + 1
            kind = self.read()
            shape = []
            while self._next() == "[":
                end = self._text.index("]", self._at)
                shape.append(int(self._text[self._at + 1 : end]))
                self._at = end + 1
            fields.append((name, kind, tuple(shape)) if shape else (name, kind))
        self._at += 1
        return np.dtype(np.dtype(fields), metadata={_METADATA: self._text[start : self._at]})

    def _next(self) -> str:
        return self._text[self._at : self._at + 1] or "end"

    @staticmethod
    def _built_in(name: str) -> np.dtype[Any]:
        if name in _DTYPES:
            return np.dtype(_DTYPES[name])
        part = _DTYPES[name[1:]]
        return np.dtype(np.dtype([("re", part), ("im", part)]), metadata={_METADATA: name})


@dataclass(frozen=True)
class Axis:
    """The meaning of a sample's place: `start` and a `step` for each place, in `unit`."""

    start: float
    step: float
    unit: str = ""


@dataclass(frozen=True)
class StreamClock:
    """The clock on which the times of a stream stand, and the error of that clock."""

    reference: Literal["host", "ptp", "pps", "gps", "device"]
    """The host's clock; a clock that follows PTP; a clock of the device that follows a pulse per
    second or GPS; a counter of the device that follows nothing."""
    error_ns: int | None = None
    """The largest difference between a time and UTC, in nanoseconds; None if it is unknown."""


@dataclass(frozen=True)
class StreamInfo:
    """The description of a stream (docs/wire.md)."""

    id: str = ""
    """The name of the stream."""
    sample_rate_hz: float | None = None
    """Samples a second, of all channels together."""
    center_frequency_hz: float | None = None
    """The frequency that 0 Hz of the samples corresponds to."""
    row_length: int | None = None
    """The number of samples in a row, if the samples are rows of a table."""
    axes: tuple[Axis, ...] = ()
    """The axis along a row, the axis from row to row, and the axis from frame to frame."""
    channels: tuple[str, ...] = ()
    """The names of the channels, which take turns: after each frame, row or sample."""
    keywords: Mapping[str, Any] = field(default_factory=dict)
    """Everything else, as values of JSON."""
    frame_rows: int | None = None
    """The number of rows in a frame, if the rows are frames: pulses × range."""
    clock: StreamClock | None = None
    """The clock on which the times of the packets stand."""

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """The shape of a frame as an array: channels, rows and samples of a row, as far as the
        stream has them."""
        sizes = (len(self.channels) or None, self.frame_rows, self.row_length)
        return tuple(size for size in sizes if size is not None)


_REALS = ("sample_rate_hz", "center_frequency_hz")
_COUNTS = ("row_length", "frame_rows")
_OPTIONAL = _REALS + _COUNTS
_COUNT_MAX = 2**32 - 1
_REFERENCES = ("host", "ptp", "pps", "gps", "device")
_ERROR_NS_MAX = 10**15


def _stream_to_json(stream: StreamInfo) -> str:
    if not isinstance(stream, StreamInfo):
        raise _refused(f"a stream is described by a `StreamInfo`, not by {type(stream).__name__}")
    _check_fields(stream)
    members: dict[str, Any] = {"id": stream.id, "keywords": dict(stream.keywords)}
    members |= {name: float(value) for name in _REALS if (value := getattr(stream, name)) is not None}
    members |= {name: int(value) for name in _COUNTS if (value := getattr(stream, name)) is not None}
    members["axes"] = [{"start": float(it.start), "step": float(it.step), "unit": it.unit} for it in stream.axes]
    members["channels"] = list(stream.channels)
    if stream.clock is not None:
        members["clock"] = {"reference": stream.clock.reference}
        if stream.clock.error_ns is not None:
            members["clock"]["error_ns"] = int(stream.clock.error_ns)
    try:
        return json.dumps(members, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _refused(f"the description of the stream has a value that is not one of JSON: {error}") from None


def _check_fields(stream: StreamInfo) -> None:
    """Checks the types and ranges of the fields. The library checks how the fields fit together."""

    def check(name: str, value: Any, is_right: bool, needed: str) -> None:
        if not is_right:
            raise _refused(f"`{name}` of the stream is {value!r}; it must be {needed}")

    check("id", stream.id, isinstance(stream.id, str), "text")
    for name in _REALS:
        value = getattr(stream, name)
        check(name, value, value is None or _is_finite(value), "a finite number, or None")
    for name in _COUNTS:
        value = getattr(stream, name)
        is_count = _is_number(value, numbers.Integral) and 1 <= value <= _COUNT_MAX
        check(name, value, value is None or is_count, f"a whole number from 1 to {_COUNT_MAX}, or None")
    for name, kind in (("axes", Axis), ("channels", str)):
        values = getattr(stream, name)
        is_list = isinstance(values, (tuple, list)) and all(isinstance(it, kind) for it in values)
        what = "`Axis`" if kind is Axis else "texts"
        check(name, values, is_list, f"a tuple of {what}")
    for index, axis in enumerate(stream.axes):
        for name in ("start", "step"):
            value = getattr(axis, name)
            check(f"axes[{index}].{name}", value, _is_finite(value), "a finite number")
        check(f"axes[{index}].unit", axis.unit, isinstance(axis.unit, str), "text")
    clock = stream.clock
    check("clock", clock, clock is None or isinstance(clock, StreamClock), "a `StreamClock`, or None")
    if clock is not None:
        words = _REFERENCES
        check("clock.reference", clock.reference, clock.reference in words, f"one of {', '.join(words)}")
        error = clock.error_ns
        is_right = error is None or (_is_number(error, numbers.Integral) and 0 <= error <= _ERROR_NS_MAX)
        check("clock.error_ns", error, is_right, f"0 to {_ERROR_NS_MAX}, or None")
    check("keywords", stream.keywords, isinstance(stream.keywords, Mapping), "a mapping")


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, (bool, np.bool_))


def _is_finite(value: Any) -> bool:
    try:
        return _is_number(value, numbers.Real) and math.isfinite(value)
    except OverflowError:
        return False


def _stream_from_json(text: str) -> StreamInfo:
    members = json.loads(text)
    clock = members.get("clock")
    return StreamInfo(
        id=members["id"],
        axes=tuple(Axis(**axis) for axis in members.get("axes", ())),
        channels=tuple(members.get("channels", ())),
        keywords=members.get("keywords", {}),
        clock=None if clock is None else StreamClock(**clock),
        **{name: members.get(name) for name in _OPTIONAL},
    )


@dataclass(frozen=True)
class Gap:
    """Packets that are missing."""

    reason: Literal["overflow", "peer-restart", "transport", "late"]
    """The cause: the receiver was slow, an end was restarted, or the transport lost packets."""
    first: int
    """The number of the first missing packet."""
    packets: int
    """The number of missing packets; 0 after a restart, because the number is unknown then."""
    samples: int
    """The number of missing samples; 0 if it is unknown. A message counts as one sample."""
    frames: int | None = None
    """The number of frames, or of rows without frames, that are missing as a whole; None if the
    stream has neither, or the number is unknown."""


@dataclass(frozen=True)
class Refusal:
    """A sender that a subscriber cannot be connected to."""

    connection: str
    """The connection that was not made, as `from -> to`."""
    sends: str
    """The type of the sender."""
    takes: str
    """The type of the subscriber."""
    reason: str
    """The whole reason."""


@dataclass(frozen=True)
class Age:
    """The age of a connection's samples: the time since they were taken, in nanoseconds.

    A negative age is of a time in the future.
    """

    samples: int
    """Measured packets."""
    last_ns: int
    """The age of the packet measured last."""
    max_ns: int
    """The largest age."""
    clock: StreamClock | None
    """The clock of the times, with its error."""


@dataclass(frozen=True)
class Connection:
    """The counters of a connection to a subscriber."""

    connection: str
    """The connection, as `from -> to`."""
    packets: int
    """Packets that the subscriber has taken."""
    bytes: int
    """The size of their samples, in bytes."""
    lost: int
    """Packets that were lost."""
    lost_samples: int
    """Samples that were lost, as far as they can be counted."""
    gaps: int
    """Losses of one or more packets in a row."""
    reordered: int
    """Packets that arrived out of order."""
    peer_deaths: int
    """Deaths of the sender."""
    age: Age | None = None
    """The age of the samples; None: no packet had a time."""


def _age(
    samples: int,
    last_ns: int,
    max_ns: int,
    reference: Literal["host", "ptp", "pps", "gps", "device"] | None,
    error_ns: int | None,
) -> Age:
    """Returns the age that the library has measured."""
    clock = None if reference is None else StreamClock(reference, error_ns)
    return Age(samples, last_ns, max_ns, clock)


def _topics_text(topics: Any) -> str | os.PathLike[str]:
    """Returns the text of a topics file, or the path of one."""
    if isinstance(topics, (str, os.PathLike)):
        return topics
    if not isinstance(topics, Mapping):
        kind = type(topics).__name__
        raise _refused(f"`topics` is a mapping, the text of a topics file, or its path, not {kind}")
    return "\n".join(f"{_key(name)} = {_value(value, str(name))}" for name, value in topics.items())


def _key(name: Any) -> str:
    if not isinstance(name, str):
        raise _refused(f"{name!r} is not a key of `topics`; keys are text")
    return json.dumps(name)


def _value(value: Any, where: str) -> str:
    if isinstance(value, Mapping):
        parts = (f"{_key(name)} = {_value(part, f'{where}.{name}')}" for name, part in value.items())
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(part, where) for part in value) + "]"
    if isinstance(value, (bool, int, str)):
        # The text is the same in JSON and TOML.
        return json.dumps(value)
    if isinstance(value, float):
        return repr(value)
    raise _refused(f"`{where}` of `topics` is {value!r}; it must be text, a number, a bool, or a table")

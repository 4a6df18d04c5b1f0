"""Ports, properties and self-tests of a component class, as attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt

from ._message_types import _resolve_messages
from ._messages import T as M
from ._types import SampleType, _refused, _resolve

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._stripline import (
        MessagePublisher,
        MessageSubscriber,
        Ports,
        Publisher,
        Subscriber,
        WindowedSubscriber,
    )

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_SHAPES = ("signal", "rows", "frames")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FLOAT_MAX = float(np.finfo(np.float64).max)
_INTEGER_MAX = 2**63 - 1
_STATE = "_stripline_state"
_SETTER = "_stripline_setter"
_TEST = "_stripline_test"


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise _refused(f"`{name}` is not a valid {what} name: use 1 to 64 letters, digits, `-` and `_`")


def _missing(attribute: str, when: str) -> AttributeError:
    return AttributeError(f"`{attribute}` is there {when}")


class _Declaration:
    """A declared item with a name, by default the name of its attribute."""

    _what = "part"

    def __init__(self, name: str | None, summary: str) -> None:
        self.name = name or ""
        self.summary = summary
        self._attribute = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self._attribute = self._attribute or attribute
        # For example `in_`, because `in` is a keyword.
        self.name = self.name or attribute.rstrip("_")


class _Port(_Declaration):
    _what = "port"
    _direction = ""

    def __init__(
        self,
        types: npt.DTypeLike | SampleType | Sequence[npt.DTypeLike | SampleType] | None,
        summary: str,
        name: str | None,
        same_as: str | None,
        type_property: str | None,
        optional: bool,
    ) -> None:
        super().__init__(name, summary)
        if sum(it is not None for it in (types, same_as, type_property)) > 1:
            raise _refused("two of `types`, `same_as` and `type_property` are set; set one of them")
        given: Sequence[Any] = types if isinstance(types, list) else [] if types is None else [types]
        if isinstance(types, list) and not types:
            raise _refused("the list of a port's types is empty; leave it out for any type")
        # The keys are the texts of the types, which both ends compare. The values are the dtypes
        # that the program declared, so the samples have those dtypes.
        self.types: dict[str, Any] = {}
        for one in given:
            layout, dtype = _resolve(one)
            self.types[layout] = one if isinstance(one, SampleType) else dtype
        self.same_as = same_as
        self.type_property = type_property
        self.optional = optional
        self.many_writers = False
        self.shape: Literal["signal", "rows", "frames"] | None = None

    def _spec(self) -> dict[str, Any]:
        types: Any = "any"
        if self.types:
            types = {"one-of": list(self.types)}
        elif self.same_as is not None:
            types = {"same-as": self.same_as}
        elif self.type_property is not None:
            types = {"property": self.type_property}
        spec = {
            "name": self.name,
            "direction": self._direction,
            "types": types,
            "mandatory": not self.optional,
            "many_writers": self.many_writers,
            "summary": self.summary,
        }
        return spec if self.shape is None else {**spec, "shape": self.shape}

    def _set_shape(self, shape: Literal["signal", "rows", "frames"] | None) -> None:
        if shape is not None and shape not in _SHAPES:
            raise _refused(f"`shape` of a port is {shape!r}; it must be one of {', '.join(_SHAPES)}, or None")
        self.shape = shape

    def _samples(self, text: str | None) -> Any:
        """Returns the type of the samples in a waveform, from the text of the type."""
        if text is None:
            # The port is not connected. Nothing passes through it, so any type is right.
            return next(iter(self.types.values()), np.uint8)
        if text.startswith("message/"):
            raise _refused(f"port `{self.name}` has messages, `{text}`: declare it by `message_input_port`")
        return self.types[text] if text in self.types else SampleType(text)

    def _open(self, link: Ports) -> object:
        """Opens the port for a component that begins to run."""
        raise NotImplementedError

    def _get(self, instance: Any) -> Any:
        state = instance.__dict__.get(_STATE)
        found = None if state is None else state.ports.get(self.name)
        if found is None:
            raise _missing(self._attribute, "in `run`, from its beginning to its end")
        return found

    def __set__(self, instance: Any, value: Any) -> None:
        raise AttributeError(f"`{self._attribute}` is a port, and cannot be set")


class InputPort(_Port):
    """An input of a component, made by `input_port`. In `run`, the attribute is a `Subscriber`."""

    _direction = "input"
    hold = 4
    copy = False

    def _open(self, link: Ports) -> object:
        return link._input(self.name, self._samples(link.type(self.name)), self.hold, self.copy)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Any, owner: type) -> Subscriber: ...
    def __get__(self, instance: Any, owner: type) -> Self | Subscriber:
        return self if instance is None else self._get(instance)


class OutputPort(_Port):
    """An output of a component, made by `output_port`. In `run`, the attribute is a `Publisher`."""

    _direction = "output"

    def _open(self, link: Ports) -> object:
        return link._output(self.name, self._samples(link.type(self.name)))

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Any, owner: type) -> Publisher: ...
    def __get__(self, instance: Any, owner: type) -> Self | Publisher:
        return self if instance is None else self._get(instance)


class WindowedInputPort(_Port):
    """An input of a component, made by `windowed_input_port`. In `run`, the attribute is a
    `WindowedSubscriber`."""

    _direction = "input"
    hold = 4

    def _open(self, link: Ports) -> object:
        return link._windowed_input(self.name, self._samples(link.type(self.name)), self.hold)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Any, owner: type) -> WindowedSubscriber: ...
    def __get__(self, instance: Any, owner: type) -> Self | WindowedSubscriber:
        return self if instance is None else self._get(instance)


class _MessagePort(_Port, Generic[M]):
    def __init__(self, messages: type[M] | str, summary: str, name: str | None, optional: bool) -> None:
        super().__init__(None, summary, name, None, None, optional)
        text, _ = _resolve_messages(messages)
        if not text.startswith("message/"):
            raise _refused(f"`{text}` is not a type of messages; write it as `message/tune{{hz:f64}}`")
        self.messages = messages
        self.types = {text: text}


class MessageInputPort(_MessagePort[M]):
    """An input of a component, made by `message_input_port`. In `run`, the attribute is a
    `MessageSubscriber`."""

    _direction = "input"

    def _open(self, link: Ports) -> object:
        return link._message_input(self.name, self.messages)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Any, owner: type) -> MessageSubscriber[M]: ...
    def __get__(self, instance: Any, owner: type) -> Self | MessageSubscriber[M]:
        return self if instance is None else self._get(instance)


class MessageOutputPort(_MessagePort[M]):
    """An output of a component, made by `message_output_port`. In `run`, the attribute is a
    `MessagePublisher`."""

    _direction = "output"

    def _open(self, link: Ports) -> object:
        return link._message_output(self.name, self.messages)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Any, owner: type) -> MessagePublisher[M]: ...
    def __get__(self, instance: Any, owner: type) -> Self | MessagePublisher[M]:
        return self if instance is None else self._get(instance)


def message_input_port(
    messages: type[M] | str = "message/cbor",
    summary: str = "",
    *,
    name: str | None = None,
    optional: bool = False,
    many_writers: bool = False,
) -> MessageInputPort[M]:
    """Declares an input of messages, as `input_port` declares an input of samples.

    `messages` is the same as for `Node.message_subscriber`: a dataclass, a TypedDict, or a text. In
    `run`, the attribute is a `MessageSubscriber`.
    """
    port = MessageInputPort(messages, summary, name, optional)
    port.many_writers = many_writers
    return port


def message_output_port(
    messages: type[M] | str = "message/cbor",
    summary: str = "",
    *,
    name: str | None = None,
    optional: bool = False,
) -> MessageOutputPort[M]:
    """Declares an output of messages, as `message_input_port` declares an input of messages.

    In `run`, the attribute is a `MessagePublisher`, which checks each message.
    """
    return MessageOutputPort(messages, summary, name, optional)


def windowed_input_port(
    types: npt.DTypeLike | SampleType | list[Any] | None = None,
    summary: str = "",
    *,
    name: str | None = None,
    same_as: str | None = None,
    type_property: str | None = None,
    optional: bool = False,
    many_writers: bool = False,
    shape: Literal["signal", "rows", "frames"] | None = None,
    hold: int = 4,
) -> WindowedInputPort:
    """Declares an input that is received in windows of any length, like `input_port`.

    In `run`, the attribute is a `WindowedSubscriber`.
    """
    port = WindowedInputPort(types, summary, name, same_as, type_property, optional)
    port.many_writers, port.hold = many_writers, hold
    port._set_shape(shape)
    return port


def input_port(
    types: npt.DTypeLike | SampleType | list[Any] | None = None,
    summary: str = "",
    *,
    name: str | None = None,
    same_as: str | None = None,
    type_property: str | None = None,
    optional: bool = False,
    many_writers: bool = False,
    shape: Literal["signal", "rows", "frames"] | None = None,
    hold: int = 4,
    copy: bool = False,
) -> InputPort:
    """Declares an input of a component class.

    `types` is a dtype, a `SampleType`, or a list of dtypes and `SampleType`s. Without `types`, the
    port takes any type that has a layout. With `same_as`, the port has the type of the input with
    this name. With `type_property`, the type is the value of the text or choice property with this
    name.

    The name of the port is `name`, or else the name of the attribute without `_` at the end. A
    waveform may leave an `optional` port unconnected. With `many_writers`, the port takes packets
    of any number of senders. `shape` is the shape of the streams that the port takes: `signal` in
    time, `rows`, or `frames` of rows; by default any shape. A receive raises a `UsageError` when a
    stream of another shape arrives. `hold` and `copy` are the same as for `Node.subscriber`.

    In `run`, the attribute is a `Subscriber`. If the port is not connected, it receives the end of
    the stream at once.
    """
    port = InputPort(types, summary, name, same_as, type_property, optional)
    port.many_writers, port.hold, port.copy = many_writers, hold, copy
    port._set_shape(shape)
    return port


def output_port(
    types: npt.DTypeLike | SampleType | list[Any] | None = None,
    summary: str = "",
    *,
    name: str | None = None,
    same_as: str | None = None,
    type_property: str | None = None,
    optional: bool = False,
) -> OutputPort:
    """Declares an output of a component class, as `input_port` declares an input.

    In `run`, the attribute is a `Publisher`. The stream ends when `run` returns, unless `run`
    fails. Packets sent to an output that is not connected are discarded.
    """
    return OutputPort(types, summary, name, same_as, type_property, optional)


class Property(_Declaration, Generic[T]):
    """A property of a component, made by `float_property` and similar functions. In a component,
    the attribute is the value in effect."""

    _what = "property"

    def __init__(
        self,
        kind: dict[str, Any] | str,
        default: Any,
        summary: str,
        name: str | None,
        unit: str,
        changeable: bool,
        read_only: bool,
    ) -> None:
        super().__init__(name, summary)
        if not isinstance(summary, str):
            raise _refused(
                f"the summary of a property is a text, not {type(summary).__name__}; `range`, `choices` and further "
                "arguments come behind it, by name"
            )
        self.kind = kind
        self.default = default
        self.unit = unit
        if changeable and read_only:
            raise _refused("a property is set by users or by its component: `changeable` or `read_only`")
        if read_only and default is None:
            raise _refused("a property that is read-only needs a default, which it has until it is set")
        self.access = "changeable" if changeable else "read-only" if read_only else "fixed"
        self._setter: Callable[[Any, T], object] | None = None

    def setter(self, function: F) -> F:
        """Makes a method the setter for new values while the component runs.

        The method gets a value that conforms to the declaration, and that the class's `validate`
        has accepted, and returns once the value is in effect. The attribute has the new value while
        the method runs, and so have all properties that change together. If the method raises an
        exception, the attributes get the old values back, and the exception's message is the reason
        of the refusal. The name of the method must differ from the name of the property: for
        example, `set_factor`. The method is not called for the first value.
        """
        self._setter = function
        setattr(function, _SETTER, self)
        return function

    def _spec(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "default": self.default,
            "unit": self.unit,
            "summary": self.summary,
            "access": self.access,
        }

    def _value(self, value: Any) -> Any:
        """Returns a value in the type that the class uses."""
        if self.kind == "path":
            return Path(value) if value else None
        return value

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Any, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> Self | T:
        if instance is None:
            return self
        state = instance.__dict__.get(_STATE)
        if state is None or self.name not in state.values:
            raise _missing(self._attribute, "in a component that a waveform or a harness has made")
        found: T = state.values[self.name]
        return found

    def __set__(self, instance: Any, value: T) -> None:
        if self.access != "read-only":
            raise AttributeError(
                f"`{self._attribute}` is set by the waveform and its users; declare it `read_only` to set it"
            )
        state = instance.__dict__.get(_STATE)
        if state is None:
            raise _missing(self._attribute, "in a component that a waveform or a harness has made")
        readout = state.readouts.get(self.name)
        if readout is not None:
            readout.set(value)
        state.values[self.name] = value


def float_property(
    default: float | None,
    summary: str,
    *,
    range: tuple[float, float] | None = None,
    unit: str = "",
    changeable: bool = False,
    read_only: bool = False,
    name: str | None = None,
) -> Property[float]:
    """Declares a real number as a property of a component class.

    With a `default` of None, the waveform must set the property. `range` includes both limits.
    Users may change a `changeable` property while the component runs. Only the component sets a
    `read_only` property: it assigns a value to the attribute. A value out of range is shown as
    unknown. `unit` is only shown to users.
    """
    lowest, highest = (-_FLOAT_MAX, _FLOAT_MAX) if range is None else (float(range[0]), float(range[1]))
    if not -_FLOAT_MAX <= lowest <= highest <= _FLOAT_MAX:
        raise _refused(f"the range from {lowest} to {highest} has no number in it")
    kind = {"float": {"min": lowest, "max": highest}}
    value = None if default is None else float(default)
    return Property(kind, value, summary, name, unit, changeable, read_only)


def integer_property(
    default: int | None,
    summary: str,
    *,
    range: tuple[int, int] | None = None,
    unit: str = "",
    changeable: bool = False,
    read_only: bool = False,
    name: str | None = None,
) -> Property[int]:
    """Declares a property that is a whole number, like `float_property`."""
    lowest, highest = (-_INTEGER_MAX - 1, _INTEGER_MAX) if range is None else (int(range[0]), int(range[1]))
    if not -_INTEGER_MAX - 1 <= lowest <= highest <= _INTEGER_MAX:
        raise _refused(f"the range from {lowest} to {highest} has no number of 64 bits in it")
    kind = {"integer": {"min": lowest, "max": highest}}
    if isinstance(default, np.integer):
        default = int(default)
    return Property(kind, default, summary, name, unit, changeable, read_only)


def boolean_property(
    default: bool | None,
    summary: str,
    *,
    changeable: bool = False,
    read_only: bool = False,
    name: str | None = None,
) -> Property[bool]:
    """Declares a boolean property, like `float_property`."""
    return Property("boolean", default, summary, name, "", changeable, read_only)


def text_property(
    default: str | None,
    summary: str,
    *,
    changeable: bool = False,
    read_only: bool = False,
    name: str | None = None,
) -> Property[str]:
    """Declares a text property, like `float_property`."""
    return Property("text", default, summary, name, "", changeable, read_only)


def choice_property(
    default: str | None,
    summary: str,
    choices: Sequence[str],
    *,
    changeable: bool = False,
    read_only: bool = False,
    name: str | None = None,
) -> Property[str]:
    """Declares a property that is one of several words, `choices`, like `float_property`."""
    words = [choices] if isinstance(choices, str) else list(choices)
    if not words or not all(isinstance(word, str) and word for word in words):
        raise _refused("the choices are words: a sequence of texts that are not empty")
    return Property({"choice": {"choices": words}}, default, summary, name, "", changeable, read_only)


def path_property(
    summary: str, *, required: bool = False, changeable: bool = False, name: str | None = None
) -> Property[Path | None]:
    """Declares a path, relative to the waveform file. The value None means that no path is set.

    With `required`, the waveform must set the property. The other arguments are the same as for
    `float_property`.
    """
    return Property("path", None if required else "", summary, name, "", changeable, False)


@dataclass(frozen=True)
class TestResult:
    """The result of a self-test."""

    __test__ = False
    """Keeps pytest from collecting this class as a test."""

    passed: bool
    """Whether the test passed."""
    text: str = ""
    """A line of text for users."""
    value: float | None = None
    """The measured value."""


def self_test(summary: str, *, name: str | None = None) -> Callable[[F], F]:
    """Makes a method a self-test. Users run it by `stripline test` while the component runs.

    The method returns a `TestResult`, or None if it has passed. An exception is a failure, and its
    message is the reason.
    """

    def declare(function: F) -> F:
        setattr(function, _TEST, (name or function.__name__, summary))
        return function

    return declare

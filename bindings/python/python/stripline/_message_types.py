"""Schemas of message classes, and the functions that make their instances from received values."""

from __future__ import annotations

import dataclasses
import enum
import re
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union

import numpy as np

from ._errors import UsageError
from ._types import _NAMES, _refused

# A function from the plain value of CBOR to the value of a type; None: the value itself.
_Make = Callable[[Any], Any] | None
_Form = tuple[str, _Make]

_PLAIN: dict[Any, str] = {
    bool: "bool", int: "s64", float: "f64", str: "text", bytes: "bytes", None: "null", type(None): "null",
    Any: "any", np.bool_: "bool",
}  # fmt: skip
_NUMBERS = frozenset(_NAMES.values())
_CLASS_NAME = re.compile(r"[a-z0-9./-]{1,56}")
_MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
# By name, because older versions of Python have them in typing_extensions.
_WRAPPERS = {"Required": True, "NotRequired": False, "ReadOnly": None}
_LISTS = "NDArray[np.float32], list[float], tuple[float, float], dict[str, float]"


def _resolve_messages(given: Any) -> tuple[str, _Make]:
    """Returns the text of a message type, and the function for received values.

    `given` is the text, or a message class.
    """
    if isinstance(given, str):
        return given, None
    if not _is_class(given):
        raise _refused(
            f"{given!r} is not a type of messages; use a dataclass, a TypedDict, or a text as `message/tune{{hz:f64}}`"
        )
    text, make = _structure(given, "", ())
    return f"message/{text}", make


def _is_typed_dict(given: Any) -> bool:
    return isinstance(given, type) and issubclass(given, dict) and hasattr(given, "__required_keys__")


def _is_class(given: Any) -> bool:
    return isinstance(given, type) and (dataclasses.is_dataclass(given) or _is_typed_dict(given))


def _class_name(cls: Any) -> str:
    """Returns the name of a class in schemas, as the derive in Rust makes it."""
    name: str = vars(cls).get("__message_name__", cls.__name__.lower())
    if not _CLASS_NAME.fullmatch(name) or name in _NUMBERS or name in _PLAIN.values():
        raise _refused(
            f"`{name}` is not a name of messages; give `{cls.__name__}` another by `__message_name__`: 1 to 56 of "
            "a-z, 0-9, `-`, `/` and `.`"
        )
    return name


def _structure(cls: Any, where: str, outer: tuple[Any, ...]) -> _Form:
    name = _class_name(cls)
    where = where or name
    if cls in outer:
        raise _at(where, f"`{cls.__name__}` contains itself; use Any where it goes on")
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except Exception as error:
        raise _at(where, f"the types of `{cls.__name__}` are not found: {error}") from None
    is_dict = _is_typed_dict(cls)
    if is_dict:
        names = list(hints)
    else:
        names = [field.name for field in dataclasses.fields(cls)]
        for field in dataclasses.fields(cls):
            if not field.init:
                raise _at(f"{where}.{field.name}", "the field has `init=False`, so a received value has no place")
    texts: list[str] = []
    makes: list[tuple[str, Callable[[Any], Any]]] = []
    for member in names:
        place = f"{where}.{member}"
        if not _MEMBER.fullmatch(member):
            raise _at(place, "a name has at most 64 of a-z, A-Z, 0-9 and `_`")
        hint, is_required = _unwrapped(hints[member], member in getattr(cls, "__required_keys__", ()))
        text, make = _form(hint, place, (*outer, cls))
        texts.append(f"{member}{'?' if is_dict and not is_required else ''}:{text}")
        if make is not None:
            makes.append((member, make))

    def made(value: Any) -> Any:
        for member, make in makes:
            if member in value:
                value[member] = make(value[member])
        return value if is_dict else cls(**value)

    is_plain = is_dict and not makes
    return f"{name}{{{','.join(texts)}}}", None if is_plain else made


def _unwrapped(hint: Any, is_required: bool) -> tuple[Any, bool]:
    """Removes `Required`, `NotRequired` and `ReadOnly` around the type of a key."""
    while (wrapper := getattr(typing.get_origin(hint), "_name", None)) in _WRAPPERS:
        found = _WRAPPERS[wrapper]
        is_required = is_required if found is None else found
        hint = typing.get_args(hint)[0]
    return hint, is_required


def _at(where: str, problem: str) -> UsageError:
    return _refused(f"`{where}`: {problem}")


def _number(given: Any) -> str | None:
    """Returns the kind of a number, from a type of numpy or a name as `u8`."""
    if isinstance(given, str):
        return given if given in _NUMBERS and not given.startswith("c") else None
    if isinstance(given, type) and issubclass(given, np.number):
        dtype = np.dtype(given)
        name = _NAMES.get(f"{dtype.kind}{dtype.itemsize}")
        return None if name is None or name.startswith("c") else name
    return None


def _form(hint: Any, where: str, outer: tuple[Any, ...]) -> _Form:
    """Returns the schema of a type, and the function that makes its values."""
    while hasattr(hint, "__supertype__"):
        # A `NewType` is the type itself at run time.
        hint = hint.__supertype__
    try:
        plain = _PLAIN.get(hint)
    except TypeError:
        plain = None
    if plain is not None:
        return plain, None
    if hint is complex or (isinstance(hint, type) and issubclass(hint, np.complexfloating)):
        part = "f32" if hint is np.complex64 else "f64"
        return f"({part},{part})", lambda pair: hint(complex(*pair))
    number = None if isinstance(hint, str) else _number(hint)
    if number is not None:
        return number, hint
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _choice(_class_name(hint), [it.value for it in hint], where), hint
    if _is_class(hint):
        return _structure(hint, where, outer)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _annotated(hint, where, outer)
    if origin is Literal:
        name = where.rsplit(".", 1)[-1].rstrip("[]").lower().replace("_", "-")
        return _choice(name, list(arguments), where), None
    if origin in (Union, types.UnionType):
        others = [it for it in arguments if it is not type(None)]
        if len(others) != 1 or len(others) == len(arguments):
            raise _at(where, f"{hint} has no form in a schema; a union is of one type and None")
        text, make = _form(others[0], where, outer)
        return text + "?", None if make is None else _optional(make)
    if origin is list or (origin is tuple and len(arguments) == 2 and arguments[1] is ...):
        text, make = _form(arguments[0], f"{where}[]", outer)
        of = origin
        if make is None:
            return f"{text}[]", None if of is list else tuple
        return f"{text}[]", lambda items: of(make(item) for item in items)
    if origin is tuple and arguments:
        forms = [_form(it, f"{where}[{index}]", outer) for index, it in enumerate(arguments)]
        texts = ",".join(text for text, _ in forms)
        return f"({texts})", lambda items: tuple(
            item if make is None else make(item) for item, (_, make) in zip(items, forms)
        )
    if origin is np.ndarray and len(arguments) == 2:
        return _array(arguments[0], typing.get_args(arguments[1]), where, outer)
    if origin is dict and arguments[0] is str:
        text, make = _form(arguments[1], f"{where}[]", outer)
        of_map = None if make is None else (lambda items: {key: make(item) for key, item in items.items()})
        return f"{{text:{text}}}", of_map
    named = hint.__name__ if isinstance(hint, type) and origin is None else hint
    raise _at(
        where,
        f"`{named}` has no form in a schema; use bool, int, float, complex, str, bytes, a number of numpy, {_LISTS}, "
        "`X | None`, Literal or Enum of texts, Any, or another dataclass or TypedDict",
    )


def _array(shape: Any, kinds: tuple[Any, ...], where: str, outer: tuple[Any, ...]) -> _Form:
    """Returns the form of an array: lists of numbers, nested for each dimension."""
    kind = kinds[0] if kinds else None
    if not (isinstance(kind, type) and issubclass(kind, (np.number, np.bool_))):
        raise _at(where, "the array has no type of numbers; write it as NDArray[np.float32]")
    text, _ = _form(kind, f"{where}[]", outer)
    lengths = typing.get_args(shape)
    if not lengths or ... in lengths:
        # `NDArray` leaves the number of dimensions open, and a schema does not.
        lengths = (int,)
    for length in reversed(lengths):
        fixed = typing.get_args(length) if typing.get_origin(length) is Literal else ("",)
        if not (length in (int, Any) or (len(fixed) == 1 and type(fixed[0]) is int)):
            raise _at(where, f"`{length}` is not a length of an array; use int or Literal[16]")
        text += f"[{fixed[0]}]"
    part, dimensions = np.zeros(0, kind).real.dtype, len(lengths)

    def made(items: Any) -> Any:
        array = np.array(items, part)
        if array.size == 0:
            return np.zeros((array.shape + (0,) * dimensions)[:dimensions], kind)
        return array if part == kind else array.view(kind)[..., 0]

    return text, made


def _optional(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else make(value)


def _annotated(hint: Any, where: str, outer: tuple[Any, ...]) -> _Form:
    base, *notes = typing.get_args(hint)
    number = next((found for found in map(_number, notes) if found is not None), None)
    if number is None:
        return _form(base, where, outer)
    if base not in (int, float) or (base is float) != number.startswith("f"):
        raise _at(where, f"`{number}` is not a kind of {getattr(base, '__name__', base)}")
    return number, None


def _choice(name: str, values: list[Any], where: str) -> str:
    if name in _NUMBERS or name in _PLAIN.values():
        raise _at(where, f"choices cannot have the name `{name}`; use an Enum of texts with another name")
    for value in values:
        if not (isinstance(value, str) and _MEMBER.fullmatch(value)):
            raise _at(where, f"the choice {value!r} is not a text of letters, digits, `_` and `-`")
    return f"{name}<{'|'.join(values)}>"

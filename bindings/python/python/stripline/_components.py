"""Components: classes that run in waveforms."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from . import _stripline
from ._declare import (
    _SETTER,
    _STATE,
    _TEST,
    InputPort,
    OutputPort,
    Property,
    TestResult,
    _check_name,
    _Declaration,
    _Port,
)
from ._errors import Error, StoppedError, UsageError
from ._types import _refused

# The launcher's variables for this process. Programs that a component starts must not get them.
_VARIABLES = ("STRIPLINE_CONTROL_FD", "STRIPLINE_LAUNCHER_PID")
# Errors that are meant for users: their message is enough.
_PLAIN = (Error, ValueError, RuntimeError, OSError, AssertionError)
# The subset of these errors that are mistakes of the program.
_MISTAKES = (RecursionError, NotImplementedError)
# The ports of a handler.
_HANDLED = (InputPort, OutputPort)
# Attributes of every component.
_OWN = ("ports", "run", "handle", "change", "validate")


class Component:
    """A component: a class with ports, properties and self-tests as its attributes.

    The name in waveform files is the name of the class in small letters, `FmRadio` as `fm-radio`,
    unless `class FmRadio(Component, name=...)` sets another. The first line of the docstring
    describes the component.

    A component has `run(self)`, which returns at the end of its input or when it has finished, and
    then ends its output streams. If `run` raises an exception, the component has failed, and the
    streams have no end. `StoppedError` is a clean end: the ports raise it when the component must
    stop. Alternatively, a component has `handle(self, packet)`, which returns an array for each
    packet, or None; the waveform selects the threads that run it.

    Properties have their values already in `__init__`, which takes no arguments. Setters and
    self-tests run on the thread of `run`, while it receives. A class with `change(self,
    properties)` takes all new values at once, in place of setters. The attributes have the new
    values while a setter or `change` runs, so one method may compute from them in `__init__` and in
    `change`. A static `validate(properties)` checks the properties together: before any part of a
    waveform starts, and before each change. `change` and `validate` get all values by name. An
    exception refuses the values, and the properties keep, or get back, the old values.
    """

    _stripline_name: str | None = None

    def __init_subclass__(cls, *, name: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._stripline_name = name
        for attribute in vars(cls):
            if attribute in _OWN and isinstance(vars(cls)[attribute], _Declaration):
                kind = "an attribute" if attribute == "ports" else "a method"
                raise _refused(
                    f"`{cls.__name__}.{attribute}`: `{attribute}` is {kind} that every component may have; give the "
                    "attribute another name, and set `name`"
                )

    @property
    def ports(self) -> _stripline.Ports:
        """The ports and other facts about the waveform, in `run` and in `handle`."""
        state = self.__dict__.get(_STATE)
        if state is None or state.link is None:
            raise AttributeError("`ports` is there in `run`, from its beginning to its end")
        found: _stripline.Ports = state.link
        return found

    # Hidden from type checkers, for which every attribute would exist.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or hasattr(type(self), name):
                # Raises the error of the attribute itself.
                return object.__getattribute__(self, name)
            known = [it for it in dir(self) if not it.startswith("_")]
            remedy = _stripline._did_you_mean(name, known, "it has")
            # Without `obj`, Python adds no suggestion of its own.
            text = f"`{type(self).__name__}` has no attribute `{name}`; {remedy}"
            raise AttributeError(text, name=name, obj=None)


class _State:
    """The part of an instance that the library provides."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.link: _stripline.Ports | None = None
        self.ports: dict[str, Any] = {}
        self.readouts: dict[str, _stripline._Readout] = {}


class _Record(list[BaseException]):
    """The exceptions that a component in a harness has raised."""

    def __init__(self) -> None:
        super().__init__()
        # Set once the read-only properties have the values of `__init__`, or the component failed.
        self.has_values = threading.Event()


def _declared(cls: type[Component]) -> dict[str, _Declaration]:
    """Returns ports and properties by attribute. Attributes of base classes come first."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        found |= vars(base)
    return {key: it for key, it in found.items() if isinstance(it, _Declaration)}


def _properties(cls: type[Component]) -> dict[str, Property[Any]]:
    return {it.name: it for it in _declared(cls).values() if isinstance(it, Property)}


def _tests(cls: type[Component]) -> dict[str, tuple[str, str]]:
    """Returns the self-tests by name: their summaries and methods."""
    found: dict[str, tuple[str, str]] = {}
    for base in reversed(cls.__mro__):
        for attribute, function in vars(base).items():
            if declared := getattr(function, _TEST, None):
                found[declared[0]] = (declared[1], attribute)
    return found


def _name(cls: type[Component]) -> str:
    if cls._stripline_name is not None:
        return cls._stripline_name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()


def _spec(cls: Any) -> str:
    """Returns the specification of a class as JSON, and checks it."""
    if not (isinstance(cls, type) and issubclass(cls, Component)):
        raise _refused(f"{cls!r} is not a class of a component; derive one from `stripline.Component`")
    name = _name(cls)
    _check_name("component", name)
    declared = list(_declared(cls).values())
    tests = _tests(cls)
    for what, names in [
        ("port", [it.name for it in declared if isinstance(it, _Port)]),
        ("property", [it.name for it in declared if isinstance(it, Property)]),
        ("self-test", list(tests)),
    ]:
        for one in names:
            _check_name(what, one)
            if names.count(one) > 1:
                raise _refused(f"component `{name}` has two of the name `{one}`; give one another `name`")
    _check_functions(cls, name, declared)
    summary = (cls.__doc__ or "").strip().split("\n\n")[0]
    handles = hasattr(cls, "handle")
    spec = {
        "name": name,
        "summary": " ".join(summary.split()),
        "ports": [it._spec() for it in declared if isinstance(it, _Port)],
        "properties": [it._spec() for it in declared if isinstance(it, Property)],
        "tests": [{"name": one, "summary": test[0]} for one, test in tests.items()],
        "any_dispatch": handles,
        "validates": hasattr(cls, "validate"),
    }
    try:
        return json.dumps(spec, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _refused(f"component `{name}` has a default that is not a value of a property: {error}") from None


def _check_functions(cls: type[Component], name: str, declared: Sequence[_Declaration]) -> None:
    """Checks that every declared item has a function."""

    def refused(problem: str) -> UsageError:
        return _refused(f"component `{name}` {problem}")

    runs, handles = hasattr(cls, "run"), hasattr(cls, "handle")
    if not runs and not handles:
        raise refused("has no method that runs it: give it `run` or `handle`")
    if runs and handles:
        raise refused("has both `run` and `handle`; give it one of them")
    inputs = sum(isinstance(it, _Port) and it._direction == "input" for it in declared)
    outputs = sum(isinstance(it, _Port) and it._direction == "output" for it in declared)
    if handles and any(isinstance(it, _Port) and not isinstance(it, _HANDLED) for it in declared):
        raise refused("has a port of messages or windows, which only `run` can use, not `handle`")
    if handles and (inputs != 1 or outputs > 1):
        raise refused(
            f"has {inputs} inputs and {outputs} outputs; with `handle` it has one input and at most one output"
        )
    for base in cls.__mro__:
        for attribute, function in vars(base).items():
            declared_property = getattr(function, _SETTER, None)
            if declared_property is None:
                continue
            if declared_property not in declared:
                raise refused(f"has a setter `{attribute}` that hides its property; name it `set_{attribute}`")
            if declared_property.access != "changeable":
                raise refused(f"has a setter for `{declared_property.name}`, which is not `changeable`")
            if hasattr(cls, "change"):
                raise refused("has setters and `change`, which takes all values at once; use one of them")


def _check_names(described: Sequence[tuple[Any, str]]) -> None:
    names = [_name(cls) for cls, _ in described]
    for name in names:
        if names.count(name) > 1:
            raise _refused(f"two components are named `{name}`; give one another `name`")


def main(*components: type[Component], args: Sequence[str] | None = None) -> NoReturn:
    """Runs component classes as the `main` of a script that a waveform names by `exec`.

    The function follows a launcher, prints the specifications (`--describe`), checks properties
    (`--check`), or prints the usage. `args` are the arguments after the script's name; by default,
    the arguments of the program. Call it on the main thread, below `if __name__ == "__main__"`.
    Print earlier output of the script on standard error.

    The function ends the program with the exit code 0, 1 for a failure, or 2 for wrong arguments.
    Ctrl-C reaches the launcher, which stops the components in order. A signal to the script alone
    ends it at once, unless the script has a handler of its own, which runs on the main thread.
    """
    if not components:
        raise _refused("`main` needs a class of a component")
    try:
        described = [(cls, _spec(cls)) for cls in components]
        _check_names(described)
    except UsageError as error:
        # The launcher shows the last line.
        sys.exit(f"error: {error}")
    on_main_thread = threading.current_thread() is threading.main_thread()
    if on_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Python's own handler would wait for the end of the waveform.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    arguments = list(sys.argv[1:] if args is None else args)
    if _VARIABLES[0] not in os.environ and arguments[:1] not in (["--describe"], ["--check"]):
        print(_usage(components), file=sys.stderr)
        raise SystemExit(2)
    _log_to_launcher()
    sys.stdout.flush()
    code, raised, has_ended = [1], list[BaseException](), threading.Event()

    def host() -> None:
        try:
            code[0] = _stripline._main(described, arguments)
        except BaseException as error:
            raised.append(error)
        finally:
            has_ended.set()

    threading.Thread(target=host, name="stripline-host", daemon=True).start()
    # The program's own signal handlers run on this thread.
    has_ended.wait()
    # The program ends with this thread, and would cut off what the other thread prints.
    for failure in raised:
        if isinstance(failure, UsageError):
            sys.exit(f"error: {failure}")
        raise failure
    raise SystemExit(code[0])


def _usage(components: Sequence[type[Component]]) -> str:
    name = _name(components[0])
    kind = "" if len(components) == 1 else f'    type = "{name}"\n'
    names = ", ".join(f"`{_name(cls)}`" for cls in components)
    return (
        f"This script has the components of a waveform: {names}. `stripline run FILE` starts it, with this in "
        f'FILE:\n\n    [component.{name}]\n    exec = ["python3", "{sys.argv[0]}"]\n{kind}\n'
        "`--describe` prints ports and properties as JSON; `--check` reads properties as JSON and prints their "
        "mistakes."
    )


class _LineForLauncher(logging.Formatter):
    """A formatter for records on standard error that the launcher reads."""

    def format(self, record: logging.LogRecord) -> str:
        level = "warn" if record.levelno == logging.WARNING else record.levelname.lower()
        return f"stripline[{level} {record.name.replace('.', '::')}]: {record.getMessage()}"


def _log_to_launcher() -> None:
    """Passes the library's log to the launcher, unless the script has a handler of its own."""
    logger = logging.getLogger("stripline")
    if _VARIABLES[0] not in os.environ or logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_LineForLauncher())
    logger.addHandler(handler)
    levels = {"error": logging.ERROR, "warn": logging.WARNING, "info": logging.INFO, "off": logging.CRITICAL}
    for item in filter(None, os.environ.get("STRIPLINE_LOG", "").split(",")):
        target, _, level = item.rpartition("=")
        name = target.strip().replace("::", ".") or "stripline"
        # The launcher has checked the levels.
        logging.getLogger(name).setLevel(levels.get(level.strip(), logging.DEBUG))


# The library calls the functions below.


def _create(cls: type[Component], values: dict[str, Any]) -> Component:
    """Creates an instance with these values, which conform to the declaration."""
    for variable in _VARIABLES:
        os.environ.pop(variable, None)
    properties = _properties(cls)
    given = {name: properties[name]._value(value) for name, value in values.items()}
    read_only = {it.name: it.default for it in properties.values() if it.access == "read-only"}
    instance = cls.__new__(cls)
    instance.__dict__[_STATE] = _State(given | read_only)
    # Python calls a class like this, with the `__init__` of the actual class.
    type(instance).__init__(instance)
    return instance


def _open(instance: Component, link: _stripline.Ports, record: _Record | None) -> _State:
    """Connects an instance to its waveform and its read-only properties."""
    state: _State = instance.__dict__[_STATE]
    for it in _properties(type(instance)).values():
        if it.access == "read-only":
            state.readouts[it.name] = link._readout(it.name)
            # `__init__` may have set the value.
            setattr(instance, it._attribute, state.values[it.name])
    state.link = link
    if record is not None:
        record.has_values.set()
    return state


def _ports(cls: type[Component]) -> list[_Port]:
    return [it for it in _declared(cls).values() if isinstance(it, _Port)]


def _open_handler(
    instance: Component, link: _stripline.Ports, record: _Record | None
) -> tuple[Any, Any]:
    """Opens a handler. Returns the types of its input and output."""
    found: dict[str, Any] = {it._direction: it._samples(link.type(it.name)) for it in _ports(type(instance))}
    _open(instance, link, record)
    return found["input"], found.get("output")


def _start(instance: Component, link: _stripline.Ports, record: _Record | None) -> None:
    """Runs an instance on a thread of its own."""
    thread = threading.Thread(target=_run, args=(instance, link, record), name=link.component, daemon=True)
    thread.start()


def _run(instance: Any, link: _stripline.Ports, record: _Record | None) -> None:
    process, failure = os.getpid(), None
    state: _State = instance.__dict__[_STATE]
    try:
        for it in _ports(type(instance)):
            state.ports[it.name] = it._open(link)
        _open(instance, link, record)
        instance.run()
    except BaseException as error:
        failure = _failed(error, record)
    if os.getpid() != process:
        # The process is a child that the component has forked. The component continues in the
        # parent.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0 if failure is None else 1)
    state.ports, state.link = {}, None
    state.readouts.clear()
    link._end(failure)


def _failed(error: BaseException, record: _Record | None) -> tuple[str, str] | None:
    """Returns the code and the message for a component that has raised an exception; None is a
    clean end."""
    if record is not None:
        record.has_values.set()
    if isinstance(error, StoppedError):
        return None
    if isinstance(error, SystemExit):
        return None if error.code in (None, 0) else ("failed", _words(error))
    if record is not None:
        record.append(error)
    else:
        traceback.print_exception(error)
        sys.stderr.flush()
    return error.code if isinstance(error, Error) else "failed", _words(error)


def _words(error: BaseException) -> str:
    """Returns the message of an error, if necessary with the name of its class."""
    if isinstance(error, SystemExit):
        code = error.code
        return code if isinstance(code, str) else f"it has called `sys.exit({'' if code is None else code})`"
    text = str(error)
    # The text of an error of the operating system does not name the kind of error.
    is_named = isinstance(error, OSError) and not isinstance(error, Error)
    if _is_plain(error) and text and not is_named:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_plain(error: BaseException) -> bool:
    return isinstance(error, _PLAIN) and not isinstance(error, _MISTAKES)


def _is_mistake(error: BaseException) -> bool:
    """Returns whether an exception is a mistake of the program, and not a refusal."""
    return not _is_plain(error) and not isinstance(error, SystemExit)


def _refusal(error: BaseException) -> str:
    if not _is_mistake(error):
        return _words(error)
    traceback.print_exception(error)
    sys.stderr.flush()
    # The first frame is in this module.
    frames = traceback.extract_tb(error.__traceback__)[1:]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return _words(error) + place


def _typed(cls: type[Component], values: dict[str, Any]) -> dict[str, Any]:
    properties = _properties(cls)
    return {name: properties[name]._value(value) for name, value in values.items()}


def _validate(cls: Any, values: dict[str, Any]) -> tuple[str, str] | None:
    """Checks the properties. Returns the reason of a refusal, and a remedy for a mistake in the
    check itself."""
    try:
        cls.validate(_typed(cls, values))
    except BaseException as error:
        return _refusal(error), "correct its `validate`" if _is_mistake(error) else ""
    return None


def _change(instance: Any, values: dict[str, Any], names: list[str]) -> str | None:
    """Sets new values of an instance. Returns the reason if it refuses them."""
    state: _State = instance.__dict__[_STATE]
    properties = _properties(type(instance))
    new = _typed(type(instance), values)
    old = {name: state.values[name] for name in names}
    done: list[tuple[Any, Any]] = []
    # The attributes have the new values already, so the code of `__init__` can compute from them.
    state.values.update((name, new[name]) for name in names)
    try:
        if hasattr(instance, "change"):
            instance.change(new)
        else:
            for name in names:
                setter = properties[name]._setter
                if setter is not None:
                    setter(instance, new[name])
                    done.append((setter, old[name]))
    except BaseException as error:
        words = _refusal(error)
        # Either all values are set or none: values that were set already are restored.
        state.values.update(old)
        for setter, value in reversed(done):
            try:
                setter(instance, value)
            except BaseException as second:
                words += f"; and its old value is refused: {_words(second)}"
        return words
    return None


def _test(instance: Any, name: str) -> tuple[bool, str, float | None]:
    summary, method = _tests(type(instance))[name]
    try:
        result = getattr(instance, method)()
    except BaseException as error:
        return False, _refusal(error), None
    if result is None:
        return True, summary, None
    if not isinstance(result, TestResult):
        return False, f"the self-test has returned {result!r}, which is not a `TestResult`", None
    value = None if result.value is None else float(result.value)
    return bool(result.passed), result.text or summary, value


Properties = Mapping[str, Any]

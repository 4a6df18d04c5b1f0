"""A flowgraph as a component of a waveform."""

import atexit
import contextlib
import dataclasses
import inspect
import itertools
import math
import os
import re
import signal
import sys
import threading
import traceback
from typing import Optional

from gnuradio import gr

from . import stripline_python as _blocks

# The maximum delay of a request, and of the end of the flowgraph.
_TURN_NS = 10_000_000
# Read-only properties are set every 100 ms.
_TURNS_PER_READOUT = 10
# Errors of these classes have messages for users.
_PLAIN = (ValueError, RuntimeError, OSError)
_KINDS = {bool: "boolean", int: "integer", float: "float", str: "text"}


@dataclasses.dataclass(frozen=True)
class TestResult:
    """The result of a self-test."""

    __test__ = False
    passed: bool
    # A line for users; empty: the summary of the test.
    text: str = ""
    # The measured value.
    value: Optional[float] = None


def self_test(summary, *, name=None):
    """Makes a method of a top block a self-test. Users run it by `stripline test` while the top
    block runs.

    The method returns a `TestResult`, or None if it has passed. An exception is a failure, and its
    message is the reason. No property is changed while the method runs.
    """

    def declare(function):
        function._stripline_test = (name or function.__name__, summary)
        return function

    return declare


def readout(summary, *, unit="", name=None):
    """Makes a method of a top block a read-only property. `stripline get` shows it while the top
    block runs.

    The method takes no arguments. Calls come about ten times a second, and once on the new top
    block, to find the type of the property: bool, int, float or str. While the method raises
    exceptions, the property keeps its value.
    """

    def declare(function):
        function._stripline_readout = (name or function.__name__, summary, unit)
        return function

    return declare


def main(flowgraph, args=None):
    """Runs a top block as a component: the `main` of a script that a waveform names by `exec`.

    `flowgraph` is the class of the top block, or a function without arguments that returns one. The
    Stripline sources and sinks are the ports, by their topics. Each pair of methods `set_x` and
    `get_x`, as the Companion makes for a variable, is a property `x`, which may be changed while it
    runs. The type of the property is the type of its value in the new top block: bool, int, float
    or str. An exception of `set_x` refuses a value, and its message is the reason. `readout` makes
    a method a read-only property, and `self_test` makes one a self-test.

    `args` are the arguments after the script's name; by default, the arguments of the program. Call
    it on the main thread. The function ends the program with the exit code 0, 1 for a failure, or 2
    for wrong arguments.
    """
    try:
        # Only the description belongs on standard output.
        with _output_to_stderr():
            component = _Component(flowgraph)
        # The launcher stops the components in order.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        code = component.main([sys.argv[0], *(sys.argv[1:] if args is None else args)])
    except Exception as error:
        # The launcher shows the last line.
        sys.exit(f"error: {_words(error)}")
    # `os._exit` skips the end of the interpreter, which takes some 400 ms of a stop with GNU
    # Radio's modules.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextlib.contextmanager
def _output_to_stderr():
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


class _Component:
    """A flowgraph, which is made anew whenever the component is created again."""

    def __init__(self, make):
        self._make = make
        # This flowgraph provides the description, and is also the first flowgraph that runs.
        self._spare = self._make_graph()
        self._graph, self._blocks = None, []
        self.values = dict(_variables(self._spare[0]))
        self._tests = _marked(self._spare[0], "_stripline_test")
        self._readouts = _marked(self._spare[0], "_stripline_readout")
        self._kinds = {name: _readout_kind(name, method) for name, (method, *_) in self._readouts.items()}
        self._has_warned = set()

    def main(self, arguments):
        graph, ports = self._spare
        cls = type(graph)
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()
        summary = " ".join((vars(cls).get("__doc__") or "").strip().split("\n\n")[0].split())
        return _blocks._run_component(
            name, summary or "A flowgraph of GNU Radio.",
            ports,
            [(name, _KINDS[type(value)], value, "variable of the flowgraph", "") for name, value in self.values.items()],
            [(name, *self._kinds[name], summary, unit) for name, (_, summary, unit) in self._readouts.items()],
            [(name, summary) for name, (_, summary) in self._tests.items()],
            self._create, self._run, self._change, self._test, arguments)

    def _make_graph(self):
        graph, ports = _blocks._make_with_ports(self._make)
        if not isinstance(graph, gr.top_block):
            raise TypeError(f"`main` takes a top block, and {self._make!r} makes {graph!r}")
        return graph, ports

    def _create(self, values):
        """Sets the values of a new flowgraph. Returns the message of a failure, like the next two
        methods."""
        try:
            self._graph, self._blocks = self._spare or self._make_graph()
            self._spare = None
            self.values = dict(_variables(self._graph))
            self._tests = _marked(self._graph, "_stripline_test")
            self._readouts = _marked(self._graph, "_stripline_readout")
            return self._set({name: value for name, value in values.items() if value != self.values[name]})
        except BaseException as error:
            return _failure(error)

    def _run(self, link):
        """Runs the flowgraph to its end, or until it must stop."""
        attached = []
        try:
            for block in self._blocks:
                attached.append(block)
                link.attach(block)
            self._graph.start()
            has_ended = threading.Event()
            threading.Thread(target=lambda: (self._graph.wait(), has_ended.set()), daemon=True).start()
            turns = itertools.count()
            while link.turn(_TURN_NS) and not has_ended.is_set():
                if next(turns) % _TURNS_PER_READOUT == 0:
                    self._set_readouts(link)
                # GNU Radio does not end the blocks before a block that has ended.
                if any(block.failure() for block in attached):
                    break
            self._graph.stop()
            has_ended.wait()
            self._set_readouts(link)
        except BaseException as error:
            with contextlib.suppress(Exception):
                self._graph.stop()
                self._graph.wait()
            return _failure(error)
        finally:
            # The ports end when this returns.
            for block in attached:
                block.detach()
        failures = [block.failure() for block in attached if block.failure()]
        return "; ".join(failures) or None

    def _set_readouts(self, link):
        for name, (method, *_) in self._readouts.items():
            try:
                link.set(name, self._kinds[name][0], _plain(method()))
            except BaseException as error:
                # The warning comes once, not ten times a second.
                if name not in self._has_warned:
                    self._has_warned.add(name)
                    print(f"readout `{name}` keeps its value: {_failure(error)}", file=sys.stderr, flush=True)

    def _test(self, name):
        """Runs a self-test. Returns whether it passed, its text and the measured value."""
        method, summary = self._tests[name]
        try:
            found = method()
        except BaseException as error:
            return False, _failure(error), None
        if found is None:
            return True, summary, None
        if not isinstance(found, TestResult):
            return False, f"the self-test has returned {found!r}, which is not a `TestResult`", None
        return bool(found.passed), found.text or summary, None if found.value is None else float(found.value)

    def _change(self, values):
        try:
            return self._set(values)
        except BaseException as error:
            return _failure(error)

    def _set(self, values):
        """Sets either all variables or none. Returns the reason if a value is refused."""
        done = []
        for name, value in values.items():
            try:
                done.append(name)
                getattr(self._graph, f"set_{name}")(value)
            except BaseException as error:
                words = _failure(error)
                break
        else:
            self.values.update(values)
            return None
        # A setter that has raised may have stored the value before.
        for name in reversed(done):
            try:
                getattr(self._graph, f"set_{name}")(self.values[name])
            except BaseException as error:
                words += f"; and the old value of `{name}` is refused: {_words(error)}"
        return words


def _variables(graph):
    """Finds the variables of a top block: the pairs `set_x` and `get_x` of its own classes."""
    # Variables of GNU Radio's classes are left out.
    own = [cls for cls in reversed(type(graph).__mro__) if not cls.__module__.startswith("gnuradio.")]
    names = {name: True for cls in own for name in vars(cls) if name.startswith("set_")}
    for name in (name.removeprefix("set_") for name in names):
        getter = getattr(type(graph), f"get_{name}", None)
        if getter is None or not inspect.isfunction(getter):
            continue
        value = getattr(graph, f"get_{name}")()
        _check_bits(f"variable `{name}`", value)
        if type(value) in _KINDS:
            yield name, value


def _check_bits(what, value):
    if type(value) is int and not -2**63 <= value < 2**63:
        raise ValueError(f"{what} is {value}, which has more than 64 bits; make it a float")


def _marked(graph, mark):
    """Finds the methods with a mark. Returns by name each method and the other data of the mark."""
    found = {}
    for attribute in dir(type(graph)):
        # GNU Radio has attributes that are not methods.
        mark_of = getattr(inspect.getattr_static(type(graph), attribute, None), mark, None)
        if mark_of is not None:
            name, *more = mark_of
            if name in found:
                raise ValueError(f"two methods are marked as `{name}`; give one of them another name")
            found[name] = (getattr(graph, attribute), *more)
    return found


def _plain(value):
    """Returns a numpy number as a Python number."""
    return value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value


def _readout_kind(name, method):
    """Returns the kind of a readout, and its value until it is set."""
    value = _plain(method())
    if type(value) not in _KINDS:
        raise TypeError(f"readout `{name}` is {value!r}; it must be a bool, an int, a float or a str")
    _check_bits(f"readout `{name}`", value)
    if type(value) is float and not math.isfinite(value):
        value = 0.0
    return _KINDS[type(value)], value


def _failure(error):
    if not isinstance(error, _PLAIN):
        # A mistake of the program.
        traceback.print_exception(error)
        sys.stderr.flush()
    return _words(error)


def _words(error):
    """Returns the message of an error, if necessary with the name of its class."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, str) else f"it has called `sys.exit({error.code!r})`"
    text = str(error)
    return text if isinstance(error, _PLAIN) and text else f"{type(error).__name__}: {text}"

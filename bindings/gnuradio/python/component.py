"""A flowgraph as a component of a waveform."""

import atexit
import contextlib
import inspect
import os
import re
import signal
import sys
import threading
import traceback

from gnuradio import gr

from . import stripline_python as _blocks

# How long a request waits at most, and the end of the flowgraph.
_TURN_NS = 10_000_000
# An error of these classes has words for users.
_PLAIN = (ValueError, RuntimeError, OSError)
_KINDS = {bool: "boolean", int: "integer", float: "float", str: "text"}


def main(flowgraph, args=None):
    """Runs a top block as a component: the `main` of a script, which a waveform names by `exec`.

    `flowgraph` is the class of the top block, or a function without arguments that returns one. Its
    sources and sinks of Stripline are the ports, by their topics. Each pair of methods `set_x` and
    `get_x`, as the Companion makes for a variable, is a property `x`, which may be changed while it
    runs. Its type is that of the value that the new top block has: bool, int, float or str. An
    exception of `set_x` refuses a value, in its words.

    `args` are the arguments behind the script's name; by default those of the program. Call it on
    the main thread. It ends the program with the exit code 0, 1 for a failure, or 2 for wrong
    arguments.
    """
    try:
        # The description alone belongs on standard output.
        with _output_to_stderr():
            component = _Component(flowgraph)
        # The launcher stops its components in order.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        code = component.main([sys.argv[0], *(sys.argv[1:] if args is None else args)])
    except Exception as error:
        # The launcher shows the last line.
        sys.exit(f"error: {_words(error)}")
    # Without the end of the interpreter: with GNU Radio's modules, that took some 400 ms of a stop.
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
    """A flowgraph, made anew whenever the component is created again."""

    def __init__(self, make):
        self._make = make
        # Its parts are read where it is described, and it runs as it is.
        self._spare = self._make_graph()
        self._graph, self._blocks = None, []
        self.values = dict(_variables(self._spare[0]))

    def main(self, arguments):
        graph, ports = self._spare
        cls = type(graph)
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()
        summary = " ".join((vars(cls).get("__doc__") or "").strip().split("\n\n")[0].split())
        return _blocks._run_component(
            name, summary or "A flowgraph of GNU Radio.",
            ports, [(name, _KINDS[type(value)], value) for name, value in self.values.items()],
            self._create, self._run, self._change, arguments)

    def _make_graph(self):
        graph, ports = _blocks._make_with_ports(self._make)
        if not isinstance(graph, gr.top_block):
            raise TypeError(f"`main` takes a top block, and {self._make!r} makes {graph!r}")
        return graph, ports

    def _create(self, values):
        """Gives a new flowgraph its values. Returns the words of a failure, as the two below."""
        try:
            self._graph, self._blocks = self._spare or self._make_graph()
            self._spare = None
            self.values = dict(_variables(self._graph))
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
            while link.turn(_TURN_NS) and not has_ended.is_set():
                pass
            self._graph.stop()
            has_ended.wait()
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

    def _change(self, values):
        try:
            return self._set(values)
        except BaseException as error:
            return _failure(error)

    def _set(self, values):
        """Sets variables, all or none. Returns the words of a refusal."""
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
        # The one that has raised may have kept its value before.
        for name in reversed(done):
            try:
                getattr(self._graph, f"set_{name}")(self.values[name])
            except BaseException as error:
                words += f"; and the old value of `{name}` is refused: {_words(error)}"
        return words


def _variables(graph):
    """Finds the variables of a top block: those with `set_x` and `get_x` of its own classes."""
    # Those of GNU Radio are no variables.
    own = [cls for cls in reversed(type(graph).__mro__) if not cls.__module__.startswith("gnuradio.")]
    names = {name: True for cls in own for name in vars(cls) if name.startswith("set_")}
    for name in (name.removeprefix("set_") for name in names):
        getter = getattr(type(graph), f"get_{name}", None)
        if getter is None or not inspect.isfunction(getter):
            continue
        value = getattr(graph, f"get_{name}")()
        if type(value) is int and not -2**63 <= value < 2**63:
            raise ValueError(f"variable `{name}` is {value}, which has more than 64 bits; make it a float")
        if type(value) in _KINDS:
            yield name, value


def _failure(error):
    if not isinstance(error, _PLAIN):
        # A mistake of the program.
        traceback.print_exception(error)
        sys.stderr.flush()
    return _words(error)


def _words(error):
    """Returns an error in its own words, or with the name of its class."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, str) else f"it has called `sys.exit({error.code!r})`"
    text = str(error)
    return text if isinstance(error, _PLAIN) and text else f"{type(error).__name__}: {text}"

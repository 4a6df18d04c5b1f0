"""Services: classes with operations, and their servers."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from ._aio import Descriptor
from ._calls import OperationInfo
from ._errors import Error, OperationError, StoppedError, UsageError
from ._stripline import Node, _Responder, _ServerCore

_C = TypeVar("_C", bound=type[Any])
_F = TypeVar("_F", bound=Callable[..., Any])
_SERVICE = "__stripline_service__"
_OPERATION = "__stripline_operation__"
_BOUND = (staticmethod, classmethod)
# The number of calls that are answered before other tasks of the loop run.
_CALLS_IN_A_ROW = 64


def _refused(problem: str) -> UsageError:
    remedy = "Change the argument that the text names."
    return UsageError(problem, code="invalid-argument", remedy=remedy)


@dataclass(frozen=True)
class _Types:
    """The settings of `operation` for a method."""

    name: str | None
    request: Any
    reply: Any
    error: Any


@overload
def service(made: _C) -> _C: ...
@overload
def service(made: None = None, *, name: str | None = None) -> Callable[[_C], _C]: ...
def service(made: Any = None, *, name: str | None = None) -> Any:
    """Makes a class a service: its public methods are its operations::

        @stripline.service
        class Tuner:
            def tune(self, frequency_hz: float) -> float:
                "Tunes, and returns the frequency reached."
                ...

    The service has the name of the class, in lower case with `-` between words, or `name`. A method
    may be `async def`. The parameters of a method are the request: one parameter is the request
    itself, several are a list or a dict. The return value is the reply. The method raises
    `OperationError` for an error of its own. Clients can show the docstring.
    """

    def mark(kind: Any) -> Any:
        if not isinstance(kind, type):
            raise _refused(f"`service` is for classes, not for {type(kind).__name__}")
        if not _methods(kind):
            raise _refused(f"the class `{kind.__name__}` has no public method, which would be an operation")
        setattr(kind, _SERVICE, _kebab(kind.__name__) if name is None else name)
        return kind

    return mark if made is None else mark(made)


def operation(*, name: str | None = None, request: Any = None, reply: Any = None, error: Any = None) -> Callable[[_F], _F]:
    """Sets the name of an operation, and types of samples for its request, reply and error.

    `request`, `reply` and `error` are dtypes of numbers, or of the class `SampleType`, for arrays
    of one dimension, which are sent as plain memory. None is a value of any kind.
    """

    def mark(method: _F) -> _F:
        setattr(method, _OPERATION, _Types(name, request, reply, error))
        return method

    return mark


def _kebab(name: str) -> str:
    """Returns a name in the form that Rust traits use: `SignalTuner` is `signal-tuner`."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name.replace("_", "-"))
    return re.sub("-+", "-", parts).strip("-").lower()


def _methods(kind: type[Any]) -> list[str]:
    """Returns the names of a class's public methods, in the order of definition."""
    names: dict[str, None] = {}
    for part in reversed(kind.__mro__[:-1]):
        for name, value in vars(part).items():
            if not name.startswith("_") and (isinstance(value, _BOUND) or inspect.isfunction(value)):
                names[name] = None
    return list(names)


class _WrongRequest(Exception):
    """A request that does not match the parameters."""


class _Handler:
    """One operation: passes a request to a method, and the outcome to the client."""

    def __init__(self, service: str, name: str, method: Callable[..., Any]) -> None:
        self._what = f"{service}.{name}"
        self._method = method
        self.is_async = inspect.iscoroutinefunction(method)
        self._signature = inspect.signature(method)
        parameters = self._signature.parameters.values()
        listed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self._listed = sum(it.kind in listed for it in parameters)
        self._takes_more = any(it.kind is inspect.Parameter.VAR_POSITIONAL for it in parameters)
        self._named = {it.name for it in parameters if it.kind in (*listed[1:], inspect.Parameter.KEYWORD_ONLY)}
        self._takes_any = any(it.kind is inspect.Parameter.VAR_KEYWORD for it in parameters)

    def _bind(self, request: Any) -> inspect.BoundArguments:
        """Returns the arguments of a request."""
        args: tuple[Any, ...] = ()
        kwargs: dict[str, Any] = {}
        is_map = isinstance(request, dict) and all(isinstance(key, str) for key in request)
        if is_map and (self._takes_any or set(request) <= self._named) and (request or self._listed != 1):
            kwargs = request
        elif isinstance(request, list) and (self._listed > 1 or self._takes_more):
            args = tuple(request)
        elif request is not None or self._required():
            args = (request,)
        try:
            return self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise _WrongRequest(f"{self._what}: {error}") from None

    def _required(self) -> bool:
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        parameters = self._signature.parameters.values()
        return any(it.default is inspect.Parameter.empty and it.kind not in kinds for it in parameters)

    def run(self, request: Any, responder: _Responder) -> None:
        """Answers a call. An exception from this ends the server."""
        try:
            bound = self._bind(request)
            responder.reply(self._method(*bound.args, **bound.kwargs))
        except Exception as error:
            _refuse(responder, error)
        except BaseException as error:
            responder.refuse("panicked", f"the handler ended its server: {_words(error)}")
            raise

    async def run_later(self, request: Any, responder: _Responder) -> None:
        """Answers a call in a task."""
        try:
            bound = self._bind(request)
            responder.reply(await self._method(*bound.args, **bound.kwargs))
        except Exception as error:
            _refuse(responder, error)
        except BaseException as error:
            responder.refuse("panicked", f"the handler was ended: {_words(error)}")
            raise


def _words(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _refuse(responder: _Responder, error: Exception) -> None:
    """Answers a call with the exception that its handler has raised."""
    if isinstance(error, OperationError):
        try:
            return responder.fail(error.value)
        except Error as unsendable:
            error = unsendable
    kind = "wrong-type" if isinstance(error, _WrongRequest) else "panicked"
    responder.refuse(kind, str(error) if kind == "wrong-type" else _words(error))


@dataclass(frozen=True)
class ServerCounts:
    """The counters of a server."""

    calls: int
    """Calls for which a handler was run."""
    refused: int
    """Calls that were answered without a handler."""
    cancelled: int
    """Calls that their clients cancelled, whether in time or too late."""
    evicted: int
    """Clients that were disconnected because they broke the protocol."""
    replies_dropped: int
    """Replies that a client did not take in time, and replies to clients that had left."""
    clients: int
    """Clients that are connected now."""


def _noted(
    run: Callable[[Any, _Responder], None], inside: set[int]
) -> Callable[[Any, _Responder], None]:
    """Returns the same function, which records its thread in `inside` while it runs."""

    def noted(request: Any, responder: _Responder) -> None:
        thread = threading.get_ident()
        inside.add(thread)
        try:
            run(request, responder)
        finally:
            inside.discard(thread)

    return noted


class Server:
    """A server of an object with operations. Made by `Node.server`.

    `serve` answers calls on this thread, `serve_async` in an event loop, and `start` on a thread of
    its own. `close` ends the server, and so does the end of a `with` block: clients get
    `ServerGoneError` for calls without a reply.

    A handler runs for one call at a time, unless it is `async def`, or `serve` and `start` get
    `threads`. An exception refuses the call, with the message of the exception (code
    `handler-panicked`). `KeyboardInterrupt` and `SystemExit` do this too, and end the server.

    With `threads`, this number of calls run at once, each on a thread of its own. The calls begin
    in the order of arrival, and are answered as they finish; further calls wait. Several threads
    use the object then, with the interpreter's lock. `threading.local` is empty at the beginning of
    each call.
    """

    def __init__(
        self,
        node: Node,
        serves: object,
        service: str | None = None,
        name: str | None = None,
        transport: str | None = None,
        clients: int = 256,
        waiting: int | None = None,
    ) -> None:
        own = getattr(type(serves), _SERVICE, None)
        if own is None:
            given = f"the class `{serves.__name__}`" if isinstance(serves, type) else repr(serves)
            raise _refused(f"{given} is not a service; pass an object of a class with `@stripline.service`")
        service_name = own if service is None else service
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None
        self._has_ended = threading.Event()
        self._has_async = False
        self._inside: set[int] = set()
        operations = [self._described(service_name, serves, method) for method in _methods(type(serves))]
        self._core = _ServerCore(node, service_name, operations, name, transport, clients, waiting)

    def _described(
        self, service: str, serves: object, name: str
    ) -> tuple[str, Any, Any, Any, str, Callable[[Any, _Responder], None]]:
        method = getattr(serves, name)
        types: _Types = getattr(method, _OPERATION, _Types(None, None, None, None))
        operation = types.name or name
        handler = _Handler(service, operation, method)
        self._has_async |= handler.is_async
        run = self._task_of(handler) if handler.is_async else _noted(handler.run, self._inside)
        doc = inspect.getdoc(method) or ""
        return (operation, types.request, types.reply, types.error, doc, run)

    def _task_of(self, handler: _Handler) -> Callable[[Any, _Responder], None]:
        def run(request: Any, responder: _Responder) -> None:
            task = asyncio.get_running_loop().create_task(handler.run_later(request, responder))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return run

    @property
    def service(self) -> str:
        """The name by which clients find the service."""
        return self._core.service

    @property
    def address(self) -> str:
        """The transport and address to which clients connect."""
        return self._core.address

    def operations(self) -> list[OperationInfo]:
        """Returns the operations."""
        return [OperationInfo(*parts) for parts in self._core.operations()]

    def counts(self) -> ServerCounts:
        """Returns the counters."""
        return ServerCounts(*self._core.counts())

    def serve(self, threads: int = 1) -> None:
        """Answers calls on this thread until the node is stopped, or the server is closed. With
        handlers that are `async def`, it runs an event loop. With `threads` above 1, it waits while
        they answer."""
        self._check(threads)
        if self._has_async:
            asyncio.run(self.serve_async())
            return
        try:
            self._core.serve(threads)
        except StoppedError:
            return

    def serve_one(self, timeout: float | None = None) -> bool:
        """Answers one call on this thread. Returns whether a call arrived within `timeout` seconds.

        Raises `StoppedError` once the node is stopped, and `UsageError` for a service with handlers
        that are `async def`.
        """
        if self._has_async:
            raise _refused(f"`{self.service}` has handlers with `async def`; use `serve` or `serve_async`")
        return self._core.serve_one(timeout)

    async def serve_async(self) -> None:
        """Answers calls in the running event loop, until the node is stopped, the server is closed,
        or the task is cancelled. Handlers that are not finished then are cancelled."""
        core = self._core
        descriptor = Descriptor(core.fileno())
        core.begin()
        try:
            while not core.is_closed:
                while core.serve_ready(_CALLS_IN_A_ROW) == _CALLS_IN_A_ROW:
                    await asyncio.sleep(0)
                if not core.is_closed and core.arm():
                    await descriptor.wait()
        except StoppedError:
            return
        finally:
            descriptor.leave()
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            core.end()

    def _check(self, threads: int) -> None:
        if threads != 1 and self._has_async:
            raise _refused(f"`{self.service}` has handlers with `async def`, which run at once; leave out `threads`")

    def start(self, threads: int = 1) -> None:
        """Serves on a thread of its own, or on `threads` threads, until `close`. The threads end
        with the program."""
        self._check(threads)
        if self._thread is not None:
            raise _refused(f"the server of `{self.service}` has a thread already")
        name = f"stripline-{self.service}"
        thread = threading.Thread(target=self._run, args=(threads,), name=name, daemon=True)
        thread.start()
        self._thread = thread

    def _run(self, threads: int) -> None:
        try:
            self.serve(threads)
        except SystemExit:
            # Threads handle `SystemExit` in this way.
            pass
        except UsageError:
            # The server may be closed before the thread begins.
            if not self._core.is_closed:
                raise
        finally:
            # Clients then do not wait for a server that has ended.
            self._core.close()
            self._has_ended.set()

    def close(self, timeout: float | None = 10.0) -> None:
        """Ends the server. If a handler of the server calls it, the server ends after the handler.

        Waits for the handlers that run on threads of `start`. If they do not return within
        `timeout` seconds, raises `TimeoutError`, and the server ends after them.
        """
        self._core.close()
        thread = self._thread
        if thread is None or threading.get_ident() in self._inside:
            return
        # A join that Ctrl-C interrupts regards the thread as ended.
        if not self._has_ended.wait(timeout):
            raise TimeoutError(f"a handler of `{self.service}` did not return within {timeout} s")

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<stripline.Server of `{self.service}` at {self.address}>"

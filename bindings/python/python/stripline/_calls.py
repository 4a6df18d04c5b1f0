"""Clients of services, which are called like objects."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from ._errors import Error, NoRoomError, NoServerError, UsageError
from ._stripline import Node, Pending, _ClientCore


@dataclass(frozen=True)
class OperationInfo:
    """A server's description of one of its operations."""

    name: str
    """The name of the operation."""
    request: str
    """The type of the requests: `message/cbor` for any value, or a type of samples."""
    reply: str
    """The type of the replies."""
    error: str
    """The type of the operation's own errors."""
    doc: str
    """A description; empty if the server does not have one."""


@dataclass(frozen=True)
class ServerReport:
    """A server that a client calls."""

    server: str
    """The server's name."""
    connected: bool
    """Whether the server is connected, as far as this process has noticed."""
    outstanding: int
    """The number of calls without a reply that was taken."""
    late: int
    """The number of replies that came after their calls had been cancelled, or after their
    deadlines."""
    operations: tuple[OperationInfo, ...]
    """The operations of the server; empty if it is not connected."""


@dataclass(frozen=True)
class ServerDescription:
    """A server in the domain, as `stripline services` lists it."""

    service: str
    """The service's name, by which clients find it."""
    server: str
    """The name of the server."""
    address: str
    """The transport and the address."""
    operations: tuple[OperationInfo, ...]
    """The operations of the server."""


_Parts = list[tuple[str, str, str, str, str]]


def _server_report(server: str, connected: bool, outstanding: int, late: int, operations: _Parts) -> ServerReport:
    infos = tuple(OperationInfo(*parts) for parts in operations)
    return ServerReport(server, connected, outstanding, late, infos)


def _server_description(service: str, server: str, address: str, operations: _Parts) -> ServerDescription:
    return ServerDescription(service, server, address, tuple(OperationInfo(*parts) for parts in operations))


def _request(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the request of a call with these arguments."""
    if kwargs and args:
        raise UsageError(
            "the request of a call has values by position, or by name, and not both",
            code="invalid-argument",
            remedy="Give all by position, or all by name.",
        )
    if kwargs:
        return kwargs
    return args[0] if len(args) == 1 else args or None


class _Base:
    """The common base of clients."""

    __slots__ = ("_core", "_key", "_deadline")

    def __init__(self, core: _ClientCore, key: int | None, deadline: float | None) -> None:
        self._core = core
        self._key = key
        self._deadline = deadline

    def servers(self) -> list[ServerReport]:
        """Returns the servers that are or were connected."""
        return self._core.servers()

    def counts(self) -> tuple[int, int]:
        """Returns the number of calls made, and of the calls that got neither a reply nor an error
        of the operation."""
        return self._core.counts()

    def close(self) -> None:
        """Disconnects from the servers. Calls without a reply are cancelled with the last reference
        to them."""
        self._core.close()

    def __repr__(self) -> str:
        return f"<stripline.{type(self).__name__} of `{self._core.service}`>"


class Operation:
    """An operation of a client's service. Calling it calls the operation.

    Without an argument, the request is `None`. One argument is the request itself, several are a
    list of them, and arguments by name are a dict.
    """

    __slots__ = ("_client", "_name")

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the operation, and returns the reply. Raises `OperationError` with the operation's
        own error, and another `CallError` for each other outcome. Ctrl-C cancels the call."""
        client = self._client
        return client._core.call(self._name, _request(args, kwargs), client._key, client._deadline)

    def start(self, *args: Any, **kwargs: Any) -> Pending:
        """Starts the call, and returns it without a reply. Waits for a server and for room."""
        client = self._client
        return client._core.start(self._name, _request(args, kwargs), client._key, client._deadline)

    def __repr__(self) -> str:
        return f"<stripline.Operation `{self._client._core.service}.{self._name}`>"


class Client(_Base):
    """A client of a service: its operations are called like methods. Made by `Node.client`.

        tuner = node.client("tuner")
        reached_hz = tuner.tune(433.92e6)

    With several servers, calls go to each in turn, or by a key. Any thread may call, several at
    once. For an operation with the name of a client's own method, or with a name that is not valid
    in Python, use `operation`.
    """

    __slots__ = ()

    def __init__(self, node: Node, service: str, deadline: float, outstanding: int) -> None:
        super().__init__(_ClientCore(node, service, deadline, outstanding), None, None)

    def __getattr__(self, name: str) -> Operation:
        if name.startswith("_"):
            raise AttributeError(name)
        return Operation(self, name)

    def operation(self, name: str) -> Operation:
        """Returns the named operation."""
        return Operation(self, name)

    def with_options(self, *, key: int | None = None, deadline: float | None = None) -> Client:
        """Returns the same client with options for its calls.

        `key` selects the server, and the same key selects the same server each time. `deadline` is
        the time limit of a call in seconds.
        """
        made = object.__new__(Client)
        _Base.__init__(made, self._core, *_options(self, key, deadline))
        return made

    def wait_for_servers(self, count: int = 1, timeout: float | None = None) -> None:
        """Waits until `count` servers are connected. Raises `TimeoutError` if they are not
        connected within `timeout` seconds."""
        self._core.wait_for_servers(count, timeout)

    def fileno(self) -> int:
        """Returns a descriptor for `select`, `poll` or a toolkit. Once `arm` has returned True, it
        becomes readable when the program must check the pending calls (`Pending.done`)."""
        return self._core.fileno()

    def arm(self) -> bool:
        """Makes the descriptor readable once a reply may have arrived. Returns False if something
        has arrived already: then check the pending calls first. Call it each time before the loop
        waits."""
        return self._core.arm()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _options(client: _Base, key: int | None, deadline: float | None) -> tuple[int | None, float | None]:
    return (
        client._key if key is None else key,
        client._deadline if deadline is None else deadline,
    )


class AsyncOperation:
    """An operation of a client's service, with calls that are awaited. See `Operation`."""

    __slots__ = ("_client", "_name")

    def __init__(self, client: AsyncClient, name: str) -> None:
        self._client = client
        self._name = name

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the operation, and returns the reply. A task that is cancelled cancels the call."""
        client = self._client
        return await _call(client._core, self._name, _request(args, kwargs), client._key, client._deadline)

    def __repr__(self) -> str:
        return f"<stripline.AsyncOperation `{self._client._core.service}.{self._name}`>"


class AsyncClient(_Base):
    """A client like `Client`, with calls that are awaited in an event loop's own thread. Made by
    `Node.async_client`.

        tuner = node.async_client("tuner")
        reached_hz = await tuner.tune(433.92e6)

    Any number of tasks of one loop may call at once.
    """

    __slots__ = ()

    def __init__(self, node: Node, service: str, deadline: float, outstanding: int) -> None:
        super().__init__(_ClientCore(node, service, deadline, outstanding), None, None)

    def __getattr__(self, name: str) -> AsyncOperation:
        if name.startswith("_"):
            raise AttributeError(name)
        return AsyncOperation(self, name)

    def operation(self, name: str) -> AsyncOperation:
        """Returns the named operation."""
        return AsyncOperation(self, name)

    def with_options(self, *, key: int | None = None, deadline: float | None = None) -> AsyncClient:
        """Returns the same client with options for its calls, like `Client.with_options`."""
        made = object.__new__(AsyncClient)
        _Base.__init__(made, self._core, *_options(self, key, deadline))
        return made

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self.close()


class _Waits:
    """The calls of one client that tasks of a loop wait for. One reader serves all."""

    def __init__(self, core: _ClientCore, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self._loop = loop
        self._descriptor = core.fileno()
        self._calls: dict[asyncio.Future[None], Pending | None] = {}

    @staticmethod
    def of(core: _ClientCore) -> _Waits:
        loop = asyncio.get_running_loop()
        found: _Waits | None = getattr(core, "_waits", None)
        if found is None or found._loop is not loop:
            found = _Waits(core, loop)
            setattr(core, "_waits", found)
        return found

    async def wait(self, pending: Pending | None, timeout: float) -> None:
        """Waits until the call is done. Without a call, waits until a server may have connected.
        Waits no longer than the timeout."""
        future: asyncio.Future[None] = self._loop.create_future()
        if not self._calls:
            self._loop.add_reader(self._descriptor, self._on_ready)
        self._calls[future] = pending
        timer = self._loop.call_later(timeout, self._end, future)
        try:
            self._on_ready(is_new=True)
            await future
        finally:
            timer.cancel()
            self._calls.pop(future, None)
            self._leave()

    @staticmethod
    def _end(future: asyncio.Future[None]) -> None:
        if not future.done():
            future.set_result(None)

    def _on_ready(self, is_new: bool = False) -> None:
        try:
            while True:
                for future, pending in list(self._calls.items()):
                    # A wait without a call polls again by itself. A new wait has just done that.
                    if pending is None:
                        if not is_new:
                            self._end(future)
                    elif pending.done():
                        self._end(future)
                if self._core.arm():
                    return
                is_new = False
        except Error as error:
            # For example, the node is stopped: then all calls have this outcome.
            for future in list(self._calls):
                if not future.done():
                    future.set_exception(error)

    def _leave(self) -> None:
        if not self._calls and not self._loop.is_closed():
            self._loop.remove_reader(self._descriptor)


async def _reply(pending: Pending) -> Any:
    """Returns the reply of a call."""
    try:
        # The loop ends at the deadline of the call at the latest, because the call is then done.
        while not pending.done():
            await _Waits.of(pending._core).wait(pending, pending.time_left)
        return pending.wait(0)
    except asyncio.CancelledError:
        pending.cancel()
        raise


async def _call(core: _ClientCore, name: str, request: Any, key: int | None, deadline: float | None) -> Any:
    loop = asyncio.get_running_loop()
    time = core.deadline if deadline is None else deadline
    until = loop.time() + time
    while True:
        left = max(until - loop.time(), 1e-6)
        try:
            pending = core.try_start(name, request, key, left)
            break
        except NoServerError:
            if loop.time() >= until:
                raise core.no_server_error(time) from None
            await _Waits.of(core).wait(None, left)
        except NoRoomError:
            # Only large requests wait for room, and this is rare. A thread waits for it.
            pending = await loop.run_in_executor(None, core.start, name, request, key, left)
            break
    return await _reply(pending)

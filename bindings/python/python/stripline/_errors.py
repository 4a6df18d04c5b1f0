"""The exceptions of the package."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """An error of the library: the base of all others.

    `code` is a word that never changes, such as `"stalled"` (docs/errors.md). `remedy` is the usual
    remedy. `connection` is the connection or peer that the error is about, and `os_code` is the
    error number of the operating system; each is `None` if it does not apply. `sent` is true if the
    packet was sent nevertheless.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "failed",
        remedy: str = "",
        connection: str | None = None,
        os_code: int | None = None,
        sent: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.remedy = remedy
        self.connection = connection
        self.os_code = os_code
        self.sent = sent

    def __reduce__(self) -> tuple[object, ...]:
        parts = (self.code, str(self), self.remedy, self.connection, self.os_code, self.sent)
        return (_make, parts)


class StoppedError(Error):
    """The node was stopped."""


class EndOfStream(Error, EOFError):
    """Every sender has ended its stream: no packet follows."""


class NoRoomError(Error):
    """A receiver had no room, and nothing was sent."""


class NotAcknowledgedError(Error):
    """A receiver did not acknowledge the packet, which stays sent."""


class TooManyHeldError(Error, BufferError):
    """All packets that a subscriber may hold are in use. The text names them."""


class EjectedError(Error):
    """The receiver was too slow, and its policy ends the connection."""


class PeerError(Error):
    """The other end broke the protocol, or refused the connection. The program may continue to
    receive."""


class UsageError(Error, ValueError):
    """The program must change an argument, or the way in which it uses an object."""


class ConfigurationError(Error, ValueError):
    """A setting does not fit: a variable, a topics file, an option. The text names it."""


class OperatingSystemError(Error):
    """The operating system or a middleware's library reported an error."""


class ForkedError(Error):
    """A child process used an object that its parent had made."""


class WaitInterrupted(Error):
    """A signal ended the wait for an acknowledgement of a packet that was sent."""


class DecodeError(Error):
    """A received message cannot be decoded. The next receive continues with the next message."""


class CallError(Error):
    """A call has no reply."""


class OperationError(CallError):
    """The operation's own error.

    A handler raises it with a `value`, which has the form of a message. The client's call raises it
    with the same value.
    """

    value: Any
    """The value of the error, as the operation sends it."""

    def __init__(self, value: Any = None, message: str | None = None, **parts: Any) -> None:
        text = f"the operation's own error: {value!r}" if message is None else message
        super().__init__(text, **({"code": "user-error", "remedy": _OWN_REMEDY} | parts))
        self.value = value

    def __reduce__(self) -> tuple[object, ...]:
        return (OperationError, (self.value, str(self)))


_OWN_REMEDY = "Read the error: it is a value of the operation."


class NoServerError(CallError):
    """No server was found until the deadline. The call was not sent."""


class UnansweredError(CallError, TimeoutError):
    """The reply did not arrive in time."""


class ServerGoneError(CallError):
    """The server left while the call was outstanding. The server may have run the call."""


class CallRefusedError(CallError):
    """The server did not run the call, or not completely: `code` is the reason."""


_CLASSES: dict[str, type[Error]] = {
    "stopped": StoppedError,
    "end-of-stream": EndOfStream,
    "full": NoRoomError,
    "stalled": NoRoomError,
    "unanswered": NotAcknowledgedError,
    "receiver-gone": NotAcknowledgedError,
    "packet-refused": NotAcknowledgedError,
    "too-many-held": TooManyHeldError,
    "ejected": EjectedError,
    "peer-misbehaved": PeerError,
    "refused": PeerError,
    "port": UsageError,
    "too-large": UsageError,
    "unsupported": UsageError,
    "in-use": UsageError,
    "invalid-argument": UsageError,
    "configuration": ConfigurationError,
    "invalid-properties": ConfigurationError,
    "system": OperatingSystemError,
    "forked": ForkedError,
    "interrupted": WaitInterrupted,
    "decode": DecodeError,
    "no-server": NoServerError,
    "call-unanswered": UnansweredError,
    "server-gone": ServerGoneError,
    "call-cancelled": CallError,
    "too-many-calls": CallError,
    "reply-decode": CallError,
    "unknown-operation": CallRefusedError,
    "wrong-type": CallRefusedError,
    "handler-panicked": CallRefusedError,
    "deadline-passed": CallRefusedError,
    "cancelled-early": CallRefusedError,
    "overloaded": CallRefusedError,
    "call-cycle": CallRefusedError,
    "reply-failed": CallRefusedError,
}


def _make(
    code: str, message: str, remedy: str, connection: str | None, os_code: int | None, sent: bool
) -> Error:
    """Returns the exception for a code."""
    kind = _CLASSES.get(code, Error)
    return kind(
        message, code=code, remedy=remedy, connection=connection, os_code=os_code, sent=sent
    )


def _own_error(operation: str, value: object) -> OperationError:
    """Returns the exception of an operation's own error."""
    return OperationError(value, f"{operation}: {value!r}")

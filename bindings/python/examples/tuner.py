"""A class that is a service, and clients that are called like objects, in other processes.

    python tuner.py serve           in one terminal: Ctrl-C ends the server
    python tuner.py serve tcp       the same, with tcp as the transport
    python tuner.py tune 433.92     in another terminal
    python tuner.py status
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import stripline


@dataclass
class Status:
    """The state of a radio."""

    frequency_hz: float
    tunings: int


@stripline.service
class Tuner:
    """The operations of a radio."""

    def __init__(self) -> None:
        self._now = Status(100e6, 0)

    def tune(self, frequency_hz: float) -> float:
        """Tunes in steps of 12.5 kHz, and returns the frequency reached."""
        if not 1e6 <= frequency_hz <= 6e9:
            raise stripline.OperationError({"OutOfRange": {"frequency_hz": frequency_hz}})
        self._now = Status(round(frequency_hz / 12.5e3) * 12.5e3, self._now.tunings + 1)
        return self._now.frequency_hz

    def status(self) -> Status:
        """Returns the state of the radio."""
        return self._now


def serve(transport: str | None = None) -> None:
    """Serves until Ctrl-C. The server chooses the transport of the calls."""
    with stripline.Node() as node, node.server(Tuner(), transport=transport) as server:
        print(f"serving `{server.service}` at {server.address}; Ctrl-C ends it", flush=True)
        try:
            server.serve()
        except KeyboardInterrupt:
            pass
        print(f"answered {server.counts().calls} calls")


def tune(mhz: str) -> None:
    try:
        frequency_hz = 1e6 * float(mhz)
    except ValueError:
        sys.exit(f"error: `{mhz}` is not a number of MHz")
    with stripline.Node() as node, node.client("tuner") as tuner:
        try:
            reached_hz = tuner.tune(frequency_hz)
        except stripline.OperationError as error:
            refused_hz = error.value["OutOfRange"]["frequency_hz"]
            sys.exit(f"error: {refused_hz / 1e6:g} MHz is not from 1 to 6000 MHz")
        except stripline.NoServerError:
            sys.exit("error: no server is running: start `tuner.py serve`")
    print(f"{reached_hz / 1e6:.4f} MHz")


def status() -> None:
    with stripline.Node() as node, node.client("tuner") as tuner:
        now = Status(**tuner.status())
    print(f"{now.frequency_hz / 1e6:.4f} MHz, tuned {now.tunings} times")


match sys.argv[1:]:
    case ["serve"]:
        serve()
    case ["serve", transport]:
        serve(transport)
    case ["tune", mhz]:
        tune(mhz)
    case ["status"]:
        status()
    case _:
        sys.exit("error: use `serve [TRANSPORT]`, `tune MHZ` or `status`")

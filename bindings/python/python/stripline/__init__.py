"""Low-loss links between radio components, for numpy.

A node joins a domain. Its publishers send arrays on topics, and its subscribers receive them where
the sender wrote them:

    import numpy as np
    import stripline

    with stripline.Node() as node:
        for packet in node.subscriber("iq", np.complex64):
            print(packet.sequence, np.mean(np.abs(packet.samples) ** 2))
"""

try:
    from ._stripline import Loan, Node, Packet, Ports, Publisher, Subscriber, __version__
except ImportError as _error:
    # Python's own refusal, and that of PyO3, do not name the package.
    if "subinterpreter" in str(_error) and "stripline does not" not in str(_error):
        raise ImportError(
            "stripline does not work in a subinterpreter; import it in the main interpreter, or start a process"
        ) from _error
    raise

try:
    import numpy as _numpy  # noqa: F401
except ImportError as _error:
    raise ImportError("stripline needs the package `numpy`; install it: pip install numpy") from _error

from ._components import Component, main
from ._declare import (
    InputPort,
    OutputPort,
    Property,
    TestResult,
    boolean_property,
    choice_property,
    float_property,
    input_port,
    integer_property,
    output_port,
    path_property,
    self_test,
    text_property,
)
from ._errors import (
    EjectedError,
    EndOfStream,
    Error,
    ForkedError,
    NoRoomError,
    NotAcknowledgedError,
    OperatingSystemError,
    PeerError,
    StoppedError,
    TooManyHeldError,
    UsageError,
    WaitInterrupted,
)
from ._types import Axis, Connection, Gap, SampleType, StreamInfo

__all__ = [
    "Axis",
    "Component",
    "Connection",
    "EjectedError",
    "EndOfStream",
    "Error",
    "ForkedError",
    "Gap",
    "InputPort",
    "Loan",
    "NoRoomError",
    "Node",
    "NotAcknowledgedError",
    "OperatingSystemError",
    "OutputPort",
    "Packet",
    "PeerError",
    "Ports",
    "Property",
    "Publisher",
    "SampleType",
    "StoppedError",
    "StreamInfo",
    "Subscriber",
    "TestResult",
    "TooManyHeldError",
    "UsageError",
    "WaitInterrupted",
    "__version__",
    "boolean_property",
    "choice_property",
    "float_property",
    "input_port",
    "integer_property",
    "main",
    "output_port",
    "path_property",
    "self_test",
    "text_property",
]

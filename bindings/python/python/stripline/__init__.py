"""Low-loss links between radio components, for numpy.

A node joins a domain. The publishers of the node send arrays on topics, and the subscribers receive
them where the sender wrote them::

    import numpy as np
    import stripline

    with stripline.Node() as node:
        for packet in node.subscriber("iq", np.complex64):
            print(packet.sequence, np.mean(np.abs(packet.samples) ** 2))
"""

try:
    from ._stripline import (
        Loan,
        LoanInPlace,
        MessagePublisher,
        MessageSubscriber,
        Node,
        Pace,
        Packet,
        Pending,
        Ports,
        Publisher,
        Subscriber,
        Window,
        WindowedSubscriber,
        __version__,
    )
except ImportError as _error:
    # The errors of Python and PyO3 for this case do not name the package.
    if "subinterpreter" in str(_error) and "stripline does not" not in str(_error):
        raise ImportError(
            "stripline does not work in a subinterpreter; import it in the main interpreter, or start a process"
        ) from _error
    raise

try:
    import numpy as _numpy  # noqa: F401
except ImportError as _error:
    raise ImportError("stripline needs the package `numpy`; install it: pip install numpy") from _error

from ._calls import (
    AsyncClient,
    AsyncOperation,
    Client,
    Operation,
    OperationInfo,
    ServerDescription,
    ServerReport,
)
from ._components import Component, main
from ._declare import (
    InputPort,
    MessageInputPort,
    MessageOutputPort,
    OutputPort,
    Property,
    TestResult,
    WindowedInputPort,
    boolean_property,
    choice_property,
    float_property,
    input_port,
    integer_property,
    message_input_port,
    message_output_port,
    output_port,
    path_property,
    self_test,
    text_property,
    windowed_input_port,
)
from ._errors import (
    CallError,
    CallRefusedError,
    ConfigurationError,
    DecodeError,
    EjectedError,
    EndOfStream,
    Error,
    ForkedError,
    NoRoomError,
    NoServerError,
    NotAcknowledgedError,
    OperatingSystemError,
    OperationError,
    PeerError,
    ServerGoneError,
    StoppedError,
    TooManyHeldError,
    UnansweredError,
    UsageError,
    WaitInterrupted,
)
from ._messages import Message
from ._services import Server, ServerCounts, operation, service
from ._types import Age, Axis, Connection, Gap, Refusal, SampleType, StreamClock, StreamInfo

__all__ = [
    "Age",
    "AsyncClient",
    "AsyncOperation",
    "Axis",
    "CallError",
    "CallRefusedError",
    "Client",
    "Component",
    "ConfigurationError",
    "Connection",
    "DecodeError",
    "EjectedError",
    "EndOfStream",
    "Error",
    "ForkedError",
    "Gap",
    "InputPort",
    "Loan",
    "LoanInPlace",
    "Message",
    "MessageInputPort",
    "MessageOutputPort",
    "MessagePublisher",
    "MessageSubscriber",
    "NoRoomError",
    "NoServerError",
    "Node",
    "NotAcknowledgedError",
    "OperatingSystemError",
    "Operation",
    "OperationError",
    "OperationInfo",
    "OutputPort",
    "Pace",
    "Packet",
    "PeerError",
    "Pending",
    "Ports",
    "Property",
    "Publisher",
    "Refusal",
    "SampleType",
    "Server",
    "ServerCounts",
    "ServerDescription",
    "ServerGoneError",
    "ServerReport",
    "StoppedError",
    "StreamClock",
    "StreamInfo",
    "Subscriber",
    "TestResult",
    "TooManyHeldError",
    "UnansweredError",
    "UsageError",
    "WaitInterrupted",
    "Window",
    "WindowedInputPort",
    "WindowedSubscriber",
    "__version__",
    "boolean_property",
    "choice_property",
    "float_property",
    "input_port",
    "integer_property",
    "main",
    "message_input_port",
    "message_output_port",
    "operation",
    "output_port",
    "path_property",
    "self_test",
    "service",
    "text_property",
    "windowed_input_port",
]

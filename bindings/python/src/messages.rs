//! Publishers and subscribers of messages. A message is a Python value.

use std::sync::Arc;

use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use stripline::node::{Holding, Publisher as RustPublisher};
use stripline::payload::{Dynamic, TypeName};
use stripline::{Error, Received};

use crate::array::{ArrayType, Bytes};
use crate::component::Requests;
use crate::error;
use crate::node::NodeHandle;
use crate::packet::{Packet, Shared};
use crate::publisher::{Publisher, Stamps};
use crate::stream;
use crate::subscriber::Subscriber;
use crate::value;
use crate::waits;

/// Reads a message type.
pub fn message_type(text: &str) -> PyResult<TypeName> {
    stripline_bindings::message_type(text).map_err(error::raised)
}

/// Returns the array type for the bytes of messages.
fn bytes_type(py: Python<'_>) -> PyResult<ArrayType> {
    static BYTES: PyOnceLock<ArrayType> = PyOnceLock::new();
    let made = BYTES.get_or_try_init(py, || ArrayType::resolve(pyo3::intern!(py, "u1").as_any()));
    made.map(|made| made.clone_ref(py))
}

/// A sender of messages on a topic. A message is a value of a type that `stripline` can encode.
///
/// Made by `Node.message_publisher`. A message is a dict, list, tuple, str, int, float, bool, None,
/// bytes, complex, a dataclass, an array of numbers, or a nested value of these types. A value that
/// cannot be sent is a `UsageError` that names the place, and nothing is sent.
///
/// `finish` ends the stream, and so does the end of a `with` block. Only one thread at a time may
/// use a publisher.
#[pyclass(frozen, module = "stripline")]
pub struct MessagePublisher {
    port: Publisher,
    what: String,
}

impl MessagePublisher {
    pub fn make(py: Python<'_>, node: Arc<NodeHandle>, topic: String, messages: &str) -> PyResult<Self> {
        let messages = message_type(messages)?;
        let array = bytes_type(py)?;
        let made = waits::quietly(py, || node.node().publisher::<Dynamic>((&topic, &messages)));
        let what = format!("the message for port `{topic}`");
        let port = Publisher::new(made.map_err(error::raised)?, topic, array, node);
        Ok(Self { port, what })
    }

    /// Returns the publisher for an output of a component.
    pub fn of_component(py: Python<'_>, publisher: RustPublisher<Dynamic>, port: &str) -> PyResult<Self> {
        let what = format!("the message for port `{port}`");
        Ok(Self { port: Publisher::of_component(publisher, port.into(), bytes_type(py)?), what })
    }

    /// Returns the publisher with which a test sends to an input of a component.
    pub fn of_harness(py: Python<'_>, publisher: RustPublisher<Dynamic>, port: &str) -> PyResult<Self> {
        let what = format!("the message for port `{port}`");
        Ok(Self { port: Publisher::of_harness(publisher, port.into(), bytes_type(py)?), what })
    }

    /// Gives the output of a component back to the library, which ends the stream.
    pub fn give_back(&self) -> PyResult<()> {
        self.port.give_back()
    }

    fn transmit(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        stamps: &Stamps,
        may_wait: bool,
    ) -> PyResult<()> {
        let mut message = value::encode(value, &self.what)?;
        let length = message.len();
        let bytes = Bytes { start: message.as_mut_ptr(), length, samples: length };
        self.port.transmit(py, bytes, stamps, may_wait)
    }
}

#[pymethods]
impl MessagePublisher {
    /// Returns the topic.
    #[getter]
    fn topic(&self) -> &str {
        self.port.topic()
    }

    /// Returns the number of the next message, from 0.
    #[getter]
    fn sequence(&self) -> PyResult<u64> {
        self.port.sequence()
    }

    /// Returns the number of receivers that are connected now.
    #[getter]
    fn receivers(&self) -> PyResult<usize> {
        self.port.receivers()
    }

    /// Waits until `count` receivers are connected. Raises `TimeoutError` if they are not connected
    /// within `timeout` seconds; None waits without a limit.
    #[pyo3(signature = (count=1, timeout=None))]
    fn wait_for_receivers(&self, py: Python<'_>, count: usize, timeout: Option<f64>) -> PyResult<()> {
        self.port.wait_for_receivers(py, count, timeout)
    }

    /// Sends a value. Waits while a receiver has no room, unless its policy drops messages.
    ///
    /// `scope` and `deadline` are the same as for `Publisher.send`.
    #[pyo3(signature = (value, *, scope=None, deadline=None))]
    fn send(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        scope: Option<&str>,
        deadline: Option<f64>,
    ) -> PyResult<()> {
        self.transmit(py, value, &Stamps::default().acknowledged(scope, deadline)?, true)
    }

    /// Sends a value without waiting for room: either all receivers get it, or none. Raises
    /// `NoRoomError` if a receiver has no room.
    fn try_send(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.transmit(py, value, &Stamps::default(), false)
    }

    /// Ends the stream: receivers get the end after the last message. Waits until they have room
    /// for it, `timeout` seconds at most. A second call does nothing.
    #[pyo3(signature = (timeout=10.0))]
    fn finish(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.port.finish(py, timeout)
    }

    /// Leaves the stream without ending it: receivers wait for another publisher.
    fn abandon(&self) -> PyResult<()> {
        self.port.abandon()
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    #[pyo3(signature = (kind=None, *_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        _exception: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.port.leave(py, kind.is_some())
    }

    fn __repr__(&self) -> String {
        format!("<stripline.MessagePublisher `{}`>", self.port.topic())
    }
}

/// A receiver of the messages from all publishers of a topic. Made by `Node.message_subscriber`.
///
/// `for message in subscriber` ends with the stream, and so does `async for`. Each item is a
/// `Message`. A message that cannot be read raises a `DecodeError`, and the next call continues
/// with the next message. A sender that waits for the message (scope `target`) gets the reason.
/// Only one thread at a time may use a subscriber.
#[pyclass(frozen, module = "stripline")]
pub struct MessageSubscriber {
    port: Subscriber,
}

impl MessageSubscriber {
    pub fn make(
        py: Python<'_>,
        node: Arc<NodeHandle>,
        topic: String,
        messages: &str,
        is_spinning: bool,
    ) -> PyResult<Self> {
        let messages = message_type(messages)?;
        let array = bytes_type(py)?;
        // Each message is read and given back before the next is requested.
        let made = waits::quietly(py, || node.node().subscriber::<Dynamic>((&topic, &messages))?.holding(1));
        let shared = Shared { topic, array, streams: Default::default() };
        let port = Subscriber::new(made.map_err(error::raised)?, shared, node, false, is_spinning);
        Ok(Self { port })
    }

    /// Returns the subscriber for an input of a component.
    pub fn of_component(
        py: Python<'_>,
        holding: Holding<Dynamic>,
        port: &str,
        requests: Option<Arc<Requests>>,
    ) -> PyResult<Self> {
        let shared = Shared { topic: port.into(), array: bytes_type(py)?, streams: Default::default() };
        Ok(Self { port: Subscriber::of_component(holding, shared, requests, false) })
    }

    /// Ends the input of a component.
    pub fn give_back(&self) -> PyResult<()> {
        self.port.give_back()
    }
}

/// Decodes the message in a packet, and gives the packet's memory back.
fn message<'py>(py: Python<'py>, packet: &Packet) -> PyResult<Bound<'py, PyAny>> {
    static MESSAGE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let held = packet.held_packet()?;
    match value::decode(py, &held)? {
        Ok(value) => {
            let gap = stream::gap_object(py, held.gap(), None)?;
            let parts = (value, held.sequence(), gap, held.connection());
            MESSAGE.import(py, "stripline._messages", "Message")?.call1(parts)
        }
        Err(reason) => {
            let problem = Error::Decode { what: held.connection().into(), reason };
            drop(held);
            packet.refuse(&problem.to_string())?;
            Err(error::raised(problem))
        }
    }
}

#[pymethods]
impl MessageSubscriber {
    /// Returns the topic.
    #[getter]
    fn topic(&self) -> &str {
        self.port.topic()
    }

    /// Returns the number of senders that are connected now.
    #[getter]
    fn senders(&self) -> PyResult<usize> {
        self.port.senders()
    }

    /// Waits for the next message and returns it. Raises `TimeoutError` if no message arrives
    /// within `timeout` seconds; None waits without a limit. Raises `EndOfStream` after every
    /// sender has ended the stream.
    #[pyo3(signature = (timeout=None))]
    fn receive<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        match self.port.next(py, waits::deadline(timeout)?)? {
            Received::Packet(packet) => message(py, &packet),
            Received::Ended => Err(error::end_of_stream(self.port.topic())),
            Received::Empty => Err(PyTimeoutError::new_err(format!(
                "port `{}`: no message came within {} s",
                self.port.topic(),
                timeout.unwrap_or(f64::INFINITY)
            ))),
        }
    }

    /// Returns the next message if one has arrived, otherwise None. Raises the same exceptions as
    /// `receive`.
    fn try_receive<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let packet = self.port.try_receive(py)?;
        packet.map(|packet| message(py, &packet)).transpose()
    }

    /// Returns a `Refusal` for each sender of the topic that cannot be connected, such as a sender
    /// with another schema.
    fn refusals<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.port.refusals(py)
    }

    /// Returns the gap between the last received message and the end of the stream; None if nothing
    /// was missing there.
    fn gap_at_end<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.port.gap_at_end(py)
    }

    /// Returns a file descriptor for `select`, `poll` or a toolkit, like `Subscriber.fileno`.
    fn fileno(&self) -> PyResult<i32> {
        self.port.fileno()
    }

    /// Makes the descriptor readable once there may be a message, like `Subscriber.arm`.
    fn arm(&self) -> PyResult<bool> {
        self.port.arm()
    }

    /// Ends the subscriber. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.port.close(py)
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let packet = self.port.next(py, None)?.packet();
        packet.map(|packet| message(py, &packet)).transpose()
    }

    fn __aiter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Subscriber::aiter_of(slf.as_any())
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.port.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<stripline.MessageSubscriber `{}`>", self.port.topic())
    }
}

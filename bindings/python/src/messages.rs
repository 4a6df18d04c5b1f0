//! Publishers and subscribers of messages. A message is a Python value.

use std::sync::Arc;

use pyo3::exceptions::{PyException, PyTimeoutError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use stripline::node::{HeldPacket, Holding, KeptStamps, Publisher as RustPublisher};
use stripline::payload::{Dynamic, MessageCheck, TypeName};
use stripline::{Error, Received};

use crate::array::{ArrayType, Bytes};
use crate::component::Requests;
use crate::error;
use crate::node::NodeHandle;
use crate::packet::Shared;
use crate::publisher::{Publisher, Stamps};
use crate::stream;
use crate::subscriber::Subscriber;
use crate::value;
use crate::waits;

/// A type of messages: a text, or a class of the program.
pub struct MessageType {
    pub name: TypeName,
    /// The function that makes a value of the class; `None`: values stay as they are.
    make: Option<Py<PyAny>>,
}

impl MessageType {
    pub fn resolve(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        static RESOLVE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let resolve = RESOLVE.import(given.py(), "stripline._message_types", "_resolve_messages")?;
        let (text, make): (String, Option<Py<PyAny>>) = resolve.call1((given,))?.extract()?;
        let name = stripline_bindings::message_type(&text).map_err(error::raised)?;
        Ok(Self { name, make })
    }

    /// Reads the type that a program has given. Without one, messages have no schema.
    pub fn given(py: Python<'_>, given: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Self::resolve(given.unwrap_or(pyo3::intern!(py, "message/cbor").as_any()))
    }

    /// Returns the check of received messages.
    fn check(&self) -> Option<MessageCheck> {
        self.name.schema().map(|schema| MessageCheck::new(&schema))
    }
}

/// The stamps of a received message.
#[pyclass(frozen, module = "stripline._stripline", name = "_Stamps")]
pub struct MessageStamps {
    pub kept: KeptStamps,
    shared: Arc<Shared>,
}

#[pymethods]
impl MessageStamps {
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shared.streams.object(py, self.kept.stream())
    }
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
/// bytes, complex, a dataclass, an Enum of texts, an array of numbers, or a nested value of these
/// types. A value that cannot be sent, or does not fit the schema of the publisher, is a
/// `UsageError` that names the place, and nothing is sent.
///
/// `finish` ends the stream, and so does the end of a `with` block. Only one thread at a time may
/// use a publisher.
#[pyclass(frozen, module = "stripline")]
pub struct MessagePublisher {
    port: Publisher,
    what: String,
    /// The check of each message, which needs no room at the receivers.
    check: Option<Box<MessageCheck>>,
}

impl MessagePublisher {
    pub fn make(
        py: Python<'_>,
        node: Arc<NodeHandle>,
        topic: String,
        messages: &MessageType,
    ) -> PyResult<Self> {
        let made = waits::quietly(py, || node.node().publisher::<Dynamic>((&topic, &messages.name)));
        let make = |publisher, topic, array| Publisher::new(publisher, topic, array, node);
        Self::of(py, made.map_err(error::raised)?, topic, make)
    }

    /// Returns the publisher for an output of a component.
    pub fn of_component(py: Python<'_>, publisher: RustPublisher<Dynamic>, port: &str) -> PyResult<Self> {
        Self::of(py, publisher, port.into(), Publisher::of_component)
    }

    /// Returns the publisher with which a test sends to an input of a component.
    pub fn of_harness(py: Python<'_>, publisher: RustPublisher<Dynamic>, port: &str) -> PyResult<Self> {
        Self::of(py, publisher, port.into(), Publisher::of_harness)
    }

    fn of(
        py: Python<'_>,
        mut publisher: RustPublisher<Dynamic>,
        port: String,
        make: impl FnOnce(RustPublisher<Dynamic>, String, ArrayType) -> Publisher,
    ) -> PyResult<Self> {
        let (check, what) = (publisher.take_check(), format!("the message for port `{port}`"));
        Ok(Self { port: make(publisher, port, bytes_type(py)?), what, check })
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
        let mut message = value::encode(value, &self.what).map_err(|raised| {
            // The check names the place and the kind of the field.
            let message = self.check.as_ref().zip(value::encode_to_check(value, &self.what).ok());
            let problem = message.and_then(|(check, message)| check.with_floats(&message).err());
            problem.map_or(raised, |problem| error::argument(format!("{}: {problem}", self.what)))
        })?;
        if let Some(check) = &self.check
            && check.check(&message).is_err()
        {
            // In Python, a whole number is also a float.
            let problem = |problem| error::argument(format!("{}: {problem}", self.what));
            message = check.with_floats(&message).map_err(problem)?;
        }
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

    /// Describes the stream of the messages that follow.
    fn set_stream(&self, stream: &Bound<'_, PyAny>) -> PyResult<()> {
        self.port.set_stream(stream)
    }

    /// Waits until `count` receivers are connected. Raises `TimeoutError` if they are not connected
    /// within `timeout` seconds; None waits without a limit.
    #[pyo3(signature = (count=1, timeout=None))]
    fn wait_for_receivers(&self, py: Python<'_>, count: usize, timeout: Option<f64>) -> PyResult<()> {
        self.port.wait_for_receivers(py, count, timeout)
    }

    /// Sends a value. Waits while a receiver has no room, unless its policy drops messages.
    ///
    /// `time_ns`, `sample_index`, `like`, `scope` and `deadline` are the same as for
    /// `Publisher.send`: a message about samples has the stamps of their packet by `like=packet`.
    /// By default, a message has the next `sample_index`.
    #[pyo3(signature = (value, *, time_ns=None, sample_index=None, intended_ns=None, like=None, scope=None, deadline=None))]
    #[expect(clippy::too_many_arguments, reason = "a function with named arguments in Python")]
    fn send(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        time_ns: Option<i64>,
        sample_index: Option<u64>,
        intended_ns: Option<u64>,
        like: Option<&Bound<'_, PyAny>>,
        scope: Option<&str>,
        deadline: Option<f64>,
    ) -> PyResult<()> {
        let stamps = Stamps::new(time_ns, sample_index, intended_ns, like)?;
        self.transmit(py, value, &stamps.acknowledged(scope, deadline)?, true)
    }

    /// Sends a value without waiting for room: either all receivers get it, or none. Raises
    /// `NoRoomError` if a receiver has no room.
    #[pyo3(signature = (value, *, time_ns=None, sample_index=None, intended_ns=None, like=None))]
    fn try_send(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        time_ns: Option<i64>,
        sample_index: Option<u64>,
        intended_ns: Option<u64>,
        like: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.transmit(py, value, &Stamps::new(time_ns, sample_index, intended_ns, like)?, false)
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

    /// Returns the class with the type of the values, for annotations.
    #[classmethod]
    fn __class_getitem__(cls: &Bound<'_, PyType>, _values: &Bound<'_, PyAny>) -> Py<PyType> {
        cls.clone().unbind()
    }

    fn __repr__(&self) -> String {
        format!("<stripline.MessagePublisher `{}`>", self.port.topic())
    }
}

/// A receiver of the messages from all publishers of a topic. Made by `Node.message_subscriber`.
///
/// `for message in subscriber` ends with the stream, and so does `async for`. Each item is a
/// `Message`. A message that cannot be read, or does not fit the schema of the subscriber, raises a
/// `DecodeError`, and the next call continues with the next message. A sender that waits for the
/// message (scope `target`) gets the reason. Only one thread at a time may use a subscriber.
#[pyclass(frozen, weakref, module = "stripline")]
pub struct MessageSubscriber {
    port: Subscriber,
    form: MessageForm,
}

/// The form of received messages.
struct MessageForm {
    check: Option<MessageCheck>,
    make: Option<Py<PyAny>>,
    shared: Arc<Shared>,
}

impl MessageForm {
    fn new(py: Python<'_>, port: String, messages: MessageType) -> PyResult<Self> {
        let check = messages.check();
        let shared = Shared::new(port, bytes_type(py)?);
        Ok(Self { check, make: messages.make, shared: Arc::new(shared) })
    }

    /// Returns the value of a message, or the mistake in the message.
    fn value<'py>(&self, py: Python<'py>, message: &[u8]) -> PyResult<Result<Bound<'py, PyAny>, String>> {
        let value = match self.check.as_ref().map_or(Ok(()), |check| check.check(message)) {
            Ok(()) => value::decode(py, message)?,
            Err(problem) => Err(problem),
        };
        let (Ok(plain), Some(make)) = (&value, &self.make) else { return Ok(value) };
        match make.bind(py).call1((plain,)) {
            // The class refuses the values.
            Err(raised) if raised.is_instance_of::<PyException>(py) => Ok(Err(raised.to_string())),
            made => made.map(Ok),
        }
    }
}

impl MessageSubscriber {
    pub fn make(
        py: Python<'_>,
        node: Arc<NodeHandle>,
        topic: String,
        messages: MessageType,
        is_spinning: bool,
    ) -> PyResult<Self> {
        // Each message is read and given back before the next is requested.
        let name = &messages.name;
        let made = waits::quietly(py, || node.node().subscriber::<Dynamic>((&topic, name))?.holding(1));
        let shared = Shared::new(topic.clone(), bytes_type(py)?);
        let port = Subscriber::new(made.map_err(error::raised)?, shared, node, false, is_spinning);
        Ok(Self { port, form: MessageForm::new(py, topic, messages)? })
    }

    /// Returns the subscriber for an input of a component.
    pub fn of_component(
        py: Python<'_>,
        holding: Holding<Dynamic>,
        port: &str,
        messages: MessageType,
        requests: Option<Arc<Requests>>,
    ) -> PyResult<Self> {
        let shared = Shared::new(port, bytes_type(py)?);
        let form = MessageForm::new(py, port.into(), messages)?;
        Ok(Self { port: Subscriber::of_component(holding, shared, requests, false), form })
    }

    /// Ends the input of a component.
    pub fn give_back(&self) -> PyResult<()> {
        self.port.give_back()
    }
}

impl MessageSubscriber {
    /// Decodes the message in a packet, and gives the packet's memory back.
    fn message<'py>(&self, py: Python<'py>, held: HeldPacket<Dynamic>) -> PyResult<Bound<'py, PyAny>> {
        static MESSAGE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        match self.form.value(py, &held)? {
            Ok(value) => {
                let gap = stream::gap_object(py, held.gap(), None)?;
                let stamps =
                    MessageStamps { kept: KeptStamps::of(&held), shared: Arc::clone(&self.form.shared) };
                let stamps = Bound::new(py, stamps)?;
                let (time_ns, sample_index) = (held.time_ns(), held.sample_index());
                let parts = (value, held.sequence(), gap, held.connection(), time_ns, sample_index, stamps);
                MESSAGE.import(py, "stripline._messages", "Message")?.call1(parts)
            }
            Err(reason) => {
                let problem = Error::Decode { what: held.connection().into(), reason };
                held.refuse(&problem);
                Err(error::raised(problem))
            }
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
        match self.port.next_held(py, waits::deadline(timeout)?)? {
            Received::Packet(held) => self.message(py, held),
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
        self.port.try_next_held()?.map(|held| self.message(py, held)).transpose()
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
        let packet = self.port.next_held(py, None)?.packet();
        packet.map(|held| self.message(py, held)).transpose()
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

    /// Returns the class with the type of the values, for annotations.
    #[classmethod]
    fn __class_getitem__(cls: &Bound<'_, PyType>, _values: &Bound<'_, PyAny>) -> Py<PyType> {
        cls.clone().unbind()
    }

    fn __repr__(&self) -> String {
        format!("<stripline.MessageSubscriber `{}`>", self.port.topic())
    }
}

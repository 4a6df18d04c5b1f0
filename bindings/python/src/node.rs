//! Nodes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use stripline::node::{Node as RustNode, Topics};
use stripline::payload::Dynamic;
use stripline::terms::WaitStrategy;

use crate::array::ArrayType;
use crate::calls::operation_parts;
use crate::error;
use crate::forks::Owner;
use crate::library_log;
use crate::messages::{MessagePublisher, MessageSubscriber, MessageType};
use crate::packet::Shared;
use crate::publisher::Publisher;
use crate::stream;
use crate::subscriber::Subscriber;
use crate::waits;
use crate::windows::WindowedSubscriber;

/// A node of the library, with the options of the topics. The ports of the node share it.
pub struct NodeHandle {
    node: RustNode,
    topics: Topics,
}

impl NodeHandle {
    pub fn node(&self) -> &RustNode {
        &self.node
    }
}

/// A member of a domain, which makes publishers and subscribers of topics.
///
/// Nodes with the same domain find each other. Without arguments, the environment sets the domain
/// and the topics: `STRIPLINE_DOMAIN` and `STRIPLINE_TOPICS`. `topics` is a mapping with the tables
/// of a topics file, or the text or the path of such a file.
///
/// Ports keep their node alive. `close` stops the node, and so does the end of a `with` block:
/// waits in the ports raise `StoppedError`. Any thread may use a node.
#[pyclass(frozen, module = "stripline")]
pub struct Node {
    owner: Owner,
    node: Mutex<Option<Arc<NodeHandle>>>,
}

impl Node {
    fn made(node: RustNode, topics: Topics) -> Self {
        library_log::start();
        Self { owner: Owner::current(), node: Mutex::new(Some(Arc::new(NodeHandle { node, topics }))) }
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, Option<Arc<NodeHandle>>>> {
        self.owner.check(|| "the node".into())?;
        // The lock is held only for a few instructions, together with the interpreter's lock.
        Ok(self.node.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn handle(&self) -> PyResult<Arc<NodeHandle>> {
        self.lock()?.clone().ok_or_else(|| error::closed("the", "node"))
    }
}

#[pymethods]
impl Node {
    #[new]
    #[pyo3(signature = (domain=None, *, topics=None))]
    fn new(py: Python<'_>, domain: Option<String>, topics: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let topics = topics.map(read_topics).transpose()?;
        let joined = waits::quietly(py, || stripline_bindings::join(domain.as_deref(), topics));
        let (node, topics) = joined.map_err(error::raised)?;
        Ok(Self::made(node, topics))
    }

    /// Returns a node in a domain of its own: nothing outside the node is connected. For tests.
    #[staticmethod]
    fn isolated(py: Python<'_>) -> PyResult<Self> {
        let node = waits::quietly(py, RustNode::isolated).map_err(error::raised)?;
        Ok(Self::made(node, Topics::default()))
    }

    /// Returns a publisher of samples on a topic.
    ///
    /// `samples` is a numpy dtype of numbers, or a `SampleType`. `stream` is a `StreamInfo`.
    #[pyo3(signature = (topic, samples, *, stream=None))]
    fn publisher(
        &self,
        py: Python<'_>,
        topic: String,
        samples: &Bound<'_, PyAny>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Publisher> {
        let stream = stream.map(stream::from_object).transpose()?;
        let array = ArrayType::resolve(samples)?;
        let handle = self.handle()?;
        let made = waits::quietly(py, || handle.node.publisher::<Dynamic>((&topic, &array.samples)));
        let mut publisher = made.map_err(error::raised)?;
        if let Some(stream) = stream {
            publisher.set_stream(stream);
        }
        Ok(Publisher::new(publisher, topic, array, handle))
    }

    /// Returns a subscriber to a topic.
    ///
    /// Up to `hold` packets are in use at once, where the sender wrote them. A loop needs two, and
    /// one more for each packet that it keeps. With `copy`, each packet is copied to an array of
    /// the program, and the memory is given back at once.
    #[pyo3(signature = (topic, samples, *, hold=4, copy=false))]
    fn subscriber(
        &self,
        py: Python<'_>,
        topic: String,
        samples: &Bound<'_, PyAny>,
        hold: usize,
        copy: bool,
    ) -> PyResult<Subscriber> {
        let array = ArrayType::resolve(samples)?;
        let handle = self.handle()?;
        let made =
            waits::quietly(py, || handle.node.subscriber::<Dynamic>((&topic, &array.samples))?.holding(hold));
        let is_spinning = handle.topics.of(&topic).link.wait == WaitStrategy::Spin;
        let shared = Shared::new(topic, array);
        Ok(Subscriber::new(made.map_err(error::raised)?, shared, handle, copy, is_spinning))
    }

    /// Returns a subscriber to a topic that returns samples in windows of any length, which may
    /// overlap. Windows may use up to `hold` packets at once.
    #[pyo3(signature = (topic, samples, *, hold=4))]
    fn windowed_subscriber(
        &self,
        py: Python<'_>,
        topic: String,
        samples: &Bound<'_, PyAny>,
        hold: usize,
    ) -> PyResult<WindowedSubscriber> {
        WindowedSubscriber::make(py, self.handle()?, topic, ArrayType::resolve(samples)?, hold)
    }

    /// Returns a publisher of messages on a topic.
    ///
    /// `messages` is their type: a dataclass or a TypedDict; `"message/cbor"` for any message, or
    /// `"message/"` and a schema, such as `"message/tune{hz:f64}"` (docs/layouts.md). Both ends
    /// compare the schema, and the publisher checks each message.
    #[pyo3(signature = (topic, messages=None), text_signature = "($self, topic, messages='message/cbor')")]
    fn message_publisher(
        &self,
        py: Python<'_>,
        topic: String,
        messages: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<MessagePublisher> {
        MessagePublisher::make(py, self.handle()?, topic, &MessageType::given(py, messages)?)
    }

    /// Returns a subscriber to messages on a topic. `messages` is the same as for
    /// `message_publisher`. The values are instances of a dataclass, or else dicts.
    #[pyo3(signature = (topic, messages=None), text_signature = "($self, topic, messages='message/cbor')")]
    fn message_subscriber(
        &self,
        py: Python<'_>,
        topic: String,
        messages: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<MessageSubscriber> {
        let handle = self.handle()?;
        let is_spinning = handle.topics.of(&topic).link.wait == WaitStrategy::Spin;
        MessageSubscriber::make(py, handle, topic, MessageType::given(py, messages)?, is_spinning)
    }

    /// Returns a client of a service, which calls the servers of the service in turn: see `Client`.
    ///
    /// `deadline` is the time limit of a call in seconds, which includes the wait for a server: an
    /// hour at most. `outstanding` is the number of calls that may be without a reply at each
    /// server.
    #[pyo3(signature = (service, *, deadline=5.0, outstanding=1024))]
    fn client<'py>(
        slf: &Bound<'py, Self>,
        service: &str,
        deadline: f64,
        outstanding: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        of_module(slf.py(), "stripline._calls", "Client")?.call1((slf, service, deadline, outstanding))
    }

    /// Returns a client like `client`, with calls that are awaited: see `AsyncClient`.
    #[pyo3(signature = (service, *, deadline=5.0, outstanding=1024))]
    fn async_client<'py>(
        slf: &Bound<'py, Self>,
        service: &str,
        deadline: f64,
        outstanding: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        of_module(slf.py(), "stripline._calls", "AsyncClient")?.call1((slf, service, deadline, outstanding))
    }

    /// Returns a server of an object of a class with `@service`. Clients find it from now on. Their
    /// calls wait until it serves: see `Server`.
    ///
    /// `service` replaces the service name of the class. `name` is the name of the server, by which
    /// calls with a key find it. `transport` is the transport of the calls. Up to `clients` clients
    /// are connected at a time. Up to `waiting` calls may wait, and further calls are refused; with
    /// None, no call is refused.
    #[pyo3(signature = (serves, *, service=None, name=None, transport=None, clients=256, waiting=None))]
    fn server<'py>(
        slf: &Bound<'py, Self>,
        serves: &Bound<'py, PyAny>,
        service: Option<&str>,
        name: Option<&str>,
        transport: Option<&str>,
        clients: u32,
        waiting: Option<u32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let make = of_module(slf.py(), "stripline._services", "Server")?;
        make.call1((slf, serves, service, name, transport, clients, waiting))
    }

    /// Returns a `ServerDescription` for each server of the domain, as `stripline services` lists
    /// them. A server that does not answer is left out.
    fn servers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let describe = of_module(py, "stripline._calls", "_server_description")?;
        let handle = self.handle()?;
        let offers = waits::detached(py, || handle.node.known_servers()).map_err(error::raised)?;
        let mut made = Vec::new();
        for offer in offers {
            if let Ok(server) = waits::detached(py, || handle.node.describe(&offer)) {
                let operations = operation_parts(&server.operations);
                made.push(describe.call1((offer.service, server.server, offer.address, operations))?);
            }
        }
        Ok(made)
    }

    /// Returns a `Connection` with the counters of each connection to the node's subscribers.
    fn connections<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        static CONNECTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static AGE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let connection = CONNECTION.import(py, "stripline._types", "Connection")?;
        let reports = self.handle()?.node.connections();
        let made = reports.into_iter().map(|it| {
            let age = it.age.map(|age| {
                let reference = age.clock.map(|clock| clock.reference.word());
                let error_ns = age.clock.and_then(|clock| clock.error_ns);
                let of = AGE.import(py, "stripline._types", "_age")?;
                of.call1((age.samples, age.last_ns, age.max_ns, reference, error_ns))
            });
            connection.call1((
                it.connection,
                it.packets,
                it.bytes,
                it.lost,
                it.lost_samples,
                it.gaps,
                it.reordered,
                it.peer_deaths,
                age.transpose()?,
            ))
        });
        made.collect()
    }

    /// Stops the node: all waits in the node's ports raise `StoppedError`, now and later.
    fn stop(&self) -> PyResult<()> {
        self.handle()?.node.stop();
        Ok(())
    }

    /// Stops the node, and leaves the domain when all ports of the node are gone. A second call
    /// does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.lock()?.take();
        if let Some(handle) = handle {
            handle.node.stop();
            waits::detached(py, || drop(handle));
        }
        Ok(())
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }
}

/// Returns a Python class or function of the package.
fn of_module<'py>(py: Python<'py>, module: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import(module)?.getattr(name)
}

fn read_topics(given: &Bound<'_, PyAny>) -> PyResult<Topics> {
    static TEXT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let text = TEXT.import(given.py(), "stripline._types", "_topics_text")?.call1((given,))?;
    let read = match text.extract::<String>() {
        Ok(text) => Topics::parse(&text),
        Err(_) => Topics::load(&text.extract::<PathBuf>()?),
    };
    read.map_err(error::raised)
}

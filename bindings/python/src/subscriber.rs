//! Subscribers.

use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyAttributeError, PyTimeoutError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use stripline::node::{HeldPacket, Holding};
use stripline::payload::Dynamic;
use stripline::{Error, Received};

use crate::component::Requests;
use crate::error;
use crate::input::Input;
use crate::node::NodeHandle;
use crate::one_user::OneUser;
use crate::packet::{Packet, Shared};
use crate::stream;
use crate::waits;

/// The time that a subscriber spins before it checks for signals.
const SPIN_TIME: Duration = Duration::from_millis(2);

/// The receiver of the packets of a topic, from every publisher of the topic.
///
/// `for packet in subscriber` ends with the stream, and so does `async for`. Only one thread at a
/// time may use a subscriber, but any thread may use its packets.
#[pyclass(frozen, weakref, module = "stripline")]
pub struct Subscriber {
    shared: Arc<Shared>,
    is_copying: bool,
    is_spinning: bool,
    port: OneUser<Port>,
}

struct Port {
    input: Input,
    /// An error that occurred after packets that were returned together.
    deferred: Option<Error>,
    /// Senders that are found are connected while the node exists.
    _node: Option<Arc<NodeHandle>>,
}

impl Subscriber {
    pub fn new(
        holding: Holding<Dynamic>,
        shared: Shared,
        node: Arc<NodeHandle>,
        is_copying: bool,
        is_spinning: bool,
    ) -> Self {
        let port = Port { input: Input::new(holding, None), deferred: None, _node: Some(node) };
        Self::made(port, shared, is_copying, is_spinning)
    }

    /// Returns the input of a component, which handles requests in each receive.
    pub fn of_component(
        holding: Holding<Dynamic>,
        shared: Shared,
        requests: Option<Arc<Requests>>,
        is_copying: bool,
    ) -> Self {
        let port = Port { input: Input::new(holding, requests), deferred: None, _node: None };
        Self::made(port, shared, is_copying, false)
    }

    fn made(port: Port, shared: Shared, is_copying: bool, is_spinning: bool) -> Self {
        Self { shared: Arc::new(shared), is_copying, is_spinning, port: OneUser::new("subscriber", port) }
    }

    /// Ends the input of a component.
    pub fn give_back(&self) -> PyResult<()> {
        self.lock()?.take();
        Ok(())
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, Option<Port>>> {
        self.port.lock(&self.shared.topic)
    }

    fn with<R>(&self, use_it: impl FnOnce(&mut Port) -> PyResult<R>) -> PyResult<R> {
        self.port.with(&self.shared.topic, use_it)
    }

    fn packet(&self, py: Python<'_>, held: HeldPacket<Dynamic>) -> PyResult<Packet> {
        let shared = Arc::clone(&self.shared);
        match self.is_copying {
            true => Packet::copied(py, shared, self.port.owner(), &held),
            false => Ok(Packet::held(shared, self.port.owner(), held)),
        }
    }

    /// Returns an asynchronous iterator over a receiver, for `async for`.
    pub fn aiter_of<'py>(receiver: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        static PACKETS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        PACKETS.import(receiver.py(), "stripline._aio", "AsyncPackets")?.call1((receiver,))
    }

    /// Waits for the next packet, at most until the deadline, and returns it.
    fn next(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<Received<Packet>> {
        Ok(match self.next_held(py, deadline)? {
            Received::Packet(held) => Received::Packet(self.packet(py, held)?),
            Received::Empty => Received::Empty,
            Received::Ended => Received::Ended,
        })
    }

    /// Waits like `next`, and returns the packet without an object.
    pub fn next_held(
        &self,
        py: Python<'_>,
        deadline: Option<Instant>,
    ) -> PyResult<Received<HeldPacket<Dynamic>>> {
        self.with(|port| {
            port.input.serve();
            // If a packet has arrived already, the interpreter's lock is not released.
            match port.try_receive() {
                Ok(Received::Empty) => {}
                found => return found.map_err(error::raised),
            }
            match self.is_spinning {
                true => port.spin(py, deadline),
                false => port.input.wait(py, deadline),
            }
        })
    }

    /// Returns the next packet without an object, if one has arrived; `None`: nothing has arrived.
    pub fn try_next_held(&self) -> PyResult<Option<HeldPacket<Dynamic>>> {
        let found = self.with(|port| {
            port.input.serve();
            port.try_receive().map_err(error::raised)
        })?;
        match found {
            Received::Packet(held) => Ok(Some(held)),
            Received::Empty => Ok(None),
            Received::Ended => Err(error::end_of_stream(&self.shared.topic)),
        }
    }
}

impl Port {
    fn try_receive(&mut self) -> Result<Received<HeldPacket<Dynamic>>, Error> {
        self.deferred.take().map_or_else(|| self.input.holding.try_receive(), Err)
    }

    /// Waits without sleeping, and lets Python run signal handlers now and then.
    fn spin(&mut self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<Received<HeldPacket<Dynamic>>> {
        loop {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(Received::Empty);
            }
            let pause = now + SPIN_TIME;
            let until = deadline.map_or(pause, |deadline| deadline.min(pause));
            let holding = &mut self.input.holding;
            let found = waits::detached(py, || {
                loop {
                    // Reading the clock costs more than a poll.
                    for _ in 0..64 {
                        match holding.try_receive() {
                            Ok(Received::Empty) => std::hint::spin_loop(),
                            found => return found,
                        }
                    }
                    if Instant::now() >= until {
                        return Ok(Received::Empty);
                    }
                }
            });
            match found {
                Ok(Received::Empty) => py.check_signals()?,
                found => return found.map_err(error::raised),
            }
        }
    }
}

#[pymethods]
impl Subscriber {
    /// Fails for an attribute that does not exist.
    fn __getattr__(&self, name: &str) -> PyResult<()> {
        let remedy = match name {
            "windows" => "; declare the port by `windowed_input_port`, or take `node.windowed_subscriber`",
            _ => "",
        };
        Err(PyAttributeError::new_err(format!(
            "'stripline.Subscriber' object has no attribute '{name}'{remedy}"
        )))
    }

    /// Returns the topic.
    #[getter]
    pub fn topic(&self) -> &str {
        &self.shared.topic
    }

    /// Returns the type of the samples for numpy.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.shared.array.dtype(py).into_any()
    }

    /// Returns the number of senders that are connected now.
    #[getter]
    pub fn senders(&self) -> PyResult<usize> {
        self.with(|port| Ok(port.input.holding.senders()))
    }

    /// Returns the number of packets in use now.
    #[getter]
    fn held(&self) -> PyResult<usize> {
        self.with(|port| Ok(port.input.holding.held()))
    }

    /// Waits for the next packet and returns it. Raises `TimeoutError` if no packet arrives within
    /// `timeout` seconds; None waits without a limit. Raises `EndOfStream` after every sender has
    /// ended the stream, and `TooManyHeldError` if `hold` packets are in use.
    #[pyo3(signature = (timeout=None))]
    fn receive(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Packet> {
        match self.next(py, waits::deadline(timeout)?)? {
            Received::Packet(packet) => Ok(packet),
            Received::Ended => Err(error::end_of_stream(&self.shared.topic)),
            Received::Empty => Err(PyTimeoutError::new_err(format!(
                "port `{}`: no packet came within {} s",
                self.shared.topic,
                timeout.unwrap_or(f64::INFINITY)
            ))),
        }
    }

    /// Returns the next packet if one has arrived, otherwise None. Raises the same exceptions as
    /// `receive`.
    fn try_receive(&self, py: Python<'_>) -> PyResult<Option<Packet>> {
        self.try_next_held()?.map(|held| self.packet(py, held)).transpose()
    }

    /// Waits for a packet, and returns it with all others that have arrived, `limit` at most. An
    /// empty list is the end of the stream.
    ///
    /// Without `copy`, it returns no more packets than `hold` allows. If an error follows the first
    /// packet, the next call that receives raises it.
    fn drain(&self, py: Python<'_>, limit: usize) -> PyResult<Vec<Packet>> {
        if limit == 0 {
            return Err(error::argument("the limit of packets is 0; it must be at least 1".into()));
        }
        let mut packets: Vec<Packet> = self.next(py, None)?.packet().into_iter().collect();
        while !packets.is_empty() && packets.len() < limit {
            let found = self.with(|port| Ok(port.input.holding.try_receive()));
            match found? {
                Ok(Received::Packet(held)) => packets.push(self.packet(py, held)?),
                Ok(Received::Empty | Received::Ended) | Err(Error::TooManyHeld { .. }) => break,
                Err(problem) => {
                    self.with(|port| {
                        port.deferred = Some(problem);
                        Ok(())
                    })?;
                    break;
                }
            }
        }
        Ok(packets)
    }

    /// Returns a `Refusal` for each sender of the topic that cannot be connected, such as a sender
    /// of another type. A sender is listed while it exists.
    pub fn refusals<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let refused = self.with(|port| Ok(port.input.holding.refusals()))?;
        stream::refusal_objects(py, refused)
    }

    /// Returns the gap between the last received packet and the end of the stream; None if nothing
    /// was missing there.
    pub fn gap_at_end<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let gap = self.with(|port| Ok(port.input.holding.gap_at_end()))?;
        stream::gap_object(py, gap.as_ref(), None)
    }

    /// Returns a descriptor for `select`, `poll` or a toolkit. Once `arm` has returned True, it
    /// becomes readable when the subscriber needs a call.
    pub fn fileno(&self) -> PyResult<i32> {
        self.with(|port| port.input.fileno())
    }

    /// Makes the descriptor readable once there may be a packet. Returns False if something has
    /// arrived already: then call `try_receive` first. Call it each time before the loop waits.
    pub fn arm(&self) -> PyResult<bool> {
        self.with(|port| Ok(port.input.arm()? && port.deferred.is_none()))
    }

    /// Ends the subscriber. Packets that are in use stay valid. A second call does nothing.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        let port = self.lock()?.take();
        waits::detached(py, || drop(port));
        Ok(())
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Packet>> {
        Ok(self.next(py, None)?.packet())
    }

    fn __aiter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::aiter_of(slf.as_any())
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<stripline.Subscriber `{}` of {}>", self.shared.topic, self.shared.array.samples)
    }
}

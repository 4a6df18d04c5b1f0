//! Publishers.

use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use numpy::PyUntypedArray;
use pyo3::exceptions::{PyResourceWarning, PyTimeoutError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use stripline::node::{self, KeptStamps, Waker};
use stripline::payload::Dynamic;
use stripline::terms::Scope;
use stripline::{Error, StreamInfo};
use stripline_bindings as bindings;

use crate::array::{self, ArrayType, Bytes};
use crate::error;
use crate::frames;
use crate::held_array::PacketMemory;
use crate::lender::Lender;
use crate::loan::Loan;
use crate::loan_in_place::{LentArray, LoanInPlace};
use crate::messages::MessageStamps;
use crate::node::NodeHandle;
use crate::one_user::OneUser;
use crate::packet::Packet;
use crate::stream;
use crate::waits;

/// Larger packets are copied without the interpreter's lock.
const COPIED_WITH_LOCK_MAX: usize = 256 << 10;
/// The number of loan buffers that a publisher keeps: one for the previous turn of a loop, and one
/// for the current turn.
const BUFFERS_MAX: usize = 2;

/// A sender of packets of samples on a topic.
///
/// `finish` ends the stream, and so does the end of a `with` block. A publisher that is dropped
/// without it abandons its stream, with a `ResourceWarning`. Only one thread at a time may use a
/// publisher.
#[pyclass(frozen, module = "stripline")]
pub struct Publisher {
    topic: String,
    array: ArrayType,
    /// Whether each send waits for the receivers: then nothing is sent with the interpreter's lock.
    is_acknowledged: bool,
    /// Whether a component has the publisher. In this case, the library ends the stream.
    is_of_component: bool,
    port: OneUser<Port>,
}

struct Port {
    publisher: Lender,
    waker: Option<Waker>,
    /// Arrays of the program. Loans use their memory by turns.
    buffers: Vec<Py<PyUntypedArray>>,
    /// New receivers are connected while the node exists.
    _node: Option<Arc<NodeHandle>>,
    /// An array for the next loan in place.
    spare: Option<LentArray>,
    /// The end of the stream, which waits for a loan in place.
    left: Option<Left>,
}

/// The way in which a stream was left.
#[derive(Clone, Copy)]
enum Left {
    /// The library ends the stream.
    GivenBack,
    Abandoned,
}

/// The numbers of a packet that the sender sets.
#[derive(Default)]
pub struct Stamps {
    own: bindings::Stamps,
    like: Option<Like>,
}

/// The packet or message that a sent one takes the stamps of.
enum Like {
    Packet(PacketMemory),
    Message(KeptStamps),
}

impl Like {
    fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(packet) = given.cast::<Packet>() {
            return packet.get().memory(given.py()).map(Self::Packet);
        }
        let stamps = given.getattr_opt(pyo3::intern!(given.py(), "_stamps"))?;
        match stamps.as_ref().and_then(|stamps| stamps.cast::<MessageStamps>().ok()) {
            Some(stamps) => Ok(Self::Message(stamps.get().kept.clone())),
            None => {
                let kind = given.get_type();
                Err(error::argument(format!(
                    "`like` is a {}; give a packet or a message that was received",
                    kind.name()?
                )))
            }
        }
    }
}

impl Stamps {
    pub fn new(
        time_ns: Option<i64>,
        sample_index: Option<u64>,
        intended_ns: Option<u64>,
        like: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        if like.is_some() && (time_ns.is_some() || sample_index.is_some()) {
            return Err(error::argument("`like` sets time and index; leave out either it or them".into()));
        }
        let like = like.map(Like::of).transpose()?;
        let own = bindings::Stamps { time_ns, sample_index, intended_ns, ..Default::default() };
        Ok(Self { own, like })
    }

    /// Returns the same stamps with a scope and a deadline, in seconds, for this packet.
    pub fn acknowledged(mut self, scope: Option<&str>, deadline: Option<f64>) -> PyResult<Self> {
        self.own.scope = scope.map(str::parse).transpose().map_err(error::argument)?;
        self.own.deadline = deadline.map(waits::duration).transpose()?;
        Ok(self)
    }

    /// Returns the stream, and the index of the first sample, of a packet of this publisher.
    fn place(&self, publisher: &node::Publisher<Dynamic>) -> (Arc<StreamInfo>, u64) {
        let (stream, next) = publisher.place();
        match &self.like {
            None => (Arc::clone(stream), self.own.sample_index.unwrap_or(next)),
            Some(Like::Packet(memory)) => {
                let packet = memory.packet();
                (Arc::clone(packet.stream()), packet.sample_index())
            }
            Some(Like::Message(stamps)) => (Arc::clone(stamps.stream()), stamps.sample_index()),
        }
    }

    fn is_acknowledged(&self) -> bool {
        self.own.scope.is_some_and(|scope| scope > Scope::Transport)
    }

    fn send(&self, loan: node::Loan<'_, Dynamic>) -> Result<(), Error> {
        let loan = self.own.apply(loan);
        match &self.like {
            None => loan.send(),
            Some(Like::Packet(memory)) => loan.send_like(memory.packet()),
            Some(Like::Message(stamps)) => loan.send_like(stamps),
        }
    }
}

impl Publisher {
    pub fn new(
        publisher: node::Publisher<Dynamic>,
        topic: String,
        array: ArrayType,
        node: Arc<NodeHandle>,
    ) -> Self {
        Self::made(publisher, topic, array, Some(node))
    }

    /// Returns the output of a component.
    pub fn of_component(publisher: node::Publisher<Dynamic>, port: String, array: ArrayType) -> Self {
        let mut made = Self::made(publisher, port, array, None);
        made.is_of_component = true;
        made
    }

    /// Returns the sending end of an input, for a test.
    pub fn of_harness(publisher: node::Publisher<Dynamic>, port: String, array: ArrayType) -> Self {
        Self::made(publisher, port, array, None)
    }

    fn made(
        publisher: node::Publisher<Dynamic>,
        topic: String,
        array: ArrayType,
        node: Option<Arc<NodeHandle>>,
    ) -> Self {
        let is_acknowledged = publisher.scope() > Scope::Transport;
        let publisher = Lender::new(publisher);
        let port = Port { publisher, waker: None, buffers: Vec::new(), _node: node, spare: None, left: None };
        Self { topic, array, is_acknowledged, is_of_component: false, port: OneUser::new("publisher", port) }
    }

    /// Gives the output of a component back to the library, which ends the stream.
    pub fn give_back(&self) -> PyResult<()> {
        drop(self.leave_as(Left::GivenBack)?);
        Ok(())
    }

    /// Takes the port. While a loan in place is open, the loan's end does it.
    fn leave_as(&self, left: Left) -> PyResult<Option<Port>> {
        let mut port = self.lock()?;
        if let Some(port) = &mut *port
            && port.publisher.is_lent()
        {
            port.left.get_or_insert(left);
            return Ok(None);
        }
        Ok(port.take())
    }

    pub fn array(&self) -> &ArrayType {
        &self.array
    }

    /// Returns the memory of an array that is to be sent.
    fn bytes_of(&self, samples: &Bound<'_, PyAny>, stamps: &Stamps) -> PyResult<Bytes> {
        self.array.bytes_of(samples, &self.topic, || self.with(|port| Ok(stamps.place(port.publisher()?))))
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, Option<Port>>> {
        self.port.lock(&self.topic)
    }

    fn with<R>(&self, use_it: impl FnOnce(&mut Port) -> PyResult<R>) -> PyResult<R> {
        self.port.with(&self.topic, |port| match port.publisher.is_lent() {
            false => use_it(port),
            true => Err(self.lent(port)),
        })
    }

    /// Returns the error for a publisher with an open loan in place.
    #[cold]
    fn lent(&self, port: &Port) -> PyErr {
        let topic = &self.topic;
        match port.left {
            Some(_) => error::closed("publisher", topic),
            None => error::argument(format!(
                "publisher `{topic}` has an open loan in place; end the block, and delete all arrays, views and buffers \
                 over its memory"
            )),
        }
    }

    /// Checks that this process made the publisher.
    pub fn check_owner(&self) -> PyResult<()> {
        self.port.owner().check(|| format!("publisher `{}`", self.topic))
    }

    /// Opens a loan in place, and returns the first byte of the memory, and an array that can be
    /// used for it.
    pub fn lend(&self, py: Python<'_>, samples: usize) -> PyResult<(*mut u8, Option<LentArray>)> {
        self.with(|port| {
            loop {
                match port.publisher.lend(samples) {
                    Err(Error::Full { .. }) => {}
                    Err(Error::TooLarge { .. }) => break,
                    Ok(place) => return Ok((place, port.spare.take())),
                    Err(error) => return Err(error::raised(error)),
                }
                // The loan that waits is cancelled: a send of it would wait with the interpreter's
                // lock.
                port.wait(py, |publisher| publisher.loan(samples).map(drop))?;
            }
            let most = port.publisher()?.in_place_samples_max();
            Err(error::argument(format!(
                "a packet of {samples} samples is too large for a loan in place of port `{}`: one has at most {most}; \
                 leave out `in_place`",
                self.topic
            )))
        })
    }

    /// Ends the open loan in place, which no array reaches any more: sends the first `samples`
    /// samples, or cancels the loan. A stream that was left in the block gets no packet.
    pub fn end_lent(
        &self,
        py: Python<'_>,
        samples: Option<usize>,
        stamps: &Stamps,
        spare: Option<LentArray>,
    ) -> PyResult<()> {
        let mut port = self.lock()?;
        let Some(open) = &mut *port else { return Err(error::closed("publisher", &self.topic)) };
        open.spare = spare;
        let samples = samples.filter(|_| open.left.is_none());
        let sent = match samples {
            Some(samples) => open.send_lent(py, samples, stamps, self.is_acknowledged),
            None => {
                drop(open.publisher.take());
                Ok(())
            }
        };
        let left = open.left.and_then(|left| Some((left, port.take()?)));
        drop(port);
        Self::end_left(left);
        sent
    }

    /// Cancels the loan in place when the last array over its memory is gone.
    pub fn cancel_lent(&self) {
        let Ok(mut port) = self.lock() else { return };
        let Some(open) = &mut *port else { return };
        drop(open.publisher.take());
        let left = open.left.and_then(|left| Some((left, port.take()?)));
        drop(port);
        Self::end_left(left);
    }

    fn end_left(left: Option<(Left, Port)>) {
        match left {
            Some((Left::Abandoned, port)) => port.publisher.into_inner().abandon(),
            Some((Left::GivenBack, port)) => drop(port),
            None => {}
        }
    }

    /// Sends the bytes of an array that the caller keeps alive. Without `may_wait`, it does not
    /// wait for room.
    pub fn transmit(&self, py: Python<'_>, bytes: Bytes, stamps: &Stamps, may_wait: bool) -> PyResult<()> {
        self.with(|port| {
            let is_acknowledged = self.is_acknowledged || stamps.is_acknowledged();
            if !is_acknowledged && bytes.length <= COPIED_WITH_LOCK_MAX {
                let sent = match port.publisher()?.try_loan(bytes.samples) {
                    Ok(mut loan) => {
                        // SAFETY: the caller keeps the array alive, and a loan does not overlap it.
                        unsafe { bytes.copy_to(&mut loan) };
                        Some(stamps.send(loan))
                    }
                    // The next attempt may wait, and send in fragments.
                    Err(Error::Full { .. } | Error::TooLarge { .. }) if may_wait => None,
                    Err(error) => Some(Err(error)),
                };
                match sent {
                    Some(Ok(())) if may_wait => return port.settle(py),
                    Some(outcome) => return outcome.map_err(error::raised),
                    None => {}
                }
            }
            port.wait(py, |publisher| {
                let mut loan = match may_wait {
                    true => publisher.loan(bytes.samples)?,
                    false => publisher.try_loan(bytes.samples)?,
                };
                // SAFETY: as above.
                unsafe { bytes.copy_to(&mut loan) };
                stamps.send(loan)
            })
        })
    }

    /// Returns a writable array of the program with room for `samples` samples, which no other
    /// array shares.
    pub fn buffer(&self, py: Python<'_>, samples: usize) -> PyResult<Py<PyUntypedArray>> {
        self.with(|port| {
            let is_free = |buffer: &Py<PyUntypedArray>| {
                // Arrays over a buffer have it as their base. Without the interpreter's lock, the
                // reference count is not a single number. SAFETY: the reference is valid.
                let is_alone = !cfg!(Py_GIL_DISABLED) && unsafe { ffi::Py_REFCNT(buffer.as_ptr()) } == 1;
                is_alone && self.array.has_room(buffer.bind(py), samples)
            };
            if let Some(index) = port.buffers.iter().position(is_free) {
                let buffer = port.buffers.swap_remove(index);
                array::set_writable(buffer.bind(py), true);
                return Ok(buffer);
            }
            let most = port.publisher()?.samples_max();
            if samples > most {
                return Err(error::argument(format!(
                    "a packet of {samples} samples is too large for port `{}`: one has at most {most}",
                    self.topic
                )));
            }
            Ok(self.array.empty(py, samples)?.unbind())
        })
    }

    /// Takes a buffer back, for a later loan.
    pub fn take_back(&self, buffer: Py<PyUntypedArray>) {
        let Ok(mut port) = self.lock() else { return };
        let Some(port) = &mut *port else { return };
        // The oldest buffer is removed, because the program most likely keeps it.
        let oldest = (port.buffers.len() >= BUFFERS_MAX).then(|| port.buffers.remove(0));
        port.buffers.push(buffer);
        drop(oldest);
    }

    fn end(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<()> {
        let mut port = self.lock()?;
        if let Some(open) = &mut *port {
            if open.publisher.is_lent() {
                return Err(self.lent(open));
            }
            open.wait(py, |publisher| publisher.end(waits::time_left(deadline)))?;
        }
        *port = None;
        Ok(())
    }

    /// Ends the stream at the end of a `with` block.
    pub fn leave(&self, py: Python<'_>, is_failed: bool) -> PyResult<()> {
        // After an exception, the packets that were sent are not complete.
        if is_failed { self.give_up() } else { self.finish(py, Some(10.0)) }
    }

    fn give_up(&self) -> PyResult<()> {
        if let Some(port) = self.leave_as(Left::Abandoned)? {
            port.publisher.into_inner().abandon();
        }
        Ok(())
    }
}

impl Port {
    /// Waits until the transport has taken the packet: a send that waits has not returned before.
    fn settle(&mut self, py: Python<'_>) -> PyResult<()> {
        match self.publisher()?.settle(false) {
            Err(Error::Full { .. }) => self.wait(py, |publisher| publisher.settle(true)),
            outcome => outcome.map_err(error::raised),
        }
    }

    fn publisher(&mut self) -> PyResult<&mut node::Publisher<Dynamic>> {
        self.publisher.publisher().ok_or_else(|| error::argument("a loan in place is open".into()))
    }

    fn wait<R: Send>(
        &mut self,
        py: Python<'_>,
        mut once: impl FnMut(&mut node::Publisher<Dynamic>) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        if self.waker.is_none() {
            self.waker = Some(self.publisher()?.waker().map_err(error::raised)?);
        }
        let Self { publisher, waker: Some(waker), .. } = self else { unreachable!("it was just made") };
        let Some(publisher) = publisher.publisher() else {
            return Err(error::argument("a loan in place is open".into()));
        };
        waits::run(py, waker, || once(publisher))?.map_err(error::raised)
    }

    /// Sends the open loan, and closes it.
    fn send_lent(
        &mut self,
        py: Python<'_>,
        samples: usize,
        stamps: &Stamps,
        is_acknowledged: bool,
    ) -> PyResult<()> {
        let Some(mut loan) = self.publisher.take() else { unreachable!("the loan's end comes once") };
        loan.truncate(samples);
        if !is_acknowledged && !stamps.is_acknowledged() {
            stamps.send(loan).map_err(error::raised)?;
            return self.settle(py);
        }
        // This send waits without the interpreter's lock, and may begin anew after a signal.
        let (mut bytes, samples) = (loan.to_vec(), loan.samples());
        drop(loan);
        let bytes = Bytes { start: bytes.as_mut_ptr(), length: bytes.len(), samples };
        self.wait(py, |publisher| {
            let mut loan = publisher.loan(bytes.samples)?;
            // SAFETY: the bytes live until the end of this function, and no loan overlaps them.
            unsafe { bytes.copy_to(&mut loan) };
            stamps.send(loan)
        })
    }
}

#[pymethods]
impl Publisher {
    /// Returns the topic.
    #[getter]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Returns the type of the samples for numpy.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.array.dtype(py).into_any()
    }

    /// Returns the number of the next packet, from 0.
    #[getter]
    pub fn sequence(&self) -> PyResult<u64> {
        self.with(|port| Ok(port.publisher()?.sequence()))
    }

    /// Returns the number of receivers that are connected now.
    #[getter]
    pub fn receivers(&self) -> PyResult<usize> {
        self.with(|port| Ok(port.publisher()?.receivers()))
    }

    /// Returns the maximum number of samples in a packet.
    #[getter]
    fn samples_max(&self) -> PyResult<usize> {
        self.with(|port| Ok(port.publisher()?.samples_max()))
    }

    /// Describes the stream of the packets that follow.
    pub fn set_stream(&self, stream: &Bound<'_, PyAny>) -> PyResult<()> {
        let stream = stream::from_object(stream)?;
        self.with(|port| {
            port.publisher()?.set_stream(stream);
            Ok(())
        })
    }

    /// Waits until `count` receivers are connected. Raises `TimeoutError` if they are not connected
    /// within `timeout` seconds; None waits without a limit.
    #[pyo3(signature = (count=1, timeout=None))]
    pub fn wait_for_receivers(&self, py: Python<'_>, count: usize, timeout: Option<f64>) -> PyResult<()> {
        let deadline = waits::deadline(timeout)?;
        let is_met = self.with(|port| {
            port.wait(py, |publisher| publisher.wait_for_receivers(count, waits::time_left(deadline)))
        })?;
        if is_met {
            return Ok(());
        }
        let seconds = timeout.unwrap_or(f64::INFINITY);
        let port = &self.topic;
        Err(PyTimeoutError::new_err(format!(
            "port `{port}`: {count} receivers did not come within {seconds} s"
        )))
    }

    /// Sends a copy of an array of the port's dtype. Waits while a receiver has no room, unless its
    /// policy drops packets. An array of several dimensions has rows or frames of the stream: all
    /// dimensions but the first are the last ones of a frame (`StreamInfo.frame_shape`).
    ///
    /// `time_ns` is the time when the first sample was taken, in nanoseconds since the Unix epoch.
    /// `sample_index` is the number of that sample, by default the next number. `like` takes both,
    /// and the stream, from a received packet or message. `scope` is the event after which this
    /// send returns, instead of the topic's scope: `"none"`, `"transport"`, `"server"` or
    /// `"target"`. `deadline` is the time limit in seconds for the last two scopes.
    #[pyo3(signature = (samples, *, time_ns=None, sample_index=None, intended_ns=None, like=None, scope=None, deadline=None))]
    #[expect(clippy::too_many_arguments, reason = "a function with named arguments in Python")]
    fn send(
        &self,
        py: Python<'_>,
        samples: &Bound<'_, PyAny>,
        time_ns: Option<i64>,
        sample_index: Option<u64>,
        intended_ns: Option<u64>,
        like: Option<&Bound<'_, PyAny>>,
        scope: Option<&str>,
        deadline: Option<f64>,
    ) -> PyResult<()> {
        let stamps = Stamps::new(time_ns, sample_index, intended_ns, like)?;
        let stamps = stamps.acknowledged(scope, deadline)?;
        let bytes = self.bytes_of(samples, &stamps)?;
        self.transmit(py, bytes, &stamps, true)
    }

    /// Sends like `send`, without waiting for room: either all receivers get the packet, or none.
    /// Raises `NoRoomError` if a receiver has no room, and `UsageError` for a packet that needs
    /// several frames.
    #[pyo3(signature = (samples, *, time_ns=None, sample_index=None, intended_ns=None, like=None))]
    fn try_send(
        &self,
        py: Python<'_>,
        samples: &Bound<'_, PyAny>,
        time_ns: Option<i64>,
        sample_index: Option<u64>,
        intended_ns: Option<u64>,
        like: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let stamps = Stamps::new(time_ns, sample_index, intended_ns, like)?;
        let bytes = self.bytes_of(samples, &stamps)?;
        self.transmit(py, bytes, &stamps, false)
    }

    /// Sends each row of an array of two dimensions as a packet. The call costs less for each
    /// packet than `send`: a receiver that sleeps is woken once, and a socket gets many packets at
    /// once.
    ///
    /// Waits like `send`, for each packet. After an exception, the packets before it stay sent:
    /// their number is the increase of `sequence`.
    fn send_many(&self, py: Python<'_>, packets: &Bound<'_, PyAny>) -> PyResult<()> {
        let (bytes, rows) = self.array.rows_of(packets, &self.topic)?;
        let samples = bytes.samples.checked_div(rows).unwrap_or(0);
        self.with(|port| {
            let first = port.publisher()?.sequence();
            port.wait(py, |publisher| {
                // The packets before a signal are sent.
                let sent = usize::try_from(publisher.sequence() - first).unwrap_or(rows);
                publisher.send_many(rows.saturating_sub(sent), samples, |index, place| {
                    // SAFETY: the caller keeps the array alive, and the place does not overlap it.
                    unsafe { bytes.part(sent + index, place.len()).copy_to(place) };
                })
            })
        })
    }

    /// Lends an array of `samples` samples for a `with` block, which writes it. The end of the
    /// block sends the array and makes it read-only; an exception cancels the loan. A tuple is a
    /// shape, as for `send`.
    ///
    /// The memory belongs to the program, and is copied once. With `in_place`, the `with` block
    /// gets a `LoanInPlace`: its `samples` are the transport's own memory. Nothing is copied, and
    /// the block must end without other references to the array. The other arguments are the same
    /// as for `send`.
    #[pyo3(signature = (samples, *, time_ns=None, sample_index=None, intended_ns=None, like=None, scope=None, deadline=None, in_place=false))]
    #[expect(clippy::too_many_arguments, reason = "a function with named arguments in Python")]
    fn loan<'py>(
        slf: &Bound<'py, Self>,
        samples: &Bound<'_, PyAny>,
        time_ns: Option<i64>,
        sample_index: Option<u64>,
        intended_ns: Option<u64>,
        like: Option<&Bound<'_, PyAny>>,
        scope: Option<&str>,
        deadline: Option<f64>,
        in_place: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        // A publisher that has ended is refused at this point, not after the work in the block.
        slf.get().with(|_| Ok(()))?;
        let stamps = Stamps::new(time_ns, sample_index, intended_ns, like)?;
        let shape = match samples.cast::<PyTuple>() {
            Ok(shape) => shape.extract()?,
            Err(_) => vec![samples.extract()?],
        };
        if shape.len() != 1 {
            let (stream, index) = slf.get().with(|port| Ok(stamps.place(port.publisher()?)))?;
            frames::check_sent(&shape, &stream, index, &slf.get().topic)?;
        }
        let (py, publisher) = (slf.py(), slf.clone().unbind());
        let stamps = stamps.acknowledged(scope, deadline)?;
        Ok(match in_place {
            true => Bound::new(py, LoanInPlace::new(publisher, shape, stamps))?.into_any(),
            false => Bound::new(py, Loan::new(publisher, shape, stamps))?.into_any(),
        })
    }

    /// Ends the stream: receivers get the end after the last packet. Waits until they have room for
    /// it, `timeout` seconds at most. A second call does nothing.
    #[pyo3(signature = (timeout=10.0))]
    pub fn finish(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.end(py, waits::deadline(timeout)?)
    }

    /// Leaves the stream without an end: receivers wait for another publisher.
    pub fn abandon(&self) -> PyResult<()> {
        self.give_up()
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
        self.leave(py, kind.is_some())
    }

    fn __repr__(&self) -> String {
        format!("<stripline.Publisher `{}` of {}>", self.topic, self.array.samples)
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // The parent's stream continues.
        if !self.port.owner().is_current() {
            if let Some(mut port) = self.port.take() {
                port.publisher.forget_loan();
            }
            return;
        }
        let port = self.port.take();
        let Some(port) = port.filter(|_| !self.is_of_component) else { return };
        port.publisher.into_inner().abandon();
        if waits::is_ending() {
            return;
        }
        let message = format!(
            "publisher `{}` was dropped without `finish`, so its stream has no end; use a `with` block",
            self.topic
        );
        Python::attach(|py| {
            // An exception may already be set.
            let raised = PyErr::take(py);
            let warned = std::ffi::CString::new(message)
                .map(|message| PyErr::warn(py, &py.get_type::<PyResourceWarning>(), &message, 1));
            if let Ok(Err(error)) = warned {
                error.write_unraisable(py, None);
            }
            if let Some(raised) = raised {
                raised.restore(py);
            }
        });
    }
}

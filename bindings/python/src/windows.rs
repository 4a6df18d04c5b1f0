//! Windows of samples with any length that the receiver selects, independent of packet boundaries.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use stripline::node::{HeldPacket, Holding, WindowUnit};
use stripline::payload::Dynamic;
use stripline::terms::LinkOptions;
use stripline::{Gap, Received};

use crate::array::{self, ArrayType};
use crate::component::Requests;
use crate::error;
use crate::frames::{self, View};
use crate::held_array::PacketMemory;
use crate::input::Input;
use crate::node::NodeHandle;
use crate::one_user::OneUser;
use crate::packet::{self, Info, Shared};
use crate::stream;
use crate::waits;

/// The receiver of the samples of a topic in windows of any length, which may overlap. Made by
/// `Node.windowed_subscriber`.
///
/// A window within one packet is a read-only array where the sender wrote it. A window across the
/// boundary of two packets is copied. A window never crosses a gap, a jump of the sample index, or
/// a change of stream or sender: in this case it is shorter, and `is_whole` is false. The next
/// window starts after the boundary.
///
/// The memory is given back when the windows and all arrays over it are gone. Windows of up to
/// `hold` packets may be in use at once; more is a `TooManyHeldError`. Only one thread at a time
/// may use it.
#[pyclass(frozen, module = "stripline")]
pub struct WindowedSubscriber {
    shared: Arc<Shared>,
    port: OneUser<Port>,
}

struct Port {
    input: Input,
    /// Samples of one stream of one connection, in order.
    parts: VecDeque<Part>,
    /// The total number of their samples.
    available: usize,
    /// The packet after the next boundary.
    behind: Option<Part>,
    /// The gap before the next window.
    gap: Option<Gap>,
    has_ended: bool,
    _node: Option<Arc<NodeHandle>>,
}

/// A packet, or the rest of it.
struct Part {
    samples: Samples,
    /// The number of samples that were used.
    used: usize,
    length: usize,
    info: Arc<Info>,
    gap: Option<Gap>,
}

enum Samples {
    /// The samples are where they arrived.
    Held(PacketMemory),
    /// The samples are a copy, from sample `first` on: the next unused sample when it was made.
    Copied { bytes: Vec<u8>, first: usize },
}

impl Part {
    fn new(py: Python<'_>, held: HeldPacket<Dynamic>) -> PyResult<Self> {
        let info = packet::info!(held);
        let (length, gap, info) = (info.length, info.gap, Arc::new(info));
        let samples = Samples::Held(PacketMemory::new(py, held)?);
        Ok(Self { samples, used: 0, length, info, gap })
    }

    fn remaining(&self) -> usize {
        self.length - self.used
    }

    /// Returns whether both have samples of one stream of one connection, without a jump of the
    /// sample index.
    fn joins(&self, next: &Self) -> bool {
        let (own, other) = (&self.info, &next.info);
        next.gap.is_none()
            && own.sample_index.wrapping_add(self.length as u64) == other.sample_index
            && own.connection == other.connection
            && (Arc::ptr_eq(&own.stream, &other.stream) || own.stream == other.stream)
    }

    /// Returns the bytes of the remaining samples.
    fn bytes(&self, size: usize) -> &[u8] {
        match &self.samples {
            Samples::Held(memory) => &memory.packet()[self.used * size..],
            Samples::Copied { bytes, first } => &bytes[(self.used - first) * size..],
        }
    }

    /// Copies the remaining samples, and gives the packet back.
    fn copy(&mut self, size: usize) {
        if let Samples::Held(_) = &self.samples {
            let bytes = self.bytes(size).to_vec();
            self.samples = Samples::Copied { bytes, first: self.used };
        }
    }
}

/// The length of a window, and the distance to the next window, in a unit.
#[derive(Clone, Copy)]
struct Length {
    unit: WindowUnit,
    units: &'static str,
    count: usize,
    hop: usize,
}

impl Length {
    /// Returns the length and the hop in samples of a window that begins with this part, and
    /// whether it would be whole.
    fn at(&self, part: &Part, most: usize, topic: &str) -> PyResult<(usize, usize, bool)> {
        let (index, stream) = (part.info.sample_index.wrapping_add(part.used as u64), &part.info.stream);
        let found = self.unit.window_at(index, self.count, stream);
        let refused = |problem: String| error::argument(format!("port `{topic}`: {problem}"));
        let (samples, is_whole) = found.map_err(refused)?;
        if samples > most {
            return Err(refused(format!("a window of {samples} samples; it has from 1 to {most}")));
        }
        let hop = if is_whole { samples / self.count * self.hop } else { samples };
        Ok((samples, hop, is_whole))
    }
}

/// The outcome of a search for a window.
enum Search {
    Window(Window),
    Nothing,
    End,
}

impl Port {
    /// Returns the next window, if it is complete without a wait.
    fn take(&mut self, py: Python<'_>, shared: &Arc<Shared>, length: Length) -> PyResult<Search> {
        self.input.serve();
        loop {
            if let Some(first) = self.parts.front() {
                let most = samples_max(shared);
                let (samples, hop, is_whole) = length.at(first, most, &shared.topic)?;
                if self.available >= samples {
                    return self.cut(py, shared, samples, hop, is_whole).map(Search::Window);
                }
            }
            if self.available > 0 && (self.behind.is_some() || self.has_ended) {
                let rest = self.available;
                return self.cut(py, shared, rest, rest, false).map(Search::Window);
            }
            match self.next_part(py, shared.array.samples.size())? {
                Received::Packet(()) => {}
                Received::Ended => return Ok(Search::End),
                Received::Empty => return Ok(Search::Nothing),
            }
        }
    }

    /// Adds the next packet to the samples, if one has arrived.
    fn next_part(&mut self, py: Python<'_>, size: usize) -> PyResult<Received<()>> {
        if let Some(part) = self.behind.take() {
            self.add(part);
            return Ok(Received::Packet(()));
        }
        if self.has_ended {
            return Ok(Received::Ended);
        }
        // A window across the boundary needs a copy of these samples, and holds no packet.
        self.parts.iter_mut().for_each(|before| before.copy(size));
        match self.input.holding.try_receive().map_err(error::raised)? {
            Received::Packet(held) => self.add(Part::new(py, held)?),
            Received::Ended => self.has_ended = true,
            Received::Empty => return Ok(Received::Empty),
        }
        Ok(Received::Packet(()))
    }

    /// Adds a packet to the samples, or keeps it for after the boundary.
    fn add(&mut self, mut part: Part) {
        // The only effect of an empty packet on a window is the gap before it.
        let is_joined = match self.parts.back() {
            Some(last) => last.joins(&part),
            None => {
                self.gap = joined(self.gap, part.gap.take());
                true
            }
        };
        if !is_joined {
            self.behind = Some(part);
        } else if part.length > 0 {
            self.available += part.length;
            self.parts.push_back(part);
        }
    }

    /// Returns the first `samples` samples as a window, and consumes the first `hop` samples.
    fn cut(
        &mut self,
        py: Python<'_>,
        shared: &Arc<Shared>,
        samples: usize,
        hop: usize,
        is_whole: bool,
    ) -> PyResult<Window> {
        let array = &shared.array;
        let Some(first) = self.parts.front() else { unreachable!("there are samples") };
        let (info, before) = (Arc::clone(&first.info), first.used);
        let made = match &first.samples {
            Samples::Held(memory) if first.remaining() >= samples => {
                memory.part(py, array, first.used, samples)?
            }
            _ => self.gather(py, array, samples)?,
        };
        let gap = self.gap.take();
        self.consume(hop);
        let shared = Arc::clone(shared);
        Ok(Window { samples: made.unbind(), length: samples, before, is_whole, gap, info, shared })
    }

    /// Copies the first samples to an array of the program, which is read-only like all others.
    fn gather<'py>(&self, py: Python<'py>, array: &ArrayType, samples: usize) -> PyResult<Bound<'py, PyAny>> {
        let made = array.empty(py, samples)?;
        let (mut place, mut left) = (array::place_of(&made), samples * array.samples.size());
        for part in &self.parts {
            let bytes = part.bytes(array.samples.size());
            let length = bytes.len().min(left);
            // SAFETY: the array is new, and has room for the remaining samples.
            unsafe {
                place.copy_from_nonoverlapping(bytes.as_ptr(), length);
                place = place.add(length);
            }
            left -= length;
        }
        array::set_writable(&made, false);
        Ok(made.into_any())
    }

    fn consume(&mut self, mut samples: usize) {
        self.available -= samples;
        while samples > 0 {
            let Some(first) = self.parts.front_mut() else { return };
            let used = first.remaining().min(samples);
            first.used += used;
            samples -= used;
            if first.remaining() == 0 {
                self.parts.pop_front();
            }
        }
    }

    /// Waits for the next packet. Returns false if the deadline has passed.
    fn wait(&mut self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<bool> {
        match self.input.wait(py, deadline)? {
            Received::Packet(held) => self.add(Part::new(py, held)?),
            Received::Ended => self.has_ended = true,
            Received::Empty => return Ok(false),
        }
        Ok(true)
    }
}

/// Returns the most samples of a window.
fn samples_max(shared: &Shared) -> usize {
    LinkOptions::PACKET_MAX / shared.array.samples.size()
}

/// Combines two reports of a gap at the same place.
fn joined(first: Option<Gap>, second: Option<Gap>) -> Option<Gap> {
    let (Some(first), Some(second)) = (first, second) else { return first.or(second) };
    let packets = first.packets.saturating_add(second.packets);
    let samples = first.samples.saturating_add(second.samples);
    Some(Gap { packets, samples, ..first })
}

impl WindowedSubscriber {
    pub fn make(
        py: Python<'_>,
        node: Arc<NodeHandle>,
        topic: String,
        array: ArrayType,
        hold: usize,
    ) -> PyResult<Self> {
        let made =
            waits::quietly(py, || node.node().subscriber::<Dynamic>((&topic, &array.samples))?.holding(hold));
        Ok(Self::made(made.map_err(error::raised)?, topic, array, None, Some(node)))
    }

    /// Returns the input of a component.
    pub fn of_component(
        holding: Holding<Dynamic>,
        port: String,
        array: ArrayType,
        requests: Option<Arc<Requests>>,
    ) -> Self {
        Self::made(holding, port, array, requests, None)
    }

    fn made(
        holding: Holding<Dynamic>,
        topic: String,
        array: ArrayType,
        requests: Option<Arc<Requests>>,
        node: Option<Arc<NodeHandle>>,
    ) -> Self {
        let port = Port {
            input: Input::new(holding, requests),
            parts: VecDeque::new(),
            available: 0,
            behind: None,
            gap: None,
            has_ended: false,
            _node: node,
        };
        let shared = Arc::new(Shared::new(topic, array));
        Self { shared, port: OneUser::new("subscriber", port) }
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

    fn length(
        &self,
        samples: Option<usize>,
        rows: Option<usize>,
        frames: Option<usize>,
        hop: Option<usize>,
    ) -> PyResult<Length> {
        let (unit, units, count) = match (samples, rows, frames) {
            (Some(count), None, None) => (WindowUnit::Samples, "samples", count),
            (None, Some(count), None) => (WindowUnit::Rows, "rows", count),
            (None, None, Some(count)) => (WindowUnit::Frames, "frames", count),
            _ => {
                return Err(error::argument(
                    "a window has one length; set one of `samples`, `rows` and `frames`".into(),
                ));
            }
        };
        let most = samples_max(&self.shared);
        if !(1..=most).contains(&count) {
            return Err(error::argument(format!(
                "a window of {count} {units} of port `{}`; it has from 1 to {most}",
                self.shared.topic
            )));
        }
        let hop = hop.unwrap_or(count);
        if !(1..=count).contains(&hop) {
            return Err(error::argument(format!(
                "a hop of {hop} {units} for windows of {count}; it is from 1 to their length"
            )));
        }
        Ok(Length { unit, units, count, hop })
    }
}

#[pymethods]
impl WindowedSubscriber {
    /// Returns the topic.
    #[getter]
    fn topic(&self) -> &str {
        &self.shared.topic
    }

    /// Returns the type of the samples for numpy.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.shared.array.dtype(py).into_any()
    }

    /// Returns the number of senders that are connected now.
    #[getter]
    fn senders(&self) -> PyResult<usize> {
        self.with(|port| Ok(port.input.holding.senders()))
    }

    /// Waits until the next sample has arrived, and returns the description of the stream that the
    /// sample belongs to, to choose the length of windows by it. Raises `TimeoutError` after
    /// `timeout` seconds, and `EndOfStream` after the last sample.
    #[pyo3(signature = (timeout=None))]
    fn stream<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let deadline = waits::deadline(timeout)?;
        let topic = &self.shared.topic;
        let info = self.with(|port| {
            port.input.serve();
            loop {
                if let Some(first) = port.parts.front() {
                    return Ok(Arc::clone(&first.info));
                }
                match port.next_part(py, self.shared.array.samples.size())? {
                    Received::Packet(()) => {}
                    Received::Ended => return Err(error::end_of_stream(topic)),
                    Received::Empty if port.wait(py, deadline)? => {}
                    Received::Empty => {
                        return Err(PyTimeoutError::new_err(format!(
                            "port `{topic}`: no samples came within {} s",
                            timeout.unwrap_or(f64::INFINITY)
                        )));
                    }
                }
            }
        })?;
        self.shared.streams.object(py, &info.stream)
    }

    /// Waits for `samples` samples in a row, or fewer before a boundary, and returns them.
    ///
    /// With `rows` or `frames` instead, the window begins and ends with a row or frame of the
    /// stream, and `hop` counts them, too. Where samples are missing at the beginning, the rest of
    /// the row or frame is a window that is not whole.
    ///
    /// The next window starts `hop` samples after the start of this one; by default, after the end
    /// of this one. After a window that is not whole, it starts at the boundary. Raises
    /// `TimeoutError` after `timeout` seconds, and `EndOfStream` after the last sample; samples
    /// that have arrived are kept.
    #[pyo3(signature = (samples=None, *, rows=None, frames=None, hop=None, timeout=None))]
    fn window(
        &self,
        py: Python<'_>,
        samples: Option<usize>,
        rows: Option<usize>,
        frames: Option<usize>,
        hop: Option<usize>,
        timeout: Option<f64>,
    ) -> PyResult<Window> {
        let length = self.length(samples, rows, frames, hop)?;
        let deadline = waits::deadline(timeout)?;
        let topic = &self.shared.topic;
        self.with(|port| {
            loop {
                match port.take(py, &self.shared, length)? {
                    Search::Window(window) => return Ok(window),
                    Search::End => return Err(error::end_of_stream(topic)),
                    Search::Nothing if port.wait(py, deadline)? => {}
                    Search::Nothing => {
                        return Err(PyTimeoutError::new_err(format!(
                            "port `{topic}`: {} {} did not come within {} s",
                            length.count,
                            length.units,
                            timeout.unwrap_or(f64::INFINITY)
                        )));
                    }
                }
            }
        })
    }

    /// Returns the next window if the samples have arrived, otherwise None. Raises the exceptions
    /// of `window`.
    #[pyo3(signature = (samples=None, *, rows=None, frames=None, hop=None))]
    fn try_window(
        &self,
        py: Python<'_>,
        samples: Option<usize>,
        rows: Option<usize>,
        frames: Option<usize>,
        hop: Option<usize>,
    ) -> PyResult<Option<Window>> {
        let length = self.length(samples, rows, frames, hop)?;
        match self.with(|port| port.take(py, &self.shared, length))? {
            Search::Window(window) => Ok(Some(window)),
            Search::Nothing => Ok(None),
            Search::End => Err(error::end_of_stream(&self.shared.topic)),
        }
    }

    /// Returns an iterator over windows of this length, for `for` and `async for`. The arguments
    /// are the same as for `window`; in addition, `samples` may be a function that returns the
    /// number of samples of the next window for the description of the stream, as `lambda stream: 8
    /// * stream.row_length`.
    #[pyo3(signature = (samples=None, *, rows=None, frames=None, hop=None))]
    fn windows<'py>(
        slf: &Bound<'py, Self>,
        samples: Option<&Bound<'py, PyAny>>,
        rows: Option<usize>,
        frames: Option<usize>,
        hop: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        static WINDOWS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if !samples.is_some_and(Bound::is_callable) {
            let samples = samples.map(PyAnyMethods::extract).transpose()?;
            slf.get().length(samples, rows, frames, hop)?;
        }
        WINDOWS.import(slf.py(), "stripline._aio", "Windows")?.call1((slf, samples, rows, frames, hop))
    }

    /// Returns a `Refusal` for each sender of the topic that cannot be connected.
    fn refusals<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let refused = self.with(|port| Ok(port.input.holding.refusals()))?;
        stream::refusal_objects(py, refused)
    }

    /// Returns the gap between the last received packet and the end of the stream; None if nothing
    /// was missing there.
    fn gap_at_end<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let gap = self.with(|port| Ok(joined(port.gap, port.input.holding.gap_at_end())))?;
        stream::gap_object(py, gap.as_ref(), None)
    }

    /// Returns a descriptor for `select`, `poll` or a toolkit, like `Subscriber.fileno`.
    fn fileno(&self) -> PyResult<i32> {
        self.with(|port| port.input.fileno())
    }

    /// Makes the descriptor readable once there may be a packet, like `Subscriber.arm`. Call it
    /// when `try_window` has returned None.
    fn arm(&self) -> PyResult<bool> {
        self.with(|port| port.input.arm())
    }

    /// Ends the subscriber. Windows that are in use stay valid. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut port = self.lock()?.take();
        // Their memory is given back with the interpreter's lock.
        let parts = port.as_mut().map(|port| (mem::take(&mut port.parts), port.behind.take()));
        drop(parts);
        waits::detached(py, || drop(port));
        Ok(())
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<stripline.WindowedSubscriber `{}` of {}>", self.shared.topic, self.shared.array.samples)
    }
}

/// Samples in a row, and the data that came with the first sample.
#[pyclass(frozen, module = "stripline")]
pub struct Window {
    samples: Py<PyAny>,
    length: usize,
    /// The number of samples of the packet before the first sample of the window.
    before: usize,
    is_whole: bool,
    gap: Option<Gap>,
    info: Arc<Info>,
    shared: Arc<Shared>,
}

impl Window {
    fn shaped<'py>(&self, py: Python<'py>, view: View) -> PyResult<Bound<'py, PyAny>> {
        let (samples, index) = (self.samples(py), self.sample_index());
        frames::shaped(samples, &self.info.stream, index, view, !self.is_whole, || {
            format!("a window of `{}`", self.shared.topic)
        })
    }
}

#[pymethods]
impl Window {
    /// Returns the samples, as a read-only array of one dimension.
    #[getter]
    fn samples<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.samples.bind(py).clone()
    }

    /// Returns the samples as an array of two dimensions, if the stream has rows
    /// (`StreamInfo.row_length`) and the window has whole rows.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shaped(py, View::Rows)
    }

    /// Returns the samples in the shape of a frame (`StreamInfo.frame_shape`), if the window is one
    /// frame.
    #[getter]
    fn frame<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shaped(py, View::Frame)
    }

    /// Returns the samples as an array of frames, if the window has whole frames: the first
    /// dimension is the number of frames.
    #[getter]
    fn frames<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shaped(py, View::Frames)
    }

    /// Returns whether the window has all requested samples. If not, a boundary follows.
    #[getter]
    fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the number of the packet that contains the first sample.
    #[getter]
    fn sequence(&self) -> u64 {
        self.info.sequence
    }

    /// Returns the number of the first sample within the stream.
    #[getter]
    fn sample_index(&self) -> u64 {
        self.info.sample_index.wrapping_add(self.before as u64)
    }

    /// Returns the time when the first sample was taken, in nanoseconds since the Unix epoch; 0:
    /// unknown. If the stream has no sample rate, it is the time of the packet's first sample.
    #[getter]
    fn time_ns(&self) -> i64 {
        if self.info.time_ns == 0 {
            return 0;
        }
        let rate = self.info.stream.sample_rate_hz;
        // The casts saturate, because a sender may set any time and any rate.
        let later = rate.map_or(0, |rate| (self.before as f64 * 1e9 / rate).round() as i64);
        self.info.time_ns.saturating_add(later)
    }

    /// Returns the gap just before the first sample; None if nothing is missing.
    #[getter]
    fn gap<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        stream::gap_object(py, self.gap.as_ref(), Some((&self.info.stream, self.sample_index())))
    }

    /// Returns the description of the stream that all samples of the window belong to.
    #[getter]
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shared.streams.object(py, &self.info.stream)
    }

    /// Returns the connection that all samples of the window arrived on, as `from -> to`.
    #[getter]
    fn connection(&self) -> &str {
        &self.info.connection
    }

    fn __len__(&self) -> usize {
        self.length
    }

    fn __repr__(&self) -> String {
        let (index, length) = (self.sample_index(), self.length);
        format!("<stripline.Window of `{}`: {length} samples from {index}>", self.shared.topic)
    }
}

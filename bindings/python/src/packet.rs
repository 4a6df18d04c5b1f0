//! Received packets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use stripline::node::{HeldPacket, PacketView};
use stripline::payload::Dynamic;
use stripline::{Gap, StreamInfo};

use crate::array::{self, ArrayType};
use crate::error;
use crate::forks::Owner;
use crate::frames::{self, View};
use crate::held_array::{HeldArray, PacketMemory, Spares};
use crate::stream::{self, StreamCache};

/// Data that the packets of a subscriber share.
pub struct Shared {
    pub topic: String,
    pub array: ArrayType,
    pub streams: StreamCache,
    spares: Spares,
}

impl Shared {
    pub fn new(topic: impl Into<String>, array: ArrayType) -> Self {
        Self { topic: topic.into(), array, streams: Default::default(), spares: Spares::default() }
    }
}

/// Received samples, and the data that came with them.
///
/// `samples` is a read-only array over the memory that the sender wrote. The memory is given back
/// when the packet and all arrays over it are gone, or at `release` when there are no such arrays.
#[pyclass(frozen, module = "stripline")]
pub struct Packet {
    shared: Arc<Shared>,
    owner: Owner,
    state: Mutex<State>,
}

enum State {
    /// The samples are where they arrived, and no array was requested.
    Held(HeldPacket<Dynamic>),
    /// The samples are where they arrived.
    Shown(HeldArray),
    /// The samples are an array of the program.
    Copied {
        info: Box<Info>,
        samples: Py<PyAny>,
    },
    Released,
}

/// The array of a packet: in place, or an array of the program.
enum Shown<'a> {
    InPlace(&'a HeldArray),
    Copied(&'a Py<PyAny>),
}

/// The numbers of a packet that outlive the packet.
pub struct Info {
    pub sequence: u64,
    pub sample_index: u64,
    pub time_ns: i64,
    pub intended_ns: Option<u64>,
    pub gap: Option<Gap>,
    pub stream: Arc<StreamInfo>,
    pub connection: String,
    pub length: usize,
}

/// Reads one member of a packet, in place or copied.
macro_rules! read {
    ($packet:ident, $from:ident => $held:expr, $copied:expr) => {
        match &*$packet.state()? {
            State::Held($from) => Ok($held),
            State::Shown(shown) => {
                let $from = shown.packet();
                Ok($held)
            }
            State::Copied { info: $from, .. } => Ok($copied),
            State::Released => Err($packet.released()),
        }
    };
}

/// Returns the numbers of a packet.
macro_rules! info {
    ($packet:expr) => {
        $crate::packet::Info {
            sequence: $packet.sequence(),
            sample_index: $packet.sample_index(),
            time_ns: $packet.time_ns(),
            intended_ns: $packet.intended_ns(),
            gap: $packet.gap().cloned(),
            stream: ::std::sync::Arc::clone($packet.stream()),
            connection: $packet.connection().into(),
            length: $packet.samples(),
        }
    };
}
pub(crate) use info;

impl Packet {
    pub fn held(shared: Arc<Shared>, owner: Owner, held: HeldPacket<Dynamic>) -> Self {
        Self { shared, owner, state: Mutex::new(State::Held(held)) }
    }

    /// Copies a packet, and gives the memory back.
    pub fn copied(
        py: Python<'_>,
        shared: Arc<Shared>,
        owner: Owner,
        held: &HeldPacket<Dynamic>,
    ) -> PyResult<Self> {
        Self::copy(py, shared, owner, held, info!(held))
    }

    /// Copies the packet of a handler.
    pub fn of_handler(
        py: Python<'_>,
        shared: Arc<Shared>,
        owner: Owner,
        view: &PacketView<'_, Dynamic>,
    ) -> PyResult<Self> {
        Self::copy(py, shared, owner, view, info!(view))
    }

    fn copy(py: Python<'_>, shared: Arc<Shared>, owner: Owner, bytes: &[u8], info: Info) -> PyResult<Self> {
        let samples = shared.array.empty(py, info.length)?;
        let place = array::place_of(&samples);
        // SAFETY: the array is new, and has room for the samples.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(Self {
            shared,
            owner,
            state: Mutex::new(State::Copied { info: Box::new(info), samples: samples.into_any().unbind() }),
        })
    }

    /// Returns the packet in place, to send with the stamps.
    pub fn memory(&self, py: Python<'_>) -> PyResult<PacketMemory> {
        self.shown(py, |shown| match shown {
            Shown::InPlace(shown) => Ok(shown.memory().clone_ref(py)),
            Shown::Copied(_) => Err(error::argument(format!(
                "a packet of `{}` is a copy, whose stamps a send cannot take; receive without `copy`",
                self.shared.topic
            ))),
        })
    }

    /// Uses the array over the samples. The first call makes it.
    fn shown<R>(&self, py: Python<'_>, use_it: impl FnOnce(Shown<'_>) -> PyResult<R>) -> PyResult<R> {
        let Shared { array, spares, .. } = &*self.shared;
        let mut state = self.state()?;
        if let State::Held(_) = *state {
            let State::Held(held) = std::mem::replace(&mut *state, State::Released) else { unreachable!() };
            // No code of the program runs here: neither object is one for the garbage collector.
            *state = State::Shown(spares.fill(py, array, held)?);
        }
        match &*state {
            State::Shown(shown) => use_it(Shown::InPlace(shown)),
            State::Copied { samples, .. } => use_it(Shown::Copied(samples)),
            State::Held(_) | State::Released => Err(self.released()),
        }
    }

    fn state(&self) -> PyResult<MutexGuard<'_, State>> {
        self.owner.check(|| format!("a packet of `{}`", self.shared.topic))?;
        // The lock is held only for a few instructions, together with the interpreter's lock.
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn shaped<'py>(&self, py: Python<'py>, view: View) -> PyResult<Bound<'py, PyAny>> {
        let samples = self.samples(py)?;
        let stream = read!(self, from => Arc::clone(from.stream()), Arc::clone(&from.stream))?;
        let (sequence, topic) = (self.sequence()?, &self.shared.topic);
        frames::shaped(samples, &stream, self.sample_index()?, view, false, || {
            format!("packet {sequence} of `{topic}`")
        })
    }

    /// Ends a state: gives the packet back, if the program has no array over it.
    fn end(&self, py: Python<'_>, state: State) {
        match state {
            State::Shown(shown) => self.shared.spares.end(py, &self.shared.array, shown),
            other => drop(other),
        }
    }

    #[cold]
    fn released(&self) -> PyErr {
        error::closed("the packet of", &self.shared.topic)
    }
}

#[pymethods]
impl Packet {
    /// Returns the samples, as an array of one dimension. The array is read-only, unless the
    /// subscriber copies.
    #[getter]
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shown(py, |shown| match shown {
            Shown::InPlace(shown) => Ok(shown.array(py)),
            Shown::Copied(samples) => Ok(samples.bind(py).clone()),
        })
    }

    /// Returns the samples as an array of two dimensions, if the stream has rows
    /// (`StreamInfo.row_length`) and the packet has whole rows.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shaped(py, View::Rows)
    }

    /// Returns the samples in the shape of a frame (`StreamInfo.frame_shape`), if the packet is one
    /// frame.
    #[getter]
    fn frame<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shaped(py, View::Frame)
    }

    /// Returns the samples as an array of frames, if the packet has whole frames: the first
    /// dimension is the number of frames.
    #[getter]
    fn frames<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shaped(py, View::Frames)
    }

    /// Returns the number of the packet among all packets of its sender, from 0.
    #[getter]
    fn sequence(&self) -> PyResult<u64> {
        read!(self, from => from.sequence(), from.sequence)
    }

    /// Returns the number of the first sample within the stream.
    #[getter]
    fn sample_index(&self) -> PyResult<u64> {
        read!(self, from => from.sample_index(), from.sample_index)
    }

    /// Returns the time when the first sample was taken, in nanoseconds since the Unix epoch; 0:
    /// unknown.
    #[getter]
    fn time_ns(&self) -> PyResult<i64> {
        read!(self, from => from.time_ns(), from.time_ns)
    }

    /// Returns the time when the packet should have been sent, in monotonic nanoseconds of the
    /// host; None without a schedule.
    #[getter]
    fn intended_ns(&self) -> PyResult<Option<u64>> {
        read!(self, from => from.intended_ns(), from.intended_ns)
    }

    /// Returns the gap just before this packet; None if nothing is missing.
    #[getter]
    fn gap<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let gap = read!(self, from => from.gap().cloned(), from.gap)?;
        let stream = read!(self, from => Arc::clone(from.stream()), Arc::clone(&from.stream))?;
        stream::gap_object(py, gap.as_ref(), Some((&stream, self.sample_index()?)))
    }

    /// Returns the description of the stream that the packet belongs to.
    #[getter]
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stream = read!(self, from => Arc::clone(from.stream()), Arc::clone(&from.stream))?;
        self.shared.streams.object(py, &stream)
    }

    /// Returns the connection that the packet arrived on, as `from -> to`.
    #[getter]
    fn connection(&self) -> PyResult<String> {
        read!(self, from => from.connection().into(), from.connection.clone())
    }

    fn __len__(&self) -> PyResult<usize> {
        read!(self, from => from.samples(), from.length)
    }

    /// Gives the packet back before it is garbage. Arrays over the packet stay valid, and keep the
    /// memory. A second call does nothing.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let before = std::mem::replace(&mut *self.state()?, State::Released);
        // The end comes after the lock is released, because it may run code of the program.
        self.end(py, before);
        Ok(())
    }

    /// Refuses the packet, and gives it back. A sender that waits for it (scope `target`) gets the
    /// reason. The refusal has no effect after the next packet was requested.
    fn refuse(&self, py: Python<'_>, reason: &str) -> PyResult<()> {
        let before = std::mem::replace(&mut *self.state()?, State::Released);
        match before {
            State::Released => return Err(self.released()),
            State::Copied { .. } => {
                *self.state()? = before;
                return Err(error::argument("a copied packet was given back, and cannot be refused".into()));
            }
            State::Held(held) => held.refuse(reason),
            State::Shown(shown) => match shown.take(py, &self.shared.array) {
                Ok((held, empty)) => {
                    held.refuse(reason);
                    self.shared.spares.put(empty);
                }
                Err(shown) => {
                    *self.state()? = State::Shown(shown);
                    return Err(error::argument(
                        "the packet cannot be refused while arrays over its samples are used; delete them"
                            .into(),
                    ));
                }
            },
        }
        Ok(())
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.release(py)
    }

    fn __repr__(&self) -> String {
        let numbers = self.sequence().and_then(|sequence| Ok((sequence, self.__len__()?)));
        match numbers {
            Ok((sequence, length)) => {
                format!("<stripline.Packet {sequence} of `{}`: {length} samples>", self.shared.topic)
            }
            Err(_) => format!("<stripline.Packet of `{}`: released>", self.shared.topic),
        }
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let State::Shown(_) = state {
            let state = std::mem::replace(state, State::Released);
            Python::attach(|py| self.end(py, state));
        }
    }
}

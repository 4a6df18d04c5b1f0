//! Topics of samples over DDS, for the components that connect to DDS applications.

use std::ffi::{CString, c_char};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stripline_dds_sys as sys;

use stripline::carrier::mutex::lock;
use stripline::{Error, Result};

use super::ends::{DdsPlace, EndEvents, OwnedEnd, SampleTaker, succeed};
use crate::wire::dds::{DdsSampleInfo, DdsSampleType};

/// The time that a write waits for room.
pub(super) const WRITE_TIME: Duration = Duration::from_millis(50);
/// The maximum length of a type's name, in bytes.
const NAME_BYTES: usize = 256;

/// Returns the number of a type.
fn number(kind: DdsSampleType) -> u32 {
    match kind {
        DdsSampleType::Float => sys::FLOAT,
        DdsSampleType::ComplexFloat => sys::COMPLEX_FLOAT,
        DdsSampleType::Short => sys::SHORT,
        DdsSampleType::ComplexShort => sys::COMPLEX_SHORT,
        DdsSampleType::Octet => sys::OCTET,
    }
}

/// A flag that is raised when messages may have arrived, or another end was found.
#[derive(Default)]
struct SampleArrivals {
    has_come: Mutex<bool>,
    changed: Condvar,
}

impl EndEvents for SampleArrivals {
    fn matched(&self) {}

    fn arrived(&self, _taker: SampleTaker) {
        *lock(&self.has_come) = true;
        self.changed.notify_all();
    }
}

/// An end of a topic of samples: a reader or a writer.
pub(crate) struct SamplesEnd {
    end: OwnedEnd<SampleArrivals>,
    arrivals: Arc<SampleArrivals>,
    kind: DdsSampleType,
    topic: CString,
    is_reader: bool,
}

impl SamplesEnd {
    /// Makes an end of a topic.
    ///
    /// # Errors
    /// Cyclone DDS lacks a resource (the error names the remedy), or this process is a child of a
    /// process that has used Cyclone DDS.
    pub(crate) fn new(
        place: &DdsPlace,
        (kind, topic): (DdsSampleType, &str),
        terms: &sys::Terms,
        is_reader: bool,
    ) -> Result<Self> {
        let arrivals = Arc::<SampleArrivals>::default();
        let end = OwnedEnd::new(place, (number(kind), topic), terms, is_reader, Arc::clone(&arrivals))?;
        Ok(Self {
            end,
            arrivals,
            kind,
            topic: CString::new(topic).map_err(|e| Error::Configuration(e.to_string()))?,
            is_reader,
        })
    }

    /// Returns the type of another end of this topic, if it is another type.
    pub(crate) fn other_type(&self) -> Option<String> {
        let mut name = [0_u8; NAME_BYTES];
        // SAFETY: the participant is open as long as its end, the topic is NUL-terminated, and
        // the buffer has the given number of bytes.
        let outcome = unsafe {
            sys::stripline_dds_find_other_type(
                self.end.participant(),
                number(self.kind),
                self.topic.as_ptr(),
                self.is_reader.into(),
                name.as_mut_ptr().cast::<c_char>(),
                name.len(),
            )
        };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        (outcome == 1).then(|| String::from_utf8_lossy(name).into_owned())
    }

    /// Writes a message of whole samples; false: for some milliseconds, the readers have left no
    /// room.
    ///
    /// # Errors
    /// An error of Cyclone DDS.
    pub(crate) fn write(&self, info: DdsSampleInfo, samples: &[u8]) -> Result<bool> {
        const TIMEOUT: i32 = -10;
        let DdsSampleInfo { sample_index, time_ns, rate_hz, frequency_hz } = info;
        let info = sys::Info { sample_index, time_ns, rate_hz, frequency_hz };
        let elements = u32::try_from(samples.len() / self.kind.element_bytes()).map_err(Error::of_system)?;
        // SAFETY: the writer is open, and copies the given number of elements before it returns.
        let outcome = unsafe {
            let samples = samples.as_ptr().cast();
            sys::stripline_dds_write_samples(self.end.end(), &raw const info, samples, elements)
        };
        match outcome {
            TIMEOUT => Ok(false),
            outcome => {
                succeed(outcome).map(|_| true).map_err(|e| Error::of_system(format!("Cyclone DDS: {e}")))
            }
        }
    }

    /// Returns the number of readers that a writer has found.
    pub(crate) fn readers(&self) -> usize {
        // SAFETY: the writer is open.
        usize::try_from(unsafe { sys::stripline_dds_matched_readers(self.end.end()) }).unwrap_or(0)
    }

    /// Waits until all readers have all messages of a writer, but not longer than `longest`; false:
    /// some readers do not have them.
    pub(crate) fn finish(&self, longest: Duration) -> bool {
        let longest = i64::try_from(longest.as_nanos()).unwrap_or(i64::MAX);
        // SAFETY: the writer is open.
        unsafe { sys::stripline_dds_wait_for_acks(self.end.end(), longest) == 0 }
    }

    /// Takes the next message of a reader, and passes the serialised form to `take`; `None`: no
    /// message arrived within `longest`.
    pub(crate) fn receive<R>(&self, longest: Duration, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let until = Instant::now() + longest;
        loop {
            // Cleared before the attempt, so that a message that arrives later sets the flag again.
            *lock(&self.arrivals.has_come) = false;
            if let Some(sample) = self.end.taker().take() {
                return Some(take(sample.bytes()));
            }
            let mut has_come = lock(&self.arrivals.has_come);
            while !*has_come {
                let remaining = until.saturating_duration_since(Instant::now());
                if remaining.is_zero() {
                    return None;
                }
                let waited = self.arrivals.changed.wait_timeout(has_come, remaining);
                has_come = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

//! Descriptions of streams, as objects of `stripline.StreamInfo`.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use stripline::inspect::RefusedSender;
use stripline::{Gap, StreamInfo};

use crate::error;

/// The description of the last packet, which most packets share.
#[derive(Default)]
pub struct StreamCache(Mutex<Option<(Arc<StreamInfo>, Py<PyAny>)>>);

impl StreamCache {
    /// Returns the Python object for a description.
    pub fn object<'py>(&self, py: Python<'py>, stream: &Arc<StreamInfo>) -> PyResult<Bound<'py, PyAny>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last_stream, object)) = &*last
            && Arc::ptr_eq(last_stream, stream)
        {
            return Ok(object.bind(py).clone());
        }
        // The Python code below could switch threads while the lock is held.
        let before = last.take();
        drop(last);
        drop(before);
        let object = to_object(py, stream)?;
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.replace((Arc::clone(stream), object.clone().unbind()));
        drop(last);
        drop(before);
        Ok(object)
    }
}

fn to_object<'py>(py: Python<'py>, stream: &StreamInfo) -> PyResult<Bound<'py, PyAny>> {
    static FROM_JSON: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let json = serde_json::to_string(stream).map_err(|error| error::argument(error.to_string()))?;
    FROM_JSON.import(py, "stripline._types", "_stream_from_json")?.call1((json,))
}

/// Reads an object of `stripline.StreamInfo`.
pub fn from_object(given: &Bound<'_, PyAny>) -> PyResult<StreamInfo> {
    static TO_JSON: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let json: String =
        TO_JSON.import(given.py(), "stripline._types", "_stream_to_json")?.call1((given,))?.extract()?;
    let refused = |problem: String| error::argument(format!("the description of the stream: {problem}"));
    let stream: StreamInfo = serde_json::from_str(&json).map_err(|error| refused(error.to_string()))?;
    stream.check().map_err(refused)?;
    Ok(stream)
}

/// Returns a gap as an object of `stripline.Gap`. `behind` is the stream and the index of the next
/// sample.
pub fn gap_object<'py>(
    py: Python<'py>,
    gap: Option<&Gap>,
    behind: Option<(&StreamInfo, u64)>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    static GAP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let Some(gap) = gap else { return Ok(None) };
    let reason = match gap.reason {
        stripline::GapReason::Overflow => "overflow",
        stripline::GapReason::PeerRestart => "peer-restart",
        stripline::GapReason::Transport => "transport",
        stripline::GapReason::Late => "late",
    };
    let make = GAP.import(py, "stripline._types", "Gap")?;
    let frames = behind.filter(|(stream, _)| gap.samples > 0 && stream.frame_samples() > 1);
    let frames = frames.map(|(stream, end)| stream.whole_frames(end.saturating_sub(gap.samples)..end));
    make.call1((reason, gap.first, gap.packets, gap.samples, frames)).map(Some)
}

/// Returns the senders that cannot be connected as objects of `stripline.Refusal`.
pub fn refusal_objects(py: Python<'_>, refused: Vec<RefusedSender>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    static REFUSAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let refusal = REFUSAL.import(py, "stripline._types", "Refusal")?;
    let made = refused.into_iter().map(|it| refusal.call1((it.connection, it.sends, it.takes, it.reason)));
    made.collect()
}

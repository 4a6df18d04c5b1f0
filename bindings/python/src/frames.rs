//! The shapes of arrays with the rows and frames of a stream.

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use stripline::StreamInfo;

use crate::error;

/// Returns the shape of a frame: the number of channels, of rows and of samples in a row, as far as
/// the stream has them.
fn frame_shape(stream: &StreamInfo) -> Vec<usize> {
    let size = |number: u32| number as usize;
    let channels = Some(stream.channels.len()).filter(|channels| *channels > 0);
    [channels, stream.frame_rows.map(size), stream.row_length.map(size)].into_iter().flatten().collect()
}

/// Returns the shape of an array as numpy writes it.
fn text(shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("({})", sizes.join(", "))
}

/// Checks that an array of several dimensions has whole rows or frames of the stream.
pub fn check_sent(shape: &[usize], stream: &StreamInfo, sample_index: u64, topic: &str) -> PyResult<()> {
    let frame = frame_shape(stream);
    let inner = shape.get(1..).unwrap_or_default();
    if inner.is_empty() || !frame.ends_with(inner) {
        let needed = match frame.is_empty() {
            true => "the stream has no rows".into(),
            false => format!("a frame of the stream has the shape {}", text(&frame)),
        };
        return Err(error::argument(format!(
            "port `{topic}`: the array has the shape {}, and {needed}; set `row_length`, `frame_rows` and `channels` by \
             `set_stream`, or send `array.reshape(-1)`",
            text(shape)
        )));
    }
    let of_frame = if shape == frame { shape } else { inner };
    let unit = of_frame.iter().map(|size| *size as u64).product::<u64>().max(1);
    if !sample_index.is_multiple_of(unit) {
        return Err(error::argument(format!(
            "port `{topic}`: the array has the shape {}, and would begin at the sample {sample_index}, within a row or \
             frame; send the rest of the frame before it, or set `sample_index`",
            text(shape)
        )));
    }
    Ok(())
}

/// The views of received samples.
pub enum View {
    /// Rows, in two dimensions.
    Rows,
    /// One frame, in the shape of a frame.
    Frame,
    /// Frames, with the number of frames as the first dimension.
    Frames,
}

/// Returns received samples in the shape of the stream. `is_cut`: they are a window that is not
/// whole. `what` names them for an error.
pub fn shaped<'py>(
    samples: Bound<'py, PyAny>,
    stream: &StreamInfo,
    sample_index: u64,
    view: View,
    is_cut: bool,
    what: impl FnOnce() -> String,
) -> PyResult<Bound<'py, PyAny>> {
    let mut shape = match view {
        View::Rows => stream.row_length.map(|length| length as usize).into_iter().collect(),
        View::Frame | View::Frames => frame_shape(stream),
    };
    let unit: usize = shape.iter().product();
    let length = samples.cast::<numpy::PyUntypedArray>()?.len();
    let (units, key) = match view {
        View::Rows => ("rows", "`row_length`"),
        _ => ("frames", "`row_length` or `channels`"),
    };
    if shape.is_empty() {
        return Err(error::argument(format!(
            "{} has no {units}: the description of the stream has no {key}",
            what()
        )));
    }
    let is_single = matches!(view, View::Frame);
    if !sample_index.is_multiple_of(unit.max(1) as u64)
        || !length.is_multiple_of(unit.max(1))
        || is_single && length != unit
    {
        let whole = if is_single { "one frame" } else { units };
        let remedy = match (is_cut, is_single) {
            (true, _) => "check `is_whole` before".into(),
            (false, true) => "take windows by `windows(frames=1)`".into(),
            (false, false) => format!("take windows by `windows({units}=…)`"),
        };
        return Err(error::argument(format!(
            "{} has {length} samples from {sample_index} on, not {whole} of the shape {}; {remedy}",
            what(),
            text(&shape)
        )));
    }
    if !is_single {
        shape.insert(0, length / unit.max(1));
    }
    samples.call_method1("reshape", (shape,))
}

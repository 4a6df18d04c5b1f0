//! The order of a stream's samples for components: interleaved channels, rows, axes.

use stripline::{Error, Result, StreamInfo};

/// Returns the number of interleaved channels of a signal in time; 1 for a stream without channels.
///
/// # Errors
/// The stream has rows.
pub(super) fn channels(stream: &StreamInfo) -> Result<usize> {
    let Some(length) = stream.row_length else { return Ok(stream.channels.len().max(1)) };
    let (id, frames) = (&stream.id, of_frames(stream));
    Err(Error::failed(if stream.channels.is_empty() || !stream.axes.is_empty() {
        format!(
            "the stream `{id}` has rows of {length} samples (`row_length`){frames}, and this component takes a \
             signal in time: put it before the component that makes the rows"
        )
    } else {
        format!(
            "the stream `{id}` has its channels in rows of {length} samples (`row_length`){frames}, and this \
             component takes them sample by sample: set block = 1 in the `multiplexer`"
        )
    }))
}

/// Returns the description of a stream with `up / down` times the samples: the rate and the axis
/// from sample to sample change.
pub(super) fn at_ratio(stream: &StreamInfo, up: usize, down: usize) -> StreamInfo {
    let mut stream = stream.clone();
    stream.sample_rate_hz = stream.sample_rate_hz.map(|rate| rate * up as f64 / down as f64);
    stream.axes.iter_mut().for_each(|axis| axis.step *= down as f64 / up as f64);
    stream
}

/// Returns the number of samples between the index `from` and the position `to`. The position is in
/// parts of a sample: each sample has `parts` parts.
pub(super) fn between(from: u64, to: u128, parts: usize) -> f64 {
    // The result is exact, because the difference is small compared with the indexes.
    let from = u128::from(from) * parts as u128;
    let distance = to.abs_diff(from) as f64 / parts as f64;
    if to < from { -distance } else { distance }
}

/// Returns the words about the frames of a stream with rows; empty if there are no frames.
fn of_frames(stream: &StreamInfo) -> String {
    stream.frame_rows.map_or(String::new(), |rows| format!(" in frames of {rows} rows (`frame_rows`)"))
}

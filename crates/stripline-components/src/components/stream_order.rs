//! The order of a stream's samples, as components use it: channels in turn, rows, axes.

use stripline::{Error, Result, StreamInfo};

/// Returns the number of channels of a signal in time, which take turns sample by sample; 1 of a
/// stream without channels.
///
/// # Errors
/// A stream of rows.
pub(super) fn channels(stream: &StreamInfo) -> Result<usize> {
    let Some(length) = stream.row_length else { return Ok(stream.channels.len().max(1)) };
    let id = &stream.id;
    Err(Error::failed(if stream.channels.is_empty() || !stream.axes.is_empty() {
        format!(
            "the stream `{id}` has rows of {length} samples (`row_length`), and this component takes a signal in \
             time: put it before the component that makes the rows"
        )
    } else {
        format!(
            "the stream `{id}` has its channels in rows of {length} samples (`row_length`), and this component takes \
             them sample by sample: set block = 1 in the `multiplexer`"
        )
    }))
}

/// Returns the description of a stream with `up / down` of the samples: its rate, and the axis from
/// sample to sample.
pub(super) fn at_ratio(stream: &StreamInfo, up: usize, down: usize) -> StreamInfo {
    let mut stream = stream.clone();
    stream.sample_rate_hz = stream.sample_rate_hz.map(|rate| rate * up as f64 / down as f64);
    stream.axes.iter_mut().for_each(|axis| axis.step *= down as f64 / up as f64);
    stream
}

/// Returns how many samples lie between the index `from` and the place `to`. The place is in parts
/// of a sample: each has `parts` of them.
pub(super) fn between(from: u64, to: u128, parts: usize) -> f64 {
    // Exact, because the difference is small beside the indexes.
    let from = u128::from(from) * parts as u128;
    let distance = to.abs_diff(from) as f64 / parts as f64;
    if to < from { -distance } else { distance }
}

/// Returns after how many samples the order of channels and rows begins again, at least 1.
pub(super) fn frame_samples(stream: &StreamInfo) -> u64 {
    stream.channels.len().max(1) as u64 * u64::from(stream.row_length.unwrap_or(1))
}

//! The order of a stream's samples for components: interleaved channels, rows, axes.

use stripline::StreamInfo;
use stripline::component::{Direction, PortSpec, PortTypes, StreamShape};

/// Returns the specification of an input that takes a signal in time, without rows.
pub(super) fn signal_input(types: PortTypes, summary: &str) -> PortSpec {
    PortSpec::new("in", Direction::Input, types, summary).shape(StreamShape::Signal)
}

/// Returns the number of interleaved channels of a signal in time; 1 for a stream without channels.
pub(super) fn channels(stream: &StreamInfo) -> usize {
    stream.channels.len().max(1)
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

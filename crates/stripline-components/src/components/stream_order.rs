//! The order of a stream's samples for components: interleaved channels, rows, axes.

use stripline::{Error, Result, StreamInfo};

/// Returns the number of interleaved channels of a signal in time; 1 for a stream without channels.
///
/// # Errors
/// The stream has rows.
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

/// Checks that a stream has one channel.
///
/// # Errors
/// The stream has several channels. The error names the carrier that has no place for them.
#[cfg(any(feature = "zenoh", feature = "dds", feature = "corba", test))]
pub(super) fn check_one_channel(stream: &StreamInfo, carrier: &str) -> Result<()> {
    let (id, count) = (&stream.id, stream.channels.len());
    if count < 2 {
        return Ok(());
    }
    Err(Error::failed(format!(
        "the stream `{id}` has {count} channels (`channels`), and {carrier} has no place for them: put a `demultiplexer` \
         before it, and connect the output of one channel"
    )))
}

/// Checks that an item has whole rows, and a sample or a row of each channel.
///
/// # Errors
/// The length does not fit: the error has the key, and a length that fits.
#[cfg(any(feature = "zeromq", test))]
pub(super) fn check_items(stream: &StreamInfo, vlen: u64) -> Result<()> {
    let frame = frame_samples(stream);
    if vlen.is_multiple_of(frame) {
        return Ok(());
    }
    let (id, channels) = (&stream.id, stream.channels.len());
    let order = match stream.row_length {
        Some(length) if channels > 1 => {
            format!("{channels} channels (`channels`) in rows of {length} samples (`row_length`)")
        }
        Some(length) => format!("rows of {length} samples (`row_length`)"),
        None => format!("{channels} channels (`channels`)"),
    };
    Err(Error::failed(format!(
        "the stream `{id}` has {order}, and the items of the flowgraph have {vlen} samples: set `vlen` to {frame}, here \
         and in the block, and split the items by the block Vector to Streams"
    )))
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

/// Returns the number of samples after which the order of channels and rows repeats, at least 1.
pub(super) fn frame_samples(stream: &StreamInfo) -> u64 {
    stream.channels.len().max(1) as u64 * u64::from(stream.row_length.unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_place_is_refused_by_its_name() {
        let mut stream = StreamInfo::new("s");
        assert!(check_one_channel(&stream, "a topic").is_ok());
        assert!(check_items(&stream, 3).is_ok());
        stream.channels = vec!["a".into(), "b".into()];
        let error = check_one_channel(&stream, "a topic").unwrap_err().to_string();
        assert!(error.contains("2 channels (`channels`), and a topic has no place"), "{error}");
        let error = check_items(&stream, 1).unwrap_err().to_string();
        assert!(error.contains("(`channels`)") && error.contains("set `vlen` to 2"), "{error}");
        assert!(check_items(&stream, 2).is_ok());
        stream.row_length = Some(8);
        let error = check_items(&stream, 8).unwrap_err().to_string();
        assert!(error.contains("(`row_length`)") && error.contains("set `vlen` to 16"), "{error}");
    }
}

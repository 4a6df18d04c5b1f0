//! The unit of the lengths of windows.

use crate::packet::StreamInfo;

/// The unit in which the lengths of windows are counted.
///
/// ```
/// use stripline::node::WindowUnit;
///
/// let spectra = stripline::StreamInfo { row_length: Some(1024), ..Default::default() };
/// assert_eq!(WindowUnit::Rows.samples(&spectra), Some(1024));
/// assert_eq!(WindowUnit::Rows.samples(&stripline::StreamInfo::new("audio")), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowUnit {
    /// Samples.
    #[default]
    Samples,
    /// Rows of a stream with rows ([`StreamInfo::row_length`]).
    Rows,
    /// Frames of a stream with rows or channels, with all channels ([`StreamInfo::frame_samples`]).
    Frames,
}

impl WindowUnit {
    /// Returns the number of samples in the unit; `None` if the stream does not have the unit.
    pub fn samples(self, stream: &StreamInfo) -> Option<u64> {
        match self {
            Self::Samples => Some(1),
            Self::Rows => stream.row_length.map(|length| u64::from(length).max(1)),
            Self::Frames => Some(stream.frame_samples())
                .filter(|_| stream.row_length.is_some() || !stream.channels.is_empty()),
        }
    }

    /// Returns the length of the next window of `count` units in samples, and whether the window is
    /// whole: a window that begins within a unit ends with that unit.
    ///
    /// # Errors
    /// The stream does not have the unit; the text has no name of a port.
    ///
    /// ```
    /// use stripline::node::WindowUnit;
    ///
    /// let spectra = stripline::StreamInfo { row_length: Some(8), ..Default::default() };
    /// assert_eq!(WindowUnit::Rows.window_at(16, 3, &spectra), Ok((24, true)));
    /// assert_eq!(WindowUnit::Rows.window_at(19, 3, &spectra), Ok((5, false)));
    /// ```
    pub fn window_at(
        self,
        sample_index: u64,
        count: usize,
        stream: &StreamInfo,
    ) -> Result<(usize, bool), String> {
        let Some(unit) = self.samples(stream) else {
            let (units, key) = match self {
                Self::Rows => ("rows", "`row_length`"),
                _ => ("frames", "`row_length` or `channels`"),
            };
            return Err(format!(
                "windows in {units} need a stream with {units}, and the description of `{}` has no {key}; \
                 describe the stream where it is sent, or take windows in samples",
                stream.id
            ));
        };
        let size = |samples: u64| usize::try_from(samples).unwrap_or(usize::MAX);
        match sample_index % unit {
            0 => Ok((size(unit).saturating_mul(count), true)),
            before => Ok((size(unit - before), false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::time::Duration;

    use crate::node::{Node, Received};
    use crate::packet::Axis;

    use super::*;

    /// A time longer than any step takes on a busy machine: it only ends a hang.
    const DEADLINE: Duration = Duration::from_secs(60);

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

        // The model cuts the numbers from `first` on at each multiple of the unit.
        #[test]
        fn windows_begin_with_rows_and_frames(
            packets in proptest::collection::vec(0..40_usize, 1..30),
            first in 0..60_u64,
            row in 1..7_u32,
            rows in 1..4_u32,
            channels in 0..4_usize,
            is_frame in any::<bool>(),
            count in 1..4_usize,
            hop in 1..4_usize,
        ) {
            let node = Node::isolated().unwrap();
            let mut source = node.publisher::<u64>("in").unwrap();
            let unit = if is_frame { WindowUnit::Frames } else { WindowUnit::Rows };
            let mut input = node.subscriber::<u64>("in").unwrap().windowed_in(unit);
            source.wait_for_receivers(1, DEADLINE).unwrap();
            let axis = || Axis::new(0.0, 1.0, "");
            let stream = StreamInfo::new("s").rows(row, axis(), axis()).frames(rows, axis());
            source.set_stream(stream.channels(["a", "b", "c"].into_iter().take(channels)));
            let size = match is_frame {
                true => u64::from(row) * u64::from(rows) * channels.max(1) as u64,
                false => row.into(),
            };
            let mut end = first;
            for samples in packets {
                let mut loan = source.loan(samples).unwrap();
                loan.iter_mut().zip(end..).for_each(|(place, value)| *place = value);
                loan.at_sample(end).send().unwrap();
                end += samples as u64;
            }
            source.finish().unwrap();
            let (mut at, hop) = (first, hop.min(count) as u64);
            loop {
                let wanted = match at % size {
                    0 => size * count as u64,
                    before => size - before,
                };
                let (expected, is_whole) = (wanted.min(end - at), at % size == 0 && at + wanted <= end);
                let Received::Packet(window) = input.window_timeout(count, DEADLINE).unwrap() else {
                    prop_assert_eq!(at, end);
                    break;
                };
                prop_assert_eq!((window.sample_index(), window.is_whole()), (at, is_whole));
                prop_assert!(window.iter().copied().eq(at..at + expected));
                window.consume(hop as usize);
                at += if is_whole { hop * size } else { expected };
            }
        }
    }

    #[test]
    fn windows_end_at_a_jump_and_rows_begin_anew_after_a_change() {
        let node = Node::isolated().unwrap();
        let mut source = node.publisher::<u8>("in").unwrap();
        let mut input = node.subscriber::<u8>("in").unwrap().windowed_in(WindowUnit::Frames);
        source.wait_for_receivers(1, DEADLINE).unwrap();
        let axis = || Axis::new(0.0, 1.0, "");
        source.set_stream(StreamInfo::new("s").rows(2, axis(), axis()).frames(2, axis()));
        source.send(&[0, 1, 2, 3, 4, 5]).unwrap();
        source.loan_copy_of(&[10, 11]).unwrap().at_sample(10).send().unwrap();
        // Frames of 3 samples begin at the next multiple of 3, which is 12.
        source.set_stream(StreamInfo::new("s").rows(3, axis(), axis()));
        source.send(&[12, 13, 14]).unwrap();
        source.set_stream(StreamInfo::new("s").rows(7, axis(), axis()));
        source.send(&[21; 7]).unwrap();
        source.finish().unwrap();
        let mut found = Vec::new();
        while let Received::Packet(window) = input.window_timeout(1, DEADLINE).unwrap() {
            found.push((window.sample_index(), window.to_vec(), window.is_whole()));
        }
        let expected = [
            (0, vec![0, 1, 2, 3], true),
            (4, vec![4, 5], false),
            (10, vec![10, 11], false),
            (12, vec![12, 13, 14], true),
            (21, vec![21; 7], true),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_stream_without_the_unit_is_refused_and_goes_on() {
        let node = Node::isolated().unwrap();
        let mut source = node.publisher::<u8>("in").unwrap();
        let mut input = node.subscriber::<u8>("in").unwrap().windowed_in(WindowUnit::Frames);
        source.wait_for_receivers(1, DEADLINE).unwrap();
        source.set_stream(StreamInfo::new("plain"));
        source.send(&[1, 2, 3]).unwrap();
        let error = input.window(1).unwrap_err().to_string();
        assert!(error.contains("the description of `plain` has no `row_length` or `channels`"), "{error}");
        assert_eq!(input.stream().unwrap().unwrap().id, "plain");
        let large =
            StreamInfo { row_length: Some(u32::MAX), frame_rows: Some(u32::MAX), ..Default::default() };
        assert_eq!(WindowUnit::Frames.window_at(0, usize::MAX, &large), Ok((usize::MAX, true)));
    }
}

//! Streams aligned by their sample indexes.

/// Several streams, aligned so that samples with the same index are taken together.
///
/// An index that one stream lacks (a gap) is skipped in all streams. A stream that starts again
/// with a lower index continues at the position that the other streams have reached.
///
/// ```
/// use stripline_components::dsp::Aligner;
///
/// let mut streams = Aligner::<i16>::new(2);
/// streams.push(0, 10, &[1, 2, 3]);
/// assert_eq!(streams.wants(), Some(1));
/// streams.push(1, 11, &[7, 8]);
/// assert_eq!(streams.align(), Some((11, 2)));
/// assert_eq!((&streams.samples(0)[..2], streams.samples(1)), (&[2, 3][..], &[7, 8][..]));
/// streams.consume(2);
/// assert_eq!(streams.wants(), Some(0));
/// ```
#[derive(Debug, Clone)]
pub struct Aligner<T> {
    streams: Vec<AlignedStream<T>>,
    /// The number of elements in a sample.
    unit: usize,
    /// Samples are taken in blocks of this size, which begin at a multiple of it.
    block: usize,
    /// The offset of a stream that starts again is a multiple of this number.
    frame: u64,
    /// Whether the other streams continue after a stream has ended.
    outlasts: bool,
    /// The index after the last samples that were taken.
    next: u64,
}

/// The samples of one stream that have not been taken.
#[derive(Debug, Clone)]
struct AlignedStream<T> {
    samples: Vec<T>,
    /// The number of elements taken.
    used: usize,
    /// The aligned index of the first sample that was not taken.
    index: u64,
    /// The offset that is added to the stream's own indexes after it has started again.
    offset: u64,
    /// The stream's own index after the last sample.
    next: u64,
    ended: bool,
}

impl<T: Copy> Aligner<T> {
    /// Creates this number of streams. All streams are over when the first stream ends.
    pub fn new(streams: usize) -> Self {
        let empty =
            AlignedStream { samples: Vec::new(), used: 0, index: 0, offset: 0, next: 0, ended: false };
        Self { streams: vec![empty; streams], unit: 1, block: 1, frame: 1, outlasts: false, next: 0 }
    }

    /// Sets the number of elements in a sample, at least one.
    ///
    /// ```
    /// let mut streams = stripline_components::dsp::Aligner::<u8>::new(1).units(2);
    /// streams.push(0, 5, &[1, 2, 3, 4]);
    /// assert_eq!(streams.align(), Some((5, 2)));
    /// ```
    #[must_use]
    pub fn units(mut self, elements: usize) -> Self {
        self.unit = elements.max(1);
        self
    }

    /// Sets the number of samples in a block. Samples are then taken in whole blocks, which begin
    /// at a multiple of this number.
    ///
    /// ```
    /// let mut streams = stripline_components::dsp::Aligner::<u8>::new(1).blocks(4);
    /// streams.push(0, 2, &[0; 9]);
    /// assert_eq!(streams.align(), Some((4, 4)));
    /// ```
    #[must_use]
    pub fn blocks(mut self, samples: usize) -> Self {
        self.block = samples.max(1);
        self
    }

    /// Sets the length of a frame, at least one sample. The position in the frame may determine the
    /// channel of a sample, for example. A stream that starts again keeps these positions.
    ///
    /// ```
    /// let mut streams = stripline_components::dsp::Aligner::<u8>::new(1);
    /// streams.set_frame(2);
    /// streams.push(0, 4, &[1, 2, 3]);
    /// streams.align();
    /// streams.consume(3);
    /// assert_eq!(streams.push(0, 0, &[1, 2]), 8);
    /// ```
    pub fn set_frame(&mut self, samples: u64) {
        self.frame = samples.max(1);
    }

    /// Lets the streams continue after some have ended, until the last one ends.
    ///
    /// ```
    /// let mut streams = stripline_components::dsp::Aligner::<u8>::new(2).outlasting();
    /// streams.end(1);
    /// streams.push(0, 0, &[1]);
    /// assert_eq!(streams.align(), Some((0, 1)));
    /// assert!(streams.samples(1).is_empty());
    /// ```
    #[must_use]
    pub fn outlasting(mut self) -> Self {
        self.outlasts = true;
        self
    }

    /// Returns a stream for which samples must be [pushed](Self::push); `None` if there are samples
    /// to take, or if the streams are over.
    pub fn wants(&self) -> Option<usize> {
        let is_over = self.is_over();
        self.streams.iter().position(|stream| !is_over && !stream.ended && !self.has_block(stream))
    }

    /// Returns whether the streams are over: there are no more samples to take.
    pub fn is_over(&self) -> bool {
        let mut ended = self.streams.iter().map(|stream| stream.ended && !self.has_block(stream));
        if self.outlasts { ended.all(|ended| ended) } else { ended.any(|ended| ended) }
    }

    /// Adds the next samples of a stream, with the index of the first sample. Returns the aligned
    /// index of this sample.
    pub fn push(&mut self, stream: usize, index: u64, samples: &[T]) -> u64 {
        let stream = &mut self.streams[stream];
        if index < stream.next {
            let frame = i128::from(self.frame);
            let ahead = i128::from(self.next) - i128::from(index);
            let frames = (ahead + frame - 1).div_euclid(frame);
            // A negative offset wraps around, and so does the sum with the index.
            stream.offset = (frames * frame) as u64;
        }
        if index != stream.next || stream.used == stream.samples.len() {
            stream.samples.clear();
            stream.used = 0;
            stream.index = index.wrapping_add(stream.offset);
        }
        stream.next = index.saturating_add((samples.len() / self.unit) as u64);
        stream.samples.drain(..stream.used);
        stream.used = 0;
        stream.samples.extend_from_slice(samples);
        index.wrapping_add(stream.offset)
    }

    /// Ends a stream.
    pub fn end(&mut self, stream: usize) {
        self.streams[stream].ended = true;
    }

    /// Skips samples that some streams lack. Returns the index and the number of the samples that
    /// can be taken now.
    pub fn align(&mut self) -> Option<(u64, usize)> {
        if self.wants().is_some() || self.is_over() {
            return None;
        }
        let (unit, block) = (self.unit, self.block as u64);
        let start = self.filled().map(|stream| stream.index).max()?;
        let start = start.checked_next_multiple_of(block)?;
        for stream in &mut self.streams {
            let missing = start.saturating_sub(stream.index);
            stream.skip(usize::try_from(missing).unwrap_or(usize::MAX), unit);
        }
        // The skipped samples may have been the last samples of a stream.
        if self.wants().is_some() || self.is_over() {
            return None;
        }
        let count = self.filled().map(|stream| stream.rest().len() / unit).min()?;
        Some((start, count - count % self.block))
    }

    /// Returns the samples of a stream that were not taken; none if the stream has ended.
    pub fn samples(&self, stream: usize) -> &[T] {
        self.streams[stream].rest()
    }

    /// Takes this number of samples from all streams.
    pub fn consume(&mut self, samples: usize) {
        for stream in &mut self.streams {
            stream.skip(samples, self.unit);
        }
        self.next = self.streams.iter().map(|stream| stream.index).max().unwrap_or(0);
    }

    fn has_block(&self, stream: &AlignedStream<T>) -> bool {
        stream.rest().len() >= self.block.saturating_mul(self.unit)
    }

    fn filled(&self) -> impl Iterator<Item = &AlignedStream<T>> {
        self.streams.iter().filter(|stream| self.has_block(stream))
    }
}

impl<T> AlignedStream<T> {
    fn rest(&self) -> &[T] {
        &self.samples[self.used..]
    }

    fn skip(&mut self, samples: usize, unit: usize) {
        let count = samples.min(self.rest().len() / unit);
        self.used += count * unit;
        self.index = self.index.wrapping_add(count as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Packets = Vec<(u64, Vec<u32>)>;

    /// Takes all samples that can be aligned. Returns the samples of all streams, with their
    /// indexes.
    fn aligned(mut aligner: Aligner<u32>, streams: &[Packets]) -> Vec<(u64, Vec<u32>)> {
        let mut rest: Vec<_> = streams.iter().map(|packets| packets.iter()).collect();
        let mut out = Vec::new();
        while !aligner.is_over() {
            if let Some(stream) = aligner.wants() {
                match rest[stream].next() {
                    Some((index, samples)) => drop(aligner.push(stream, *index, samples)),
                    None => aligner.end(stream),
                }
            } else if let Some((index, count)) = aligner.align() {
                for n in 0..count {
                    let of_all = (0..streams.len()).filter_map(|stream| aligner.samples(stream).get(n));
                    out.push((index + n as u64, of_all.copied().collect()));
                }
                aligner.consume(count);
            }
        }
        out
    }

    #[test]
    fn a_stream_that_starts_anew_keeps_its_channels() {
        let mut streams = Aligner::<u8>::new(2);
        streams.set_frame(3);
        for (stream, index, at) in [(0, 4, 4), (1, 0, 0)] {
            assert_eq!(streams.push(stream, index, &[0; 10]), at);
        }
        assert_eq!(streams.align(), Some((4, 6)));
        streams.consume(6);
        // The other streams are at 10: the next sample at the same position in its frame is 11.
        // After 9 samples it is 19.
        assert_eq!(streams.push(1, 2, &[0; 9]), 11);
        assert_eq!(streams.push(1, 1, &[0; 5]), 10);
    }

    #[test]
    fn a_stream_that_starts_anew_goes_on_where_the_others_are() {
        let steady = vec![(100, vec![1; 4]), (104, vec![1; 4])];
        let restarted = vec![(100, vec![2; 4]), (0, vec![3; 4])];
        let out = aligned(Aligner::new(2), &[steady, restarted]);
        let expected: Vec<_> =
            (100..104).map(|n| (n, vec![1, 2])).chain((104..108).map(|n| (n, vec![1, 3]))).collect();
        assert_eq!(out, expected);
    }

    /// Returns streams with gaps: the length of each packet, and the number of samples missing
    /// before it.
    fn packets() -> impl Strategy<Value = Packets> {
        prop::collection::vec((0u64..4, 0usize..9), 0..12).prop_map(|parts| {
            let mut index = 0;
            parts
                .into_iter()
                .map(|(missing, length)| {
                    let first = index + missing;
                    index = first + length as u64;
                    (first, (first..index).map(|n| (n * n % 31) as u32).collect())
                })
                .collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn blocks_that_all_streams_have_are_taken(
            streams in prop::collection::vec(packets(), 1..4),
            block in 1u64..4,
        ) {
            let mut found: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
            for (first, samples) in streams.iter().flatten() {
                for (n, x) in samples.iter().enumerate() {
                    found.entry(first + n as u64).or_default().push(*x);
                }
            }
            let is_full = |index: u64| found.get(&index).is_some_and(|of_all| of_all.len() == streams.len());
            let last = found.keys().last().copied().unwrap_or(0);
            let blocks = (0..=last / block).filter(|n| (n * block..(n + 1) * block).all(is_full));
            let expected: Vec<_> =
                blocks.flat_map(|n| n * block..(n + 1) * block).map(|index| (index, found[&index].clone())).collect();
            let aligner = Aligner::new(streams.len()).blocks(block as usize);
            prop_assert_eq!(aligned(aligner, &streams), expected);
        }

        #[test]
        fn streams_that_outlast_others_end_with_the_last(length in 1usize..20, more in 0usize..20) {
            let ones = |count: usize| (0..count).map(|n| (n as u64, vec![1])).collect::<Packets>();
            let out = aligned(Aligner::new(2).outlasting(), &[ones(length), ones(length + more)]);
            let expected: Vec<_> = (0..length + more)
                .map(|n| (n as u64, vec![1; if n < length { 2 } else { 1 }]))
                .collect();
            prop_assert_eq!(out, expected);
        }
    }
}

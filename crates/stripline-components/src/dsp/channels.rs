//! Interleaved channels, with a separate processor for each channel.

/// Processors of one kind, one for each channel of interleaved samples.
///
/// A single channel is processed in place. Several channels are separated and interleaved again, in
/// buffers that are reused. So each channel gives the same result as alone.
///
/// ```
/// use stripline_components::dsp::{FirFilter, PerChannel, Taps};
///
/// // The difference to the sample before, in each of two channels.
/// let difference = FirFilter::<f32>::new(&Taps::new(vec![1.0, -1.0])?);
/// let mut filters = PerChannel::new(2, difference);
/// let mut output = [0.0; 6];
/// filters.run(0, &[1.0, 10.0, 2.0, 30.0, 4.0, 60.0], &mut output, FirFilter::filter);
/// assert_eq!(output, [1.0, 10.0, 1.0, 20.0, 2.0, 30.0]);
/// # Ok::<(), stripline_components::dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PerChannel<P, T, U = T> {
    processors: Vec<P>,
    /// The samples of one channel, and the output for them.
    taken: Vec<T>,
    made: Vec<U>,
}

impl<P: Clone, T: Copy, U: Copy + Default> PerChannel<P, T, U> {
    /// Creates as many copies of a processor as there are channels, at least one.
    pub fn new(channels: usize, processor: P) -> Self {
        Self { processors: vec![processor; channels.max(1)], taken: Vec::new(), made: Vec::new() }
    }

    /// Returns the number of channels.
    pub fn channels(&self) -> usize {
        self.processors.len()
    }

    /// Returns the channel of the sample with this index.
    ///
    /// ```
    /// let counts = stripline_components::dsp::PerChannel::<u8, f32>::new(3, 0);
    /// assert_eq!(counts.channel_at(7), 1);
    /// ```
    pub fn channel_at(&self, index: u64) -> usize {
        // The remainder is less than the number of channels.
        (index % self.processors.len() as u64) as usize
    }

    /// Returns the processors, in the order of the channels.
    pub fn processors(&mut self) -> &mut [P] {
        &mut self.processors
    }

    /// Returns the processor of the first channel.
    pub fn first(&self) -> &P {
        &self.processors[0]
    }

    /// Processes `input` into `output`, channel by channel. The first sample of both belongs to the
    /// channel `first`; pass 0 for whole frames.
    ///
    /// # Panics
    /// If `process` panics because of the number of samples.
    pub fn run(
        &mut self,
        first: usize,
        input: &[T],
        output: &mut [U],
        mut process: impl FnMut(&mut P, &[T], &mut [U]),
    ) {
        let channels = self.processors.len();
        if let [only] = &mut self.processors[..] {
            return process(only, input, output);
        }
        for (channel, processor) in self.processors.iter_mut().enumerate() {
            let place = (channel + channels - first % channels) % channels;
            take(&mut self.taken, input, place, channels);
            self.made.clear();
            self.made.resize(output.len().saturating_sub(place).div_ceil(channels), U::default());
            process(processor, &self.taken, &mut self.made);
            let places = output.iter_mut().skip(place).step_by(channels);
            places.zip(&self.made).for_each(|(to, made)| *to = *made);
        }
    }

    /// Calls `each` for every channel in whole frames, with the number of the channel, the
    /// processor and the samples.
    ///
    /// ```
    /// use stripline_components::dsp::PerChannel;
    ///
    /// let mut sums = PerChannel::<f32, f32>::new(2, 0.0);
    /// sums.each(&[1.0, 10.0, 2.0, 20.0], |_, sum, samples| *sum += samples.iter().sum::<f32>());
    /// assert_eq!(sums.processors(), [3.0, 30.0]);
    /// ```
    pub fn each(&mut self, frames: &[T], mut each: impl FnMut(usize, &mut P, &[T])) {
        let channels = self.processors.len();
        if let [only] = &mut self.processors[..] {
            return each(0, only, frames);
        }
        for (channel, processor) in self.processors.iter_mut().enumerate() {
            take(&mut self.taken, frames, channel, channels);
            each(channel, processor, &self.taken);
        }
    }
}

/// Copies the samples of one channel. The first sample is at `place`.
fn take<T: Copy>(taken: &mut Vec<T>, samples: &[T], place: usize, channels: usize) {
    taken.clear();
    taken.extend(samples.iter().skip(place).step_by(channels));
}

/// Whole frames of interleaved channels, independent of the boundaries of packets. A frame has one
/// sample of each channel, and begins at a multiple of the number of channels.
///
/// ```
/// use stripline_components::dsp::Frames;
///
/// let mut frames = Frames::new(2);
/// assert_eq!(frames.push(3, &[7, 1, 2, 3]), (4, &[1, 2][..]));
/// assert_eq!(frames.push(7, &[4, 5]), (6, &[3, 4][..]));
/// frames.restart();
/// assert_eq!(frames.push(10, &[6, 7]), (10, &[6, 7][..]));
/// ```
#[derive(Debug, Clone)]
pub struct Frames<T> {
    channels: usize,
    /// Samples that were returned, followed by the samples of an incomplete frame.
    held: Vec<T>,
    returned: usize,
}

impl<T: Copy> Frames<T> {
    /// Creates frames of this number of channels, at least one.
    pub fn new(channels: usize) -> Self {
        Self { channels: channels.max(1), held: Vec::new(), returned: 0 }
    }

    /// Returns the number of channels.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Returns the number of samples in the incomplete frame.
    ///
    /// ```
    /// let mut frames = stripline_components::dsp::Frames::new(2);
    /// frames.push(0, &[1, 2, 3]);
    /// assert_eq!(frames.waiting(), 1);
    /// ```
    pub fn waiting(&self) -> usize {
        self.held.len() - self.returned
    }

    /// Drops an incomplete frame, as after a gap. Returns the number of its samples.
    pub fn restart(&mut self) -> usize {
        let left = self.waiting();
        self.held.clear();
        self.returned = 0;
        left
    }

    /// Adds the next samples, with the index of the first sample. Returns the frames that are now
    /// complete, with the index of their first sample. The rest of a frame that began elsewhere is
    /// left out.
    pub fn push<'a>(&'a mut self, index: u64, samples: &'a [T]) -> (u64, &'a [T]) {
        self.held.drain(..self.returned);
        self.returned = 0;
        if self.held.is_empty() {
            let start = index.checked_next_multiple_of(self.channels as u64).unwrap_or(index);
            let missing = usize::try_from(start - index).unwrap_or(usize::MAX).min(samples.len());
            let samples = &samples[missing..];
            let (whole, rest) = samples.split_at(samples.len() - samples.len() % self.channels);
            self.held.extend_from_slice(rest);
            return (start, whole);
        }
        let start = index.saturating_sub(self.held.len() as u64);
        self.held.extend_from_slice(samples);
        self.returned = self.held.len() - self.held.len() % self.channels;
        (start, &self.held[..self.returned])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_whole_wherever_packets_end() {
        for channels in 1..5usize {
            for cut in 1..9usize {
                // Leave a gap between the samples 30 and 41, in the middle of a frame.
                let (mut frames, mut found) = (Frames::new(channels), Vec::new());
                for (from, to) in [(2, 30), (41, 60)] {
                    frames.restart();
                    let samples: Vec<u64> = (from..to).collect();
                    for packet in samples.chunks(cut) {
                        let (index, whole) = frames.push(packet[0], packet);
                        assert!(index.is_multiple_of(channels as u64) && whole.len() % channels == 0);
                        assert!((index..).zip(whole).all(|(index, sample)| index == *sample));
                        found.extend_from_slice(whole);
                    }
                }
                let c = channels as u64;
                let whole = |from: u64, to: u64| from.div_ceil(c) * c..to / c * c;
                assert_eq!(found, whole(2, 30).chain(whole(41, 60)).collect::<Vec<_>>(), "{channels} {cut}");
            }
        }
    }
}

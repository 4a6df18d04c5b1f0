//! Detection of the places in a stream at which samples are missing or the description changes.

use std::mem;
use std::sync::Arc;

use stripline::{Gap, StreamInfo};

use crate::dsp::Frames;

/// A time that differs from the expected time by more than this is a step.
const STEP_NS: i64 = 1000;

/// The position of a packet in its stream.
///
/// ```
/// use stripline_components::formats::SamplePlace;
///
/// let place = SamplePlace { sample_index: 1000, ..SamplePlace::default() };
/// assert_eq!((place.time_ns, place.samples), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplePlace {
    /// The index of the first sample within the stream.
    pub sample_index: u64,
    /// The time of the first sample, in nanoseconds since the Unix epoch; 0: unknown.
    pub time_ns: i64,
    /// The number of samples.
    pub samples: u64,
}

/// A tracker of the places in a stream at which samples are missing or the description changes.
///
/// ```
/// use std::sync::Arc;
/// use stripline::StreamInfo;
/// use stripline_components::formats::{SamplePlace, StepTracker};
///
/// let stream = Arc::new(StreamInfo::new("iq").sample_rate_hz(1e6));
/// let at = |sample_index| SamplePlace { sample_index, samples: 10, ..SamplePlace::default() };
/// let mut steps = StepTracker::default();
/// assert!(steps.packet(&stream, at(0), None));
/// assert!(!steps.packet(&stream, at(10), None));
/// assert!(steps.packet(&stream, at(50), None));
/// assert_eq!((steps.missing(), steps.places()), (30, 1));
/// ```
#[derive(Clone, Debug, Default)]
pub struct StepTracker {
    /// The description and the position at the start of the last segment.
    start: Option<(Arc<StreamInfo>, SamplePlace)>,
    next_index: u64,
    is_interrupted: bool,
    missing: u64,
    places: u64,
}

impl StepTracker {
    /// Adds the next packet, with the gap that was reported before it. Returns whether the packet
    /// begins a segment: its index, time or description does not continue the previous packet.
    pub fn packet(&mut self, stream: &Arc<StreamInfo>, place: SamplePlace, gap: Option<&Gap>) -> bool {
        let is_same =
            self.start.as_ref().is_some_and(|(last, _)| Arc::ptr_eq(last, stream) || last == stream);
        let counts_on = self.start.as_ref().is_some_and(|(last, _)| last.id == stream.id);
        let is_next = place.sample_index == self.next_index;
        let ahead = place.sample_index.saturating_sub(self.next_index);
        let known = gap.map_or(0, |gap| gap.samples);
        if gap.is_some() || (counts_on && !is_next) {
            self.places += 1;
            let is_ahead = counts_on && ahead > 0;
            self.missing = self.missing.saturating_add(if is_ahead { ahead.max(known) } else { known });
        }
        self.next_index = place.sample_index.saturating_add(place.samples);
        let interrupted = mem::take(&mut self.is_interrupted) || gap.is_some();
        let begins = !is_same || !is_next || interrupted || self.time_steps(place);
        if begins {
            self.start = Some((Arc::clone(stream), place));
        }
        begins
    }

    /// Makes the next packet begin a segment, like the first packet of another sender.
    pub fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// Adds a gap after the last packet.
    pub fn gap_at_end(&mut self, gap: &Gap) {
        self.places += 1;
        self.missing = self.missing.saturating_add(gap.samples);
    }

    /// Returns the number of missing samples, as far as they can be counted.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns the number of places at which samples are missing.
    pub fn places(&self) -> u64 {
        self.places
    }

    /// Returns whether the time of a packet differs from the time expected from the segment.
    fn time_steps(&self, place: SamplePlace) -> bool {
        let Some((stream, start)) = self.start.as_ref().filter(|_| place.time_ns != 0) else { return false };
        if start.time_ns == 0 {
            return true;
        }
        let Some(rate) = stream.sample_rate_hz.filter(|rate| *rate > 0.0) else { return false };
        let samples = place.sample_index.saturating_sub(start.sample_index);
        let after = (samples as f64 * 1e9 / rate).round() as i64;
        start.time_ns.saturating_add(after).abs_diff(place.time_ns) > STEP_NS.unsigned_abs()
    }
}

/// The packets of a stream in whole frames, with the steps between them.
///
/// A frame has one sample of each channel. At a step, an incomplete frame is dropped and counted as
/// missing.
#[derive(Clone, Debug)]
pub(crate) struct FrameSteps<T> {
    /// The number of items in a sample.
    width: u64,
    frames: Frames<T>,
    steps: StepTracker,
    /// The description of the last packet, and of the first one of its segment.
    described: Option<Arc<StreamInfo>>,
    stream: Option<Arc<StreamInfo>>,
    /// The index after the last packet.
    next_index: u64,
    /// The index and time of the packet in which the incomplete frame began.
    begun: (u64, i64),
    is_interrupted: bool,
    /// The samples that are missing before the first packet.
    skipped: u64,
    missing: u64,
    places: u64,
}

/// The whole frames of a packet.
pub(crate) struct FramePart<'a, T> {
    /// Whether the frames begin a segment.
    pub(crate) begins: bool,
    /// Whether the packet begins a segment or has another description than the previous one.
    pub(crate) differs: bool,
    pub(crate) place: SamplePlace,
    pub(crate) items: &'a [T],
}

impl<T: Copy> FrameSteps<T> {
    /// Creates a tracker for frames of `channels` samples. A sample has `width` items.
    pub(crate) fn new(channels: usize, width: usize) -> Self {
        Self {
            width: width as u64,
            frames: Frames::new(channels * width),
            steps: StepTracker::default(),
            described: None,
            stream: None,
            next_index: 0,
            begun: (0, 0),
            is_interrupted: false,
            skipped: 0,
            missing: 0,
            places: 0,
        }
    }

    /// Returns the tracker for the next file of the stream, with this number of channels. The
    /// tracker counts the samples that are missing between the two files.
    pub(crate) fn next_file(&self, channels: usize) -> Self {
        let (stream, next_index) = (self.stream.clone(), self.next_index);
        Self { stream, next_index, ..Self::new(channels, self.width as usize) }
    }

    /// Adds the next packet, with the gap that was reported before it. Returns the frames that are
    /// now complete, if any.
    pub(crate) fn push<'a>(
        &'a mut self,
        stream: &Arc<StreamInfo>,
        mut place: SamplePlace,
        gap: Option<&Gap>,
        items: &'a [T],
    ) -> FramePart<'a, T> {
        let is_equal = |last: &Arc<StreamInfo>| Arc::ptr_eq(last, stream) || last == stream;
        let mut differs = !self.described.as_ref().is_some_and(is_equal);
        let is_same = self.stream.as_ref().is_some_and(|last| !differs || is_alike(last, stream));
        if differs {
            self.described = Some(Arc::clone(stream));
        }
        // A retuned stream has the same name and continues to count the samples.
        let counts_on = self.stream.as_ref().is_some_and(|last| last.id == stream.id);
        let index = place.sample_index;
        let is_next = index == self.next_index && gap.is_none();
        if !is_same || !is_next || mem::take(&mut self.is_interrupted) {
            let part = self.drop_part();
            let ahead =
                if counts_on { index.saturating_sub(self.next_index) } else { mem::take(&mut self.skipped) };
            let lost = ahead.max(gap.map_or(0, |gap| gap.samples));
            self.missing = self.missing.saturating_add(lost);
            let is_step = ahead > 0 || gap.is_some() || (counts_on && index != self.next_index);
            self.places += u64::from(part > 0 || is_step);
            self.steps.interrupt();
        }
        if !is_same {
            self.stream = Some(Arc::clone(stream));
        }
        let stream = self.stream.as_ref().unwrap_or(stream);
        self.next_index = index.saturating_add(place.samples);
        // Count items from a frame near the packet: the index in items might overflow.
        let channels = self.frames.channels() as u64 / self.width;
        let near = index % channels + channels;
        let (first, length) = (near * self.width, items.len());
        let is_between = self.frames.waiting() == 0;
        let (start, items) = self.frames.push(first, items);
        if is_between && start > first {
            // The packet begins with the rest of a frame that began elsewhere.
            self.missing += (start - first).min(length as u64) / self.width;
            self.places = self.places.max(1);
        }
        let begun = self.begun;
        if is_between || !items.is_empty() {
            self.begun = (index, place.time_ns);
        }
        if items.is_empty() {
            return FramePart { begins: false, differs, place, items };
        }
        place.sample_index = index.wrapping_sub(near).wrapping_add(start / self.width);
        place.samples = items.len() as u64 / self.width;
        let (index, time_ns) =
            if place.time_ns == 0 && start < first { begun } else { (index, place.time_ns) };
        place.time_ns = time_ns;
        if time_ns != 0 && place.sample_index != index {
            let ahead = place.sample_index as f64 - index as f64;
            let after = stream.sample_rate_hz.map(|rate| (ahead * 1e9 / rate).round() as i64);
            place.time_ns = after.map_or(0, |after| place.time_ns.saturating_add(after));
        }
        let begins = self.steps.packet(stream, place, None);
        differs |= begins;
        FramePart { begins, differs, place, items }
    }

    /// Makes the next packet begin a segment, like the first packet of another sender.
    pub(crate) fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// Counts samples that are missing before the first packet, when a file is continued. A gap
    /// that is reported with the packet is among them.
    pub(crate) fn skipped(&mut self, samples: u64) {
        self.skipped = samples;
    }

    /// Ends the stream, with the gap after the last packet. An incomplete frame counts as missing.
    pub(crate) fn end(&mut self, gap: Option<&Gap>) {
        self.places += u64::from(self.drop_part() > 0 || gap.is_some());
        self.missing = self.missing.saturating_add(gap.map_or(0, |gap| gap.samples));
    }

    /// Returns the index after the last packet.
    pub(crate) fn next_index(&self) -> u64 {
        self.next_index
    }

    /// Drops an incomplete frame and counts its samples as missing. Returns the number of samples.
    fn drop_part(&mut self) -> u64 {
        let samples = self.frames.restart() as u64 / self.width;
        self.missing += samples;
        samples
    }

    /// Returns the number of missing samples, as far as they can be counted.
    pub(crate) fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns the number of places at which samples are missing.
    pub(crate) fn places(&self) -> u64 {
        self.places
    }
}

/// Returns whether a segment can have samples of both streams: no other part of a description is
/// written for each segment.
fn is_alike(one: &StreamInfo, other: &StreamInfo) -> bool {
    let parts = |stream: &StreamInfo| (stream.sample_rate_hz, stream.center_frequency_hz, stream.clock);
    (&one.id, parts(one), &one.channels) == (&other.id, parts(other), &other.channels)
}

#[cfg(test)]
mod tests {
    use stripline::GapReason;

    use super::*;

    fn stream(frequency_hz: f64) -> Arc<StreamInfo> {
        Arc::new(StreamInfo::new("iq").sample_rate_hz(1e6).center_frequency_hz(frequency_hz))
    }

    #[test]
    fn a_segment_begins_at_each_step_of_index_time_and_description() {
        let (low, high) = (stream(1e8), stream(2e8));
        let mut steps = StepTracker::default();
        let start = 1_700_000_000_000_000_000;
        for (stream, sample_index, time_ns, begins) in [
            (&low, 5, start, true),
            (&low, 15, start + 10_000, false),
            (&low, 25, start + 20_900, false),
            (&low, 35, 0, false),
            (&low, 45, start + 50_000, true),
            (&low, 60, start + 65_000, true),
            (&high, 70, start + 75_000, true),
            (&high, 0, 0, true),
        ] {
            let place = SamplePlace { sample_index, time_ns, samples: 10 };
            assert_eq!(steps.packet(stream, place, None), begins, "{place:?}");
        }
        assert_eq!((steps.missing(), steps.places()), (5, 2));
    }

    #[test]
    fn a_gap_is_counted_once_by_its_index_or_by_its_report() {
        let stream = stream(1e8);
        let mut steps = StepTracker::default();
        let gap = |samples| Gap { first: 1, packets: 2, samples, reason: GapReason::Overflow };
        let mut packet = |sample_index, gap: Option<&Gap>| {
            let begins = steps.packet(&stream, SamplePlace { sample_index, time_ns: 0, samples: 10 }, gap);
            (begins, steps.missing(), steps.places())
        };
        assert_eq!(packet(0, None), (true, 0, 0));
        assert_eq!(packet(30, Some(&gap(20))), (true, 20, 1));
        // A sender that was started again counts from 0; the number of missing samples is not
        // reported.
        assert_eq!(packet(0, Some(&gap(0))), (true, 20, 2));
        assert_eq!(packet(10, None), (false, 20, 2));
        steps.gap_at_end(&gap(7));
        assert_eq!((steps.missing(), steps.places()), (27, 3));
    }

    #[test]
    fn a_gap_before_a_continued_file_is_counted_once() {
        let stream = stream(1e8);
        for (skipped, reported, missing) in [(100, 30, 100), (100, 120, 120), (0, 30, 30), (100, 0, 100)] {
            let gap = Gap { first: 1, packets: 1, samples: reported, reason: GapReason::Overflow };
            let mut frames = FrameSteps::new(1, 1);
            frames.skipped(skipped);
            let place = SamplePlace { sample_index: 500, time_ns: 0, samples: 10 };
            frames.push(&stream, place, Some(&gap).filter(|_| reported > 0), &[0u8; 10]);
            frames.push(&stream, SamplePlace { sample_index: 510, ..place }, None, &[0; 10]);
            assert_eq!((frames.missing(), frames.places()), (missing, 1), "{skipped} {reported}");
        }
    }

    #[test]
    fn a_gap_at_a_retuning_is_counted() {
        let (low, high) = (stream(1e8), stream(2e8));
        let other = Arc::new(StreamInfo::new("other"));
        let (mut steps, mut frames) = (StepTracker::default(), FrameSteps::new(1, 1));
        for (stream, sample_index, missing, places) in
            [(&low, 0, 0, 0), (&high, 30, 20, 1), (&low, 40, 20, 1), (&low, 60, 30, 2), (&other, 99, 30, 2)]
        {
            let place = SamplePlace { sample_index, time_ns: 0, samples: 10 };
            assert!(steps.packet(stream, place, None));
            frames.push(stream, place, None, &[0u8; 10]);
            assert_eq!((steps.missing(), steps.places()), (missing, places), "{sample_index}");
            assert_eq!((frames.missing(), frames.places()), (missing, places), "{sample_index}");
        }
    }

    #[test]
    fn the_largest_indexes_are_kept() {
        let mut frames = FrameSteps::new(3, 16);
        // The first three of four samples are a frame. The fourth begins a frame with the next
        // eight.
        let first = u64::MAX - 15;
        for (index, samples, whole_from, whole) in [(first, 4, first, 3), (first + 4, 8, first + 3, 9)] {
            let place = SamplePlace { sample_index: index, time_ns: 0, samples };
            let items = vec![0u8; 16 * samples as usize];
            let part = frames.push(&stream(1e8), place, None, &items).place;
            assert_eq!((part.sample_index, part.samples), (whole_from, whole));
        }
    }

    #[test]
    fn other_keywords_begin_no_segment_and_split_no_frame() {
        let (plain, mut frames) = (stream(1e8), FrameSteps::new(2, 1));
        let tagged = Arc::new((*plain).clone().keyword("tag", 1));
        let parts = [(&plain, 3, 2), (&tagged, 3, 4), (&tagged, 2, 2), (&stream(2e8), 2, 2)];
        let mut sample_index = 0;
        let mut found = Vec::new();
        for (stream, samples, whole) in parts {
            let place = SamplePlace { sample_index, time_ns: 0, samples };
            let part = frames.push(stream, place, None, &[0u8; 3][..samples as usize]);
            assert_eq!(part.items.len(), whole);
            found.push((part.begins, part.differs));
            sample_index += samples;
        }
        assert_eq!(found, [(true, true), (false, true), (false, false), (true, true)]);
        assert_eq!((frames.missing(), frames.places()), (0, 0));
    }

    #[test]
    fn frames_in_part_are_left_out_and_missing() {
        let (one, other) = (stream(1e8), stream(2e8));
        let mut frames = FrameSteps::new(3, 2);
        let (mut found, mut starts) = (Vec::new(), Vec::new());
        for (stream, index, samples) in
            [(&one, 0, 4), (&one, 4, 1), (&one, 5, 3), (&one, 10, 6), (&other, 16, 5), (&other, 21, 2)]
        {
            let items: Vec<u64> = (2 * index..2 * (index + samples)).collect();
            let place =
                SamplePlace { sample_index: index, time_ns: 1_000_000 + 1000 * index as i64, samples };
            let part = frames.push(stream, place, None, &items);
            if part.begins {
                starts.push((part.place.sample_index, part.place.time_ns));
            }
            found.extend_from_slice(part.items);
        }
        frames.end(None);
        // Missing: 6 and 7 before the gap, 10 and 11 after it; 15 before the retuning, 16 and 17
        // after it.
        let whole = (0..6).chain(12..15).chain(18..21);
        assert_eq!(found, whole.flat_map(|index| [2 * index, 2 * index + 1]).collect::<Vec<u64>>());
        assert_eq!(starts, [(0, 1_000_000), (12, 1_012_000), (18, 1_018_000)]);
        assert_eq!(frames.missing(), 6 + 1 + 2 + 2);
    }
}

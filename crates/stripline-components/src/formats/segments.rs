//! The segments of a file, each with its own index, time and frequency.

use stripline::StreamClock;

use super::sigmf::{SigMfCapture, SigMfMeta};
use super::utc::utc_ns;
use crate::text::counted;

/// The position of a sample in the recorded stream.
///
/// ```
/// let place = stripline_components::formats::FilePlace::default();
/// assert_eq!((place.sample_index, place.time_ns), (0, None));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FilePlace {
    /// The index of the sample, counted over all channels.
    pub sample_index: u64,
    /// The time of the sample in nanoseconds since the Unix epoch, if the file states it.
    pub time_ns: Option<i64>,
    /// The centre frequency in Hz, if the file states it.
    pub frequency_hz: Option<f64>,
    /// The clock of the time, if the file states it.
    pub clock: Option<StreamClock>,
}

/// A part of a file that begins at a sample.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// The first sample, counted in the file.
    start: u64,
    place: FilePlace,
}

/// The segments of a file, and the current position of the reader. Samples are counted per channel.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    sample_rate_hz: Option<f64>,
    /// The segments by ascending start. The first starts at 0, and there is at least one.
    segments: Vec<Segment>,
    /// The number of samples in a pass; `None`: unknown, and there is one pass.
    pass: Option<u64>,
    /// The current segment, and the current sample in this pass.
    at: usize,
    sample: u64,
    /// The offset that is added to the indexes, because of the passes before this one.
    base: u64,
    /// Whether this is the first pass: only samples of the first pass have times.
    is_first_pass: bool,
}

impl Segments {
    /// Returns one segment for a whole file.
    pub(super) fn one(sample_rate_hz: Option<f64>, frequency_hz: Option<f64>, time_ns: Option<i64>) -> Self {
        let place = FilePlace { time_ns, frequency_hz, ..FilePlace::default() };
        Self::new(sample_rate_hz, vec![Segment { start: 0, place }])
    }

    /// Returns the captures of a SigMF recording as segments. Samples before the first capture have
    /// neither time nor frequency.
    pub(super) fn of_sigmf(meta: &SigMfMeta) -> Self {
        let mut segments: Vec<Segment> = Vec::with_capacity(meta.captures.len() + 1);
        for capture in &meta.captures {
            let start = capture.sample_start.saturating_sub(meta.offset);
            // Without an index, the capture continues the index of the previous capture.
            let index = capture.global_index.unwrap_or_else(|| match segments.last() {
                Some(before) => before.place.sample_index.saturating_add(start - before.start),
                None => capture.sample_start,
            });
            if segments.is_empty() && start > 0 {
                let place = FilePlace { sample_index: index.saturating_sub(start), ..FilePlace::default() };
                segments.push(Segment { start: 0, place });
            }
            // Of two captures at one sample, the later one is valid.
            segments.pop_if(|before| before.start == start);
            let time_ns = capture.datetime.as_deref().and_then(utc_ns);
            let &SigMfCapture { frequency_hz, clock, .. } = capture;
            let place = FilePlace { sample_index: index, time_ns, frequency_hz, clock };
            segments.push(Segment { start, place });
        }
        if segments.is_empty() {
            let place = FilePlace { sample_index: meta.offset, ..FilePlace::default() };
            segments.push(Segment { start: 0, place });
        }
        Self::new(meta.sample_rate_hz, segments)
    }

    fn new(sample_rate_hz: Option<f64>, segments: Vec<Segment>) -> Self {
        Self { sample_rate_hz, segments, pass: None, at: 0, sample: 0, base: 0, is_first_pass: true }
    }

    /// Limits the segments to a file with this number of samples, at least one. Returns notes for
    /// the user of the file about captures that are not used as they are.
    pub(super) fn limit(&mut self, samples: u64, meta: Option<&SigMfMeta>) -> Vec<String> {
        self.pass = Some(samples);
        let mut notes = Vec::new();
        let at_end = self.segments.iter().rposition(|segment| segment.start == samples);
        let lost = at_end.map_or(0, |at| self.lost_before(at));
        if lost > 0 {
            let of_each = if meta.is_some_and(|meta| meta.channels > 1) { " of each channel" } else { "" };
            notes.push(format!("{}{of_each} missing behind the last one", counted(lost, "sample")));
        }
        self.segments.retain(|segment| segment.start < samples);
        let Some(meta) = meta else { return notes };
        let captures = meta.captures.iter().enumerate();
        let is_behind = |capture: &SigMfCapture| {
            let start = capture.sample_start - meta.offset;
            start > samples || (start == samples && lost == 0)
        };
        let mut behind = captures.filter(|(_, capture)| is_behind(capture));
        if let Some((index, capture)) = behind.next() {
            let (start, more) = (capture.sample_start, and_more(behind.count()));
            notes.push(format!(
                "`captures[{index}].core:sample_start` is {start}, but there are {samples} samples: the capture \
                 is left out{more}"
            ));
        }
        let is_within = |capture: &SigMfCapture| capture.sample_start - meta.offset < samples;
        let starts = meta.captures.windows(2);
        let starts = starts.map(|pair| pair[0].sample_start == pair[1].sample_start && is_within(&pair[0]));
        let mut doubled = starts.enumerate().filter(|(_, is_doubled)| *is_doubled);
        if let Some((index, _)) = doubled.next() {
            let more = and_more(doubled.count());
            notes.push(format!(
                "`captures[{index}]` has no samples, as the next capture begins at the same one: it is left out{more}"
            ));
        }
        notes
    }

    /// Returns the number of samples that are missing between a segment and the previous segment.
    fn lost_before(&self, at: usize) -> u64 {
        let Some(before) = at.checked_sub(1).map(|before| self.segments[before]) else { return 0 };
        let Segment { start, place } = self.segments[at];
        let follows = before.place.sample_index.saturating_add(start - before.start);
        place.sample_index.saturating_sub(follows)
    }

    /// Returns the position of the next sample.
    pub(super) fn place(&self) -> FilePlace {
        let Segment { start, place } = self.segments[self.at];
        let behind = self.sample - start;
        let time_ns =
            place.time_ns.filter(|_| self.is_first_pass).and_then(|time| match self.sample_rate_hz {
                _ if behind == 0 => Some(time),
                Some(rate) => time.checked_add((behind as f64 / rate * 1e9).round() as i64),
                None => None,
            });
        let index = self.base.saturating_add(place.sample_index).saturating_add(behind);
        FilePlace { sample_index: index, time_ns, ..place }
    }

    /// Returns the number of samples before the next segment or pass begins. A file with one
    /// segment and no time has no such limit.
    pub(super) fn frames_left(&self) -> u64 {
        let next = match self.segments.get(self.at + 1) {
            Some(next) => Some(next.start),
            None if self.segments.len() > 1 || self.segments[0].place.time_ns.is_some() => self.pass,
            None => None,
        };
        next.map_or(u64::MAX, |next| next - self.sample)
    }

    /// Advances by a number of samples that were read.
    pub(super) fn advance(&mut self, samples: u64) {
        self.sample = self.sample.saturating_add(samples);
        if let Some(pass) = self.pass.filter(|pass| self.sample >= *pass)
            && let (Some(first), Some(last)) = (self.segments.first(), self.segments.last())
        {
            let end = last.place.sample_index.saturating_add(pass - last.start);
            let span = end.saturating_sub(first.place.sample_index);
            self.base = self.base.saturating_add(span.saturating_mul(self.sample / pass));
            self.sample %= pass;
            self.at = 0;
            self.is_first_pass = false;
        }
        while self.segments.get(self.at + 1).is_some_and(|next| next.start <= self.sample) {
            self.at += 1;
        }
    }
}

/// Returns the end of a note about the first of several things.
pub(super) fn and_more(count: usize) -> String {
    if count == 0 { String::new() } else { format!(", and {count} more") }
}

#[cfg(test)]
mod tests {
    use stripline::payload::Scalar;

    use super::*;
    use crate::formats::SigMfCapture;

    type Described<'a> = (u64, Option<u64>, Option<f64>, Option<&'a str>);

    fn meta(captures: &[Described<'_>]) -> SigMfMeta {
        let captures =
            captures.iter().map(|(sample_start, global_index, frequency_hz, datetime)| SigMfCapture {
                sample_start: *sample_start,
                global_index: *global_index,
                frequency_hz: *frequency_hz,
                datetime: datetime.map(str::to_owned),
                clock: None,
            });
        let captures = captures.collect();
        SigMfMeta { captures, sample_rate_hz: Some(1e6), ..SigMfMeta::new(Scalar::parse("cf32").unwrap()) }
    }

    fn place(sample_index: u64, time_ns: Option<i64>, frequency_hz: Option<f64>) -> FilePlace {
        FilePlace { sample_index, time_ns, frequency_hz, clock: None }
    }

    #[test]
    fn each_capture_has_its_index_time_and_frequency() {
        let second = "1970-01-01T00:00:01.006Z";
        let first = "1970-01-01T00:00:01Z";
        let meta = meta(&[
            (0, Some(0), Some(1e8), Some(first)),
            (1000, Some(6000), Some(4e8), Some(second)),
            (1500, None, None, None),
        ]);
        let mut segments = Segments::of_sigmf(&meta);
        assert_eq!(segments.limit(2000, Some(&meta)), Vec::<String>::new());
        let mut seen = Vec::new();
        for samples in [400, 600, 500, 500, 100] {
            assert!(segments.frames_left() >= samples);
            seen.push(segments.place());
            segments.advance(samples);
        }
        assert_eq!(
            seen,
            [
                place(0, Some(1_000_000_000), Some(1e8)),
                place(400, Some(1_000_400_000), Some(1e8)),
                place(6000, Some(1_006_000_000), Some(4e8)),
                place(6500, None, None),
                // The second pass continues the index of the first.
                place(7000, None, Some(1e8)),
            ]
        );
    }

    #[test]
    fn what_no_capture_describes_has_no_frequency() {
        let late = meta(&[
            (500, Some(900), Some(1e8), None),
            (99_999, None, None, None),
            (99_999, None, None, None),
        ]);
        let mut segments = Segments::of_sigmf(&late);
        let notes = segments.limit(2000, Some(&late));
        assert!(notes[0].contains("captures[1].core:sample_start` is 99999") && notes[0].ends_with("1 more"));
        assert_eq!((segments.place(), segments.frames_left()), (place(400, None, None), 500));
        segments.advance(500);
        assert_eq!((segments.place(), segments.frames_left()), (place(900, None, Some(1e8)), 1500));
        let offset =
            SigMfMeta { offset: 100, ..meta(&[(100, None, Some(1.0), None), (100, None, Some(2.0), None)]) };
        let mut segments = Segments::of_sigmf(&offset);
        assert_eq!(segments.place(), place(100, None, Some(2.0)));
        let notes = segments.limit(2000, Some(&offset));
        assert!(
            notes.len() == 1 && notes[0].starts_with("`captures[0]` has no samples, as the next"),
            "{notes:?}"
        );
    }

    #[test]
    fn a_file_without_steps_is_read_across_its_passes() {
        let mut segments = Segments::one(None, Some(1e8), None);
        segments.limit(3, None);
        assert_eq!(segments.frames_left(), u64::MAX);
        segments.advance(10);
        assert_eq!(segments.place(), place(10, None, Some(1e8)));
        let mut timed = Segments::one(None, None, Some(5));
        timed.limit(3, None);
        assert_eq!((timed.frames_left(), timed.place().time_ns), (3, Some(5)));
        timed.advance(1);
        assert_eq!(timed.place().time_ns, None);
    }
}

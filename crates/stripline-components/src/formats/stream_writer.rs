//! Writing the samples of a stream with their places and their description.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use stripline::component::FileReport;
use stripline::{Gap, StreamInfo};

use super::error::FormatError;
use super::iq_writer::IqFileWriter;
use super::output::Existing;
use super::sample_format::SampleFormat;
use super::sigmf::{SigMfCapture, SigMfMeta, is_sigmf};
use super::utc::utc_datetime;

/// So often all samples are passed to the system, and metadata to the disk. A killed process loses
/// no more.
const SYNC_TIME: Duration = Duration::from_secs(1);
/// A time that differs by more from the one expected is a step.
const STEP_NS: i64 = 1000;

/// The place of a packet in its stream.
///
/// ```
/// use stripline_components::formats::SamplePlace;
///
/// let place = SamplePlace { sample_index: 1000, ..SamplePlace::default() };
/// assert_eq!((place.time_ns, place.samples), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplePlace {
    /// The number of its first sample within the stream.
    pub sample_index: u64,
    /// The time of its first sample, in nanoseconds since the Unix epoch; 0: unknown.
    pub time_ns: i64,
    /// The number of its samples.
    pub samples: u64,
}

/// A search for the places in a stream at which samples are missing, or its description changes.
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
    /// What the last segment began with.
    start: Option<(Arc<StreamInfo>, SamplePlace)>,
    next_index: u64,
    is_interrupted: bool,
    missing: u64,
    places: u64,
}

impl StepTracker {
    /// Adds the next packet, with the gap that was reported before it. Returns whether a segment
    /// begins with it: index, time or description do not follow from the packet before.
    pub fn packet(&mut self, stream: &Arc<StreamInfo>, place: SamplePlace, gap: Option<&Gap>) -> bool {
        let is_first = self.start.is_none();
        let is_same =
            self.start.as_ref().is_some_and(|(last, _)| Arc::ptr_eq(last, stream) || last == stream);
        let is_next = place.sample_index == self.next_index;
        let ahead = place.sample_index.saturating_sub(self.next_index);
        let known = gap.map_or(0, |gap| gap.samples);
        if gap.is_some() || (!is_first && is_same && !is_next) {
            self.places += 1;
            let is_ahead = !is_first && ahead > 0;
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

    /// Makes the next packet begin a segment, as the first one of another sender.
    pub fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// Adds a gap behind the last packet.
    pub fn gap_at_end(&mut self, gap: &Gap) {
        self.places += 1;
        self.missing = self.missing.saturating_add(gap.samples);
    }

    /// Returns the number of samples that are missing, as far as it can be counted.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns the number of places at which samples are missing.
    pub fn places(&self) -> u64 {
        self.places
    }

    /// Returns whether the time of a packet differs from the one that follows from the segment.
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

/// A writer of a stream's complex samples to a raw file or a SigMF recording. The file is created
/// with the first packet, which has its sample rate.
///
/// In SigMF, a segment begins at each step of index, time or frequency. A raw file has the samples
/// alone. What either lacks is counted.
///
/// ```
/// use std::sync::Arc;
/// use stripline::StreamInfo;
/// use stripline_components::formats::{Existing, SampleFormat, SamplePlace, SigMfRecording, StreamFileWriter};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("capture.sigmf-meta");
///
/// let mut writer = StreamFileWriter::new(&path, SampleFormat::Cu8, Existing::Refuse);
/// let stream = Arc::new(StreamInfo::new("iq").sample_rate_hz(1e6));
/// for sample_index in [0, 10] {
///     let place = SamplePlace { sample_index, samples: 2, ..SamplePlace::default() };
///     writer.packet(&stream, place, None)?.write(&[1, 2, 3, 4])?;
/// }
/// let report = writer.finish(None)?;
/// assert_eq!((report.samples, report.missing, report.places), (4, 8, 1));
/// assert_eq!(SigMfRecording::open(&path)?.meta.captures[1].global_index, Some(10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StreamFileWriter {
    path: PathBuf,
    format: SampleFormat,
    existing: Existing,
    writer: Option<IqFileWriter>,
    steps: StepTracker,
    /// The samples of the file before, and of all packets.
    given: u64,
    sample_rate_hz: Option<f64>,
    not_kept: Vec<String>,
    synced: Option<Instant>,
}

impl StreamFileWriter {
    /// Creates a writer; the file is created later.
    pub fn new(path: impl Into<PathBuf>, format: SampleFormat, existing: Existing) -> Self {
        Self {
            path: path.into(),
            format,
            existing,
            writer: None,
            steps: StepTracker::default(),
            given: 0,
            sample_rate_hz: None,
            not_kept: Vec::new(),
            synced: None,
        }
    }

    /// Begins a packet. Its samples are to be written to the file that is returned.
    ///
    /// # Errors
    /// The file cannot be created or written, or SigMF cannot describe the stream: it has one
    /// sample rate.
    pub fn packet(
        &mut self,
        stream: &Arc<StreamInfo>,
        place: SamplePlace,
        gap: Option<&Gap>,
    ) -> Result<&mut IqFileWriter, FormatError> {
        let begins = self.steps.packet(stream, place, gap);
        let is_due = self.synced.is_none_or(|synced| synced.elapsed() >= SYNC_TIME);
        if begins {
            self.check(stream, place)?;
        }
        if self.writer.is_none() {
            let writer = create(&self.path, self.format, stream, self.existing)?;
            self.given = writer.samples();
            self.writer = Some(writer);
        }
        self.given = self.given.saturating_add(place.samples);
        let Self { writer: Some(writer), .. } = self else { unreachable!("it is there") };
        if begins {
            let time = u64::try_from(place.time_ns).ok().filter(|ns| *ns > 0);
            writer.begin_capture(SigMfCapture {
                global_index: Some(place.sample_index),
                frequency_hz: stream.center_frequency_hz,
                datetime: time.map(|ns| utc_datetime(UNIX_EPOCH + Duration::from_nanos(ns))),
                ..SigMfCapture::default()
            })?;
        }
        if is_due {
            writer.sync_metadata()?;
            self.synced = Some(Instant::now());
        }
        Ok(writer)
    }

    /// Makes the next packet begin a segment, as the first one of another sender.
    pub fn interrupt(&mut self) {
        self.steps.interrupt();
    }

    /// Passes all samples and the metadata to the system.
    ///
    /// # Errors
    /// Writing fails.
    pub fn sync(&mut self) -> Result<(), FormatError> {
        self.writer.as_mut().map_or(Ok(()), IqFileWriter::sync_metadata)
    }

    /// Returns the path of the file, with the number that it has got.
    pub fn path(&self) -> &Path {
        self.writer.as_ref().map_or(&self.path, IqFileWriter::named_path)
    }

    /// Returns the state of the file, as a reader would find it.
    pub fn report(&self) -> FileReport {
        let samples = self.writer.as_ref().map_or(0, IqFileWriter::samples_kept);
        // What a full disk or the reader of a pipe did not take.
        let is_failed = self.writer.as_ref().is_some_and(IqFileWriter::is_failed);
        let lost = if is_failed { self.given.saturating_sub(samples) } else { 0 };
        FileReport {
            samples,
            clipped: self.writer.as_ref().map_or(0, IqFileWriter::clipped),
            missing: self.steps.missing().saturating_add(lost),
            places: self.steps.places() + u64::from(lost > 0),
            not_kept: self.not_kept.clone(),
            ..FileReport::new(self.path().to_string_lossy())
        }
    }

    /// Completes the file, with the gap behind its last packet. Without any packet, it is empty.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self, gap: Option<&Gap>) -> Result<FileReport, FormatError> {
        gap.into_iter().for_each(|gap| self.steps.gap_at_end(gap));
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => create(&self.path, self.format, &StreamInfo::default(), self.existing)?,
        };
        let completed = writer.complete();
        // Kept for the counts, also after an error.
        self.writer = Some(writer);
        completed?;
        Ok(FileReport { finished: true, ..self.report() })
    }

    /// Checks what the file's format makes of a stream.
    fn check(&mut self, stream: &StreamInfo, place: SamplePlace) -> Result<(), FormatError> {
        let has_meta = is_sigmf(&self.path);
        let before = mem::replace(&mut self.sample_rate_hz, stream.sample_rate_hz);
        if has_meta && self.writer.is_some() && before != stream.sample_rate_hz {
            let text = |rate: Option<f64>| rate.map_or("none".into(), |hz| format!("{hz} samples/s"));
            let (before, now) = (text(before), text(stream.sample_rate_hz));
            return Err(FormatError::Recording {
                path: self.path().into(),
                problem: format!("SigMF has one sample rate, {before}, and that of the stream is now {now}"),
                remedy: "it ends here; record without SigMF".into(),
            });
        }
        for key in not_kept(stream, place.time_ns, has_meta) {
            if !self.not_kept.iter().any(|known| known == key) {
                self.not_kept.push(key.into());
            }
        }
        Ok(())
    }
}

/// Returns the keys of a stream that a file does not have: a raw one, or one of SigMF.
pub(crate) fn not_kept(stream: &StreamInfo, time_ns: i64, is_sigmf: bool) -> Vec<&'static str> {
    let keys = [
        ("sample_rate_hz", !is_sigmf && stream.sample_rate_hz.is_some()),
        ("center_frequency_hz", !is_sigmf && stream.center_frequency_hz.is_some()),
        ("time", !is_sigmf && time_ns != 0),
        ("row_length", stream.row_length.is_some()),
        ("axes", !stream.axes.is_empty()),
        ("channels", !stream.channels.is_empty()),
        ("keywords", !stream.keywords.is_empty()),
    ];
    keys.into_iter().filter(|(_, is_lost)| *is_lost).map(|(key, _)| key).collect()
}

fn create(
    path: &Path,
    format: SampleFormat,
    stream: &StreamInfo,
    existing: Existing,
) -> Result<IqFileWriter, FormatError> {
    if !is_sigmf(path) {
        return IqFileWriter::open(path, format, existing);
    }
    let meta = SigMfMeta {
        sample_rate_hz: stream.sample_rate_hz,
        recorder: Some("Stripline".into()),
        ..SigMfMeta::new(format)
    };
    IqFileWriter::open_sigmf(path, meta, existing)
}

#[cfg(test)]
mod tests {
    use stripline::GapReason;

    use super::super::sigmf::SigMfRecording;
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
        // A sender that was started again counts from 0; how much is missing is not reported.
        assert_eq!(packet(0, Some(&gap(0))), (true, 20, 2));
        assert_eq!(packet(10, None), (false, 20, 2));
        steps.gap_at_end(&gap(7));
        assert_eq!((steps.missing(), steps.places()), (27, 3));
    }

    #[test]
    fn a_recording_that_is_continued_keeps_its_metadata_and_gets_a_segment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sigmf-meta");
        let write = |existing, rate: f64, sample_index| {
            let mut writer = StreamFileWriter::new(&path, SampleFormat::Cu8, existing);
            let stream = Arc::new(StreamInfo::new("iq").sample_rate_hz(rate));
            let place = SamplePlace { sample_index, time_ns: 1_700_000_000_000_000_000, samples: 2 };
            writer.packet(&stream, place, None)?.write(&[1, 2, 3, 4])?;
            writer.finish(None)
        };
        write(Existing::Refuse, 1e6, 7).unwrap();
        let refused = write(Existing::Refuse, 1e6, 7).unwrap_err().to_string();
        assert!(refused.contains("a.sigmf-meta: the file exists already"), "{refused}");
        let text = std::fs::read_to_string(&path).unwrap();
        let noted = text.replacen("\"core:recorder\"", "\"mine:note\": \"kept\", \"core:recorder\"", 1);
        assert_ne!(text, noted);
        std::fs::write(&path, noted).unwrap();
        let report = write(Existing::Append, 1e6, 100).unwrap();
        assert_eq!((report.samples, report.finished), (4, true));
        let SigMfRecording { meta, data_path, .. } = SigMfRecording::open(&path).unwrap();
        let starts: Vec<_> = meta.captures.iter().map(|it| (it.sample_start, it.global_index)).collect();
        assert_eq!(starts, [(0, Some(7)), (2, Some(100))]);
        assert!(meta.captures[1].datetime.as_deref().unwrap().starts_with("2023-11-14T22:13:20"));
        assert_eq!(std::fs::read(&data_path).unwrap(), [1, 2, 3, 4, 1, 2, 3, 4]);
        assert!(std::fs::read_to_string(&path).unwrap().contains("mine:note"));
        let other = write(Existing::Append, 2e6, 0).unwrap_err().to_string();
        assert!(other.contains("cu8 at 1000000 samples/s") && other.contains("number"), "{other}");
        assert_eq!(std::fs::read(&data_path).unwrap().len(), 8);
        assert!(write(Existing::Number, 2e6, 0).unwrap().path.ends_with("a.2.sigmf-meta"));
    }

    #[test]
    fn what_a_file_cannot_have_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let described =
            Arc::new(StreamInfo { channels: vec!["a".into(), "b".into()], ..(*stream(1e8)).clone() });
        for (name, lost) in [
            ("a.cu8", &["sample_rate_hz", "center_frequency_hz", "time", "channels"][..]),
            ("a.sigmf-meta", &["channels"]),
        ] {
            let mut writer =
                StreamFileWriter::new(folder.path().join(name), SampleFormat::Cu8, Existing::Refuse);
            let place = SamplePlace { sample_index: 0, time_ns: 1, samples: 1 };
            writer.packet(&described, place, None).unwrap().write(&[1, 2]).unwrap();
            assert_eq!(writer.finish(None).unwrap().not_kept, lost, "{name}");
        }
    }
}

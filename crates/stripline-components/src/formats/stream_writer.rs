//! Writing the samples of a stream with their positions and the description of the stream.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use stripline::component::FileReport;
use stripline::payload::Scalar;
use stripline::{Gap, StreamInfo};

use super::durability::{Durability, PassTimer};
use super::error::FormatError;
use super::file_kind::is_sigmf;
use super::iq_writer::IqFileWriter;
use super::output::Existing;
use super::sigmf::{SigMfCapture, SigMfMeta, SigMfRecording};
use super::steps::{FrameSteps, SamplePlace};
use super::utc::utc_datetime;

/// The maximum number of files for one stream.
const FILES_MAX: usize = 999;

/// A writer of a stream's samples to a raw file or a SigMF recording. The file is created at the
/// first packet, because the packet carries the sample rate.
///
/// In SigMF, a segment begins at each step of index, time or frequency. A SigMF recording has one
/// rate and one number of channels: if either changes, the stream continues in a file with the next
/// free number. A raw file has only the samples. The report counts the information that a file
/// cannot keep.
///
/// Samples and metadata are passed to the system at most a second after they were given, if the
/// caller calls [`pass_due`](Self::pass_due) while no packets arrive. A killed process loses at
/// most this second.
///
/// ```
/// use std::sync::Arc;
/// use stripline::StreamInfo;
/// use stripline_components::formats::{Existing, SampleFormat, SamplePlace, SigMfRecording, StreamFileWriter};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("capture.sigmf-meta");
///
/// let cu8 = SampleFormat::Cu8.scalar();
/// let mut writer = StreamFileWriter::new(&path, cu8, cu8, Existing::Refuse);
/// let stream = Arc::new(StreamInfo::new("iq").sample_rate_hz(1e6));
/// for sample_index in [0, 10] {
///     let place = SamplePlace { sample_index, samples: 2, ..SamplePlace::default() };
///     writer.packet(&stream, place, None, &[1, 2, 3, 4])?;
/// }
/// let reports = writer.finish(None)?;
/// assert_eq!((reports[0].samples, reports[0].missing, reports[0].places), (4, 8, 1));
/// assert_eq!(SigMfRecording::open(&path)?.meta.captures[1].global_index, Some(10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StreamFileWriter {
    path: PathBuf,
    /// The types of the samples: as received, and in the file.
    received: Scalar,
    scalar: Scalar,
    existing: Existing,
    writer: Option<IqFileWriter>,
    steps: FrameSteps<u8>,
    /// The number of samples in the previous file, plus the samples of all packets.
    given: u64,
    /// Whether the last file could not be created.
    is_over: bool,
    /// The rate of all channels together and the number of channels, for the open file.
    kind: (Option<f64>, usize),
    not_kept: Vec<String>,
    timer: PassTimer,
    keeps_readers: bool,
    /// The reports of the completed files.
    complete: Vec<FileReport>,
}

impl StreamFileWriter {
    /// Creates a writer that receives samples of type `received` and writes them as `scalar`. The
    /// file is created at the first packet.
    pub fn new(path: impl Into<PathBuf>, received: Scalar, scalar: Scalar, existing: Existing) -> Self {
        Self {
            path: path.into(),
            received,
            scalar,
            existing,
            writer: None,
            steps: FrameSteps::new(1, received.size()),
            given: 0,
            is_over: false,
            kind: (None, 1),
            not_kept: Vec::new(),
            timer: PassTimer::new(Durability::End),
            keeps_readers: false,
            complete: Vec::new(),
        }
    }

    /// Sets when data is forced to the disk.
    ///
    /// ```
    /// use stripline_components::formats::{Durability, Existing, SampleFormat, StreamFileWriter};
    ///
    /// let cu8 = SampleFormat::Cu8.scalar();
    /// let writer = StreamFileWriter::new("capture.cu8", cu8, cu8, Existing::Refuse).durable(Durability::Second);
    /// assert_eq!(writer.samples(), 0);
    /// ```
    #[must_use]
    pub fn durable(self, durability: Durability) -> Self {
        Self { timer: PassTimer::new(durability), ..self }
    }

    /// Lets the readers of a pipe come and go. Samples that no reader takes are missing in the
    /// report.
    pub(crate) fn keep_readers(self, keeps_readers: bool) -> Self {
        Self { keeps_readers, ..self }
    }

    /// Writes a packet. `bytes` are the samples as they are in memory. Returns whether a file was
    /// completed before the packet, because the rate or the number of channels has changed.
    ///
    /// # Errors
    /// The file cannot be created or written, or there would be too many files.
    pub fn packet(
        &mut self,
        stream: &Arc<StreamInfo>,
        place: SamplePlace,
        gap: Option<&Gap>,
        bytes: &[u8],
    ) -> Result<bool, FormatError> {
        let has_meta = is_sigmf(&self.path);
        let kind = (stream.sample_rate_hz, stream.channels.len().max(1));
        let is_other = has_meta && (kind != self.kind || takes_turns_in_rows(stream));
        if is_other && self.writer.is_some() {
            self.end_file(None)?;
            self.existing = Existing::Number;
        }
        if is_other {
            self.kind = kind;
            self.steps = self.steps.next_file(kind.1);
        }
        let is_new = self.writer.is_none();
        if is_new {
            let mut writer = self.create(stream).inspect_err(|_| self.not_created(stream, place, gap))?;
            if self.keeps_readers {
                writer.keep_readers();
            }
            self.given = writer.samples();
            let before = writer.index_before().unwrap_or(place.sample_index);
            self.steps.skipped(place.sample_index.saturating_sub(before));
            self.writer = Some(writer);
        }
        self.given = self.given.saturating_add(place.samples);
        let Self { writer: Some(writer), steps, not_kept: lost, received, .. } = self else {
            unreachable!("it is there")
        };
        let part = steps.push(stream, place, gap, bytes);
        if part.differs {
            for key in not_kept(stream, place.time_ns, if has_meta { Kept::SigMf } else { Kept::Samples }) {
                if !lost.iter().any(|known| known == key) {
                    lost.push(key.into());
                }
            }
        }
        if part.begins {
            let time = u64::try_from(part.place.time_ns).ok().filter(|ns| *ns > 0);
            let capture = SigMfCapture {
                global_index: Some(part.place.sample_index / kind.1 as u64),
                frequency_hz: stream.center_frequency_hz,
                datetime: time.map(|ns| utc_datetime(UNIX_EPOCH + Duration::from_nanos(ns))),
                clock: stream.clock,
                ..SigMfCapture::default()
            };
            begin_capture(writer, capture)?;
        }
        // Write the metadata with the first packet, too: a recording that is killed early has its
        // first segment.
        if is_new {
            writer.sync_metadata()?;
        }
        writer.write_native(*received, part.items)?;
        if self.timer.written() {
            self.pass()?;
        }
        Ok(is_new && !self.complete.is_empty())
    }

    /// Returns the longest time that the caller may wait for the next packet before it calls
    /// [`pass_due`](Self::pass_due).
    ///
    /// ```
    /// use stripline_components::formats::{Existing, SampleFormat, StreamFileWriter};
    ///
    /// let cu8 = SampleFormat::Cu8.scalar();
    /// let mut writer = StreamFileWriter::new("capture.cu8", cu8, cu8, Existing::Refuse);
    /// assert_eq!(writer.wait_time(), std::time::Duration::MAX);
    /// writer.pass_due()?;
    /// # Ok::<(), stripline_components::formats::FormatError>(())
    /// ```
    pub const fn wait_time(&self) -> Duration {
        self.timer.left()
    }

    /// Passes all data on if the oldest was written a second ago: to the system, or to the disk if
    /// [`durable`](Self::durable) was set so.
    ///
    /// # Errors
    /// Writing fails.
    pub fn pass_due(&mut self) -> Result<(), FormatError> {
        if self.timer.is_due() { self.pass() } else { Ok(()) }
    }

    fn pass(&mut self) -> Result<(), FormatError> {
        if let Some(writer) = &mut self.writer {
            if self.timer.is_to_disk() { writer.sync_disk() } else { writer.sync_metadata() }?;
        }
        self.timer.passed();
        Ok(())
    }

    /// Makes the next packet begin a segment, like the first packet of another sender.
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

    /// Returns the path of the file, with the number if the file got one.
    pub fn path(&self) -> &Path {
        let last = self.complete.last().map_or(&*self.path, |report| Path::new(&report.path));
        self.writer.as_ref().map_or(last, IqFileWriter::named_path)
    }

    /// Returns the state of the open file, or else of the last one, as a reader would find it.
    pub fn report(&self) -> FileReport {
        if let (None, Some(last)) = (&self.writer, self.complete.last()) {
            return last.clone();
        }
        // A reader finds nothing if the file was removed or replaced.
        let writer = self.writer.as_ref().filter(|writer| writer.is_in_place());
        let samples = writer.map_or(0, IqFileWriter::samples_found);
        // Count the samples that did not fit on the disk or that the reader of a pipe did not take.
        let is_failed = writer.is_none_or(IqFileWriter::is_failed);
        let (untaken, left) = writer.map_or((0, 0), IqFileWriter::untaken);
        let lost = if is_failed { self.given.saturating_sub(samples) } else { untaken };
        FileReport {
            samples,
            clipped: self.writer.as_ref().map_or(0, IqFileWriter::clipped),
            missing: self.steps.missing().saturating_add(lost),
            places: self.steps.places() + left + u64::from(lost > untaken),
            not_kept: self.not_kept.clone(),
            // Only the first file of a stream can have an earlier file at its path.
            found: self
                .writer
                .as_ref()
                .and_then(IqFileWriter::found)
                .filter(|_| self.complete.is_empty())
                .map(String::from),
            ..FileReport::new(self.path().to_string_lossy())
        }
    }

    /// Returns the number of samples in all files once all given samples are written.
    pub fn samples(&self) -> u64 {
        self.samples_complete() + self.writer.as_ref().map_or(0, IqFileWriter::samples)
    }

    /// Returns the number of samples that a reader finds in all files now.
    pub fn samples_kept(&self) -> u64 {
        self.samples_complete() + self.writer.as_ref().map_or(0, IqFileWriter::samples_kept)
    }

    fn samples_complete(&self) -> u64 {
        self.complete.iter().map(|report| report.samples).sum()
    }

    /// Returns the sums over all files, as a reader would find them, with the path of the last
    /// file.
    pub fn total(&self) -> FileReport {
        let open = (self.writer.is_some() || self.complete.is_empty()).then(|| self.report());
        let mut total = FileReport::new(self.path().to_string_lossy());
        for report in self.complete.iter().chain(&open) {
            total = FileReport {
                samples: total.samples + report.samples,
                clipped: total.clipped + report.clipped,
                missing: total.missing.saturating_add(report.missing),
                places: total.places + report.places,
                path: report.path.clone(),
                found: total.found.or_else(|| report.found.clone()),
                ..total
            };
            let keys = report.not_kept.iter().filter(|key| !total.not_kept.contains(key));
            let keys: Vec<String> = keys.cloned().collect();
            total.not_kept.extend(keys);
        }
        total
    }

    /// Returns the reports of the completed files.
    pub fn complete(&self) -> &[FileReport] {
        &self.complete
    }

    /// Completes the file, with the gap after the last packet. Returns the reports of all files. If
    /// there was no packet, there is one empty file. A file that could not be created for a packet
    /// is not tried again.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self, gap: Option<&Gap>) -> Result<&[FileReport], FormatError> {
        if self.writer.is_none() && !self.is_over {
            self.writer = Some(self.create(&self.continued())?);
        }
        self.end_file(gap)?;
        Ok(&self.complete)
    }

    fn create(&self, stream: &StreamInfo) -> Result<IqFileWriter, FormatError> {
        if !is_sigmf(&self.path) {
            return IqFileWriter::open(&self.path, self.scalar, self.existing);
        }
        if self.complete.len() >= FILES_MAX {
            return Err(FormatError::Recording {
                path: self.path.clone(),
                problem: format!(
                    "the rate of the stream has changed {FILES_MAX} times, each in its own file"
                ),
                remedy: "record it without SigMF".into(),
            });
        }
        check_turns(stream, &self.path, "SigMF", " or use `stripline record` without `--sigmf`")?;
        let channels = stream.channels.len().max(1);
        let meta = SigMfMeta {
            sample_rate_hz: stream.sample_rate_hz.map(|rate| rate / channels as f64),
            channels: u32::try_from(channels).unwrap_or(u32::MAX),
            recorder: Some("Stripline".into()),
            ..SigMfMeta::new(self.scalar)
        };
        IqFileWriter::open_sigmf(&self.path, meta, self.existing)
    }

    /// Counts a packet and the gap before it as missing, because their file cannot be created. A
    /// pipe may never get a reader, for example.
    fn not_created(&mut self, stream: &Arc<StreamInfo>, place: SamplePlace, gap: Option<&Gap>) {
        self.steps.push(stream, place, gap, &[]);
        self.given = self.steps.missing().saturating_add(place.samples);
        self.steps = self.steps.next_file(1);
        self.is_over = true;
        if let Some(last) = self.complete.last_mut() {
            last.missing = last.missing.saturating_add(self.given);
            last.places += 1;
        }
    }

    /// Returns the description of a recording to be continued without a packet; otherwise an empty
    /// description.
    fn continued(&self) -> StreamInfo {
        let before = (self.existing == Existing::Append && is_sigmf(&self.path))
            .then(|| SigMfRecording::open(&self.path).ok())
            .flatten();
        let Some(SigMfRecording { meta, .. }) = before else { return StreamInfo::default() };
        let channels = meta.channels.max(1);
        StreamInfo {
            sample_rate_hz: meta.sample_rate_hz.map(|rate| rate * f64::from(channels)),
            channels: (1..=channels).filter(|_| channels > 1).map(|number| number.to_string()).collect(),
            ..StreamInfo::default()
        }
    }

    fn end_file(&mut self, gap: Option<&Gap>) -> Result<(), FormatError> {
        self.steps.end(gap);
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if let Some(lost) = gap.filter(|gap| gap.samples > 0) {
            // A segment without samples keeps the index after the loss.
            let index = self.steps.next_index().saturating_add(lost.samples) / self.kind.1 as u64;
            begin_capture(writer, SigMfCapture { global_index: Some(index), ..SigMfCapture::default() })?;
        }
        writer.complete()?;
        let report = FileReport { finished: true, ..self.report() };
        (self.writer, self.given) = (None, 0);
        self.complete.push(report);
        self.not_kept.clear();
        Ok(())
    }
}

/// The part of a stream's description that a file can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The samples alone.
    Samples,
    /// The keys of SigMF.
    SigMf,
    /// The rate and the number of channels, as in WAV.
    Wav,
}

/// Returns whether the channels of a stream take turns after each row or frame.
fn takes_turns_in_rows(stream: &StreamInfo) -> bool {
    stream.channels.len() > 1 && stream.turn_samples() > 1
}

/// Checks that the channels of a stream take turns after each sample, as in a file of `format`.
///
/// # Errors
/// The channels take turns after each row or frame.
pub(crate) fn check_turns(
    stream: &StreamInfo,
    path: &Path,
    format: &str,
    or: &str,
) -> Result<(), FormatError> {
    if !takes_turns_in_rows(stream) {
        return Ok(());
    }
    let unit = if stream.frame_rows.is_some() {
        "frame by frame (`frame_rows`)"
    } else {
        "row by row (`row_length`)"
    };
    Err(FormatError::Recording {
        path: path.into(),
        problem: format!(
            "the stream `{}` has its channels {unit}, and {format} has them sample by sample",
            stream.id
        ),
        remedy: format!("put a `demultiplexer` before the sink,{or}"),
    })
}

/// Returns the keys of a stream that a file cannot hold.
pub(crate) fn not_kept(stream: &StreamInfo, time_ns: i64, kept: Kept) -> Vec<&'static str> {
    let is_raw = kept == Kept::Samples;
    // Readers number the channels: names that are just these numbers are kept.
    let numbered = (1..).zip(&stream.channels).all(|(number, name): (u32, _)| *name == number.to_string());
    let keys = [
        ("sample_rate_hz", is_raw && stream.sample_rate_hz.is_some()),
        ("center_frequency_hz", kept != Kept::SigMf && stream.center_frequency_hz.is_some()),
        ("time", time_ns < 0 || (kept != Kept::SigMf && time_ns != 0)),
        ("row_length", stream.row_length.is_some()),
        ("frame_rows", stream.frame_rows.is_some()),
        ("axes", !stream.axes.is_empty()),
        ("channels", !stream.channels.is_empty() && (is_raw || !numbered)),
        ("clock", kept != Kept::SigMf && stream.clock.is_some()),
        ("keywords", !stream.keywords.is_empty()),
    ];
    keys.into_iter().filter(|(_, is_lost)| *is_lost).map(|(key, _)| key).collect()
}

/// Begins a segment. On an error, the file ends with the samples before it.
fn begin_capture(writer: &mut IqFileWriter, capture: SigMfCapture) -> Result<(), FormatError> {
    writer.begin_capture(capture).map_err(|error| match writer.sync_metadata() {
        Ok(()) => writer.give_up(error),
        // The writer has ended at this error.
        Err(earlier) => earlier,
    })
}

#[cfg(test)]
mod tests {
    use stripline::{ClockReference, GapReason, StreamClock};

    use super::super::file_reader::{FileReader, FileReaderOptions};
    use super::*;

    fn scalar(name: &str) -> Scalar {
        Scalar::parse(name).unwrap()
    }

    fn stream(frequency_hz: f64) -> Arc<StreamInfo> {
        Arc::new(StreamInfo::new("iq").sample_rate_hz(1e6).center_frequency_hz(frequency_hz))
    }

    #[test]
    fn a_recording_that_is_continued_keeps_its_metadata_and_gets_a_segment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sigmf-meta");
        let write = |existing, rate: f64, sample_index| {
            let mut writer = StreamFileWriter::new(&path, scalar("cu8"), scalar("cu8"), existing);
            let stream = Arc::new(StreamInfo::new("iq").sample_rate_hz(rate));
            let place = SamplePlace { sample_index, time_ns: 1_700_000_000_000_000_000, samples: 2 };
            writer.packet(&stream, place, None, &[1, 2, 3, 4])?;
            writer.finish(None).map(|reports| reports[0].clone())
        };
        write(Existing::Refuse, 1e6, 7).unwrap();
        let refused = write(Existing::Refuse, 1e6, 7).unwrap_err().to_string();
        assert!(refused.contains("a.sigmf-meta: the file exists already"), "{refused}");
        let text = std::fs::read_to_string(&path).unwrap();
        let noted = text.replacen("\"core:recorder\"", "\"mine:note\": \"kept\", \"core:recorder\"", 1);
        assert_ne!(text, noted);
        std::fs::write(&path, noted).unwrap();
        // A sink that ends before the first packet changes nothing.
        let mut idle = StreamFileWriter::new(&path, scalar("cu8"), scalar("cu8"), Existing::Append);
        assert_eq!(idle.finish(None).unwrap()[0].samples, 2);
        let report = write(Existing::Append, 1e6, 100).unwrap();
        // A reader finds the gap between the two recordings.
        assert_eq!((report.samples, report.finished), (4, true));
        assert_eq!((report.missing, report.places), (91, 1));
        let found = report.found.unwrap();
        assert!(found.ends_with("a.sigmf-data with 2 samples, and continued it"), "{found}");
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
    fn a_continued_recording_counts_from_its_offset() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sigmf-meta");
        let meta = SigMfMeta { offset: 1000, sample_rate_hz: Some(1e6), ..SigMfMeta::new(scalar("cu8")) };
        let mut first = IqFileWriter::create_sigmf(&path, meta).unwrap();
        first.begin_capture(SigMfCapture::default()).unwrap();
        first.write(&[1, 2, 3, 4]).unwrap();
        first.finish().unwrap();
        let mut writer = StreamFileWriter::new(&path, scalar("cu8"), scalar("cu8"), Existing::Append);
        let place = SamplePlace { sample_index: 1002, samples: 1, ..SamplePlace::default() };
        let stream = Arc::new(StreamInfo::new("iq").sample_rate_hz(1e6));
        writer.packet(&stream, place, None, &[5, 6]).unwrap();
        let reports = writer.finish(None).unwrap();
        assert_eq!((reports[0].samples, reports[0].missing, reports[0].places), (3, 0, 0));
        let captures = SigMfRecording::open(&path).unwrap().meta.captures;
        let starts: Vec<u64> = captures.iter().map(|it| it.sample_start).collect();
        assert_eq!(starts, [1000, 1002]);
    }

    #[test]
    fn segments_behind_the_samples_of_a_full_disk_do_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sigmf-meta");
        let write = |existing, frequency| {
            let mut writer = StreamFileWriter::new(&path, scalar("cu8"), scalar("cu8"), existing);
            let place = SamplePlace { samples: 2, ..SamplePlace::default() };
            writer.packet(&stream(frequency), place, None, &[1, 2, 3, 4]).unwrap();
            writer.packet(&stream(frequency + 1.0), place, None, &[1, 2, 3, 4]).unwrap();
            writer.finish(None).unwrap();
        };
        write(Existing::Refuse, 1e6);
        // The second segment starts at sample 2, but the file now ends before that sample.
        std::fs::write(folder.path().join("a.sigmf-data"), [1, 2, 3]).unwrap();
        write(Existing::Append, 2e6);
        let meta = SigMfRecording::open(&path).unwrap().meta;
        let starts: Vec<_> = meta.captures.iter().map(|it| (it.sample_start, it.frequency_hz)).collect();
        assert_eq!(starts, [(0, Some(1e6)), (1, Some(2e6)), (3, Some(2e6 + 1.0))]);
    }

    #[test]
    fn what_a_file_cannot_have_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let clock = StreamClock::new(ClockReference::Gps);
        let described = Arc::new((*stream(1e8)).clone().channels(["a", "b"]).clock(clock));
        for (name, lost) in [
            ("a.cu8", &["sample_rate_hz", "center_frequency_hz", "time", "channels", "clock"][..]),
            ("a.sigmf-meta", &["channels"]),
        ] {
            let path = folder.path().join(name);
            let mut writer = StreamFileWriter::new(path, scalar("cu8"), scalar("cu8"), Existing::Refuse);
            let place = SamplePlace { sample_index: 0, time_ns: 1, samples: 2 };
            writer.packet(&described, place, None, &[1, 2, 3, 4]).unwrap();
            assert_eq!(writer.finish(None).unwrap()[0].not_kept, lost, "{name}");
        }
    }

    #[test]
    fn other_keywords_are_named_and_begin_no_segment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sigmf-meta");
        let mut writer = StreamFileWriter::new(&path, scalar("cu8"), scalar("cu8"), Existing::Refuse);
        for sample_index in 0..5 {
            let tagged = match sample_index {
                0 => stream(1e8),
                tag => Arc::new((*stream(1e8)).clone().keyword("tag", tag as i64)),
            };
            let place = SamplePlace { sample_index, samples: 1, ..SamplePlace::default() };
            writer.packet(&tagged, place, None, &[1, 2]).unwrap();
        }
        let report = &writer.finish(None).unwrap()[0];
        assert_eq!((report.samples, report.missing, &*report.not_kept), (5, 0, &["keywords".to_owned()][..]));
        assert_eq!(SigMfRecording::open(&path).unwrap().meta.captures.len(), 1);
    }

    #[test]
    fn a_time_before_1970_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sigmf-meta");
        let mut writer = StreamFileWriter::new(&path, scalar("cu8"), scalar("cu8"), Existing::Refuse);
        let place = SamplePlace { sample_index: 0, time_ns: -5, samples: 1 };
        writer.packet(&stream(1e8), place, None, &[1, 2]).unwrap();
        assert_eq!(writer.finish(None).unwrap()[0].not_kept, ["time"]);
        assert_eq!(SigMfRecording::open(&path).unwrap().meta.captures[0].datetime, None);
    }

    #[test]
    fn samples_before_a_refused_segment_are_in_the_file_and_the_rest_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sigmf-meta");
        let mut writer = StreamFileWriter::new(&path, scalar("cu8"), scalar("cu8"), Existing::Refuse);
        let at = |sample_index| SamplePlace { sample_index, samples: 2, ..SamplePlace::default() };
        writer.packet(&stream(1e8), at(0), None, &[1, 2, 3, 4]).unwrap();
        writer.packet(&stream(1e8), at(2), None, &[5, 6, 7, 8]).unwrap();
        let refused = writer.packet(&stream(1e13), at(4), None, &[9, 9, 9, 9]).unwrap_err().to_string();
        assert!(refused.contains("frequency"), "{refused}");
        let check = |writer: &StreamFileWriter| {
            let report = writer.report();
            assert_eq!((report.samples, report.missing, report.places, report.finished), (4, 2, 1, false));
            assert_eq!(std::fs::read(folder.path().join("a.sigmf-data")).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
        };
        check(&writer);
        assert!(writer.finish(None).unwrap_err().to_string().contains("frequency"));
        check(&writer);
        assert_eq!(SigMfRecording::open(&path).unwrap().meta.captures.len(), 1);
    }

    #[test]
    fn a_packet_whose_file_cannot_be_created_is_missing_and_no_earlier_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n".repeat(244)).with_extension("sigmf-meta");
        let mut writer = StreamFileWriter::new(&path, scalar("cu8"), scalar("cu8"), Existing::Refuse);
        let at = |sample_index| SamplePlace { sample_index, samples: 2, ..SamplePlace::default() };
        writer.packet(&stream(1e8), at(0), None, &[1, 2, 3, 4]).unwrap();
        let other = Arc::new(StreamInfo { sample_rate_hz: Some(2e6), ..(*stream(1e8)).clone() });
        let refused = writer.packet(&other, at(5), None, &[5, 6, 7, 8]).unwrap_err().to_string();
        assert!(refused.contains("the name is too long"), "{refused}");
        writer.finish(None).unwrap();
        for report in [writer.report(), writer.total(), writer.complete()[0].clone()] {
            assert_eq!((report.samples, report.missing, report.places), (2, 3 + 2, 1), "{report:?}");
            assert_eq!(Path::new(&report.path), path);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn a_first_packet_whose_file_cannot_be_created_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sigmf-meta");
        let gap = Gap { first: 1, packets: 2, samples: 57, reason: GapReason::Overflow };
        let place = SamplePlace { samples: 2, ..SamplePlace::default() };
        let mut first = StreamFileWriter::new(&path, scalar("cu8"), scalar("cu8"), Existing::Refuse);
        first.packet(&stream(1e8), place, None, &[1, 2, 3, 4]).unwrap();
        first.finish(None).unwrap();
        for (existing, rate) in [(Existing::Append, 2e6), (Existing::Refuse, 1e6)] {
            let mut writer = StreamFileWriter::new(&path, scalar("cu8"), scalar("cu8"), existing);
            let other = Arc::new(StreamInfo::new("iq").sample_rate_hz(rate));
            writer.packet(&other, place, Some(&gap), &[1, 2, 3, 4]).unwrap_err();
            // Only a stream without a packet gets an empty file at the end.
            assert!(writer.finish(None).unwrap().is_empty());
            for report in [writer.report(), writer.total()] {
                assert_eq!((report.samples, report.missing, report.places), (0, 57 + 2, 1), "{existing:?}");
                assert_eq!((report.found, report.finished), (None, false));
            }
        }
    }

    #[test]
    fn spoilt_metadata_leave_no_samples_for_a_reader() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sigmf-meta");
        let mut writer = StreamFileWriter::new(&path, scalar("cu8"), scalar("cu8"), Existing::Refuse);
        let place = SamplePlace { samples: 2, ..SamplePlace::default() };
        writer.packet(&stream(1e8), place, None, &[1, 2, 3, 4]).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(writer.finish(None).is_err());
        let report = writer.report();
        assert_eq!((report.samples, report.missing, report.finished), (0, 2, false));
    }

    #[test]
    fn a_loss_behind_the_last_sample_is_found_by_a_reader() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sigmf-meta");
        let write = |existing, sample_index, gap: Option<Gap>| {
            let mut writer = StreamFileWriter::new(&path, scalar("cu8"), scalar("cu8"), existing);
            let place = SamplePlace { sample_index, samples: 2, ..SamplePlace::default() };
            writer.packet(&stream(1e8), place, None, &[1, 2, 3, 4]).unwrap();
            let reports = writer.finish(gap.as_ref()).unwrap();
            (reports[0].samples, reports[0].missing, reports[0].places)
        };
        let notes = || FileReader::open(&path, &FileReaderOptions::default()).unwrap().notes().to_vec();
        let gap = Gap { first: 1, packets: 2, samples: 57, reason: GapReason::Overflow };
        assert_eq!(write(Existing::Refuse, 0, Some(gap)), (2, 57, 1));
        assert_eq!(notes(), ["57 samples missing behind the last one"]);
        // The stream continues after the lost samples, and the second run does not count them as
        // lost.
        assert_eq!(write(Existing::Append, 59, None), (4, 0, 0));
        assert_eq!(notes(), [""; 0]);
        let meta = SigMfRecording::open(&path).unwrap().meta;
        let starts: Vec<_> = meta.captures.iter().map(|it| (it.sample_start, it.global_index)).collect();
        assert_eq!(starts, [(0, Some(0)), (2, Some(59))]);
    }

    #[test]
    fn a_stream_with_another_rate_or_number_of_channels_goes_on_in_a_numbered_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut writer =
            StreamFileWriter::new(at("a.sigmf-meta"), scalar("s16"), scalar("s16"), Existing::Refuse);
        let stereo =
            Arc::new(StreamInfo::new("iq").sample_rate_hz(2e6).channels(["1", "2"].map(String::from)));
        let numbers: Vec<u8> = (0..24).collect();
        for (stream, sample_index, bytes, completes) in [
            (&stream(1e8), 4, &numbers[..4], false),
            (&stream(2e8), 6, &numbers[4..8], false),
            // This packet ends in the middle of a frame, and the next packet starts there.
            (&stereo, 100, &numbers[8..14], true),
            (&stereo, 103, &numbers[14..20], false),
        ] {
            let place = SamplePlace { sample_index, time_ns: 0, samples: bytes.len() as u64 / 2 };
            assert_eq!(writer.packet(stream, place, None, bytes).unwrap(), completes);
        }
        assert_eq!((writer.complete().len(), writer.samples()), (1, 10));
        let reports = writer.finish(None).unwrap();
        let counts: Vec<_> = reports.iter().map(|it| (it.samples, it.missing, it.finished)).collect();
        assert_eq!(counts, [(4, 0, true), (6, 92, true)]);
        let SigMfRecording { meta, data_path, .. } = SigMfRecording::open(&at("a.sigmf-meta")).unwrap();
        assert_eq!((meta.sample_rate_hz, meta.channels, meta.captures.len()), (Some(1e6), 1, 2));
        assert_eq!(std::fs::read(data_path).unwrap(), numbers[..8]);
        let SigMfRecording { meta, data_path, .. } = SigMfRecording::open(&at("a.2.sigmf-meta")).unwrap();
        assert_eq!((meta.sample_rate_hz, meta.channels), (Some(1e6), 2));
        assert_eq!(meta.captures[0].global_index, Some(50));
        assert_eq!(std::fs::read(data_path).unwrap(), numbers[8..20]);
    }
}

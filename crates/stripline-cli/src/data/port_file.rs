//! The file of a recorded port: a recording of packets, or SigMF.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use stripline::payload::Scalar;
use stripline::{Gap, StreamInfo};
use stripline_components::formats::{
    Durability, Existing, FormatError, RECORDING_EXTENSION, RecordedPacket, RecordingCounts, RecordingInfo,
    RecordingWriter, SamplePlace, StreamFileWriter, check_output, check_sigmf_output,
};
use stripline_waveform::internal::FileIdentity;

const META_EXTENSION: &str = "sigmf-meta";
const DATA_EXTENSION: &str = "sigmf-data";

/// The file of a port.
pub(super) enum PortFile {
    /// Packets of any type, with their streams, numbers, times and gaps.
    Recording(Box<RecordingWriter>),
    /// Samples, with a new segment where the stream changes and where samples are missing.
    SigMf(Box<SigMfFile>),
}

impl PortFile {
    /// Checks the files of all these ports, as far as possible without changing anything.
    pub(super) fn check(
        folder: &Path,
        ports: &[RecordingInfo],
        prefers_sigmf: bool,
        existing: Existing,
    ) -> Result<(), FormatError> {
        let mut checked: Vec<(FileIdentity, &RecordingInfo)> = Vec::new();
        for info in ports {
            for path in paths(folder, info, scalar(info, prefers_sigmf)) {
                let unfit = |problem: &str| FormatError::Recording {
                    path: path.clone(),
                    problem: problem.into(),
                    remedy: "remove it, or record to another folder".into(),
                };
                if path.metadata().is_ok_and(|file| !file.is_file() && !file.is_dir()) {
                    // A reader may never open the pipe, and Ctrl-C would not end the wait for it.
                    return Err(unfit("this is a pipe or a device, and a recording needs a regular file"));
                }
                check_output(&path, existing)?;
                check_sigmf_output(&path, existing)?;
                if existing == Existing::Append && path.exists() {
                    check_continued(&path)?;
                }
                let Some(identity) = FileIdentity::of(&path) else { continue };
                if existing != Existing::Number && is_printed(&identity) {
                    return Err(unfit(
                        "this command prints there: standard output or standard error is redirected to it",
                    ));
                }
                let other = checked.iter().find(|(other, _)| *other == identity);
                if let Some((_, other)) = other.filter(|_| existing != Existing::Number) {
                    let (one, other) = (&info.port, &other.port);
                    return Err(unfit(&format!("it is the file of `{other}` and of `{one}`")));
                }
                checked.push((identity, info));
            }
        }
        Ok(())
    }

    /// Creates the file for a port.
    pub(super) fn create(
        folder: &Path,
        info: &RecordingInfo,
        prefers_sigmf: bool,
        existing: Existing,
        durability: Durability,
    ) -> Result<Self, FormatError> {
        let scalar = scalar(info, prefers_sigmf);
        if let Some(scalar) = scalar {
            let path = folder.join(file_name(&info.port, META_EXTENSION));
            return Ok(Self::SigMf(Box::new(SigMfFile::create(&path, scalar, existing, durability))));
        }
        let path = folder.join(file_name(&info.port, RECORDING_EXTENSION));
        let writer = RecordingWriter::open(&path, info, existing)?.durable(durability);
        Ok(Self::Recording(Box::new(writer)))
    }

    pub(super) fn is_sigmf(&self) -> bool {
        matches!(self, Self::SigMf(_))
    }

    /// Returns the path of the file, with the number that was added to it.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Recording(writer) => writer.path(),
            Self::SigMf(file) => file.writer.path(),
        }
    }

    /// Writes a gap: packets are missing here.
    pub(super) fn gap(&mut self, gap: &Gap) -> Result<(), FormatError> {
        match self {
            Self::Recording(writer) => writer.gap(gap),
            Self::SigMf(file) => {
                file.counts.missing += gap.packets;
                file.gap = Some(*gap);
                Ok(())
            }
        }
    }

    /// Writes the description of the stream to which the next packets belong.
    pub(super) fn stream(&mut self, stream: &Arc<StreamInfo>) -> Result<(), FormatError> {
        match self {
            Self::Recording(writer) => writer.stream(stream),
            Self::SigMf(file) => {
                file.stream = Arc::clone(stream);
                Ok(())
            }
        }
    }

    /// Writes a packet.
    pub(super) fn packet(&mut self, packet: &RecordedPacket, payload: &[u8]) -> Result<(), FormatError> {
        match self {
            Self::Recording(writer) => writer.packet(packet, payload),
            Self::SigMf(file) => file.packet(packet, payload),
        }
    }

    /// Writes that the sender was restarted.
    pub(super) fn restart(&mut self) -> Result<(), FormatError> {
        match self {
            Self::Recording(writer) => writer.restart(),
            Self::SigMf(file) => {
                file.writer.interrupt();
                Ok(())
            }
        }
    }

    /// Returns the longest time to wait for the next packet before `pass_due` is called.
    pub(super) fn wait_time(&self) -> Duration {
        match self {
            Self::Recording(writer) => writer.wait_time(),
            Self::SigMf(file) => file.writer.wait_time(),
        }
    }

    /// Passes all data to the system if the oldest data was written a second ago.
    pub(super) fn pass_due(&mut self) -> Result<(), FormatError> {
        match self {
            Self::Recording(writer) => writer.pass_due(),
            Self::SigMf(file) => file.writer.pass_due(),
        }
    }

    /// Passes all data to the system.
    pub(super) fn sync(&mut self) -> Result<(), FormatError> {
        match self {
            Self::Recording(writer) => writer.flush(),
            Self::SigMf(file) => file.writer.sync(),
        }
    }

    /// Completes the file.
    pub(super) fn finish(&mut self) -> Result<(), FormatError> {
        match self {
            Self::Recording(writer) => writer.finish().map(drop),
            Self::SigMf(file) => file.writer.finish(file.gap.take().as_ref()).map(drop),
        }
    }

    /// Returns a text about an earlier file at this path. `None`: there was no earlier file.
    pub(super) fn found(&self) -> Option<String> {
        match self {
            Self::Recording(writer) => writer.found().map(String::from),
            Self::SigMf(file) => file.writer.total().found,
        }
    }

    /// Returns the keys of the streams that the format cannot have.
    pub(super) fn not_kept(&self) -> Vec<String> {
        match self {
            Self::Recording(_) => Vec::new(),
            Self::SigMf(file) => file.writer.total().not_kept,
        }
    }

    /// Returns the files before the last one. A change of the sample rate begins a new file.
    pub(super) fn earlier_files(&self) -> Vec<String> {
        match self {
            Self::Recording(_) => Vec::new(),
            Self::SigMf(file) => {
                let last = file.writer.path().to_string_lossy();
                let paths = file.writer.complete().iter().map(|report| report.path.clone());
                paths.filter(|path| *path != last).collect()
            }
        }
    }

    /// Returns the counts that a reader finds in the file now.
    pub(super) fn kept(&self) -> RecordingCounts {
        match self {
            Self::Recording(writer) => writer.kept(),
            Self::SigMf(file) => {
                let report = file.writer.total();
                // Only complete packets count.
                let lost = file.ends.iter().filter(|end| **end > report.samples).count() as u64;
                let packets = if report.samples == 0 { 0 } else { file.counts.packets - lost };
                let samples = report.samples.saturating_sub(file.before);
                let bytes = samples * file.scalar.size() as u64;
                let missing = file.counts.missing + file.counts.packets.saturating_sub(packets);
                let (missing_samples, gaps) = (report.missing, report.places);
                RecordingCounts { packets, bytes, missing, missing_samples, gaps }
            }
        }
    }
}

/// A SigMF recording, which is created with the first packet, when the sample rate is fixed.
pub(super) struct SigMfFile {
    scalar: Scalar,
    writer: StreamFileWriter,
    /// The stream of the next packet. `gap` is the gap before that packet.
    stream: Arc<StreamInfo>,
    gap: Option<Gap>,
    counts: RecordingCounts,
    /// For each of the last packets, the samples up to the end of the packet. The file may lack
    /// these packets.
    ends: Vec<u64>,
    /// The number of samples that were in the file before this recording.
    before: u64,
}

/// The largest number of packet ends in `ends`.
const ENDS_MAX: usize = 4096;

impl SigMfFile {
    fn create(path: &Path, scalar: Scalar, existing: Existing, durability: Durability) -> Self {
        let data = path.with_extension(DATA_EXTENSION);
        let before = if existing == Existing::Append { data.metadata().map_or(0, |it| it.len()) } else { 0 };
        let before = before / scalar.size() as u64;
        Self {
            scalar,
            writer: StreamFileWriter::new(path, scalar, scalar, existing).durable(durability),
            stream: Arc::default(),
            gap: None,
            counts: RecordingCounts::default(),
            ends: Vec::new(),
            before,
        }
    }

    fn packet(&mut self, packet: &RecordedPacket, payload: &[u8]) -> Result<(), FormatError> {
        let RecordedPacket { sample_index, time_ns, .. } = *packet;
        let samples = (payload.len() / self.scalar.size()) as u64;
        let place = SamplePlace { sample_index, time_ns, samples };
        if self.ends.len() >= ENDS_MAX {
            self.writer.sync()?;
        }
        if self.writer.samples_kept() == self.writer.samples() {
            self.ends.clear();
        }
        let before = self.writer.samples();
        let written = self.writer.packet(&self.stream, place, self.gap.take().as_ref(), payload);
        self.counts.packets += 1;
        self.counts.bytes += payload.len() as u64;
        // If the write fails, the file has a part of the packet.
        self.ends.push(before.saturating_add(samples));
        if written.is_ok() {
            self.ends.pop();
            self.ends.push(self.writer.samples());
        }
        written.map(drop)
    }
}

/// Checks that a file can be continued, as far as that is possible before its first sample.
fn check_continued(path: &Path) -> Result<(), FormatError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some(META_EXTENSION | DATA_EXTENSION) => Ok(()),
        _ => Err(FormatError::Recording {
            path: path.into(),
            problem: "a recording of packets cannot be continued".into(),
            remedy: "set `existing` to number or replace".into(),
        }),
    }
}

/// Returns whether the command prints to a file.
fn is_printed(file: &FileIdentity) -> bool {
    let streams = ["/proc/self/fd/1", "/proc/self/fd/2"];
    streams.iter().any(|stream| FileIdentity::of(stream.as_ref()).as_ref() == Some(file))
}

/// Returns the type of the samples in a SigMF recording; `None`: a recording of packets.
fn scalar(info: &RecordingInfo, prefers_sigmf: bool) -> Option<Scalar> {
    Scalar::parse(info.payload.as_str()).filter(|_| prefers_sigmf)
}

/// Returns the files of a port.
fn paths(folder: &Path, info: &RecordingInfo, scalar: Option<Scalar>) -> Vec<PathBuf> {
    let endings: &[&str] = match scalar {
        Some(_) => &[META_EXTENSION, DATA_EXTENSION],
        None => &[RECORDING_EXTENSION],
    };
    endings.iter().map(|ending| folder.join(file_name(&info.port, ending))).collect()
}

/// Returns the name of a port's file. The name of a topic may have any characters.
fn file_name(port: &str, extension: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = port.chars().take(100).map(plain).collect();
    format!("{}.{extension}", name.trim_start_matches('.'))
}

#[cfg(test)]
mod tests {
    use stripline::GapReason;
    use stripline::payload::TypeName;
    use stripline_components::formats::{SampleFormat, SigMfRecording};

    use super::*;

    fn info(port: &str, payload: &str) -> RecordingInfo {
        RecordingInfo { port: port.into(), ..RecordingInfo::new(TypeName::new(payload).unwrap()) }
    }

    fn stream(rate: f64, frequency: f64) -> Arc<StreamInfo> {
        Arc::new(StreamInfo::new("iq").sample_rate_hz(rate).center_frequency_hz(frequency))
    }

    #[test]
    fn a_name_of_a_port_becomes_one_of_a_file() {
        assert_eq!(file_name("tuner.out", "slrec"), "tuner.out.slrec");
        assert_eq!(file_name("../a/b c", META_EXTENSION), "_a_b_c.sigmf-meta");
    }

    #[test]
    fn sigmf_has_a_segment_for_each_stream_and_behind_each_gap() {
        let folder = tempfile::tempdir().unwrap();
        let (refuse, end) = (Existing::Refuse, Durability::End);
        let mut file = PortFile::create(folder.path(), &info("a.out", "cu8"), true, refuse, end).unwrap();
        let pass = |file: &mut PortFile| file.sync().unwrap();
        let path = folder.path().join("a.out.sigmf-meta");
        assert_eq!(file.path(), path);
        let at = |sample_index, time_ns| RecordedPacket { sample_index, time_ns, ..Default::default() };
        file.stream(&stream(2e6, 100e6)).unwrap();
        file.packet(&at(40, 1_709_210_096_000_250_000), &[1, 2, 3, 4]).unwrap();
        file.packet(&at(42, 0), &[5, 6]).unwrap();
        file.gap(&Gap { first: 2, packets: 3, samples: 57, reason: GapReason::Overflow }).unwrap();
        file.packet(&at(100, 0), &[7, 8]).unwrap();
        file.stream(&stream(2e6, 101e6)).unwrap();
        // The file of a killed recorder can be read.
        pass(&mut file);
        assert_eq!(SigMfRecording::open(&path).unwrap().meta.captures.len(), 2);
        file.packet(&at(101, 0), &[9, 10]).unwrap();
        file.restart().unwrap();
        file.packet(&at(0, 0), &[11, 12]).unwrap();
        assert_eq!(file.kept().packets, 3);
        pass(&mut file);
        assert_eq!(file.kept().packets, 5);
        // SigMF has one rate. With another rate, the recording continues in a second file.
        file.stream(&stream(1e6, 101e6)).unwrap();
        file.packet(&at(1, 0), &[13, 14, 15, 16]).unwrap();
        assert_eq!(file.earlier_files(), [path.to_str().unwrap()]);
        file.finish().unwrap();
        let counts = file.kept();
        assert_eq!(
            (counts.packets, counts.bytes, counts.missing, counts.missing_samples, counts.gaps),
            (6, 16, 3, 57, 2)
        );
        let next = SigMfRecording::open(&folder.path().join("a.out.2.sigmf-meta")).unwrap();
        assert_eq!(std::fs::read(next.data_path).unwrap(), [13, 14, 15, 16]);
        assert_eq!((next.meta.sample_rate_hz, next.meta.captures[0].global_index), (Some(1e6), Some(1)));

        let SigMfRecording { meta, data_path, .. } = SigMfRecording::open(&path).unwrap();
        assert_eq!(std::fs::read(data_path).unwrap(), (1..=12).collect::<Vec<u8>>());
        assert_eq!((meta.format, meta.sample_rate_hz), (SampleFormat::Cu8.scalar(), Some(2e6)));
        let segments: Vec<_> =
            meta.captures.iter().map(|it| (it.sample_start, it.global_index, it.frequency_hz)).collect();
        let (low, high) = (Some(100e6), Some(101e6));
        let expected = [(0, 40, low), (3, 100, low), (4, 101, high), (5, 0, high)];
        assert_eq!(segments, expected.map(|(start, index, hz)| (start, Some(index), hz)));
        assert_eq!(meta.captures[0].datetime.as_deref(), Some("2024-02-29T12:34:56.000250Z"));
        assert_eq!(meta.captures[1].datetime, None);
    }

    #[test]
    fn counts_are_of_what_a_reader_finds() {
        let folder = tempfile::tempdir().unwrap();
        let at = |sample_index| RecordedPacket { sample_index, ..Default::default() };
        let gap = Gap { first: 2, packets: 3, samples: 57, reason: GapReason::Overflow };
        for is_sigmf in [false, true] {
            let info = info(&format!("a.{is_sigmf}"), "cu8");
            let mut file =
                PortFile::create(folder.path(), &info, is_sigmf, Existing::Refuse, Durability::End).unwrap();
            file.stream(&stream(2e6, 100e6)).unwrap();
            file.packet(&at(0), &[1, 2]).unwrap();
            file.gap(&gap).unwrap();
            file.packet(&at(58), &[3, 4]).unwrap();
            file.finish().unwrap();
            let counts = file.kept();
            assert_eq!(
                (counts.packets, counts.missing, counts.missing_samples, counts.gaps),
                (2, 3, 57, 1),
                "{is_sigmf}"
            );

            // A file that was removed keeps nothing.
            let info = RecordingInfo { port: format!("b.{is_sigmf}"), ..info };
            let mut file =
                PortFile::create(folder.path(), &info, is_sigmf, Existing::Refuse, Durability::End).unwrap();
            file.stream(&stream(2e6, 100e6)).unwrap();
            file.packet(&at(0), &[1, 2]).unwrap();
            let data = if is_sigmf { file.path().with_extension(DATA_EXTENSION) } else { file.path().into() };
            std::fs::remove_file(data).unwrap();
            file.finish().unwrap_err();
            assert_eq!((file.kept().packets, file.kept().bytes), (0, 0), "{is_sigmf}");
        }
    }

    #[test]
    fn a_file_that_exists_is_kept_and_a_type_that_does_not_fit_is_recorded_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (refuse, end) = (Existing::Refuse, Durability::End);
        let create = |payload: &str| {
            PortFile::create(folder.path(), &info("a.out", payload), true, refuse, end).unwrap()
        };
        assert!(create("message/text").path().ends_with("a.out.slrec"));
        let problem = || {
            let checked = PortFile::check(folder.path(), &[info("a.out", "cf32")], true, refuse);
            checked.err().map(|error| error.to_string()).unwrap_or_default()
        };
        let data = folder.path().join("a.out.sigmf-data");
        assert!(std::process::Command::new("mkfifo").arg(&data).status().unwrap().success());
        let error = problem();
        assert!(error.contains("this is a pipe") && error.contains("another folder"), "{error}");
        std::fs::remove_file(&data).unwrap();
        std::os::unix::fs::symlink("/dev/null", &data).unwrap();
        assert!(problem().contains("a pipe or a device"));
        std::fs::remove_file(&data).unwrap();
        std::fs::write(&data, "mine").unwrap();
        let error = problem();
        assert!(error.contains("a.out.sigmf-data") && error.contains("exists already"), "{error}");
        std::fs::remove_file(&data).unwrap();
        assert_eq!(problem(), "");
        // Without any packet, the recording is empty.
        let mut file = create("cs8");
        file.finish().unwrap();
        assert_eq!(SigMfRecording::open(file.path()).unwrap().meta.captures, []);
    }

    #[test]
    fn two_ports_have_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let ports = [info("a", "cf32"), info("b", "cf32")];
        let check = |existing| PortFile::check(folder.path(), &ports, false, existing);
        std::fs::write(folder.path().join("a.slrec"), "earlier").unwrap();
        check(Existing::Replace).unwrap();
        std::fs::hard_link(folder.path().join("a.slrec"), folder.path().join("b.slrec")).unwrap();
        let error = check(Existing::Replace).unwrap_err().to_string();
        assert!(error.contains("b.slrec: it is the file of `a` and of `b`"), "{error}");
        check(Existing::Number).unwrap();
        let error = check(Existing::Append).unwrap_err().to_string();
        assert!(error.contains("a.slrec: a recording of packets cannot be continued"), "{error}");
        // Both names become `a_b.slrec`.
        let ports = [info("a/b", "cf32"), info("a b", "cf32")];
        let error = PortFile::check(folder.path(), &ports, false, Existing::Refuse).unwrap_err().to_string();
        assert!(error.contains("it is the file of `a/b` and of `a b`"), "{error}");
    }
}

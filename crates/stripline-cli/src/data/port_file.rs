//! The file of a recorded port: a recording with everything, or SigMF.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use stripline::{Gap, StreamInfo};
use stripline_components::formats::{
    FormatError, IqFileWriter, RECORDING_EXTENSION, RecordedPacket, RecordingInfo, RecordingWriter,
    SampleFormat, SigMfCapture, SigMfMeta, utc_datetime,
};

const META_EXTENSION: &str = "sigmf-meta";
const DATA_EXTENSION: &str = "sigmf-data";

/// The file of a port.
pub(super) enum PortFile {
    /// Packets of any type, with their streams, numbers, times and gaps.
    Recording(RecordingWriter),
    /// Samples, with segments where the stream changes and where some are missing.
    SigMf(Box<SigMfFile>),
}

impl PortFile {
    /// Creates the file for a port. None is replaced. Returns it with its path.
    pub(super) fn create(
        folder: &Path,
        info: &RecordingInfo,
        prefers_sigmf: bool,
    ) -> Result<(Self, PathBuf), FormatError> {
        let format = info.payload.as_str().parse::<SampleFormat>().ok();
        if let Some(format) = format.filter(|_| prefers_sigmf) {
            let path = folder.join(file_name(&info.port, META_EXTENSION));
            return Ok((Self::SigMf(Box::new(SigMfFile::create(&path, format)?)), path));
        }
        let path = folder.join(file_name(&info.port, RECORDING_EXTENSION));
        Ok((Self::Recording(RecordingWriter::create(&path, info)?), path))
    }

    pub(super) fn is_sigmf(&self) -> bool {
        matches!(self, Self::SigMf(_))
    }

    /// Writes that packets are missing here.
    pub(super) fn gap(&mut self, gap: &Gap) -> Result<(), FormatError> {
        match self {
            Self::Recording(writer) => writer.gap(gap),
            Self::SigMf(file) => {
                file.begins_segment = true;
                Ok(())
            }
        }
    }

    /// Writes the description of the packets that follow.
    pub(super) fn stream(&mut self, stream: &StreamInfo) -> Result<(), FormatError> {
        match self {
            Self::Recording(writer) => writer.stream(stream),
            Self::SigMf(file) => file.stream(stream),
        }
    }

    /// Writes a packet.
    pub(super) fn packet(&mut self, packet: &RecordedPacket, payload: &[u8]) -> Result<(), FormatError> {
        match self {
            Self::Recording(writer) => writer.packet(packet, payload),
            Self::SigMf(file) => file.packet(packet, payload),
        }
    }

    /// Writes that the sender was started again.
    pub(super) fn restart(&mut self) -> Result<(), FormatError> {
        match self {
            Self::Recording(writer) => writer.restart(),
            Self::SigMf(file) => {
                file.begins_segment = true;
                Ok(())
            }
        }
    }

    /// Passes everything to the system.
    pub(super) fn flush(&mut self) -> Result<(), FormatError> {
        match self {
            Self::Recording(writer) => writer.flush(),
            Self::SigMf(file) => file.writer.as_mut().map_or(Ok(()), IqFileWriter::sync_metadata),
        }
    }

    /// Completes the file.
    pub(super) fn finish(self) -> Result<(), FormatError> {
        match self {
            Self::Recording(writer) => writer.finish().map(drop),
            Self::SigMf(mut file) => match file.writer.take() {
                Some(writer) => writer.finish().map(drop),
                // Without any packet, it is empty.
                None => file.writer()?.finish().map(drop),
            },
        }
    }
}

/// A SigMF recording. It is created with the first packet, which has its sample rate.
pub(super) struct SigMfFile {
    path: PathBuf,
    format: SampleFormat,
    writer: Option<IqFileWriter>,
    /// The stream of the next packet.
    stream: StreamInfo,
    begins_segment: bool,
}

impl SigMfFile {
    fn create(path: &Path, format: SampleFormat) -> Result<Self, FormatError> {
        for taken in [path.to_owned(), path.with_extension(DATA_EXTENSION)] {
            if taken.symlink_metadata().is_ok() {
                return Err(FormatError::Recording {
                    path: taken,
                    problem: "the file exists already".into(),
                    remedy: "give another folder or name, or remove it".into(),
                });
            }
        }
        let stream = StreamInfo::default();
        Ok(Self { path: path.into(), format, writer: None, stream, begins_segment: true })
    }

    /// Creates both files.
    fn writer(&self) -> Result<IqFileWriter, FormatError> {
        let meta = SigMfMeta {
            sample_rate_hz: self.stream.sample_rate_hz,
            recorder: Some("Stripline".into()),
            ..SigMfMeta::new(self.format)
        };
        IqFileWriter::create_sigmf(&self.path, meta)
    }

    fn stream(&mut self, stream: &StreamInfo) -> Result<(), FormatError> {
        let before = self.stream.sample_rate_hz;
        if self.writer.is_some() && before != stream.sample_rate_hz {
            let text = |rate: Option<f64>| rate.map_or("none".into(), |hz| format!("{hz} samples/s"));
            return Err(FormatError::Recording {
                path: self.path.clone(),
                problem: format!(
                    "SigMF has one sample rate, {}, and that of the stream is now {}",
                    text(before),
                    text(stream.sample_rate_hz)
                ),
                remedy: "it ends here; record without `--sigmf`".into(),
            });
        }
        self.stream = stream.clone();
        self.begins_segment = true;
        Ok(())
    }

    fn packet(&mut self, packet: &RecordedPacket, payload: &[u8]) -> Result<(), FormatError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(self.writer()?),
        };
        if std::mem::take(&mut self.begins_segment) {
            let time = u64::try_from(packet.time_ns).ok().filter(|ns| *ns > 0);
            writer.begin_capture(SigMfCapture {
                global_index: Some(packet.sample_index),
                frequency_hz: self.stream.center_frequency_hz,
                datetime: time.map(|ns| utc_datetime(UNIX_EPOCH + Duration::from_nanos(ns))),
                ..SigMfCapture::default()
            })?;
        }
        writer.write(payload)
    }
}

/// Returns the name of a port's file: a topic may have any characters.
fn file_name(port: &str, extension: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = port.chars().take(100).map(plain).collect();
    format!("{}.{extension}", name.trim_start_matches('.'))
}

#[cfg(test)]
mod tests {
    use stripline::GapReason;
    use stripline::payload::TypeName;
    use stripline_components::formats::SigMfRecording;

    use super::*;

    fn info(port: &str, payload: &str) -> RecordingInfo {
        RecordingInfo { port: port.into(), ..RecordingInfo::new(TypeName::new(payload).unwrap()) }
    }

    fn stream(rate: f64, frequency: f64) -> StreamInfo {
        StreamInfo::new("iq").sample_rate_hz(rate).center_frequency_hz(frequency)
    }

    #[test]
    fn a_name_of_a_port_becomes_one_of_a_file() {
        assert_eq!(file_name("tuner.out", "slrec"), "tuner.out.slrec");
        assert_eq!(file_name("../a/b c", META_EXTENSION), "_a_b_c.sigmf-meta");
    }

    #[test]
    fn sigmf_has_a_segment_for_each_stream_and_behind_each_gap() {
        let folder = tempfile::tempdir().unwrap();
        let (mut file, path) = PortFile::create(folder.path(), &info("a.out", "cu8"), true).unwrap();
        assert_eq!(path, folder.path().join("a.out.sigmf-meta"));
        let at = |sample_index, time_ns| RecordedPacket { sample_index, time_ns, ..Default::default() };
        file.stream(&stream(2e6, 100e6)).unwrap();
        file.packet(&at(40, 1_709_210_096_000_250_000), &[1, 2, 3, 4]).unwrap();
        file.packet(&at(42, 0), &[5, 6]).unwrap();
        file.gap(&Gap { first: 2, packets: 3, samples: 57, reason: GapReason::Overflow }).unwrap();
        file.packet(&at(100, 0), &[7, 8]).unwrap();
        file.stream(&stream(2e6, 101e6)).unwrap();
        // What a killed recorder leaves can be read.
        file.flush().unwrap();
        assert_eq!(SigMfRecording::open(&path).unwrap().meta.captures.len(), 2);
        file.packet(&at(101, 0), &[9, 10]).unwrap();
        file.restart().unwrap();
        file.packet(&at(0, 0), &[11, 12]).unwrap();
        // SigMF has one rate: what comes now would be wrong.
        let error = file.stream(&stream(1e6, 101e6)).unwrap_err().to_string();
        assert!(error.contains("2000000") && error.contains("1000000 samples/s"), "{error}");
        file.finish().unwrap();

        let SigMfRecording { meta, data_path, .. } = SigMfRecording::open(&path).unwrap();
        assert_eq!(std::fs::read(data_path).unwrap(), (1..=12).collect::<Vec<u8>>());
        assert_eq!((meta.format, meta.sample_rate_hz), (SampleFormat::Cu8, Some(2e6)));
        let segments: Vec<_> =
            meta.captures.iter().map(|it| (it.sample_start, it.global_index, it.frequency_hz)).collect();
        let (low, high) = (Some(100e6), Some(101e6));
        let expected = [(0, 40, low), (3, 100, low), (4, 101, high), (5, 0, high)];
        assert_eq!(segments, expected.map(|(start, index, hz)| (start, Some(index), hz)));
        assert_eq!(meta.captures[0].datetime.as_deref(), Some("2024-02-29T12:34:56.000250Z"));
        assert_eq!(meta.captures[1].datetime, None);
    }

    #[test]
    fn a_file_that_exists_is_kept_and_a_type_that_does_not_fit_is_recorded_whole() {
        let folder = tempfile::tempdir().unwrap();
        let create = |payload: &str| PortFile::create(folder.path(), &info("a.out", payload), true);
        assert!(create("f32").unwrap().1.ends_with("a.out.slrec"));
        let data = folder.path().join("a.out.sigmf-data");
        std::fs::write(&data, "mine").unwrap();
        let error = create("cf32").err().unwrap().to_string();
        assert!(error.contains("a.out.sigmf-data") && error.contains("exists already"), "{error}");
        std::fs::remove_file(&data).unwrap();
        // Without any packet, the recording is empty.
        let (file, path) = create("cs8").unwrap();
        file.finish().unwrap();
        assert_eq!(SigMfRecording::open(&path).unwrap().meta.captures, []);
    }
}

//! Recordings of ports: packets of any type with their streams, numbers, times and gaps, byte by
//! byte in docs/recording.md.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stripline::payload::TypeName;
use stripline::terms::LinkOptions;
use stripline::{Gap, GapReason, StreamInfo};

use super::FormatError;

/// The end of the names of recordings.
///
/// ```
/// assert_eq!(stripline_components::formats::RECORDING_EXTENSION, "slrec");
/// ```
pub const RECORDING_EXTENSION: &str = "slrec";

const MAGIC: [u8; 8] = *b"SLREC\r\n\x1a";
const VERSION: u16 = 1;
/// Bytes before the description.
const PREFIX_BYTES: usize = 16;
/// The longest description, in bytes.
const INFO_BYTES_MAX: usize = 64 << 10;
/// Bytes of a record before its body.
const RECORD_BYTES: usize = 48;
/// Each record starts at a multiple of this.
const ALIGN: usize = 8;
/// The last word of a record's head: a reader that has lost the start of records detects it.
const MARK: u32 = u32::from_le_bytes(*b"SLR1");
/// The writer's own buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

const STREAM: u32 = 1;
const PACKET: u32 = 2;
const GAP: u32 = 3;
const RESTART: u32 = 4;
const END: u32 = 5;

/// The description of a recorded port.
///
/// ```
/// use stripline::payload::TypeName;
/// use stripline_components::formats::RecordingInfo;
///
/// let info = RecordingInfo { port: "tuner.out".into(), ..RecordingInfo::new(TypeName::of::<f32>()) };
/// assert_eq!((info.payload.as_str(), info.sample_bytes), ("f32", Some(4)));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordingInfo {
    /// The port, as `component.port`, or the topic.
    #[serde(default)]
    pub port: String,
    /// The waveform; `None` for a topic.
    #[serde(default)]
    pub waveform: Option<String>,
    /// The payload type.
    #[serde(rename = "type")]
    pub payload: TypeName,
    /// Bytes of a sample; `None`: not recorded.
    #[serde(default)]
    pub sample_bytes: Option<u32>,
    /// The layout of a sample of another type; `None`: not recorded.
    #[serde(default)]
    pub layout: Option<String>,
    /// When the recording began, in nanoseconds since the Unix epoch.
    #[serde(default)]
    pub started_ns: i64,
}

impl RecordingInfo {
    /// Returns the description of a port without a name.
    pub fn new(payload: TypeName) -> Self {
        let bytes = payload.sample_bytes().and_then(|bytes| u32::try_from(bytes).ok());
        Self {
            port: String::new(),
            waveform: None,
            payload,
            sample_bytes: bytes,
            layout: None,
            started_ns: 0,
        }
    }
}

/// A packet's place and times in a recording.
///
/// ```
/// let first = stripline_components::formats::RecordedPacket::default();
/// assert_eq!((first.sequence, first.sample_index), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedPacket {
    /// Its number among those of its sender.
    pub sequence: u64,
    /// The number of its first sample within its stream.
    pub sample_index: u64,
    /// The time of its first sample, in nanoseconds since the Unix epoch; 0: unknown.
    pub time_ns: i64,
    /// When it arrived, in nanoseconds since the start of the recording.
    pub received_ns: u64,
}

/// One entry of a recording.
///
/// ```
/// use stripline_components::formats::RecordingEntry;
///
/// fn is_packet(entry: &RecordingEntry) -> bool {
///     matches!(entry, RecordingEntry::Packet(_))
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum RecordingEntry {
    /// The description of the packets that follow.
    Stream(StreamInfo),
    /// A packet; [`RecordingReader::payload`] has its bytes.
    Packet(RecordedPacket),
    /// Packets that the recording does not have, before the next one.
    Gap(Gap),
    /// The sender was started again: its packets count from 0.
    Restart,
    /// The recording was ended in order, with so many packets, and so many missing.
    End {
        /// Packets recorded.
        packets: u64,
        /// Packets in gaps.
        missing: u64,
    },
}

/// The head of a record, without its mark.
#[derive(Clone, Copy, Default)]
struct Head {
    kind: u32,
    length: u32,
    words: [u64; 4],
    extra: u32,
}

impl Head {
    fn bytes(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&self.kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        for (place, word) in bytes[8..40].chunks_exact_mut(8).zip(self.words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[40..44].copy_from_slice(&self.extra.to_le_bytes());
        bytes[44..].copy_from_slice(&MARK.to_le_bytes());
        bytes
    }

    /// Parses a head; `None`: its mark is wrong.
    fn parse(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let short = |at: usize| bytes[at..].first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
        let long = |at: usize| bytes[at..].first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight));
        let words = [long(8), long(16), long(24), long(32)];
        (short(44) == MARK).then(|| Self { kind: short(0), length: short(4), words, extra: short(40) })
    }
}

/// A writer of a recording. What was written stays readable, however the writer ends.
///
/// ```
/// use stripline::StreamInfo;
/// use stripline::payload::TypeName;
/// use stripline_components::formats::{
///     RecordedPacket, RecordingEntry, RecordingInfo, RecordingReader, RecordingWriter,
/// };
///
/// let path = std::env::temp_dir().join(format!("doc-{}.slrec", std::process::id()));
/// let mut writer = RecordingWriter::create(&path, &RecordingInfo::new(TypeName::of::<u8>()))?;
/// writer.stream(&StreamInfo::new("bytes"))?;
/// writer.packet(&RecordedPacket::default(), &[1, 2, 3])?;
/// writer.finish()?;
///
/// let mut reader = RecordingReader::open(&path)?;
/// assert!(matches!(reader.next_entry()?, Some(RecordingEntry::Stream(_))));
/// assert!(matches!(reader.next_entry()?, Some(RecordingEntry::Packet(_))));
/// assert_eq!(reader.payload(), [1, 2, 3]);
/// assert_eq!(reader.next_entry()?, Some(RecordingEntry::End { packets: 1, missing: 0 }));
/// assert!(reader.next_entry()?.is_none() && !reader.is_truncated());
/// # std::fs::remove_file(path).expect("it was made");
/// # Ok::<(), stripline_components::formats::FormatError>(())
/// ```
pub struct RecordingWriter {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    written: u64,
    packets: u64,
    missing: u64,
}

impl RecordingWriter {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    /// When the file exists or cannot be created.
    pub fn create(path: &Path, info: &RecordingInfo) -> Result<Self, FormatError> {
        let open = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => FormatError::Recording {
                path: path.into(),
                problem: "the file exists already".into(),
                remedy: "give another folder or name, or remove it".into(),
            },
            _ => FormatError::open(path, "create", source),
        };
        let file = File::options().write(true).create_new(true).open(path).map_err(open)?;
        let text = serde_json::to_vec(info).map_err(|e| open(e.into()))?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        buffer.extend_from_slice(&MAGIC);
        buffer.extend_from_slice(&VERSION.to_le_bytes());
        buffer.extend_from_slice(&[0; 2]);
        buffer.extend_from_slice(&(text.len() as u32).to_le_bytes());
        buffer.extend_from_slice(&text);
        buffer.resize(buffer.len().next_multiple_of(ALIGN), 0);
        let mut writer = Self { path: path.into(), file, buffer, written: 0, packets: 0, missing: 0 };
        writer.flush()?;
        Ok(writer)
    }

    /// Writes the description of the packets that follow.
    ///
    /// # Errors
    /// When the file cannot be written, as for all that follow.
    pub fn stream(&mut self, info: &StreamInfo) -> Result<(), FormatError> {
        let text = serde_json::to_vec(info).map_err(|e| self.error(e.into()))?;
        self.record(&Head { kind: STREAM, ..Head::default() }, &text)
    }

    /// Writes a packet of up to [`LinkOptions::PACKET_MAX`] bytes.
    ///
    /// # Errors
    /// As [`RecordingWriter::stream`].
    pub fn packet(&mut self, packet: &RecordedPacket, payload: &[u8]) -> Result<(), FormatError> {
        let RecordedPacket { sequence, sample_index, time_ns, received_ns } = *packet;
        let words = [sequence, sample_index, time_ns.cast_unsigned(), received_ns];
        self.packets += 1;
        self.record(&Head { kind: PACKET, words, ..Head::default() }, payload)
    }

    /// Writes that packets are missing here.
    ///
    /// # Errors
    /// As [`RecordingWriter::stream`].
    pub fn gap(&mut self, gap: &Gap) -> Result<(), FormatError> {
        self.missing = self.missing.saturating_add(gap.packets);
        let extra = match gap.reason {
            GapReason::Overflow => 0,
            GapReason::PeerRestart => 1,
            GapReason::Transport => 2,
            GapReason::Late => 3,
        };
        let words = [gap.first, gap.packets, gap.samples, 0];
        self.record(&Head { kind: GAP, words, extra, length: 0 }, &[])
    }

    /// Writes that the sender was started again.
    ///
    /// # Errors
    /// As [`RecordingWriter::stream`].
    pub fn restart(&mut self) -> Result<(), FormatError> {
        self.record(&Head { kind: RESTART, ..Head::default() }, &[])
    }

    /// Passes everything written so far to the system.
    ///
    /// # Errors
    /// As [`RecordingWriter::stream`].
    pub fn flush(&mut self) -> Result<(), FormatError> {
        let outcome = self.file.write_all(&self.buffer);
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        outcome.map_err(|error| self.error(error))
    }

    /// Writes the end. Returns the size of the file in bytes.
    ///
    /// # Errors
    /// As [`RecordingWriter::stream`].
    pub fn finish(mut self) -> Result<u64, FormatError> {
        let words = [self.packets, self.missing, 0, 0];
        self.record(&Head { kind: END, words, ..Head::default() }, &[])?;
        self.flush()?;
        Ok(self.written)
    }

    fn record(&mut self, head: &Head, body: &[u8]) -> Result<(), FormatError> {
        self.buffer.extend_from_slice(&Head { length: body.len() as u32, ..*head }.bytes());
        self.buffer.extend_from_slice(body);
        self.buffer.resize(self.buffer.len().next_multiple_of(ALIGN), 0);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn error(&self, source: io::Error) -> FormatError {
        FormatError::Write { path: self.path.clone(), written: self.written, source }
    }
}

/// A reader of a recording, up to where it was truncated. See [`RecordingWriter`].
pub struct RecordingReader<R = BufReader<File>> {
    path: PathBuf,
    input: R,
    info: RecordingInfo,
    body: Vec<u8>,
    /// Bytes read.
    read: u64,
    ended: bool,
    truncated: bool,
}

impl RecordingReader {
    /// Opens a recording.
    ///
    /// # Errors
    /// When there is no such file, or it is no recording of this version.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        let open = |source| FormatError::open(path, "open", source);
        let file = File::open(path).map_err(open)?;
        if file.metadata().map_err(open)?.is_dir() {
            return Err(FormatError::Directory { path: path.into() });
        }
        Self::new(BufReader::with_capacity(BUFFER_BYTES, file), path)
    }
}

impl<R: Read> RecordingReader<R> {
    /// Reads a recording from a stream; `path` names it in errors.
    ///
    /// # Errors
    /// When it is no recording of this version.
    pub fn new(input: R, path: &Path) -> Result<Self, FormatError> {
        let info = RecordingInfo::new(TypeName::of::<u8>());
        let body = Vec::new();
        let mut reader =
            Self { path: path.into(), input, info, body, read: 0, ended: false, truncated: false };
        reader.read_info()?;
        Ok(reader)
    }

    /// Returns the description of the recorded port.
    pub fn info(&self) -> &RecordingInfo {
        &self.info
    }

    /// Returns the bytes of the packet returned last.
    pub fn payload(&self) -> &[u8] {
        &self.body
    }

    /// Returns whether the recording ends without its end: its writer was killed, or the disk was
    /// full. Valid once there are no more entries.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Returns the next entry; `None` at the end of the file. A truncated entry is left out.
    ///
    /// # Errors
    /// When the file cannot be read, or is damaged.
    pub fn next_entry(&mut self) -> Result<Option<RecordingEntry>, FormatError> {
        if self.ended || self.truncated {
            return Ok(None);
        }
        let mut head = [0; RECORD_BYTES];
        if !self.fill(&mut head)? {
            return Ok(None);
        }
        let at = self.read - RECORD_BYTES as u64;
        let head = Head::parse(&head).ok_or_else(|| self.damaged(at, "there is no record"))?;
        let length = head.length as usize;
        let length_max = match head.kind {
            PACKET => LinkOptions::PACKET_MAX,
            STREAM => StreamInfo::ENCODED_MAX,
            _ => 0,
        };
        if length > length_max {
            return Err(self.damaged(at, &format!("a record of kind {} has {length} bytes", head.kind)));
        }
        if !self.read_body(length)? {
            return Ok(None);
        }
        let [first, second, third, fourth] = head.words;
        Ok(Some(match head.kind {
            STREAM => {
                let info = serde_json::from_slice(&self.body);
                RecordingEntry::Stream(info.map_err(|e| self.damaged(at, &format!("a stream: {e}")))?)
            }
            PACKET => RecordingEntry::Packet(RecordedPacket {
                sequence: first,
                sample_index: second,
                time_ns: third.cast_signed(),
                received_ns: fourth,
            }),
            GAP => {
                let reason = match head.extra {
                    0 => GapReason::Overflow,
                    1 => GapReason::PeerRestart,
                    2 => GapReason::Transport,
                    3 => GapReason::Late,
                    other => return Err(self.damaged(at, &format!("a gap has the reason {other}"))),
                };
                RecordingEntry::Gap(Gap { first, packets: second, samples: third, reason })
            }
            RESTART => RecordingEntry::Restart,
            END => {
                self.ended = true;
                RecordingEntry::End { packets: first, missing: second }
            }
            other => return Err(self.damaged(at, &format!("a record has the kind {other}"))),
        }))
    }

    fn read_info(&mut self) -> Result<(), FormatError> {
        let foreign = |path: &Path, problem: String| FormatError::Recording {
            path: path.into(),
            problem,
            remedy: "give a file that `stripline record` has written".into(),
        };
        let mut prefix = [0; PREFIX_BYTES];
        if !self.fill(&mut prefix)? || prefix[..8] != MAGIC {
            return Err(foreign(&self.path, "this is no recording of a port".into()));
        }
        let version = u16::from_le_bytes([prefix[8], prefix[9]]);
        if version != VERSION {
            return Err(FormatError::Recording {
                path: self.path.clone(),
                problem: format!("the recording has version {version} of its format, not {VERSION}"),
                remedy: "use the `stripline` that it was made with".into(),
            });
        }
        let length = u32::from_le_bytes([prefix[12], prefix[13], prefix[14], prefix[15]]) as usize;
        if length > INFO_BYTES_MAX {
            return Err(foreign(&self.path, format!("its description has {length} bytes")));
        }
        if !self.read_body(length)? {
            return Err(foreign(&self.path, "it ends within its description".into()));
        }
        self.info = serde_json::from_slice(&self.body)
            .map_err(|error| foreign(&self.path, format!("its description is wrong ({error})")))?;
        self.body.clear();
        Ok(())
    }

    /// Reads a body and what fills it up; false: it is truncated.
    fn read_body(&mut self, length: usize) -> Result<bool, FormatError> {
        self.body.clear();
        let padded = length.next_multiple_of(ALIGN);
        // The memory grows with what is there, not with what a false length announces.
        let outcome = (&mut self.input).take(padded as u64).read_to_end(&mut self.body);
        let read = outcome.map_err(|source| self.read_error(source))?;
        self.read += read as u64;
        self.truncated = read < padded;
        self.body.truncate(length);
        Ok(!self.truncated)
    }

    /// Reads so many bytes; false: there are fewer.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, FormatError> {
        match self.input.read_exact(bytes) {
            Ok(()) => {
                self.read += bytes.len() as u64;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.truncated = true;
                Ok(false)
            }
            Err(error) => Err(self.read_error(error)),
        }
    }

    fn read_error(&self, source: io::Error) -> FormatError {
        FormatError::Read { path: self.path.clone(), read: self.read, source }
    }

    fn damaged(&self, at: u64, problem: &str) -> FormatError {
        FormatError::Recording {
            path: self.path.clone(),
            problem: format!("the recording is damaged at byte {at}, {problem}"),
            remedy: "what comes before can be used: truncate it there".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gap() -> Gap {
        Gap { first: 2, packets: 3, samples: 30, reason: GapReason::Overflow }
    }

    /// Writes a recording with every kind of entry.
    fn written(folder: &Path) -> Vec<u8> {
        let path = folder.join("a.slrec");
        let info = RecordingInfo { port: "a.out".into(), ..RecordingInfo::new(TypeName::of::<u8>()) };
        let mut writer = RecordingWriter::create(&path, &info).unwrap();
        writer.stream(&StreamInfo::new("a").sample_rate_hz(10.0)).unwrap();
        writer.packet(&RecordedPacket { sequence: 1, time_ns: -5, ..Default::default() }, b"hello").unwrap();
        writer.gap(&gap()).unwrap();
        writer.packet(&RecordedPacket { sequence: 5, sample_index: 40, ..Default::default() }, b"").unwrap();
        writer.restart().unwrap();
        let bytes = writer.finish().unwrap();
        let all = std::fs::read(&path).unwrap();
        assert_eq!(all.len() as u64, bytes);
        assert!(RecordingWriter::create(&path, &info).is_err(), "an existing file is kept");
        all
    }

    /// An entry, with the payload of a packet.
    type Found = (RecordingEntry, Vec<u8>);

    /// Reads all entries, and whether the recording is truncated.
    fn read(bytes: &[u8]) -> Result<(Vec<Found>, bool), FormatError> {
        let mut reader = RecordingReader::new(bytes, Path::new("x.slrec"))?;
        let mut entries = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            let payload = if matches!(entry, RecordingEntry::Packet(_)) { reader.payload() } else { &[] };
            entries.push((entry, payload.to_vec()));
        }
        Ok((entries, reader.is_truncated()))
    }

    #[test]
    fn every_entry_comes_back_and_a_truncated_file_is_read_up_to_there() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = written(folder.path());
        let (all, truncated) = read(&bytes).unwrap();
        assert!(!truncated);
        assert_eq!((all.len(), &all[1].1[..]), (6, &b"hello"[..]));
        assert_eq!(all[2].0, RecordingEntry::Gap(gap()));
        assert_eq!(all[5].0, RecordingEntry::End { packets: 2, missing: 3 });
        let mut most = 0;
        for length in 0..bytes.len() {
            match read(&bytes[..length]) {
                Ok((entries, truncated)) => {
                    assert!(truncated && entries[..] == all[..entries.len()] && entries.len() >= most);
                    most = entries.len();
                }
                Err(error) => assert!(most == 0 && error.to_string().contains("x.slrec"), "{error}"),
            }
        }
        assert_eq!(most, 5);
    }

    #[test]
    fn foreign_files_and_other_versions_are_refused() {
        let refused = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert!(refused(b"RIFF0000WAVEfmt 0000").contains("no recording of a port"));
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = written(folder.path());
        bytes[8] = 2;
        assert!(refused(&bytes).contains("version 2"));
        bytes[8] = 1;
        bytes[12..16].fill(255);
        assert!(refused(&bytes).contains("description"));
    }

    #[test]
    fn a_damaged_record_is_an_error_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = written(folder.path());
        let last = bytes.len() - RECORD_BYTES;
        bytes[last..last + 4].copy_from_slice(&9u32.to_le_bytes());
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.contains(&format!("damaged at byte {last}")), "{error}");
        bytes[last + 44] ^= 1;
        assert!(read(&bytes).unwrap_err().to_string().contains("there is no record"));
    }

    proptest! {
        #[test]
        fn arbitrary_records_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let folder = tempfile::tempdir().unwrap();
            let all = written(folder.path());
            let _ = read(&[&all[..all.len() - RECORD_BYTES], &bytes].concat());
        }
    }
}

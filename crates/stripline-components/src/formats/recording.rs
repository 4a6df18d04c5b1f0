//! Recordings of ports: packets of any type with their streams, numbers, times and gaps.
//! docs/recording.md describes the format byte by byte.

use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crc32fast::Hasher;
use serde::{Deserialize, Serialize};
use stripline::payload::TypeName;
use stripline::terms::LinkOptions;
use stripline::{Gap, GapReason, StreamInfo};

use super::durability::{Durability, PassTimer};
use super::output::{Existing, OutputFile, truncation_remedy};
use super::{FormatError, file_kind};
use crate::stoppable::StoppableFile;

/// The file extension of recordings.
///
/// ```
/// assert_eq!(stripline_components::formats::RECORDING_EXTENSION, "slrec");
/// ```
pub const RECORDING_EXTENSION: &str = "slrec";

const MAGIC: [u8; 8] = *b"SLREC\r\n\x1a";
const VERSION: u16 = 1;
/// The number of bytes before the description.
const PREFIX_BYTES: usize = 16;
/// The position of the 2-byte checksum of prefix and description. Without checksums, it is zero.
const INFO_CHECKSUM: Range<usize> = 10..12;
/// The longest description, in bytes.
const INFO_BYTES_MAX: usize = 64 << 10;
/// The size of a record's head, in bytes.
const RECORD_BYTES: usize = 48;
/// Each record starts at a multiple of this number of bytes.
const ALIGN: usize = 8;
/// The last word of a record's head. A reader that has lost the start of the records detects it by
/// this word.
const MARK: u32 = u32::from_le_bytes(*b"SLR1");
/// The size of the writer's buffer, in bytes.
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
    /// The size of a sample in bytes; `None`: not recorded.
    #[serde(default)]
    pub sample_bytes: Option<u32>,
    /// The layout of a sample, if the type is not built in; `None`: not recorded.
    #[serde(default)]
    pub layout: Option<String>,
    /// The start of the recording, in nanoseconds since the Unix epoch.
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

/// The position and times of a packet in a recording.
///
/// ```
/// let first = stripline_components::formats::RecordedPacket::default();
/// assert_eq!((first.sequence, first.sample_index), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedPacket {
    /// The sequence number that the sender gave the packet.
    pub sequence: u64,
    /// The index of the first sample within the stream.
    pub sample_index: u64,
    /// The time of the first sample, in nanoseconds since the Unix epoch; 0: unknown.
    pub time_ns: i64,
    /// The time of arrival, in nanoseconds since the start of the recording.
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
    /// A packet; [`RecordingReader::payload`] returns the payload.
    Packet(RecordedPacket),
    /// Packets that the recording lacks, before the next packet.
    Gap(Gap),
    /// The sender was started again: packets count from 0 again.
    Restart,
    /// The recording was ended in order.
    End {
        /// The number of packets recorded.
        packets: u64,
        /// The number of packets in gaps.
        missing: u64,
    },
}

/// The head of a record, without the mark.
#[derive(Clone, Copy, Default)]
struct Head {
    kind: u32,
    length: u32,
    words: [u64; 4],
    extra: u32,
}

impl Head {
    /// Returns the position of the checksum. Earlier versions wrote zeros there.
    fn checksum_place(&self) -> Range<usize> {
        if self.kind == GAP { 32..36 } else { 40..44 }
    }

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

    /// Parses a head; returns `None` if the mark is wrong.
    fn parse(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let short = |at: usize| bytes[at..].first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
        let long = |at: usize| bytes[at..].first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight));
        let words = [long(8), long(16), long(24), long(32)];
        (short(44) == MARK).then(|| Self { kind: short(0), length: short(4), words, extra: short(40) })
    }
}

/// A writer of a recording. Written data stays readable, however the writer ends.
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
    output: OutputFile,
    buffer: Vec<u8>,
    /// The checksum of all bytes before the next record, except the checksums of the records.
    checksum: Hasher,
    written: u64,
    counts: RecordingCounts,
    /// The counts at the last whole record in the file.
    kept: RecordingCounts,
    /// The end of each record in the buffer, as a position in the file, with the counts up to
    /// there.
    ends: Vec<(u64, RecordingCounts)>,
    is_failed: bool,
    /// The bytes of a sample; 0: unknown.
    sample_bytes: u64,
    timer: PassTimer,
}

/// The counts of a recording, as a reader finds them.
///
/// ```
/// let none = stripline_components::formats::RecordingCounts::default();
/// assert_eq!((none.packets, none.bytes, none.missing), (0, 0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingCounts {
    /// The number of packets.
    pub packets: u64,
    /// The number of bytes of payload.
    pub bytes: u64,
    /// The number of packets in gaps, and of packets that are not in the file after an error.
    pub missing: u64,
    /// The number of samples in these packets, as far as the senders have counted them.
    pub missing_samples: u64,
    /// The number of places at which packets are missing.
    pub gaps: u64,
}

impl RecordingWriter {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    /// The file exists or cannot be created.
    pub fn create(path: &Path, info: &RecordingInfo) -> Result<Self, FormatError> {
        Self::open(path, info, Existing::Refuse)
    }

    /// Creates the file. A recording cannot be continued, because it has an end record.
    ///
    /// # Errors
    /// The file exists and is to be refused or continued, or it cannot be created.
    pub fn open(path: &Path, info: &RecordingInfo, existing: Existing) -> Result<Self, FormatError> {
        if existing == Existing::Append && path.symlink_metadata().is_ok() {
            return Err(FormatError::Recording {
                path: path.into(),
                problem: "a recording of packets cannot be continued".into(),
                remedy: "set `existing` to number or replace".into(),
            });
        }
        let open = |source: io::Error| FormatError::open(path, "create", source);
        let text = serde_json::to_vec(info).map_err(|e| open(e.into()))?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        buffer.extend_from_slice(&MAGIC);
        buffer.extend_from_slice(&VERSION.to_le_bytes());
        buffer.extend_from_slice(&[0; 2]);
        buffer.extend_from_slice(&(text.len() as u32).to_le_bytes());
        buffer.extend_from_slice(&text);
        buffer.resize(buffer.len().next_multiple_of(ALIGN), 0);
        let mut checksum = Hasher::new();
        checksum.update(&buffer);
        buffer[INFO_CHECKSUM].copy_from_slice(&info_checksum(&checksum).to_le_bytes());
        let mut output = OutputFile::open_with_head(path, existing, &buffer)?;
        output.note_found(0, "packet", 0);
        let mut written = 0;
        if output.has_head {
            written = buffer.len() as u64;
            buffer.clear();
        }
        let mut writer = Self {
            output,
            buffer,
            checksum,
            written,
            counts: RecordingCounts::default(),
            kept: RecordingCounts::default(),
            ends: Vec::new(),
            is_failed: false,
            sample_bytes: info.sample_bytes.unwrap_or(0).into(),
            timer: PassTimer::new(Durability::End),
        };
        writer.flush()?;
        Ok(writer)
    }

    /// Sets when data is forced to the disk.
    ///
    /// ```
    /// use stripline::payload::TypeName;
    /// use stripline_components::formats::{
    ///     Durability, RecordedPacket, RecordingInfo, RecordingReader, RecordingWriter,
    /// };
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("a.slrec");
    ///
    /// let info = RecordingInfo::new(TypeName::of::<u8>());
    /// let mut writer = RecordingWriter::create(&path, &info)?.durable(Durability::Packet);
    /// writer.packet(&RecordedPacket::default(), &[1, 2, 3])?;
    /// // The packet is in the file before the end.
    /// assert!(RecordingReader::open(&path)?.next_entry()?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn durable(mut self, durability: Durability) -> Self {
        self.timer = PassTimer::new(durability);
        self
    }

    /// Returns the longest time that the caller may wait for the next packet before it calls
    /// [`pass_due`](Self::pass_due).
    pub const fn wait_time(&self) -> Duration {
        self.timer.left()
    }

    /// Passes all data on if the oldest was written a second ago: to the system, or to the disk if
    /// [`durable`](Self::durable) was set so.
    ///
    /// # Errors
    /// The errors of [`RecordingWriter::stream`].
    pub fn pass_due(&mut self) -> Result<(), FormatError> {
        if self.timer.is_due() { self.pass() } else { Ok(()) }
    }

    fn pass(&mut self) -> Result<(), FormatError> {
        if self.timer.is_to_disk() { self.sync_disk() } else { self.flush() }?;
        self.timer.passed();
        Ok(())
    }

    /// Passes all written data to the system, and waits until a regular file is on the disk.
    ///
    /// # Errors
    /// The errors of [`RecordingWriter::stream`].
    pub fn sync_disk(&mut self) -> Result<(), FormatError> {
        self.flush()?;
        self.output.sync().map_err(|error| self.error(error))
    }

    /// Returns the path, with the number if the file got one.
    pub fn path(&self) -> &Path {
        &self.output.path
    }

    /// Returns a note about an earlier file at this path; `None`: there was no file.
    pub fn found(&self) -> Option<&str> {
        self.output.found.as_deref()
    }

    /// Returns the counts that a reader would find in the file now. After an error, or if another
    /// program has changed the file, packets that are not in the file are missing.
    pub fn kept(&self) -> RecordingCounts {
        let is_in_place = self.output.is_in_place();
        if is_in_place && !self.is_failed {
            return self.kept;
        }
        let all = self.counts;
        let found = if is_in_place { self.kept } else { self.counted_again().unwrap_or_default() };
        let samples = all.bytes.saturating_sub(found.bytes).checked_div(self.sample_bytes).unwrap_or(0);
        RecordingCounts {
            missing: all.missing.saturating_add(all.packets.saturating_sub(found.packets)),
            missing_samples: all.missing_samples.saturating_add(samples),
            gaps: found.gaps + u64::from((found.packets, found.gaps) != (all.packets, all.gaps)),
            ..found
        }
    }

    /// Counts the packets that another program has left in the file. `None`: another file.
    fn counted_again(&self) -> Option<RecordingCounts> {
        let mut found = RecordingCounts::default();
        let mut reader = RecordingReader::open(self.output.has_name().then(|| self.path())?).ok()?;
        while let Ok(Some(entry)) = reader.next_entry() {
            let is_packet = matches!(entry, RecordingEntry::Packet(_));
            found.packets += u64::from(is_packet);
            found.bytes += if is_packet { reader.payload().len() as u64 } else { 0 };
            found.gaps += u64::from(matches!(entry, RecordingEntry::Gap(_)));
        }
        (found.packets <= self.counts.packets).then_some(found)
    }

    /// Writes the description of the packets that follow.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn stream(&mut self, info: &StreamInfo) -> Result<(), FormatError> {
        let text = serde_json::to_vec(info).map_err(|e| self.error(e.into()))?;
        self.record(&Head { kind: STREAM, ..Head::default() }, &text)
    }

    /// Writes a packet of up to [`LinkOptions::PACKET_MAX`] bytes.
    ///
    /// # Errors
    /// The errors of [`RecordingWriter::stream`].
    pub fn packet(&mut self, packet: &RecordedPacket, payload: &[u8]) -> Result<(), FormatError> {
        let RecordedPacket { sequence, sample_index, time_ns, received_ns } = *packet;
        let words = [sequence, sample_index, time_ns.cast_unsigned(), received_ns];
        self.counts.packets += 1;
        self.counts.bytes += payload.len() as u64;
        self.record(&Head { kind: PACKET, words, ..Head::default() }, payload)
    }

    /// Writes that packets are missing at this position.
    ///
    /// # Errors
    /// The errors of [`RecordingWriter::stream`].
    pub fn gap(&mut self, gap: &Gap) -> Result<(), FormatError> {
        self.counts.missing = self.counts.missing.saturating_add(gap.packets);
        self.counts.missing_samples = self.counts.missing_samples.saturating_add(gap.samples);
        self.counts.gaps += 1;
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
    /// The errors of [`RecordingWriter::stream`].
    pub fn restart(&mut self) -> Result<(), FormatError> {
        self.record(&Head { kind: RESTART, ..Head::default() }, &[])
    }

    /// Passes all written data to the system.
    ///
    /// # Errors
    /// The errors of [`RecordingWriter::stream`].
    pub fn flush(&mut self) -> Result<(), FormatError> {
        if self.is_failed {
            self.buffer.clear();
            self.ends.clear();
            return Err(self.error(io::ErrorKind::WriteZero.into()));
        }
        let before = self.written;
        let outcome = self.output.write_all(&self.buffer, &mut self.written);
        // A reader ignores an incomplete record.
        let whole = self.ends.iter().rev().find(|(end, _)| *end <= self.written);
        let end = whole.map_or(before, |(end, _)| *end);
        self.kept = whole.map_or(self.kept, |(_, counts)| *counts);
        self.buffer.clear();
        self.ends.clear();
        outcome.map_err(|source| {
            self.is_failed = true;
            // An error of `cut` cannot be reported beside the error of the write.
            let _ = self.output.cut(end);
            self.written = end;
            self.error(source)
        })
    }

    /// Writes the end record, and waits until the file is on the disk. Returns the size in bytes.
    ///
    /// # Errors
    /// The errors of [`RecordingWriter::stream`].
    pub fn finish(&mut self) -> Result<u64, FormatError> {
        let words = [self.counts.packets, self.counts.missing, 0, 0];
        self.record(&Head { kind: END, words, ..Head::default() }, &[])?;
        self.output.forget_names();
        self.sync_disk()?;
        Ok(self.written)
    }

    fn record(&mut self, head: &Head, body: &[u8]) -> Result<(), FormatError> {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&Head { length: body.len() as u32, ..*head }.bytes());
        self.buffer.extend_from_slice(body);
        self.buffer.resize(self.buffer.len().next_multiple_of(ALIGN), 0);
        let record = &mut self.buffer[start..];
        self.checksum.update(record);
        record[head.checksum_place()].copy_from_slice(&self.checksum.clone().finalize().to_le_bytes());
        self.ends.push((self.written + self.buffer.len() as u64, self.counts));
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        if self.timer.written() { self.pass() } else { Ok(()) }
    }

    fn error(&self, source: io::Error) -> FormatError {
        FormatError::Write { path: self.output.path.clone(), written: self.written, source }
    }
}

/// Passes the packets written so far to the system, also after an error of the packets' source.
impl Drop for RecordingWriter {
    fn drop(&mut self) {
        // An error needs no report: without an end record, a reader finds the recording truncated.
        let _ = self.flush();
    }
}

/// A reader of a recording, up to the truncation if there is one. See [`RecordingWriter`].
///
/// Every record is checked before it is returned: damage is reported as an error, never as an
/// entry.
pub struct RecordingReader<R = BufReader<Box<dyn Read + Send>>> {
    path: PathBuf,
    input: R,
    info: RecordingInfo,
    body: Vec<u8>,
    /// The checksum of all bytes read, except the checksums of the records; `None`: the recording
    /// has no checksums.
    checksum: Option<Hasher>,
    /// The number of bytes read.
    read: u64,
    packets: u64,
    missing: u64,
    ended: bool,
    /// The position of the incomplete record.
    truncated_at: Option<u64>,
}

impl RecordingReader {
    /// Opens a recording.
    ///
    /// # Errors
    /// The file does not exist, or is not a recording of this version.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        let open = |source| FormatError::open(path, "open", source);
        let file = StoppableFile::open(path).map_err(open)?;
        if file.file().metadata().map_err(open)?.is_dir() {
            return Err(FormatError::Directory { path: path.into() });
        }
        Self::new(BufReader::with_capacity(BUFFER_BYTES, Box::new(file)), path)
    }
}

impl<R: Read> RecordingReader<R> {
    /// Reads a recording from a stream; `path` names it in errors.
    ///
    /// # Errors
    /// The stream is not a recording of this version, or its description is damaged.
    pub fn new(input: R, path: &Path) -> Result<Self, FormatError> {
        let mut reader = Self {
            path: path.into(),
            input,
            info: RecordingInfo::new(TypeName::of::<u8>()),
            body: Vec::new(),
            checksum: None,
            read: 0,
            packets: 0,
            missing: 0,
            ended: false,
            truncated_at: None,
        };
        reader.read_info()?;
        Ok(reader)
    }

    /// Returns the description of the recorded port.
    pub fn info(&self) -> &RecordingInfo {
        &self.info
    }

    /// Returns the payload of the packet returned last.
    pub fn payload(&self) -> &[u8] {
        &self.body
    }

    /// Returns whether the recording has checksums. Without checksums, damage within packets and
    /// streams is not detected.
    pub fn has_checksums(&self) -> bool {
        self.checksum.is_some()
    }

    /// Returns whether the end record is missing: the writer was killed, or the disk was full.
    /// Valid once there are no more entries.
    pub fn is_truncated(&self) -> bool {
        self.truncated_at.is_some()
    }

    /// Returns the error of a truncated recording, with the position of the truncation. Valid once
    /// there are no more entries.
    pub fn truncation(&self) -> Option<FormatError> {
        self.truncated_at.map(|at| FormatError::Recording {
            path: self.path.clone(),
            problem: format!("the recording is truncated at byte {at}, and its end is missing"),
            remedy: truncation_remedy(&self.path, "records"),
        })
    }

    /// Returns the next entry; `None` at the end of the file. An incomplete entry is left out.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn next_entry(&mut self) -> Result<Option<RecordingEntry>, FormatError> {
        if self.ended || self.truncated_at.is_some() {
            return Ok(None);
        }
        let at = self.read;
        let mut bytes = [0; RECORD_BYTES];
        if !self.fill(&mut bytes)? {
            self.truncated_at = Some(at);
            return Ok(None);
        }
        let head = Head::parse(&bytes).ok_or_else(|| self.damaged(at, "there is no record"))?;
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
            // A truncated recording has no end record.
            if self.body.last_chunk().and_then(Head::parse).is_some_and(|last| last.kind == END) {
                return Err(self.damaged(at, "a record is longer than the rest of the file"));
            }
            self.truncated_at = Some(at);
            return Ok(None);
        }
        self.verify(at, &head, &mut bytes)?;
        self.body.truncate(length);
        let [first, second, third, fourth] = head.words;
        Ok(Some(match head.kind {
            STREAM => {
                let info = serde_json::from_slice(&self.body);
                RecordingEntry::Stream(info.map_err(|e| self.damaged(at, &format!("a stream: {e}")))?)
            }
            PACKET => {
                self.packets += 1;
                RecordingEntry::Packet(RecordedPacket {
                    sequence: first,
                    sample_index: second,
                    time_ns: third.cast_signed(),
                    received_ns: fourth,
                })
            }
            GAP => {
                let reason = match head.extra {
                    0 => GapReason::Overflow,
                    1 => GapReason::PeerRestart,
                    2 => GapReason::Transport,
                    3 => GapReason::Late,
                    other => return Err(self.damaged(at, &format!("a gap has the reason {other}"))),
                };
                self.missing = self.missing.saturating_add(second);
                RecordingEntry::Gap(Gap { first, packets: second, samples: third, reason })
            }
            RESTART => RecordingEntry::Restart,
            END => {
                self.ended = true;
                self.verify_end(first, second)?;
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
        let mut prefix = Vec::with_capacity(PREFIX_BYTES);
        let read = (&mut self.input).take(PREFIX_BYTES as u64).read_to_end(&mut prefix);
        self.read += read.map_err(|source| self.read_error(source))? as u64;
        let mut prefix = match prefix.first_chunk::<PREFIX_BYTES>() {
            Some(prefix) if prefix[..8] == MAGIC => *prefix,
            _ if prefix.is_empty() => return Err(FormatError::Empty { path: self.path.clone() }),
            _ if MAGIC.starts_with(prefix.get(..8).unwrap_or(&prefix)) => {
                return Err(foreign(&self.path, "it ends within its first bytes".into()));
            }
            _ => {
                let (problem, remedy) = file_kind::of_no_recording(&prefix, &self.path);
                return Err(FormatError::Recording { path: self.path.clone(), problem, remedy });
            }
        };
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
        let stated = u16::from_le_bytes([prefix[10], prefix[11]]);
        if stated != 0 {
            prefix[INFO_CHECKSUM].fill(0);
            let mut checksum = Hasher::new();
            checksum.update(&prefix);
            checksum.update(&self.body);
            if info_checksum(&checksum) != stated {
                return Err(self.wrong("its description is damaged: the checksum is wrong".into()));
            }
            self.checksum = Some(checksum);
        }
        self.body.truncate(length);
        self.info = serde_json::from_slice(&self.body)
            .map_err(|error| foreign(&self.path, format!("its description is wrong ({error})")))?;
        self.body.clear();
        Ok(())
    }

    /// Verifies the checksum of a record. In recordings without checksums, the field is zero.
    fn verify(&mut self, at: u64, head: &Head, bytes: &mut [u8; RECORD_BYTES]) -> Result<(), FormatError> {
        let place = &mut bytes[head.checksum_place()];
        let stated = place.to_vec();
        place.fill(0);
        let found = self.checksum.as_mut().map_or(0, |checksum| {
            checksum.update(bytes);
            checksum.update(&self.body);
            checksum.clone().finalize()
        });
        if stated == found.to_le_bytes() {
            return Ok(());
        }
        Err(self.damaged(at, "the record there was changed, or does not follow the one before it"))
    }

    /// Verifies the counts of the end record, and that nothing follows it.
    fn verify_end(&mut self, packets: u64, missing: u64) -> Result<(), FormatError> {
        if (packets, missing) != (self.packets, self.missing) {
            return Err(self.wrong(format!(
                "the recording has {} packets and {} missing, but had {packets} and {missing} when it was ended",
                self.packets, self.missing
            )));
        }
        let end = self.read;
        if self.fill(&mut [0])? {
            return Err(self.damaged(end, "the file goes on behind the end of the recording"));
        }
        Ok(())
    }

    /// Reads a body with its padding; returns false if the file ends before that.
    fn read_body(&mut self, length: usize) -> Result<bool, FormatError> {
        self.body.clear();
        let padded = length.next_multiple_of(ALIGN);
        // The memory grows with the bytes that are read, not with a length that may be wrong.
        let outcome = (&mut self.input).take(padded as u64).read_to_end(&mut self.body);
        let read = outcome.map_err(|source| self.read_error(source))?;
        self.read += read as u64;
        Ok(read == padded)
    }

    /// Fills `bytes`; returns false if the file ends before that.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, FormatError> {
        match self.input.read_exact(bytes) {
            Ok(()) => {
                self.read += bytes.len() as u64;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
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
            remedy: "the part before can be used: truncate it there".into(),
        }
    }

    /// Returns the error for damage without a position in the file.
    fn wrong(&self, problem: String) -> FormatError {
        let remedy = "copy it again, or record it again".into();
        FormatError::Recording { path: self.path.clone(), problem, remedy }
    }
}

/// Returns the 2-byte checksum of prefix and description, which is never zero.
fn info_checksum(checksum: &Hasher) -> u16 {
    (checksum.clone().finalize() as u16).max(1)
}

#[cfg(test)]
mod tests;

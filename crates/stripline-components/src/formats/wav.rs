//! WAV files of audio.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::error::FormatError;
use super::output::{Existing, OutputFile, is_pipe};
use super::sample_format::is_clipped;

/// The encoding of a sample in a WAV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WavEncoding {
    /// 16-bit PCM: ±1 is full scale. Larger values are clipped, and NaN counts as 0.
    #[default]
    Pcm16,
    /// 32-bit IEEE float, unchanged.
    Float32,
}

/// The settings of a WAV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WavSettings {
    /// The sample rate in Hz, 1 to 10^8.
    pub sample_rate_hz: u32,
    /// The number of channels: 1 (mono), 2 (stereo), or up to 256.
    pub channels: u16,
    /// The encoding of the samples.
    pub encoding: WavEncoding,
}

impl Default for WavSettings {
    /// Returns 48 kHz, mono, 16 bits.
    fn default() -> Self {
        Self { sample_rate_hz: 48_000, channels: 1, encoding: WavEncoding::Pcm16 }
    }
}

/// A writer of audio to a WAV file. Beyond 4 GiB, the file becomes RF64 (EBU Tech 3306): the header
/// has room for that from the start.
///
/// The header is updated with every second of audio, so that a killed process leaves a playable
/// file. The header is also updated when the writer is dropped, and on a full disk.
/// [`finish`](Self::finish) does the same and reports errors.
///
/// ```
/// use stripline_components::formats::{WavFileWriter, WavSettings};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("audio.wav");
///
/// let mut writer = WavFileWriter::create(&path, &WavSettings::default())?;
/// writer.write(&[0.0, 0.5, -0.5])?;
/// assert_eq!(writer.finish()?, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WavFileWriter {
    output: OutputFile,
    /// The number of header bytes in the buffer.
    unwritten_head: u64,
    settings: WavSettings,
    /// Bytes that are not written to the file yet.
    buffer: Vec<u8>,
    /// The number of audio bytes in the file.
    written: u64,
    /// The number of audio bytes according to the header.
    stated: u64,
    /// The number of samples that the encoding could not hold.
    clipped: u64,
    is_failed: bool,
}

/// The size of the buffer for small writes, in bytes.
const BUFFER_BYTES: usize = 256 << 10;
/// The space for the 64-bit lengths of RF64, in bytes.
const LONG_LENGTHS_BYTES: u32 = 28;

impl WavFileWriter {
    /// Creates a file as [`open`](Self::open) does, and replaces an existing one.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn create(path: impl AsRef<Path>, settings: &WavSettings) -> Result<Self, FormatError> {
        Self::open(path, settings, Existing::Replace)
    }

    /// Opens a file. A file to continue must have been written by this writer with the same
    /// settings.
    ///
    /// # Errors
    /// A setting is out of range. Also if the file exists and `existing` refuses that, cannot be
    /// created or continued, or is a pipe (a WAV header is written last).
    pub fn open(
        path: impl AsRef<Path>,
        settings: &WavSettings,
        existing: Existing,
    ) -> Result<Self, FormatError> {
        let path = path.as_ref();
        let refuse = |parameter, value, valid| {
            Err(FormatError::WavSetting { path: path.to_owned(), parameter, value, valid })
        };
        if !(1..=100_000_000).contains(&settings.sample_rate_hz) {
            return refuse("sample_rate_hz", settings.sample_rate_hz.into(), "1 to 100000000 Hz");
        }
        if !(1..=256).contains(&settings.channels) {
            return refuse("channels", settings.channels.into(), "1 to 256");
        }
        Self::check_path(path)?;
        let head = header(settings, 0);
        let mut output = OutputFile::open_with_head(path, existing, &head)?;
        let length = output.length;
        let audio = length.saturating_sub(head.len() as u64);
        let block = settings.encoding.bytes() * u64::from(settings.channels);
        output.note_found(audio / block, "frame", audio % block);
        let mut writer = Self {
            output,
            unwritten_head: 0,
            settings: *settings,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            written: 0,
            stated: 0,
            clipped: 0,
            // Nothing is written to the file until it is certain that the file can be continued.
            is_failed: length > 0,
        };
        if length > 0 {
            writer.continue_file(length)?;
        } else if !writer.output.has_head {
            writer.buffer.extend_from_slice(&head);
            writer.unwritten_head = head.len() as u64;
            // Write the header at once, so that an interrupted recording can be read.
            if writer.output.is_regular {
                writer.write_buffer()?;
            }
        }
        Ok(writer)
    }

    /// Checks that a file is not a pipe.
    pub(crate) fn check_path(path: &Path) -> Result<(), FormatError> {
        if !is_pipe(path) {
            return Ok(());
        }
        Err(FormatError::Recording {
            path: path.into(),
            problem: "a pipe cannot have the header of a WAV file, which is written last".into(),
            remedy: "give the path of a regular file".into(),
        })
    }

    /// Returns the path of the file, with the number if the file got one.
    pub fn path(&self) -> &Path {
        &self.output.path
    }

    /// Returns a note about an earlier file at this path; `None`: there was no file.
    pub fn found(&self) -> Option<&str> {
        self.output.found.as_deref()
    }

    /// Returns whether writing has failed: later samples are not in the file.
    pub(crate) fn is_failed(&self) -> bool {
        self.is_failed
    }

    /// Returns the number of samples that a reader finds in the file now: as many as its header
    /// counts.
    pub(crate) fn samples_found(&self) -> u64 {
        let own = header(&self.settings, self.stated);
        if self.is_failed && self.output.is_regular {
            let mut head = own.clone();
            let read = File::open(self.path()).and_then(|file| file.read_exact_at(&mut head, 0));
            if read.is_ok() && head != own {
                // Another program has written the file anew.
                return 0;
            }
        }
        let head = own.len() as u64;
        let found = self.output.readable(head + self.stated).saturating_sub(head);
        found / self.settings.encoding.bytes()
    }

    /// Returns the number of frames (samples of each channel) written.
    pub fn frames(&self) -> u64 {
        self.samples() / u64::from(self.settings.channels)
    }

    /// Returns the number of samples of all channels.
    pub fn samples(&self) -> u64 {
        (self.written + self.buffer.len() as u64) / self.settings.encoding.bytes()
    }

    /// Returns the number of samples that the encoding could not hold.
    pub fn clipped(&self) -> u64 {
        self.clipped
    }

    /// Writes samples. Several channels are interleaved, the left one first.
    ///
    /// # Errors
    /// Writing fails, for example on a full disk, or `samples` does not hold whole frames.
    pub fn write(&mut self, samples: &[f32]) -> Result<(), FormatError> {
        let channels = usize::from(self.settings.channels);
        if !samples.len().is_multiple_of(channels) {
            return Err(FormatError::WavSetting {
                path: self.output.path.clone(),
                parameter: "the number of samples",
                value: samples.len() as u64,
                valid: "a multiple of the number of channels",
            });
        }
        for part in samples.chunks(BUFFER_BYTES / 4) {
            match self.settings.encoding {
                WavEncoding::Pcm16 => {
                    self.clipped += part.iter().filter(|x| is_clipped(**x)).count() as u64;
                    // The cast saturates, and converts NaN to 0.
                    let rounded = part.iter().map(|x| (x * 32_768.0).round_ties_even() as i16);
                    self.buffer.extend(rounded.flat_map(i16::to_le_bytes));
                }
                WavEncoding::Float32 => self.buffer.extend(part.iter().flat_map(|x| x.to_le_bytes())),
            }
            if self.buffer.len() >= BUFFER_BYTES {
                self.write_buffer()?;
            }
        }
        let second = u64::from(self.settings.sample_rate_hz) * self.block();
        if self.written + self.buffer.len() as u64 - self.stated >= second { self.flush() } else { Ok(()) }
    }

    /// Writes all samples to the operating system and updates the header.
    ///
    /// # Errors
    /// Writing fails.
    pub fn flush(&mut self) -> Result<(), FormatError> {
        self.write_buffer()?;
        self.state_length().map_err(|source| self.failed_write(source))
    }

    /// Completes the file, and waits until it is on the disk. Returns the number of frames.
    ///
    /// # Errors
    /// Writing fails.
    pub fn finish(mut self) -> Result<u64, FormatError> {
        self.complete()?;
        Ok(self.frames())
    }

    /// Completes the file as [`finish`](Self::finish) does, and keeps it open.
    ///
    /// # Errors
    /// Writing fails.
    pub fn complete(&mut self) -> Result<(), FormatError> {
        // The path may have been renamed since the last check.
        self.output.forget_names();
        self.sync_disk()
    }

    /// Writes all samples and the header, and waits until they are on the disk.
    ///
    /// # Errors
    /// Writing fails.
    pub fn sync_disk(&mut self) -> Result<(), FormatError> {
        self.flush()?;
        self.output.sync().map_err(|source| self.failed_write(source))
    }

    /// Returns the size of a frame in bytes.
    fn block(&self) -> u64 {
        self.settings.encoding.bytes() * u64::from(self.settings.channels)
    }

    /// Continues after the audio of an existing file.
    fn continue_file(&mut self, length: u64) -> Result<(), FormatError> {
        let empty = header(&self.settings, 0);
        let mut found = vec![0; empty.len()];
        let audio = length.saturating_sub(empty.len() as u64);
        let whole = audio - audio % self.block();
        let read = self.output.file.file().read_exact_at(&mut found, 0);
        if read.is_ok() && has_chunks_behind(&found) {
            return Err(FormatError::Recording {
                path: self.output.path.clone(),
                problem: "another program has put chunks behind its samples, such as a title".into(),
                remedy: "set `existing` to number".into(),
            });
        }
        // Everything but the lengths must match.
        let [found, empty] = [&found, &empty].map(|bytes| without_lengths(bytes, self.settings.encoding));
        if read.is_err() || found != empty {
            return Err(FormatError::Recording {
                path: self.output.path.clone(),
                problem: "this is not a WAV file with the same rate, channels and encoding".into(),
                remedy: "set `existing` to number".into(),
            });
        }
        let end = empty.len() as u64 + whole;
        let mut file = self.output.file.file();
        let cut = file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end)));
        cut.map_err(|source| FormatError::open(&self.output.path, "create", source))?;
        self.written = whole;
        self.is_failed = false;
        self.flush()
    }

    fn write_buffer(&mut self) -> Result<(), FormatError> {
        if self.is_failed {
            self.buffer.clear();
            let source = io::ErrorKind::StorageFull.into();
            return Err(FormatError::Write { path: self.output.path.clone(), written: self.written, source });
        }
        let mut done = 0;
        let outcome = self.output.write_all(&self.buffer, &mut done);
        // The header comes before the audio, and may be in the first write.
        let head = done.min(self.unwritten_head);
        self.unwritten_head -= head;
        self.written += done - head;
        self.buffer.clear();
        outcome.map_err(|source| self.failed_write(source))
    }

    /// Writes the header for the audio in the file.
    fn state_length(&mut self) -> io::Result<()> {
        if self.output.is_regular {
            self.output.write_head(&header(&self.settings, self.written))?;
        }
        self.stated = self.written;
        Ok(())
    }

    /// Shortens the file to whole frames, and returns the error.
    fn failed_write(&mut self, source: io::Error) -> FormatError {
        if !self.is_failed {
            self.is_failed = true;
            self.written -= self.written % self.block();
            let end = header(&self.settings, 0).len() as u64 + self.written;
            // Errors of these calls cannot be reported beside the error of the write. A file that
            // another program has changed may have no header.
            if self.output.cut(end).unwrap_or(false) {
                let _ = self.state_length();
            }
        }
        FormatError::Write { path: self.output.path.clone(), written: self.written, source }
    }
}

impl Drop for WavFileWriter {
    fn drop(&mut self) {
        // Errors cannot be reported here; `finish` reports them.
        let _ = self.flush();
    }
}

impl WavEncoding {
    /// Returns the size of a sample in bytes.
    fn bytes(self) -> u64 {
        match self {
            Self::Pcm16 => 2,
            Self::Float32 => 4,
        }
    }
}

/// Returns the header of a file with this number of audio bytes. The size of the header does not
/// depend on it.
fn header(settings: &WavSettings, audio: u64) -> Vec<u8> {
    let WavSettings { sample_rate_hz, channels, encoding } = *settings;
    let bytes = encoding.bytes() as u16;
    let block = channels * bytes;
    let mut format = Vec::new();
    let (tag, frames) = match encoding {
        WavEncoding::Pcm16 => (1u16, None),
        WavEncoding::Float32 => (3, Some(audio / u64::from(block))),
    };
    format.extend_from_slice(&tag.to_le_bytes());
    format.extend_from_slice(&channels.to_le_bytes());
    format.extend_from_slice(&sample_rate_hz.to_le_bytes());
    format.extend_from_slice(&sample_rate_hz.wrapping_mul(block.into()).to_le_bytes());
    format.extend_from_slice(&block.to_le_bytes());
    format.extend_from_slice(&(bytes * 8).to_le_bytes());
    let mut behind = Vec::new();
    let short = |length: u64| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    if let Some(frames) = frames {
        // Encodings other than PCM have an extension size in the format, and a chunk `fact` with
        // the length in frames.
        format.extend_from_slice(&[0; 2]);
        behind.extend_from_slice(b"fact\x04\0\0\0");
        behind.extend_from_slice(&short(frames));
    }
    // Count from the form type (`WAVE`) to the start of the audio.
    let before = 4 + 8 + u64::from(LONG_LENGTHS_BYTES) + 8 + (format.len() + behind.len()) as u64 + 8;
    let all = before + audio;
    let is_long = all > u64::from(u32::MAX);
    let mut text = Vec::new();
    text.extend_from_slice(if is_long { b"RF64" } else { b"RIFF" });
    text.extend_from_slice(&if is_long { [0xff; 4] } else { short(all) });
    text.extend_from_slice(b"WAVE");
    text.extend_from_slice(if is_long { b"ds64" } else { b"JUNK" });
    text.extend_from_slice(&LONG_LENGTHS_BYTES.to_le_bytes());
    let lengths = [all, audio, audio / u64::from(block)].map(|length| if is_long { length } else { 0 });
    lengths.iter().for_each(|length| text.extend_from_slice(&length.to_le_bytes()));
    text.extend_from_slice(&[0; 4]);
    text.extend_from_slice(b"fmt ");
    text.extend_from_slice(&(format.len() as u32).to_le_bytes());
    text.extend_from_slice(&format);
    text.extend_from_slice(&behind);
    text.extend_from_slice(b"data");
    text.extend_from_slice(&if is_long { [0xff; 4] } else { short(audio) });
    text
}

/// Returns whether the file is longer than its audio, according to a header of this writer. A
/// killed writer leaves both lengths equally old.
fn has_chunks_behind(header: &[u8]) -> bool {
    let number = |at: usize, size: usize| {
        header[at..at + size].iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let end = header.len();
    let (all, audio) = match header.starts_with(b"RF64") {
        true => (number(20, 8), number(28, 8)),
        false => (number(4, 4), number(end - 4, 4)),
    };
    all.saturating_add(8) > audio.saturating_add(end as u64)
}

/// Returns a header of this writer without the lengths in it. After a kill, some lengths may be out
/// of date.
fn without_lengths(header: &[u8], encoding: WavEncoding) -> Vec<u8> {
    let mut fixed = header.to_vec();
    let end = fixed.len();
    // The number of frames in the chunk `fact` comes before the word `data`.
    let frames = if encoding == WavEncoding::Float32 { end - 12..end - 8 } else { end..end };
    for lengths in [0..8, 12..16, 20..20 + LONG_LENGTHS_BYTES as usize, frames, end - 4..end] {
        fixed[lengths].fill(0);
    }
    fixed
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pcm_reads_back_clipped_and_rounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wav");
        let mut writer = WavFileWriter::create(&path, &WavSettings::default()).unwrap();
        writer.write(&[0.0, 0.5, -1.0, 1.0, -9.0, f32::NAN, 1.6 / 32_768.0]).unwrap();
        assert_eq!(writer.finish().unwrap(), 7);
        let mut reader = hound::WavReader::open(&path).unwrap();
        assert_eq!((reader.spec().sample_rate, reader.spec().channels), (48_000, 1));
        let samples: Vec<i16> = reader.samples().map(Result::unwrap).collect();
        assert_eq!(samples, [0, 16_384, -32_768, 32_767, -32_768, 0, 2]);
    }

    #[test]
    fn a_dropped_and_a_forgotten_writer_leave_a_file_that_plays() {
        let dir = tempfile::tempdir().unwrap();
        let settings = WavSettings { sample_rate_hz: 8_000, channels: 2, encoding: WavEncoding::Float32 };
        for (name, forget, frames) in [("dropped", false, 9_000), ("killed", true, 8_000)] {
            let path = dir.path().join(name);
            let mut writer = WavFileWriter::create(&path, &settings).unwrap();
            for _ in 0..9 {
                writer.write(&[0.25; 2_000]).unwrap();
            }
            assert_eq!(writer.frames(), 9_000);
            if forget {
                std::mem::forget(writer);
            } else {
                drop(writer);
            }
            let mut reader = hound::WavReader::open(&path).unwrap();
            assert_eq!(reader.duration(), frames, "{name}");
            assert!(reader.samples::<f32>().all(|x| x.unwrap() == 0.25));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported_with_its_path() {
        let mut writer = WavFileWriter::create("/dev/full", &WavSettings::default()).unwrap();
        writer.write(&[0.0; 10]).unwrap();
        let message = writer.finish().unwrap_err().to_string();
        assert!(message.starts_with("/dev/full: cannot write after 0 bytes: No space left"), "{message}");
        let mut writer = WavFileWriter::create("/dev/full", &WavSettings::default()).unwrap();
        assert!(writer.write(&[0.0; 100_000]).is_err());
        drop(writer);
    }

    #[test]
    fn misuse_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wav");
        let default = WavSettings::default();
        for (settings, word) in [
            (WavSettings { channels: 0, ..default }, "channels"),
            (WavSettings { channels: 257, ..default }, "channels"),
            (WavSettings { sample_rate_hz: 0, ..default }, "sample_rate_hz"),
        ] {
            let message = WavFileWriter::create(&path, &settings).unwrap_err().to_string();
            assert!(message.contains(word) && message.contains("a.wav"), "{message}");
        }
        assert!(!path.exists());
        assert!(matches!(WavFileWriter::create(dir.path(), &default), Err(FormatError::Directory { .. })));
        let mut writer = WavFileWriter::create(&path, &WavSettings { channels: 2, ..default }).unwrap();
        assert!(writer.write(&[0.0; 3]).unwrap_err().to_string().contains("multiple"));
    }

    #[test]
    fn a_file_beyond_4_gib_has_the_lengths_of_rf64() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long.wav");
        for encoding in [WavEncoding::Pcm16, WavEncoding::Float32] {
            let settings = WavSettings { encoding, ..WavSettings::default() };
            let mut writer = WavFileWriter::create(&path, &settings).unwrap();
            writer.write(&[0.5]).unwrap();
            // Make the file as if 4 GiB had been written: it is sparse.
            writer.flush().unwrap();
            let audio = (1 << 32) + 4;
            writer.output.file.file().set_len(header(&settings, 0).len() as u64 + audio).unwrap();
            writer.output.file.file().seek(SeekFrom::End(0)).unwrap();
            writer.written = audio;
            writer.write(&[0.25]).unwrap();
            let audio = audio + encoding.bytes();
            assert_eq!(writer.finish().unwrap(), audio / encoding.bytes());
            let mut start = [0; 104];
            File::open(&path).unwrap().read_exact_at(&mut start, 0).unwrap();
            assert_eq!(
                (&start[..4], &start[4..8], &start[12..16]),
                (&b"RF64"[..], &[0xff; 4][..], &b"ds64"[..])
            );
            let long = |at: usize| u64::from_le_bytes(start[at..at + 8].try_into().unwrap());
            let length = path.metadata().unwrap().len();
            assert_eq!((long(20), long(28), long(36)), (length - 8, audio, audio / encoding.bytes()));
            let [empty, long] = [header(&settings, 0), start[..header(&settings, 0).len()].to_vec()];
            assert_eq!(without_lengths(&long, encoding), without_lengths(&empty, encoding));
            let other = header(&WavSettings { sample_rate_hz: 44_100, ..settings }, 0);
            assert_ne!(without_lengths(&other, encoding), without_lengths(&empty, encoding));
        }
    }

    #[test]
    fn clipped_samples_are_counted_and_full_scale_is_none() {
        let dir = tempfile::tempdir().unwrap();
        for (encoding, clipped) in [(WavEncoding::Pcm16, 3), (WavEncoding::Float32, 0)] {
            let settings = WavSettings { encoding, ..WavSettings::default() };
            let mut writer = WavFileWriter::create(dir.path().join("a.wav"), &settings).unwrap();
            writer.write(&[1.0, -1.0, 1.001, f32::NAN, -9.0, 0.5]).unwrap();
            assert_eq!((writer.clipped(), writer.samples()), (clipped, 6));
        }
    }

    #[test]
    fn a_file_is_continued_behind_its_last_whole_frame() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wav");
        let settings = WavSettings { channels: 2, encoding: WavEncoding::Float32, ..WavSettings::default() };
        let open = |settings| WavFileWriter::open(&path, settings, Existing::Append);
        let mut writer = open(&settings).unwrap();
        writer.write(&[0.25; 4]).unwrap();
        writer.finish().unwrap();
        // A killed writer leaves audio that the header does not count, and an incomplete frame.
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(&0.5f32.to_le_bytes().repeat(2)).unwrap();
        file.write_all(&[1; 7]).unwrap();
        let mut writer = open(&settings).unwrap();
        writer.write(&[0.75; 2]).unwrap();
        assert_eq!(writer.finish().unwrap(), 4);
        let samples: Vec<f32> =
            hound::WavReader::open(&path).unwrap().samples().map(Result::unwrap).collect();
        assert_eq!(samples, [0.25, 0.25, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75]);
        let other = open(&WavSettings { channels: 1, ..settings }).unwrap_err().to_string();
        assert!(other.contains("set `existing` to number"), "{other}");
        assert_eq!(hound::WavReader::open(&path).unwrap().duration(), 4);
    }

    #[test]
    fn chunks_behind_the_audio_do_not_become_audio() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wav");
        let settings = WavSettings::default();
        let mut writer = WavFileWriter::create(&path, &settings).unwrap();
        writer.write(&[0.25; 10]).unwrap();
        writer.finish().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(b"LIST\x04\0\0\0INFO");
        let all = (bytes.len() as u32 - 8).to_le_bytes();
        bytes[4..8].copy_from_slice(&all);
        std::fs::write(&path, &bytes).unwrap();
        let refused = WavFileWriter::open(&path, &settings, Existing::Append).unwrap_err().to_string();
        assert!(refused.contains("chunks behind its samples") && refused.ends_with("number"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        let mut long = header(&settings, 1 << 33);
        assert!(!has_chunks_behind(&long));
        long[20] += 10;
        assert!(has_chunks_behind(&long));
    }

    #[test]
    fn samples_that_the_header_does_not_count_are_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wav");
        let mut writer = WavFileWriter::create(&path, &WavSettings::default()).unwrap();
        for (samples, found) in [(20, 0), (200_000, 200_020), (5, 200_020)] {
            writer.write(&vec![0.25; samples]).unwrap();
            assert_eq!(writer.samples_found(), found);
            assert_eq!(hound::WavReader::open(&path).unwrap().duration(), found as u32);
        }
        writer.complete().unwrap();
        assert_eq!(writer.samples_found(), 200_025);
    }

    #[test]
    fn a_file_that_another_program_has_written_anew_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wav");
        for text in [&b"mine"[..], &[b'x'; 300], &[b'x'; 100]] {
            let mut writer = WavFileWriter::create(&path, &WavSettings::default()).unwrap();
            writer.write(&[0.25; 20]).unwrap();
            writer.flush().unwrap();
            std::fs::write(&path, text).unwrap();
            writer.write(&[0.25; 5]).unwrap();
            let changed = writer.complete().unwrap_err().to_string();
            assert!(changed.contains("meanwhile: let one program write it"), "{changed}");
            assert_eq!(writer.samples_found(), 0);
            drop(writer);
            assert_eq!(std::fs::read(&path).unwrap(), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn packets_do_not_matter(sizes in prop::collection::vec(0usize..3_000, 0..8)) {
            let dir = tempfile::tempdir().unwrap();
            let settings = WavSettings { sample_rate_hz: 1_000, ..Default::default() };
            let total: usize = sizes.iter().sum();
            let samples: Vec<f32> = (0..total).map(|i| (i as f32 * 0.01).sin()).collect();
            let write = |name: &str, sizes: &[usize]| {
                let path = dir.path().join(name);
                let mut writer = WavFileWriter::create(&path, &settings).unwrap();
                let mut rest = &samples[..];
                for size in sizes {
                    let (packet, after) = rest.split_at(*size);
                    writer.write(packet).unwrap();
                    rest = after;
                }
                writer.finish().unwrap();
                std::fs::read(path).unwrap()
            };
            prop_assert!(write("packets", &sizes) == write("whole", &[total]));
        }
    }
}

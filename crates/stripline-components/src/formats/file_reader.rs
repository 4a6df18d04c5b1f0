//! Reading the samples of files of all formats.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::num::NonZeroU16;
use std::ops::Range;
use std::path::{Path, PathBuf};

use stripline::payload::Scalar;

use super::encoding::{self, Encoding};
use super::error::FormatError;
use super::file_input::{FileFrames, Input, Regular, Stream};
use super::file_kind::{self, FileKind, HEAD_BYTES, is_sigmf};
use super::gzip::{Start, Unpacked};
use super::header::{self, Header};
use super::output::truncation_remedy;
use super::segments::{FilePlace, Segments};
use super::sigmf::{SigMfMeta, SigMfRecording};
use crate::stoppable::StoppableFile;

/// The options for reading a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileReaderOptions {
    /// The type of the samples. `None`: from the file's header, the SigMF metadata, or the name.
    pub format: Option<Scalar>,
    /// The type of the samples of a raw file that has no type in its name. `None`: such a file is
    /// refused.
    pub fallback: Option<Scalar>,
    /// The number of interleaved channels. `None`: from the file's header or the SigMF metadata; a
    /// raw file has one channel then.
    pub channels: Option<NonZeroU16>,
    /// The number of times to play the file; 0: for ever. A pipe, a device or a compressed file can
    /// be played only once.
    pub repeat: u64,
    /// Whether to drop an incomplete sample at the end of the file instead of refusing the file.
    pub truncate_partial: bool,
}

impl Default for FileReaderOptions {
    /// Returns: play once, with the type and channels of the file, whole samples only.
    fn default() -> Self {
        Self { format: None, fallback: None, channels: None, repeat: 1, truncate_partial: false }
    }
}

/// A reader of the samples of a file: raw, SigMF, WAV (RIFF, RF64, BW64), or numpy's `.npy`. All
/// formats but SigMF may be compressed with gzip. A pipe, a device or standard input (`-`) has raw
/// samples.
///
/// The first bytes decide the format of a regular file. The file is played up to its length at the
/// time of opening. Bytes that are appended later are left out, and a file that shrinks is an
/// error. From a pipe, each read returns the bytes that have arrived, in whole samples.
///
/// ```
/// use stripline_components::formats::{FileReader, FileReaderOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("levels.s16");
/// # std::fs::write(&path, [1, 0, 2, 0])?;
///
/// let mut reader = FileReader::open(&path, &FileReaderOptions { repeat: 2, ..Default::default() })?;
/// assert_eq!((reader.scalar().to_string(), reader.channels()), ("s16".to_string(), 1));
/// let mut bytes = [0; 100];
/// assert_eq!(reader.read(&mut bytes)?, 8);
/// assert_eq!(bytes[..8], [1, 0, 2, 0, 1, 0, 2, 0]);
/// assert_eq!(reader.read(&mut bytes)?, 0, "the end");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FileReader {
    /// The file with the samples.
    path: PathBuf,
    encoding: Encoding,
    /// The name of the type, for messages.
    type_name: String,
    channels: usize,
    sample_rate_hz: Option<f64>,
    /// Whether two channels may be the parts of complex samples.
    has_header: bool,
    sigmf: Option<SigMfMeta>,
    input: Input,
    segments: Segments,
    /// The number of stored bytes read, over all passes.
    bytes: u64,
    notes: Vec<String>,
    /// The number of sample bytes according to the header, and in the file, if the file has fewer.
    cut: Option<(u64, u64)>,
    /// The number of sample bytes according to the header of a stream.
    announced: Option<u64>,
}

/// The samples in a file, before the file is opened for reading.
struct Contents {
    path: PathBuf,
    encoding: Encoding,
    channels: usize,
    header: Option<Header>,
    sigmf: Option<SigMfMeta>,
    /// The byte range of the samples within an archive.
    archived: Option<Range<u64>>,
    notes: Vec<String>,
}

impl Contents {
    /// Returns samples without a header. Their type comes from the options or the name of the file.
    fn raw(path: &Path, name: &Path, options: &FileReaderOptions) -> Result<Self, FormatError> {
        let scalar = options.format.or_else(|| encoding::of_ending(name)).or(options.fallback);
        let scalar = scalar.ok_or_else(|| FormatError::NoSampleFormat { path: name.to_owned() })?;
        let channels = options.channels.map_or(1, |channels| channels.get().into());
        Ok(Self::of(path, Encoding::raw(scalar), channels))
    }

    fn of(path: &Path, encoding: Encoding, channels: usize) -> Self {
        let (header, sigmf, archived) = (None, None, None);
        Self { path: path.into(), encoding, channels, header, sigmf, archived, notes: Vec::new() }
    }

    fn headed(path: &Path, header: Header) -> Self {
        let contents = Self::of(path, header.encoding, header.channels);
        Self { header: Some(header), ..contents }
    }

    /// Returns the size of a frame (a sample of each channel) in the file, in bytes.
    fn frame_bytes(&self) -> u64 {
        (self.encoding.stored_bytes() * self.channels) as u64
    }
}

impl FileReader {
    /// Opens a file. The first read of a FIFO waits for a writer.
    ///
    /// # Errors
    /// The file is missing, empty, or a directory.
    ///
    /// The type is unknown or conflicts with the options, a header or SigMF metadata cannot be
    /// used, or the format has no samples.
    ///
    /// The length is not a multiple of the sample size (unless `truncate_partial` is set).
    ///
    /// A file that can be read only once is to be repeated.
    pub fn open(path: &Path, options: &FileReaderOptions) -> Result<Self, FormatError> {
        if is_sigmf(path) {
            let SigMfRecording { meta, meta_path, data_path, archived, notes } = SigMfRecording::open(path)?;
            check_asked(&meta_path, meta.format, meta.channels as usize, false, options)?;
            let contents = Contents::of(&data_path, meta.encoding(), meta.channels as usize);
            let start = archived.as_ref().map_or(0, |range| range.start);
            let contents = Contents { sigmf: Some(meta), archived, notes, ..contents };
            if data_path.is_dir() {
                return Err(FormatError::Directory { path: data_path });
            }
            if !data_path.is_file() {
                check_once(&data_path, options)?;
                let file = StoppableFile::open(&data_path);
                let file = file.map_err(|source| FormatError::open(&data_path, "open", source))?;
                return Ok(Self::stream(contents, Box::new(file), options, false));
            }
            let (file, length, head) = open_regular(&data_path, start)?;
            // If a data file has a header, the header would be played as samples.
            if file_kind::of_head(&head, &data_path)?.is_some_and(|kind| kind != FileKind::Gzip) {
                let (what, remedy) =
                    ("a file with a header of its own", "play it without its SigMF metadata");
                return Err(FormatError::Foreign { path: data_path, what, remedy });
            }
            return Self::regular(contents, file, length, options);
        }
        let stdin = path == Path::new("-");
        let failed = |source| FormatError::open(path, "open", source);
        // Check before opening, because opening a FIFO waits for a writer.
        if stdin || !path.metadata().map_err(failed)?.file_type().is_file() {
            if path.is_dir() {
                return Err(FormatError::Directory { path: path.to_owned() });
            }
            check_once(path, options)?;
            let contents = Contents::raw(path, path, options)?;
            let file = StoppableFile::open(path).map_err(failed)?;
            return Ok(Self::stream(contents, Box::new(file), options, false));
        }
        let (mut file, length, head) = open_regular(path, 0)?;
        match file_kind::of_head(&head, path)? {
            Some(FileKind::Gzip) => {
                check_once(path, options)?;
                Self::gzip(file, path, options)
            }
            Some(kind) => {
                file.seek(SeekFrom::Start(0)).map_err(failed)?;
                let mut header = read_header(kind, BufReader::new(&mut file), path)?;
                check_asked(path, header.encoding.scalar, header.channels, true, options)?;
                let left_out = behind(kind, &mut file, length, &mut header).map_err(failed)?;
                let mut contents = Contents::headed(path, header);
                contents.notes.extend(left_out);
                Self::regular(contents, file, length, options)
            }
            None => {
                if options.format.is_none() {
                    file_kind::check_name(path)?;
                }
                Self::regular(Contents::raw(path, path, options)?, file, length, options)
            }
        }
    }

    fn gzip(mut file: File, path: &Path, options: &FileReaderOptions) -> Result<Self, FormatError> {
        let failed = |source| FormatError::open(path, "open", source);
        if is_sigmf(&path.with_extension("")) {
            let (what, remedy) = ("a SigMF file compressed with gzip", "unpack it with `gunzip`");
            return Err(FormatError::Foreign { path: path.to_owned(), what, remedy });
        }
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut unpacked = Unpacked::new(BufReader::new(file));
        let mut head = Vec::new();
        unpacked.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(failed)?;
        let kind = file_kind::of_head(&head, path)?;
        let mut all = io::Cursor::new(head).chain(unpacked);
        let contents = match kind {
            Some(FileKind::Gzip) => {
                let (what, remedy) = ("compressed twice with gzip", "unpack it once with `gunzip`");
                return Err(FormatError::Foreign { path: path.to_owned(), what, remedy });
            }
            Some(kind) => {
                let header = read_header(kind, &mut all, path)?;
                check_asked(path, header.encoding.scalar, header.channels, true, options)?;
                Contents::headed(path, header)
            }
            // The name without `.gz` may end with the type, as in `x.cu8.gz`.
            None => Contents::raw(path, &path.with_extension(""), options)?,
        };
        let announced = contents.header.as_ref().and_then(|header| header.bytes);
        let samples = Box::new(Start { unpacked: all, left: announced.unwrap_or(u64::MAX) });
        Ok(Self { announced, ..Self::stream(contents, samples, options, true) })
    }

    fn regular(
        mut contents: Contents,
        file: File,
        file_bytes: u64,
        options: &FileReaderOptions,
    ) -> Result<Self, FormatError> {
        let (start, announced) = match (&contents.header, &contents.archived) {
            (Some(header), _) => (header.start, header.bytes),
            (_, Some(range)) => (range.start, Some(range.end - range.start)),
            _ => (0, Some(file_bytes)),
        };
        let available = file_bytes.saturating_sub(start);
        let (mut cut, mut plays_to_end) = (None, false);
        let length = match announced {
            // The 32-bit length in the header has wrapped around at 4 GiB.
            Some(bytes) if contents.header.is_some() && available.saturating_sub(bytes) >= 1 << 32 => {
                plays_to_end = true;
                contents.notes.push(format!(
                    "its header has {bytes} bytes of samples, but the file is 4 GiB longer: all of it is played"
                ));
                available
            }
            Some(bytes) if bytes <= available => bytes,
            Some(bytes) => {
                cut = Some((bytes, available));
                available
            }
            None => {
                if available > 0 {
                    plays_to_end = true;
                    let note =
                        "its header has no length, as if its writer was killed: it is played up to its end";
                    contents.notes.push(note.to_owned());
                }
                available
            }
        };
        let size = contents.frame_bytes();
        let left_over = length % size;
        let frames = length / size;
        let mut reader = Self::new(contents, Input::Stream(Stream::new(Box::new(io::empty()), true, true)));
        reader.cut = cut;
        let is_cut = cut.is_some() || plays_to_end;
        if left_over != 0 && !options.truncate_partial && !is_cut {
            return Err(reader.frames().partial(left_over, length));
        }
        if frames == 0 {
            return Err(FormatError::Empty { path: reader.path });
        }
        let path = reader.path.clone();
        let regular = Regular::new(file, start, frames * size, left_over, options.repeat)
            .map_err(|source| FormatError::open(&path, "open", source))?;
        reader.input = Input::Regular(regular);
        let notes = reader.segments.limit(frames, reader.sigmf.as_ref());
        reader.notes.extend(notes);
        Ok(reader)
    }

    fn stream(
        contents: Contents,
        source: Box<dyn Read + Send>,
        options: &FileReaderOptions,
        is_checked: bool,
    ) -> Self {
        let is_cut = contents.header.as_ref().is_some_and(|header| header.bytes.is_none());
        Self::new(
            contents,
            Input::Stream(Stream::new(source, options.truncate_partial || is_cut, is_checked)),
        )
    }

    fn new(contents: Contents, input: Input) -> Self {
        let Contents { path, encoding, channels, header, sigmf, notes, .. } = contents;
        let (rate, frequency, time) = match (&header, &sigmf) {
            (Some(header), _) => (header.sample_rate_hz, header.frequency_hz, header.time_ns),
            (_, Some(meta)) => (meta.sample_rate_hz, None, None),
            _ => (None, None, None),
        };
        let segments = match &sigmf {
            Some(meta) => Segments::of_sigmf(meta),
            None => Segments::one(rate, frequency, time),
        };
        let mut reader = Self {
            path,
            encoding,
            type_name: String::new(),
            channels,
            sample_rate_hz: rate,
            has_header: header.is_some(),
            sigmf,
            input,
            segments,
            bytes: 0,
            notes,
            cut: None,
            announced: None,
        };
        reader.type_name = reader.describe();
        reader
    }

    /// Combines the two channels of a file with a header as the real and the imaginary parts of
    /// complex samples. Returns whether the file has two such channels.
    pub fn join_channels(&mut self) -> bool {
        let complex = Scalar::parse(&format!("c{}", self.encoding.scalar));
        let Some(scalar) = complex.filter(|_| self.has_header && self.channels == 2) else { return false };
        self.encoding.scalar = scalar;
        self.channels = 1;
        self.type_name = self.describe();
        true
    }

    /// Returns the file with the samples.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the type of the samples that are returned.
    pub fn scalar(&self) -> Scalar {
        self.encoding.scalar
    }

    /// Returns the type and the number of channels in words.
    pub fn describe(&self) -> String {
        match self.channels {
            1 => self.encoding.scalar.to_string(),
            channels => format!("{} ({channels} channels)", self.encoding.scalar),
        }
    }

    /// Returns the number of interleaved channels.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Returns the sample rate of each channel in Hz, if the file states it.
    pub fn sample_rate_hz(&self) -> Option<f64> {
        self.sample_rate_hz
    }

    /// Returns the metadata of a SigMF recording.
    pub fn sigmf(&self) -> Option<&SigMfMeta> {
        self.sigmf.as_ref()
    }

    /// Returns the error of a truncated file, with the lengths in the header and on the disk.
    /// Report the error after all samples were read.
    pub fn truncation(&self) -> Option<FormatError> {
        let short = self.announced.map(|bytes| (bytes, self.bytes)).filter(|(bytes, read)| read < bytes);
        self.cut.or(short).map(|(header, file)| FormatError::Recording {
            path: self.path.clone(),
            problem: format!(
                "it is truncated: its header has {header} bytes of samples, and the file {file}"
            ),
            remedy: truncation_remedy(&self.path, "samples"),
        })
    }

    /// Returns notes for the user of the file, for example that the header has no length, or that
    /// some metadata cannot be used. Each note is part of a sentence.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the number of samples of all channels in one pass; `None` for a stream.
    pub fn samples_per_pass(&self) -> Option<u64> {
        self.input.pass_bytes().map(|bytes| bytes / self.encoding.stored_bytes() as u64)
    }

    /// Returns the number of samples read, of all channels and over all passes.
    pub fn samples_read(&self) -> u64 {
        self.bytes / self.encoding.stored_bytes() as u64
    }

    /// Returns the number of bytes at the end that are dropped (see
    /// [`FileReaderOptions::truncate_partial`]). For a stream, the number is available at the end.
    pub fn left_over_bytes(&self) -> u64 {
        match &self.input {
            Input::Regular(regular) => regular.left_over,
            Input::Stream(stream) => stream.left_over(),
        }
    }

    /// Returns the index, time and frequency of the next sample.
    pub fn place(&self) -> FilePlace {
        let place = self.segments.place();
        FilePlace { sample_index: place.sample_index.saturating_mul(self.channels as u64), ..place }
    }

    /// Reads samples in their layout in memory into `out`, in whole frames (a sample of each
    /// channel). Returns the number of bytes; 0 after the last pass. A read stops where index, time
    /// or frequency make a step, so that [`place`](Self::place) holds for all samples of a read.
    /// From a stream, a read returns the samples that have arrived.
    ///
    /// # Errors
    /// Reading fails, the file has shrunk, or a stream ended inside a sample or without any samples
    /// (all whole samples before that are returned first). Also if `out` is smaller than one frame.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, FormatError> {
        let (size, stored) = (self.frame_bytes(), self.encoding.stored_bytes() * self.channels);
        let frames = ((out.len() / size) as u64).min(self.segments.frames_left()) as usize;
        if frames == 0 {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "there is no room for one sample");
            return Err(FormatError::Read { path: self.path.clone(), read: self.bytes, source });
        }
        let (path, format, before) = (&*self.path, &*self.type_name, self.bytes);
        let count = self
            .input
            .read(&mut out[..frames * stored], &FileFrames { path, size: stored, format, before })?;
        self.bytes += count as u64;
        self.segments.advance((count / stored) as u64);
        self.encoding.decode(&mut out[..count / stored * size], count);
        Ok(count / stored * size)
    }

    /// Converts numbers that were read to `f32`, as [`Encoding::to_f32`] does.
    pub(crate) fn to_f32(&self, bytes: &[u8], out: &mut [[u8; 4]]) {
        self.encoding.to_f32(bytes, out);
    }

    /// Returns the size of a frame in memory, in bytes.
    pub fn frame_bytes(&self) -> usize {
        self.encoding.scalar.size() * self.channels
    }

    /// Returns whether a read returns the samples that have arrived, rather than fill the buffer.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self.input, Input::Stream(_))
    }

    fn frames(&self) -> FileFrames<'_> {
        let size = self.encoding.stored_bytes() * self.channels;
        FileFrames { path: &self.path, size, format: &self.type_name, before: self.bytes }
    }
}

impl std::fmt::Debug for FileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileReader")
            .field("path", &self.path)
            .field("type", &self.type_name)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// Opens a regular file. Returns the file with its length and the first bytes of the samples, which
/// begin at `start`. The file is positioned after these bytes.
fn open_regular(path: &Path, start: u64) -> Result<(File, u64, Vec<u8>), FormatError> {
    let failed = |source| FormatError::open(path, "open", source);
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(FormatError::Directory { path: path.to_owned() });
    }
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(start)).map_err(failed)?;
    file.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(failed)?;
    if head.is_empty() {
        return Err(FormatError::Empty { path: path.to_owned() });
    }
    Ok((file, metadata.len(), head))
}

/// Checks that no repetition is requested for a file that can be read only once.
fn check_once(path: &Path, options: &FileReaderOptions) -> Result<(), FormatError> {
    match options.repeat {
        1 => Ok(()),
        repeat => Err(FormatError::RepeatNotSeekable { path: path.to_owned(), repeat }),
    }
}

fn read_header(kind: FileKind, input: impl Read, path: &Path) -> Result<Header, FormatError> {
    match kind {
        FileKind::Numpy => header::numpy(input, path),
        FileKind::Wav | FileKind::Gzip => header::wav(input, path),
    }
}

/// Reads the data after the samples of a file with a header. Returns a note about bytes that may be
/// samples.
fn behind(kind: FileKind, file: &mut File, length: u64, header: &mut Header) -> io::Result<Option<String>> {
    let Some(bytes) = header.bytes else { return Ok(None) };
    let padding = if kind == FileKind::Numpy { 0 } else { bytes % 2 };
    let Some(end) = header.start.checked_add(bytes).and_then(|end| end.checked_add(padding)) else {
        return Ok(None);
    };
    // The 32-bit length in the header has wrapped around at 4 GiB: the whole file is played.
    let left = length.saturating_sub(end);
    if left == 0 || left >= 1 << 32 {
        return Ok(None);
    }
    if kind == FileKind::Numpy {
        return Ok(Some(format!("{left} bytes behind its array are not played")));
    }
    file.seek(SeekFrom::Start(end))?;
    header::wav_behind(file, left, header)
}

/// Checks that a file has the requested type and channels; `has_pairs`: two channels may be the
/// parts of complex samples.
fn check_asked(
    path: &Path,
    found: Scalar,
    channels: usize,
    has_pairs: bool,
    options: &FileReaderOptions,
) -> Result<(), FormatError> {
    if let Some(asked) = options.channels.filter(|asked| usize::from(asked.get()) != channels) {
        return Err(FormatError::ConflictingChannels { path: path.to_owned(), found: channels, asked });
    }
    let Some(asked) = options.format.filter(|asked| *asked != found) else { return Ok(()) };
    if has_pairs && channels == 2 && Scalar::parse(&format!("c{found}")) == Some(asked) {
        return Ok(());
    }
    let (path, found, asked) = (path.to_owned(), found.to_string(), asked.to_string());
    Err(FormatError::ConflictingFormat { path, found, asked })
}

#[cfg(test)]
mod reader_tests;

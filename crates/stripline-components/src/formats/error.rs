//! The error type of the file formats.

use std::io;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use stripline::SystemLimit;
use stripline::payload::Scalar;

use super::encoding;
use super::sample_format::SampleFormat;
use crate::text::printable;

/// An error in reading or writing a file. Every message names the file, the problem and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The file does not exist.
    #[error("{path}: there is no such file: check the path", path = shown(.path))]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// The path is a directory.
    #[error("{path}: this is a directory: give a file in it", path = shown(.path))]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// The file cannot be opened or created.
    #[error("{path}: cannot {doing}: {source}{}", limit(.source), path = shown(.path))]
    Open {
        /// The file.
        path: PathBuf,
        /// `open` or `create`.
        doing: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The file to be written already exists.
    #[error("{path}: the file exists already: name another one, or set `existing` to number, append or replace", path = shown(.path))]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// SigMF metadata would have too many segments.
    #[error("{path}: the recording has {limit} segments, and a further one does not fit: begin another recording", path = shown(.path))]
    Captures {
        /// The metadata.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// Another writer has the file open.
    #[error("{path}: the file is being written at the moment: name another one", path = shown(.path))]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file holds no sample.
    #[error("{path}: the file is empty: check that the recording was made", path = shown(.path))]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A pipe or another input ended without a sample.
    #[error("{path}: the input had no samples: check the program that writes it", path = shown(.path))]
    NoSamples {
        /// The input.
        path: PathBuf,
    },
    /// The length of the file is not a multiple of the sample size.
    #[error(
        "{path}: {left_over} of its {length} bytes are left over, as a {format} sample has {size}: check {checked}, \
         or set truncate_partial to drop them",
        path = shown(.path),
        checked = if .format.contains("channels") { "its type and `channels`" } else { "the sample format" },
    )]
    PartialSample {
        /// The file.
        path: PathBuf,
        /// The number of bytes after the last whole sample.
        left_over: u64,
        /// The length in bytes.
        length: u64,
        /// The format assumed for the file.
        format: String,
        /// The size of a frame (a sample of each channel) in bytes.
        size: usize,
    },
    /// The first bytes show a format from which samples cannot be read.
    #[error("{path}: this is {what}: {remedy}", path = shown(.path))]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The kind of file.
        what: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The file has or names several recordings, but one is needed.
    #[error("{path}: this is {what}: {remedy} {names}", path = shown(.path))]
    Several {
        /// The file.
        path: PathBuf,
        /// The kind of file.
        what: &'static str,
        /// The remedy, to be followed by the names.
        remedy: &'static str,
        /// The names of the recordings.
        names: String,
    },
    /// The extension promises a header that the file does not have.
    #[error(
        "{path}: its name ends in .{ending}, but it does not begin like such a file: give it another name, or set the \
         property `format` to the type of its samples",
        path = shown(.path)
    )]
    Misnamed {
        /// The file.
        path: PathBuf,
        /// The extension.
        ending: &'static str,
    },
    /// The header of a file is damaged, or describes samples that cannot be read.
    #[error("{path}: this {format} file cannot be read, {problem}: check it, or convert it to another type", path = shown(.path))]
    Header {
        /// The file.
        path: PathBuf,
        /// The format of the file, for example `WAV`.
        format: &'static str,
        /// The problem.
        problem: String,
    },
    /// The type or the channels of the samples are not supported by a reader of I/Q samples.
    #[error("{path}: it holds {found} samples: give one of {}", SampleFormat::names(), path = shown(.path))]
    NotIq {
        /// The file.
        path: PathBuf,
        /// The type and channels of the samples.
        found: String,
    },
    /// Repetition was requested for a file that cannot be read twice.
    #[error("{path}: a pipe, a device or a compressed file cannot be repeated (repeat is {repeat}): set repeat to 1, or give a regular file", path = shown(.path))]
    RepeatNotSeekable {
        /// The file.
        path: PathBuf,
        /// The repetition requested.
        repeat: u64,
    },
    /// The file became shorter while it was read.
    #[error(
        "{path}: the file shrank while it was read: it had {expected} bytes and ends after {actual} now: do not write \
         to a file that is being played",
        path = shown(.path)
    )]
    Shrunk {
        /// The file.
        path: PathBuf,
        /// The length at the time of opening, in bytes.
        expected: u64,
        /// The position at which the file ended, in bytes.
        actual: u64,
    },
    /// The file is not a recording of a port, is of another version, or is damaged.
    #[error("{path}: {problem}: {remedy}", path = shown(.path))]
    Recording {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
        /// The remedy.
        remedy: String,
    },
    /// Reading failed.
    #[error("{path}: cannot read after {read} bytes: {source}{}", limit(.source), path = shown(.path))]
    Read {
        /// The file.
        path: PathBuf,
        /// The number of bytes read before.
        read: u64,
        /// The operating system's reason.
        source: io::Error,
    },
    /// Writing failed.
    #[error("{path}: cannot write after {written} bytes: {source}{}", limit(.source), path = shown(.path))]
    Write {
        /// The file.
        path: PathBuf,
        /// The number of bytes written before.
        written: u64,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The name is not the name of a sample format.
    #[error("there is no sample format `{name}`: use {}", SampleFormat::names())]
    UnknownSampleFormat {
        /// The given name, shortened to 40 characters.
        name: String,
    },
    /// Neither the caller nor the name of the file gives the sample format.
    #[error("{path}: the sample format is unknown: set the property `format` to one of {}", encoding::TYPES.join(", "), path = shown(.path))]
    NoSampleFormat {
        /// The file.
        path: PathBuf,
    },
    /// The sample format in the file differs from the caller's.
    #[error("{path}: the file has {found}, but the property `format` is {asked}: leave it out", path = shown(.path))]
    ConflictingFormat {
        /// The file, or the metadata file.
        path: PathBuf,
        /// The format in the file.
        found: String,
        /// The caller's format.
        asked: String,
    },
    /// The number of channels in the file differs from the caller's.
    #[error("{path}: the file has {found} {}, but the property `channels` is {asked}: leave it out", if *.found == 1 { "channel" } else { "channels" }, path = shown(.path))]
    ConflictingChannels {
        /// The file, or the metadata file.
        path: PathBuf,
        /// The number of channels in the file.
        found: usize,
        /// The caller's number of channels.
        asked: NonZeroU16,
    },
    /// Samples of another type were requested than the file has.
    #[error("{path}: holds {found} samples, not {asked}: read {found}, or complex f32, which converts", path = shown(.path))]
    WrongSampleType {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: Scalar,
        /// The requested format.
        asked: Scalar,
    },
    /// A buffer to write does not hold whole samples, or a buffer to fill is smaller than a sample.
    #[error("{path}: a buffer of {bytes} bytes does not hold whole {format} samples of {size} bytes", path = shown(.path))]
    Buffer {
        /// The file.
        path: PathBuf,
        /// The size of the buffer.
        bytes: usize,
        /// The format of the file.
        format: Scalar,
        /// The size of a frame (a sample of each channel) in bytes.
        size: usize,
    },
    /// SigMF metadata are longer than [`SIGMF_META_BYTES_MAX`](super::SIGMF_META_BYTES_MAX).
    #[error("{path}: the metadata is longer than {limit} bytes: remove annotations", path = shown(.path))]
    MetaTooLong {
        /// The metadata file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// SigMF metadata are not valid JSON.
    #[error("{path}: this is not SigMF metadata, {source}: repair it, or write it anew", path = shown(.path))]
    MetaSyntax {
        /// The metadata file.
        path: PathBuf,
        /// The problem, with line and column.
        source: serde_json::Error,
    },
    /// A key of SigMF metadata has a value that is impossible or not supported.
    #[error("{path}: the key `{field}` is {value}, but {problem}", path = shown(.path))]
    MetaField {
        /// The metadata file.
        path: PathBuf,
        /// The key, for example `captures[0].core:frequency`.
        field: String,
        /// The value, shortened.
        value: String,
        /// The problem and the remedy.
        problem: &'static str,
    },
    /// The data file of SigMF metadata is missing.
    #[error("{path}: its data file {data} is missing: keep the two together", path = shown(.path), data = shown(.data))]
    DataMissing {
        /// The metadata file.
        path: PathBuf,
        /// The data file that should exist.
        data: PathBuf,
    },
    /// The setting is not possible for a WAV file.
    #[error("{path}: {parameter} is {value}, but must be {valid}", path = shown(.path))]
    WavSetting {
        /// The file.
        path: PathBuf,
        /// The parameter.
        parameter: &'static str,
        /// The value given.
        value: u64,
        /// The valid range in words.
        valid: &'static str,
    },
}

/// Returns a path for a message: a name may have control characters.
pub(crate) fn shown(path: &Path) -> String {
    printable(&path.display().to_string(), usize::MAX)
}

/// Returns the system limit that caused an error, as the end of a message.
fn limit(source: &io::Error) -> String {
    SystemLimit::of(source).map_or_else(String::new, |limit| format!(": {limit}"))
}

impl FormatError {
    /// Returns whether there is no space for the file: a full disk, a quota, or a limit on the size
    /// of a file.
    ///
    /// ```
    /// use stripline_components::formats::{IqFileWriter, SampleFormat};
    ///
    /// let mut writer = IqFileWriter::create("/dev/full", SampleFormat::Cu8)?;
    /// writer.write(&[1, 2])?;
    /// assert!(writer.flush().unwrap_err().is_full());
    /// # Ok::<(), stripline_components::formats::FormatError>(())
    /// ```
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let (Self::Open { source, .. } | Self::Write { source, .. }) = self else { return false };
        matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge)
    }

    /// Creates an error from opening or creating `path`.
    pub(crate) fn open(path: &Path, doing: &'static str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound if doing == "open" => Self::NotFound { path },
            io::ErrorKind::IsADirectory => Self::Directory { path },
            _ => Self::Open { path, doing, source },
        }
    }
}

impl From<FormatError> for io::Error {
    /// Converts the error, and keeps the kind of the operating system's error and the message.
    fn from(error: FormatError) -> Self {
        use io::ErrorKind as Kind;
        let kind = match &error {
            FormatError::NotFound { .. } | FormatError::DataMissing { .. } => Kind::NotFound,
            FormatError::Directory { .. } => Kind::IsADirectory,
            FormatError::Open { source, .. }
            | FormatError::Read { source, .. }
            | FormatError::Write { source, .. } => source.kind(),
            FormatError::RepeatNotSeekable { .. } => Kind::NotSeekable,
            FormatError::Shrunk { .. } => Kind::UnexpectedEof,
            FormatError::Exists { .. } => Kind::AlreadyExists,
            FormatError::Busy { .. } => Kind::ResourceBusy,
            FormatError::Captures { .. } => Kind::FileTooLarge,
            FormatError::UnknownSampleFormat { .. }
            | FormatError::NoSampleFormat { .. }
            | FormatError::ConflictingFormat { .. }
            | FormatError::ConflictingChannels { .. }
            | FormatError::WrongSampleType { .. }
            | FormatError::WavSetting { .. }
            | FormatError::Buffer { .. } => Kind::InvalidInput,
            FormatError::Empty { .. }
            | FormatError::NoSamples { .. }
            | FormatError::PartialSample { .. }
            | FormatError::Foreign { .. }
            | FormatError::Several { .. }
            | FormatError::Misnamed { .. }
            | FormatError::Header { .. }
            | FormatError::NotIq { .. }
            | FormatError::Recording { .. }
            | FormatError::MetaTooLong { .. }
            | FormatError::MetaSyntax { .. }
            | FormatError::MetaField { .. } => Kind::InvalidData,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_does_not_act_on_the_terminal() {
        let message = FormatError::Busy { path: "evil\n\x1b[31m.wav".into() }.to_string();
        assert!(message.starts_with("evil\\u{a}\\u{1b}[31m.wav: the file is"), "{message}");
    }
}

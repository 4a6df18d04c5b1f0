//! The one error type of the file formats.

use std::io;
use std::path::PathBuf;

use super::sample_format::SampleFormat;

/// Why a file could not be read or written. Every message names the file, what is wrong with it, and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// There is no such file.
    #[error("{path}: there is no such file: check the path", path = .path.display())]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// A directory was given for a file.
    #[error("{path}: this is a directory: give a file in it", path = .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// The file cannot be opened or created.
    #[error("{path}: cannot {doing}: {source}", path = .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// `open` or `create`.
        doing: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The file holds no sample.
    #[error("{path}: the file is empty: check that the recording was made", path = .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The length is no multiple of the sample size.
    #[error(
        "{path}: {left_over} of its {length} bytes are left over, as a {format} sample has {size}: check the sample \
         format, or set truncate_partial to drop them",
        path = .path.display(), size = .format.bytes_per_sample()
    )]
    PartialSample {
        /// The file.
        path: PathBuf,
        /// How many bytes follow the last whole sample.
        left_over: u64,
        /// The length in bytes.
        length: u64,
        /// The format that the file was taken to have.
        format: SampleFormat,
    },
    /// A repetition was asked of something that cannot be read twice.
    #[error("{path}: a pipe or device cannot be repeated (repeat is {repeat}): set repeat to 1, or give a regular file", path = .path.display())]
    RepeatNotSeekable {
        /// The file.
        path: PathBuf,
        /// What was asked.
        repeat: u64,
    },
    /// The file became shorter while it was read.
    #[error(
        "{path}: the file shrank while it was read: it had {expected} bytes and ends after {actual} now: do not write \
         to a file that is being played",
        path = .path.display()
    )]
    Shrunk {
        /// The file.
        path: PathBuf,
        /// The length when it was opened, in bytes.
        expected: u64,
        /// Where it ended, in bytes.
        actual: u64,
    },
    /// Reading failed.
    #[error("{path}: cannot read after {read} bytes: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// How many bytes had been read.
        read: u64,
        /// The operating system's reason.
        source: io::Error,
    },
    /// Writing failed.
    #[error("{path}: cannot write after {written} bytes: {source}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// How many bytes the file had taken.
        written: u64,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A name that is no sample format.
    #[error("there is no sample format `{name}`: use {}", SampleFormat::names())]
    UnknownSampleFormat {
        /// What was given, at most 40 characters of it.
        name: String,
    },
    /// Neither the caller nor the file's name tells the sample format.
    #[error("{path}: the sample format is not known: set it to one of {}", SampleFormat::names(), path = .path.display())]
    NoSampleFormat {
        /// The file.
        path: PathBuf,
    },
    /// The caller says one sample format and the SigMF metadata another one.
    #[error("{path}: the metadata says {found}, but the sample format is set to {asked}: leave it out", path = .path.display())]
    ConflictingFormat {
        /// The metadata.
        path: PathBuf,
        /// What the metadata says.
        found: SampleFormat,
        /// What the caller says.
        asked: SampleFormat,
    },
    /// Samples of one type were asked of a file of another one.
    #[error("{path}: holds {found} samples, not {asked}: ask for {found}, or for complex f32, which converts", path = .path.display())]
    WrongSampleType {
        /// The file.
        path: PathBuf,
        /// What the file holds.
        found: SampleFormat,
        /// What was asked.
        asked: SampleFormat,
    },
    /// A buffer that is no whole number of samples was to be written, or that holds not one sample was to be read into.
    #[error("{path}: a buffer of {bytes} bytes does not hold whole {format} samples of {size} bytes", path = .path.display(), size = .format.bytes_per_sample())]
    Buffer {
        /// The file.
        path: PathBuf,
        /// The buffer's size.
        bytes: usize,
        /// The file's format.
        format: SampleFormat,
    },
    /// SigMF metadata is longer than [`SIGMF_META_BYTES_MAX`](super::SIGMF_META_BYTES_MAX).
    #[error("{path}: the metadata is longer than {limit} bytes: remove annotations", path = .path.display())]
    MetaTooLong {
        /// The metadata.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// SigMF metadata is no JSON, or lacks what it must have.
    #[error("{path}: not valid SigMF metadata: {source}", path = .path.display())]
    MetaSyntax {
        /// The metadata.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// A field of SigMF metadata has a value that is impossible or not supported.
    #[error("{path}: `{field}` is {value}, but {problem}", path = .path.display())]
    MetaField {
        /// The metadata.
        path: PathBuf,
        /// The field, as `captures[0].core:frequency`.
        field: String,
        /// Its value, shortened.
        value: String,
        /// What is wrong and what to do.
        problem: &'static str,
    },
    /// SigMF metadata without its data file.
    #[error("{path}: its data file {data} is missing: keep the two together", path = .path.display(), data = .data.display())]
    DataMissing {
        /// The metadata.
        path: PathBuf,
        /// The data file that should be there.
        data: PathBuf,
    },
    /// A WAV file cannot have such settings.
    #[error("{path}: {parameter} is {value}, but must be {valid}", path = .path.display())]
    WavSetting {
        /// The file.
        path: PathBuf,
        /// The parameter.
        parameter: &'static str,
        /// What was given.
        value: u64,
        /// The valid range in words.
        valid: &'static str,
    },
    /// A WAV file is as long as the format allows.
    #[error("{path}: a WAV file cannot be longer than 4 GiB: begin a new file", path = .path.display())]
    WavFull {
        /// The file.
        path: PathBuf,
    },
}

impl FormatError {
    /// An error from opening or creating `path`.
    pub(crate) fn open(path: &std::path::Path, doing: &'static str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound if doing == "open" => Self::NotFound { path },
            io::ErrorKind::IsADirectory => Self::Directory { path },
            _ => Self::Open { path, doing, source },
        }
    }
}

impl From<FormatError> for io::Error {
    /// Keeps the kind of the operating system's error, and the message.
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
            FormatError::WavFull { .. } => Kind::FileTooLarge,
            FormatError::UnknownSampleFormat { .. }
            | FormatError::NoSampleFormat { .. }
            | FormatError::ConflictingFormat { .. }
            | FormatError::WrongSampleType { .. }
            | FormatError::WavSetting { .. }
            | FormatError::Buffer { .. } => Kind::InvalidInput,
            FormatError::Empty { .. }
            | FormatError::PartialSample { .. }
            | FormatError::MetaTooLong { .. }
            | FormatError::MetaSyntax { .. }
            | FormatError::MetaField { .. } => Kind::InvalidData,
        };
        Self::new(kind, error)
    }
}

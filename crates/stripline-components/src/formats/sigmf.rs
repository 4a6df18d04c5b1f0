//! SigMF, the Signal Metadata Format (version 1.x, <https://sigmf.org>): a `.sigmf-meta` file of
//! JSON beside a `.sigmf-data` file of samples. An archive (`.sigmf`) is a tar file with both.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;
use stripline::payload::Scalar;
use stripline::{StreamClock, StreamInfo};

use super::encoding::{self, Encoding};
use super::error::FormatError;
use super::output::folder;
use crate::text::printable;

mod archive;
mod document;
mod json;
mod sidecar;

pub(super) use sidecar::Sidecar;
pub use sidecar::check_sigmf_output;

/// The longest metadata accepted, in bytes.
pub const SIGMF_META_BYTES_MAX: u64 = 16 << 20;
/// The maximum number of captures of a recording.
const CAPTURES_MAX: usize = 1 << 17;
/// The maximum number of recordings named in a message.
const NAMES_SHOWN: usize = 16;

/// The format version of written files.
const VERSION: &str = "1.0.0";
/// The highest sample rate and the highest frequency, in Hz (the limit of the specification for
/// frequencies).
const HZ_MAX: f64 = 1e12;

/// The metadata that are needed to play a recording. Unknown keys, annotations, and extensions that
/// are not required, are ignored.
///
/// ```
/// use stripline_components::formats::{SampleFormat, SigMfMeta};
///
/// let json = r#"{
///     "global": {"core:datatype": "ci16_le", "core:version": "1.2.0", "core:sample_rate": 2.4e6},
///     "captures": [{"core:sample_start": 0, "core:frequency": 1090e6}],
///     "annotations": []
/// }"#;
/// let meta = SigMfMeta::parse(json.as_bytes(), "example.sigmf-meta".as_ref())?;
/// assert_eq!(meta.format, SampleFormat::Cs16.scalar());
/// assert_eq!(meta.captures[0].frequency_hz, Some(1090e6));
/// # Ok::<(), stripline_components::formats::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SigMfMeta {
    /// The type of the samples (`core:datatype`).
    pub format: Scalar,
    /// Whether the numbers in samples are big-endian.
    pub is_big_endian: bool,
    /// The number of interleaved channels (`core:num_channels`).
    pub channels: u32,
    /// The index of the first sample of the data file (`core:offset`). The starts of captures count
    /// from the same zero.
    pub offset: u64,
    /// The sample rate of each channel in Hz, above 0, at most 10^12.
    pub sample_rate_hz: Option<f64>,
    /// The version of SigMF, for example `1.2.0`.
    pub version: String,
    /// A description of the recording.
    pub description: Option<String>,
    /// The author of the recording.
    pub author: Option<String>,
    /// The hardware of the recording (`core:hw`).
    pub hardware: Option<String>,
    /// The software of the recording (`core:recorder`).
    pub recorder: Option<String>,
    /// The licence of the recording, usually a URL.
    pub license: Option<String>,
    /// The segments of the recording, by ascending start.
    pub captures: Vec<SigMfCapture>,
}

/// A segment of a recording: values that are valid from one sample on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SigMfCapture {
    /// The index of the first sample, counted from the same zero as [`SigMfMeta::offset`].
    pub sample_start: u64,
    /// The index of the first sample in the recorded stream (`core:global_index`). The index runs
    /// ahead of the index in the file if samples are missing.
    pub global_index: Option<u64>,
    /// The centre frequency in Hz, at most 10^12 in magnitude.
    pub frequency_hz: Option<f64>,
    /// The time of the first sample in UTC (ISO 8601, see [`utc_datetime`](super::utc_datetime)),
    /// unchanged from the file.
    pub datetime: Option<String>,
    /// The clock of the time (`stripline:clock`, one of the words of
    /// [`ClockReference`](stripline::ClockReference), and `stripline:clock_error_ns`).
    pub clock: Option<StreamClock>,
}

impl SigMfMeta {
    /// Creates metadata with only a sample type.
    pub fn new(format: impl Into<Scalar>) -> Self {
        Self {
            format: format.into(),
            is_big_endian: false,
            channels: 1,
            offset: 0,
            sample_rate_hz: None,
            version: VERSION.to_owned(),
            description: None,
            author: None,
            hardware: None,
            recorder: None,
            license: None,
            captures: Vec::new(),
        }
    }

    /// Parses metadata; `path` is for messages only. Deviations with a clear meaning are accepted:
    /// a byte order mark, whole numbers such as `0.0`, numbers in quotes, and metadata without a
    /// version.
    ///
    /// # Errors
    /// The metadata have more than [`SIGMF_META_BYTES_MAX`] bytes, are not JSON, or lack a required
    /// key.
    ///
    /// A value is impossible (a negative rate), or the samples would be misread (an unknown
    /// datatype, header bytes, a required extension).
    pub fn parse(json: &[u8], path: &Path) -> Result<Self, FormatError> {
        json::parse(json, path).map(|parsed| parsed.meta)
    }

    /// Returns the metadata as JSON; `path` is for messages only.
    ///
    /// # Errors
    /// A value is refused by [`parse`](Self::parse).
    pub fn to_json(&self, path: &Path) -> Result<String, FormatError> {
        // Validate, so that every written file can be read.
        self.check(path)?;
        let file = MetaFile {
            global: Global {
                datatype: encoding::sigmf_name(self.format, self.is_big_endian),
                version: &self.version,
                sample_rate: self.sample_rate_hz,
                num_channels: Some(self.channels).filter(|channels| *channels != 1),
                offset: Some(self.offset).filter(|offset| *offset != 0),
                description: self.description.as_deref(),
                author: self.author.as_deref(),
                hw: self.hardware.as_deref(),
                recorder: self.recorder.as_deref(),
                license: self.license.as_deref(),
            },
            captures: self
                .captures
                .iter()
                .map(|capture| Capture {
                    sample_start: capture.sample_start,
                    global_index: capture.global_index,
                    frequency: capture.frequency_hz,
                    datetime: capture.datetime.as_deref(),
                    clock: capture.clock.map(|clock| clock.reference.word()),
                    clock_error_ns: capture.clock.and_then(|clock| clock.error_ns),
                })
                .collect(),
            annotations: [],
        };
        let json = serde_json::to_string_pretty(&file)
            .map_err(|source| FormatError::MetaSyntax { path: path.to_owned(), source })?;
        Ok(json + "\n")
    }

    /// Returns the layout of the samples.
    pub(super) fn encoding(&self) -> Encoding {
        Encoding { is_big_endian: self.is_big_endian, ..Encoding::raw(self.format) }
    }

    fn check(&self, path: &Path) -> Result<(), FormatError> {
        if let Some(rate) = self.sample_rate_hz.filter(|rate| !(*rate > 0.0 && *rate <= HZ_MAX)) {
            let problem = "a sample rate is above 0 and at most 1e12 Hz: correct it, or remove it";
            return Err(refuse(path, "core:sample_rate", rate, problem));
        }
        if !(1..=StreamInfo::CHANNELS_MAX as u32).contains(&self.channels) {
            return Err(refuse(
                path,
                "core:num_channels",
                self.channels,
                "there are 1 to 256 channels: correct it, or split the recording",
            ));
        }
        if self.captures.len() > CAPTURES_MAX {
            let problem = "at most 131072 captures are read: split the recording";
            return Err(refuse(path, "captures", self.captures.len(), problem));
        }
        let mut previous = self.offset;
        for (index, capture) in self.captures.iter().enumerate() {
            let key = |name: &str| format!("captures[{index}].core:{name}");
            let start = capture.sample_start;
            if start < previous {
                let problem = match index {
                    0 => "captures start at `core:offset` or later: correct one of both",
                    _ => "captures ascend by their start: sort them",
                };
                return Err(refuse(path, &key("sample_start"), start, problem));
            }
            previous = start;
            let index = capture.global_index.unwrap_or(start);
            if index.checked_mul(u64::from(self.channels)).is_none() {
                let name = if capture.global_index.is_some() { "global_index" } else { "sample_start" };
                let problem = "counted over all channels, an index is below 2^64: correct it";
                return Err(refuse(path, &key(name), index, problem));
            }
            if let Some(frequency) = capture.frequency_hz.filter(|f| f.is_nan() || f.abs() > HZ_MAX) {
                return Err(refuse(
                    path,
                    &key("frequency"),
                    frequency,
                    "a frequency is within 1e12 Hz: correct it, or remove it",
                ));
            }
        }
        Ok(())
    }
}

/// Returns the error for a key with an impossible value. The problem ends with a colon and the
/// remedy.
fn refuse(path: &Path, field: &str, value: impl ToString, problem: &'static str) -> FormatError {
    FormatError::MetaField {
        path: path.to_owned(),
        field: field.to_owned(),
        value: shortened(value),
        problem,
    }
}

/// Returns the first characters of a value for a message.
fn shortened(value: impl ToString) -> String {
    let value = value.to_string();
    match value.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value,
    }
}

/// A recording on disk: the metadata and the paths of the files.
#[derive(Debug, Clone, PartialEq)]
pub struct SigMfRecording {
    /// The metadata.
    pub meta: SigMfMeta,
    /// The `.sigmf-meta` file, or the archive.
    pub meta_path: PathBuf,
    /// The `.sigmf-data` file, or the archive.
    pub data_path: PathBuf,
    /// The byte range of the samples in an archive; `None`: the whole data file.
    pub archived: Option<Range<u64>>,
    /// Notes about metadata that are not used, each part of a sentence.
    pub notes: Vec<String>,
}

impl SigMfRecording {
    /// Reads the metadata of a recording. `path` is the `.sigmf-meta` or the `.sigmf-data` file, or
    /// an archive (`.sigmf`) with a single recording.
    ///
    /// # Errors
    /// The file or its data file does not exist, or [`SigMfMeta::parse`] refuses the metadata.
    ///
    /// The file is an archive of several recordings, or a collection (`.sigmf-collection`): the
    /// error names the recordings.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        match ending(path).as_deref() {
            Some("sigmf") => return archive::open(path),
            Some("sigmf-collection") => return Err(collection(path)?),
            _ => {}
        }
        let meta_path = sibling(path, "sigmf-meta");
        let parsed = json::parse(&read_text(&meta_path)?, &meta_path)?;
        let data_path = match &parsed.data_name {
            Some(name) => meta_path.with_file_name(name),
            None => sibling(path, "sigmf-data"),
        };
        match data_path.try_exists() {
            Ok(true) => {
                let json::Parsed { meta, notes, .. } = parsed;
                Ok(Self { meta, meta_path, data_path, archived: None, notes })
            }
            Ok(false) => Err(parsed.data_missing(&meta_path, data_path)),
            Err(source) => Err(FormatError::open(&data_path, "open", source)),
        }
    }
}

/// Returns the error for a collection, with the names of the recordings.
fn collection(path: &Path) -> Result<FormatError, FormatError> {
    let names = json::streams(&read_text(path)?, path)?;
    let (path, what) = (path.to_owned(), "a SigMF collection");
    Ok(match names.is_empty() {
        true => FormatError::Foreign { path, what, remedy: "give the .sigmf-meta file of a recording" },
        false => FormatError::Several { path, what, remedy: "play one of", names: listed(&names) },
    })
}

/// Returns the first of the names, as part of a message.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(NAMES_SHOWN).map(|name| format!("`{}`", printable(name, 100)));
    let more = match names.len().saturating_sub(NAMES_SHOWN) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    shown.collect::<Vec<_>>().join(", ") + &more
}

fn ending(path: &Path) -> Option<String> {
    path.extension()?.to_str().map(str::to_ascii_lowercase)
}

/// Returns the file of a recording with this extension, which may be in capitals on the disk. If
/// there are several, a file with an extension in the letters of the given one comes first.
fn sibling(path: &Path, wanted: &str) -> PathBuf {
    if ending(path).as_deref() == Some(wanted) {
        return path.to_owned();
    }
    let small = path.with_extension(wanted);
    let capital = path.with_extension(wanted.to_ascii_uppercase());
    let is_small = path.extension().is_none_or(|given| given.to_ascii_lowercase() == given);
    let both = if is_small { [&small, &capital] } else { [&capital, &small] };
    if let Some(found) = both.into_iter().find(|path| path.exists()) {
        return found.clone();
    }
    let names = folder(path).read_dir().into_iter().flatten().flatten().map(|entry| entry.file_name());
    let alike = names
        .map(|name| path.with_file_name(name))
        .filter(|other| other.file_stem() == path.file_stem() && ending(other).as_deref() == Some(wanted));
    alike.min().unwrap_or(small)
}

/// Reads a metadata file. A pipe or a device is not opened, because its other end could keep the
/// reader waiting.
fn read_text(path: &Path) -> Result<Vec<u8>, FormatError> {
    if path.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir()) {
        let (what, remedy) = ("SigMF metadata in a pipe", "give the path of a regular file");
        return Err(FormatError::Foreign { path: path.to_owned(), what, remedy });
    }
    let read = |file: File| -> io::Result<Vec<u8>> {
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut json = Vec::new();
        // Read one byte more than the limit. The length that the file system reports is not used.
        file.take(SIGMF_META_BYTES_MAX + 1).read_to_end(&mut json)?;
        Ok(json)
    };
    File::open(path).and_then(read).map_err(|source| FormatError::open(path, "open", source))
}

/// The JSON of a written metadata file.
#[derive(Serialize)]
struct MetaFile<'a> {
    global: Global<'a>,
    captures: Vec<Capture<'a>>,
    /// SigMF requires the key, even without annotations.
    annotations: [(); 0],
}

#[derive(Serialize)]
struct Global<'a> {
    #[serde(rename = "core:datatype")]
    datatype: String,
    #[serde(rename = "core:version")]
    version: &'a str,
    #[serde(rename = "core:sample_rate", skip_serializing_if = "Option::is_none")]
    sample_rate: Option<f64>,
    #[serde(rename = "core:num_channels", skip_serializing_if = "Option::is_none")]
    num_channels: Option<u32>,
    #[serde(rename = "core:offset", skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(rename = "core:description", skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(rename = "core:author", skip_serializing_if = "Option::is_none")]
    author: Option<&'a str>,
    #[serde(rename = "core:hw", skip_serializing_if = "Option::is_none")]
    hw: Option<&'a str>,
    #[serde(rename = "core:recorder", skip_serializing_if = "Option::is_none")]
    recorder: Option<&'a str>,
    #[serde(rename = "core:license", skip_serializing_if = "Option::is_none")]
    license: Option<&'a str>,
}

#[derive(Serialize)]
struct Capture<'a> {
    #[serde(rename = "core:sample_start")]
    sample_start: u64,
    #[serde(rename = "core:global_index", skip_serializing_if = "Option::is_none")]
    global_index: Option<u64>,
    #[serde(rename = "core:frequency", skip_serializing_if = "Option::is_none")]
    frequency: Option<f64>,
    #[serde(rename = "core:datetime", skip_serializing_if = "Option::is_none")]
    datetime: Option<&'a str>,
    #[serde(rename = "stripline:clock", skip_serializing_if = "Option::is_none")]
    clock: Option<&'a str>,
    #[serde(rename = "stripline:clock_error_ns", skip_serializing_if = "Option::is_none")]
    clock_error_ns: Option<u64>,
}

#[cfg(test)]
mod sigmf_tests;

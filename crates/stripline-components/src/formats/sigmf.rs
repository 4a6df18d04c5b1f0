//! SigMF, the Signal Metadata Format (version 1.x, <https://sigmf.org>): a `.sigmf-meta` file of
//! JSON beside a `.sigmf-data` file of samples.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::error::FormatError;
use super::sample_format::SampleFormat;

/// The longest metadata accepted, in bytes.
pub const SIGMF_META_BYTES_MAX: u64 = 16 << 20;

/// The format version of written files.
const VERSION: &str = "1.0.0";
/// The highest sample rate and the farthest frequency, in Hz (the specification's own limit on
/// frequencies).
const HZ_MAX: f64 = 1e12;

/// The metadata of a recording that are needed to play it. Unknown keys, extensions and annotations
/// are ignored.
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
/// assert_eq!(meta.format, SampleFormat::Cs16);
/// assert_eq!(meta.captures[0].frequency_hz, Some(1090e6));
/// # Ok::<(), stripline_components::formats::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SigMfMeta {
    /// The format of the samples (`core:datatype`).
    pub format: SampleFormat,
    /// The sample rate in Hz, above 0, at most 10^12.
    pub sample_rate_hz: Option<f64>,
    /// The version of SigMF, as `1.2.0`.
    pub version: String,
    /// A description of the recording.
    pub description: Option<String>,
    /// The author of the recording.
    pub author: Option<String>,
    /// The hardware that recorded it (`core:hw`).
    pub hardware: Option<String>,
    /// The software that recorded it.
    pub recorder: Option<String>,
    /// The licence of the recording, usually a URL.
    pub license: Option<String>,
    /// The segments of the recording, by ascending start.
    pub captures: Vec<SigMfCapture>,
}

/// A segment of a recording: values that are valid from one sample on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SigMfCapture {
    /// The first sample's index in the data file.
    pub sample_start: u64,
    /// The first sample's index in the stream that was recorded (`core:global_index`). Where
    /// samples are missing, it is ahead of the samples in the file.
    pub global_index: Option<u64>,
    /// The centre frequency in Hz, at most 10^12 in magnitude.
    pub frequency_hz: Option<f64>,
    /// The first sample's time in UTC (ISO 8601, see [`utc_datetime`]), unchanged from the file.
    pub datetime: Option<String>,
}

impl SigMfMeta {
    /// Creates metadata that have only a format.
    pub fn new(format: SampleFormat) -> Self {
        Self {
            format,
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

    /// Parses metadata; `path` is for messages only.
    ///
    /// # Errors
    /// More than [`SIGMF_META_BYTES_MAX`] bytes, no JSON, or a missing required key.
    ///
    /// An impossible value (a negative rate), or one for which the samples would be misread
    /// (another datatype, several channels, header bytes).
    pub fn parse(json: &[u8], path: &Path) -> Result<Self, FormatError> {
        MetaFile::parse(json, path)?.checked(path)
    }

    /// Returns the metadata as JSON; `path` is for messages only.
    ///
    /// # Errors
    /// A value that [`parse`](Self::parse) would refuse.
    pub fn to_json(&self, path: &Path) -> Result<String, FormatError> {
        let file = MetaFile {
            global: Global {
                datatype: self.format.sigmf_name().to_owned(),
                version: self.version.clone(),
                sample_rate: self.sample_rate_hz,
                description: self.description.clone(),
                author: self.author.clone(),
                hw: self.hardware.clone(),
                recorder: self.recorder.clone(),
                license: self.license.clone(),
                num_channels: None,
                dataset: None,
                trailing_bytes: None,
                metadata_only: None,
            },
            captures: self
                .captures
                .iter()
                .map(|capture| Capture {
                    sample_start: capture.sample_start,
                    global_index: capture.global_index,
                    frequency: capture.frequency_hz,
                    datetime: capture.datetime.clone(),
                    header_bytes: None,
                })
                .collect(),
            annotations: Some([]),
        };
        // Checked in the form that a reader checks, so that every written file can be read.
        let json = serde_json::to_string_pretty(&file)
            .map_err(|source| FormatError::MetaSyntax { path: path.to_owned(), source })?;
        file.checked(path)?;
        Ok(json + "\n")
    }
}

/// A recording on disk: its metadata and its files.
#[derive(Debug, Clone, PartialEq)]
pub struct SigMfRecording {
    /// The metadata.
    pub meta: SigMfMeta,
    /// The `.sigmf-meta` file.
    pub meta_path: PathBuf,
    /// The `.sigmf-data` file.
    pub data_path: PathBuf,
}

impl SigMfRecording {
    /// Reads the metadata of a recording; `path` is its `.sigmf-meta` or its `.sigmf-data` file.
    ///
    /// # Errors
    /// No such file, no data file beside it, an archive (`.sigmf`), or metadata that
    /// [`SigMfMeta::parse`] refuses.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        if extension(path) == Some("sigmf") {
            return Err(FormatError::MetaField {
                path: path.to_owned(),
                field: "file type".to_owned(),
                value: "a SigMF archive".to_owned(),
                problem: "only pairs of files are read: unpack it (it is a tar file) and give the .sigmf-meta file",
            });
        }
        let meta_path = path.with_extension("sigmf-meta");
        let (file, data_name) = read_meta(&meta_path)?;
        let data_path = match data_name {
            Some(name) => meta_path.with_file_name(name),
            None => path.with_extension("sigmf-data"),
        };
        match data_path.try_exists() {
            Ok(true) => Ok(Self { meta: file, meta_path, data_path }),
            Ok(false) => Err(FormatError::DataMissing { path: meta_path, data: data_path }),
            Err(source) => Err(FormatError::open(&data_path, "open", source)),
        }
    }
}

/// Returns whether `path` names a SigMF recording by `.sigmf-meta`, `.sigmf-data` or `.sigmf` (not
/// supported, but then reported as such).
pub fn is_sigmf(path: &Path) -> bool {
    matches!(extension(path), Some("sigmf-meta" | "sigmf-data" | "sigmf"))
}

/// Returns the time as SigMF requires it: ISO 8601 in UTC with microseconds. Times before 1970
/// become 1970.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use stripline_components::formats::utc_datetime;
///
/// let time = UNIX_EPOCH + Duration::from_micros(1_709_210_096_000_250);
/// assert_eq!(utc_datetime(time), "2024-02-29T12:34:56.000250Z");
/// ```
pub fn utc_datetime(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, micros) = (since.as_secs(), since.subsec_micros());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days to a date by eras of 400 years that begin on 1 March (Hinnant, "chrono-compatible
    // low-level date algorithms").
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

fn extension(path: &Path) -> Option<&str> {
    path.extension()?.to_str()
}

/// Reads a metadata file, and the name of its data file if that is not the usual one.
fn read_meta(path: &Path) -> Result<(SigMfMeta, Option<String>), FormatError> {
    let read = |file: File| -> io::Result<Vec<u8>> {
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut json = Vec::new();
        // One byte more than the limit; the file's reported length is not used.
        file.take(SIGMF_META_BYTES_MAX + 1).read_to_end(&mut json)?;
        Ok(json)
    };
    let json = File::open(path).and_then(read).map_err(|source| FormatError::open(path, "open", source))?;
    let file = MetaFile::parse(&json, path)?;
    let data_name = file.global.dataset.clone();
    Ok((file.checked(path)?, data_name))
}

/// The file's JSON. Keys that are not listed are ignored.
#[derive(Serialize, Deserialize)]
struct MetaFile {
    global: Global,
    captures: Vec<Capture>,
    /// Written because it is required; not read.
    #[serde(skip_deserializing)]
    annotations: Option<[(); 0]>,
}

#[derive(Serialize, Deserialize)]
struct Global {
    #[serde(rename = "core:datatype")]
    datatype: String,
    #[serde(rename = "core:version")]
    version: String,
    #[serde(rename = "core:sample_rate", default, skip_serializing_if = "Option::is_none")]
    sample_rate: Option<f64>,
    #[serde(rename = "core:description", default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(rename = "core:author", default, skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    #[serde(rename = "core:hw", default, skip_serializing_if = "Option::is_none")]
    hw: Option<String>,
    #[serde(rename = "core:recorder", default, skip_serializing_if = "Option::is_none")]
    recorder: Option<String>,
    #[serde(rename = "core:license", default, skip_serializing_if = "Option::is_none")]
    license: Option<String>,
    #[serde(rename = "core:num_channels", default, skip_serializing_if = "Option::is_none")]
    num_channels: Option<u64>,
    #[serde(rename = "core:dataset", default, skip_serializing_if = "Option::is_none")]
    dataset: Option<String>,
    #[serde(rename = "core:trailing_bytes", default, skip_serializing_if = "Option::is_none")]
    trailing_bytes: Option<u64>,
    #[serde(rename = "core:metadata_only", default, skip_serializing_if = "Option::is_none")]
    metadata_only: Option<bool>,
}

#[derive(Serialize, Deserialize)]
struct Capture {
    #[serde(rename = "core:sample_start")]
    sample_start: u64,
    #[serde(rename = "core:global_index", default, skip_serializing_if = "Option::is_none")]
    global_index: Option<u64>,
    #[serde(rename = "core:frequency", default, skip_serializing_if = "Option::is_none")]
    frequency: Option<f64>,
    #[serde(rename = "core:datetime", default, skip_serializing_if = "Option::is_none")]
    datetime: Option<String>,
    #[serde(rename = "core:header_bytes", default, skip_serializing_if = "Option::is_none")]
    header_bytes: Option<u64>,
}

impl MetaFile {
    fn parse(json: &[u8], path: &Path) -> Result<Self, FormatError> {
        if json.len() as u64 > SIGMF_META_BYTES_MAX {
            return Err(FormatError::MetaTooLong { path: path.to_owned(), limit: SIGMF_META_BYTES_MAX });
        }
        serde_json::from_slice(json)
            .map_err(|source| FormatError::MetaSyntax { path: path.to_owned(), source })
    }

    /// Returns the validated form.
    fn checked(self, path: &Path) -> Result<SigMfMeta, FormatError> {
        let refuse = |field: &str, value: String, problem| {
            let value = if value.chars().count() > 60 {
                value.chars().take(60).chain("...".chars()).collect()
            } else {
                value
            };
            Err(FormatError::MetaField { path: path.to_owned(), field: field.to_owned(), value, problem })
        };
        let Global { datatype, sample_rate, .. } = &self.global;
        let Some(format) = SampleFormat::ALL.into_iter().find(|format| format.sigmf_name() == datatype)
        else {
            let problem = "the supported datatypes are cu8, ci8, ci16_le and cf32_le: convert the recording";
            return refuse("core:datatype", datatype.clone(), problem);
        };
        if let Some(rate) = sample_rate.filter(|rate| !(*rate > 0.0 && *rate <= HZ_MAX)) {
            let problem = "a sample rate is above 0 and at most 1e12 Hz";
            return refuse("core:sample_rate", rate.to_string(), problem);
        }
        if let Some(count) = self.global.num_channels.filter(|count| *count != 1) {
            return refuse("core:num_channels", count.to_string(), "only one channel is supported: split it");
        }
        if let Some(bytes) = self.global.trailing_bytes.filter(|bytes| *bytes != 0) {
            return refuse("core:trailing_bytes", bytes.to_string(), "only plain data files are supported");
        }
        if self.global.metadata_only == Some(true) {
            let problem = "there are no samples in such a recording: give one with a data file";
            return refuse("core:metadata_only", "true".to_owned(), problem);
        }
        if let Some(name) = &self.global.dataset {
            // A name from a file must not lead out of the file's folder.
            let plain = Path::new(name).file_name().is_some_and(|file_name| file_name == name.as_str());
            if !plain || name.contains(['/', '\\', '\0']) {
                return refuse(
                    "core:dataset",
                    name.clone(),
                    "it must be the name of a file in the same folder",
                );
            }
        }
        let mut previous = 0;
        for (index, capture) in self.captures.iter().enumerate() {
            if capture.sample_start < previous {
                let field = format!("captures[{index}].core:sample_start");
                return refuse(&field, capture.sample_start.to_string(), "captures ascend by sample_start");
            }
            previous = capture.sample_start;
            if let Some(frequency) = capture.frequency.filter(|f| f.is_nan() || f.abs() > HZ_MAX) {
                let field = format!("captures[{index}].core:frequency");
                return refuse(&field, frequency.to_string(), "a frequency is within 1e12 Hz");
            }
            if let Some(bytes) = capture.header_bytes.filter(|bytes| *bytes != 0) {
                let field = format!("captures[{index}].core:header_bytes");
                return refuse(&field, bytes.to_string(), "only plain data files are supported");
            }
        }
        let global = self.global;
        let captures = self
            .captures
            .into_iter()
            .map(|capture| SigMfCapture {
                sample_start: capture.sample_start,
                global_index: capture.global_index,
                frequency_hz: capture.frequency,
                datetime: capture.datetime,
            })
            .collect();
        Ok(SigMfMeta {
            format,
            sample_rate_hz: global.sample_rate,
            version: global.version,
            description: global.description,
            author: global.author,
            hardware: global.hw,
            recorder: global.recorder,
            license: global.license,
            captures,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAME: &str = "test.sigmf-meta";

    fn parse(json: &str) -> Result<SigMfMeta, FormatError> {
        SigMfMeta::parse(json.as_bytes(), Path::new(NAME))
    }

    fn refused(json: &str, words: &[&str]) {
        let message = parse(json).unwrap_err().to_string();
        for word in words.iter().chain([&NAME]) {
            assert!(message.contains(word), "`{word}` in {message}");
        }
    }

    fn with_global(extra: &str) -> String {
        format!(
            r#"{{"global": {{"core:datatype": "cu8", "core:version": "1.0.0"{extra}}}, "captures": [], "annotations": []}}"#
        )
    }

    fn with_captures(captures: &str) -> String {
        format!(
            r#"{{"global": {{"core:datatype": "cu8", "core:version": "1.0.0"}}, "captures": [{captures}]}}"#
        )
    }

    #[test]
    fn unknown_keys_are_ignored_and_known_ones_kept() {
        let meta = parse(
            r#"{"global": {"core:datatype": "cf32_le", "core:version": "1.2.3", "core:sample_rate": 250000,
                "core:author": "A", "core:hw": "H", "core:description": "D", "core:extensions": [{"name": "x"}],
                "antenna:gain": 3},
                "captures": [{"core:sample_start": 0, "core:datetime": "2020-01-01T00:00:00Z", "x:y": [1]},
                {"core:sample_start": 12, "core:frequency": 1e8}],
                "annotations": [{"core:sample_start": 3, "core:label": "L"}], "more": null}"#,
        )
        .unwrap();
        assert_eq!(meta.format, SampleFormat::Cf32);
        assert_eq!(meta.sample_rate_hz, Some(250e3));
        assert_eq!(
            (meta.author.as_deref(), meta.hardware.as_deref(), meta.description.as_deref()),
            (Some("A"), Some("H"), Some("D"))
        );
        assert_eq!(meta.captures[0].datetime.as_deref(), Some("2020-01-01T00:00:00Z"));
        assert_eq!((meta.captures[1].sample_start, meta.captures[1].frequency_hz), (12, Some(1e8)));
        let json = meta.to_json(Path::new(NAME)).unwrap();
        assert_eq!(parse(&json).unwrap(), meta);
    }

    #[test]
    fn impossible_and_unsupported_values_are_refused_by_name() {
        for rate in ["0", "-2.4e6", "1e13"] {
            refused(
                &with_global(&format!(r#", "core:sample_rate": {rate}"#)),
                &["core:sample_rate", "above 0"],
            );
        }
        for rate in ["1e999", "\"fast\"", "NaN", "[]"] {
            refused(&with_global(&format!(r#", "core:sample_rate": {rate}"#)), &["line 1 column"]);
        }
        for datatype in ["rf32_le", "ci16_be", "ci32_le", "cu16_le", "", "CU8"] {
            let json = with_global("").replace("cu8", datatype);
            refused(
                &json,
                &["core:datatype", datatype, "supported datatypes are cu8, ci8, ci16_le and cf32_le"],
            );
        }
        refused(&with_global(r#", "core:num_channels": 2"#), &["core:num_channels"]);
        refused(&with_global(r#", "core:trailing_bytes": 4"#), &["core:trailing_bytes"]);
        refused(&with_global(r#", "core:metadata_only": true"#), &["core:metadata_only"]);
        for name in ["../secret", "/etc/passwd", "..", "", "a/b", "a\\\\b"] {
            refused(
                &with_global(&format!(r#", "core:dataset": "{name}""#)),
                &["core:dataset", "same folder"],
            );
        }
        refused(&with_captures(r#"{"core:sample_start": -1}"#), &["-1"]);
        refused(&with_captures(r#"{"core:frequency": 1}"#), &["core:sample_start"]);
        refused(&with_captures(r#"{"core:sample_start": 0, "core:frequency": 2e12}"#), &["captures[0]"]);
        refused(
            &with_captures(r#"{"core:sample_start": 5}, {"core:sample_start": 4}"#),
            &["captures[1]", "4"],
        );
        refused(&with_captures(r#"{"core:sample_start": 0, "core:header_bytes": 16}"#), &["header_bytes"]);
    }

    #[test]
    fn broken_json_is_refused_with_its_place() {
        refused("", &["line 1"]);
        refused("[]", &["line 1"]);
        refused(r#"{"global": {}, "captures": []}"#, &["core:datatype"]);
        refused(r#"{"global": {"core:datatype": "cu8"}, "captures": []}"#, &["core:version"]);
        refused(r#"{"captures": []}"#, &["global"]);
        refused(&"[".repeat(1_000_000), &["line 1"]);
        let deep = format!(r#", "x": {}{}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(&with_global(&deep)).is_ok(), "ignored keys may be nested to any depth");
        refused(&with_global(&deep.replace('x', "core:author")), &["line 1"]);
        let long = "x".repeat(100_000);
        let message = parse(&with_global("").replace("cu8", &long)).unwrap_err().to_string();
        assert!(message.len() < 300, "a long value is shortened");
        let long = vec![b' '; SIGMF_META_BYTES_MAX as usize + 1];
        let message = SigMfMeta::parse(&long, Path::new(NAME)).unwrap_err().to_string();
        assert!(message.contains("16777216"), "{message}");
    }

    #[test]
    fn what_cannot_be_read_is_not_written() {
        let mut meta = SigMfMeta::new(SampleFormat::Cs8);
        assert!(meta.to_json(Path::new(NAME)).unwrap().contains("\"annotations\": []"));
        meta.sample_rate_hz = Some(f64::NAN);
        assert!(meta.to_json(Path::new(NAME)).unwrap_err().to_string().contains("core:sample_rate"));
    }

    #[test]
    fn a_recording_is_found_by_either_of_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let meta_path = dir.path().join("a.b.sigmf-meta");
        let data_path = dir.path().join("a.b.sigmf-data");
        let message = SigMfRecording::open(&meta_path).unwrap_err().to_string();
        assert!(message.contains("no such file") && message.contains("a.b.sigmf-meta"), "{message}");
        std::fs::write(&meta_path, with_global("")).unwrap();
        let message = SigMfRecording::open(&meta_path).unwrap_err().to_string();
        assert!(message.contains("a.b.sigmf-data is missing"), "{message}");
        std::fs::write(&data_path, [1, 2]).unwrap();
        for path in [&meta_path, &data_path] {
            assert!(is_sigmf(path));
            assert_eq!(SigMfRecording::open(path).unwrap().data_path, data_path);
        }
        std::fs::write(&meta_path, with_global(r#", "core:dataset": "other.bin""#)).unwrap();
        std::fs::write(dir.path().join("other.bin"), [1, 2]).unwrap();
        assert_eq!(SigMfRecording::open(&meta_path).unwrap().data_path, dir.path().join("other.bin"));
        let message = SigMfRecording::open(&dir.path().join("a.sigmf")).unwrap_err().to_string();
        assert!(message.contains("tar"), "{message}");
        std::fs::create_dir(dir.path().join("d.sigmf-meta")).unwrap();
        let message = SigMfRecording::open(&dir.path().join("d.sigmf-meta")).unwrap_err().to_string();
        assert!(message.contains("directory"), "{message}");
    }

    #[test]
    fn datetimes_are_right_around_leap_days() {
        let at = |seconds| utc_datetime(UNIX_EPOCH + std::time::Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.000000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000000Z");
        assert_eq!(at(951_868_800), "2000-03-01T00:00:00.000000Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59.000000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000000Z");
    }

    /// Returns JSON with the relevant keys and arbitrary values.
    fn hostile() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            prop::sample::select(vec!["cu8", "ci16_le", "1.0.0", "", "../x"]).prop_map(Into::into),
            "\\PC{0,8}".prop_map(Into::into),
        ];
        let key = prop::sample::select(vec![
            "global",
            "captures",
            "annotations",
            "core:datatype",
            "core:version",
            "core:sample_rate",
            "core:sample_start",
            "core:frequency",
            "core:dataset",
            "core:datetime",
        ]);
        leaf.prop_recursive(3, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::vec((key.clone(), inner), 0..6)
                    .prop_map(|pairs| pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn hostile_metadata_is_refused_or_valid(global in hostile(), captures in hostile(), valid_type: bool) {
            let mut global = global;
            if let (true, Some(map)) = (valid_type, global.as_object_mut()) {
                map.insert("core:datatype".into(), "cu8".into());
                map.insert("core:version".into(), "1.0.0".into());
            }
            let json = serde_json::json!({"global": global, "captures": captures}).to_string();
            if let Ok(meta) = parse(&json) {
                prop_assert!(meta.sample_rate_hz.is_none_or(|rate| rate > 0.0 && rate <= HZ_MAX));
                prop_assert!(meta.captures.is_sorted_by_key(|capture| capture.sample_start));
                prop_assert_eq!(parse(&meta.to_json(Path::new(NAME)).unwrap()).unwrap(), meta);
            }
        }

        #[test]
        fn bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(SigMfMeta::parse(&bytes, Path::new(NAME)).is_err());
        }
    }
}

//! Reading the JSON of SigMF, including common deviations in the form of values.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;
use stripline::{ClockReference, StreamClock};

use super::super::encoding::Encoding;
use super::super::segments::and_more;
use super::super::utc::utc_ns;
use super::{FormatError, SIGMF_META_BYTES_MAX, SigMfCapture, SigMfMeta, VERSION, listed, refuse, shortened};

/// The remedy for data files in formats of other programs that SigMF metadata describe.
const NCD: &str = "a non-conforming dataset (NCD) is not read: extract its samples into a .sigmf-data file";

/// The extensions of the SigMF project. Their keys describe the signal, and change no sample.
const DESCRIBING: [&str; 10] = [
    "adsb",
    "antenna",
    "capture_details",
    "modulation",
    "rfml",
    "signal",
    "spatial",
    "traceability",
    "volatile",
    "wifi",
];

/// Parses text of limited length, with or without a byte order mark.
pub(super) fn read<'a, T: Deserialize<'a>>(json: &'a [u8], path: &Path) -> Result<T, FormatError> {
    if json.len() as u64 > SIGMF_META_BYTES_MAX {
        return Err(FormatError::MetaTooLong { path: path.to_owned(), limit: SIGMF_META_BYTES_MAX });
    }
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    if json.trim_ascii().is_empty() {
        return Err(FormatError::Empty { path: path.to_owned() });
    }
    serde_json::from_slice(json).map_err(|source| {
        let (what, remedy) = match json {
            [0xff, 0xfe, b'{', 0, ..] | [0xfe, 0xff, 0, b'{', ..] | [b'{', 0, ..] | [0, b'{', ..] => {
                ("SigMF metadata in UTF-16", "convert it, as with `iconv -f UTF-16 -t UTF-8`")
            }
            [b'{', ..] if std::str::from_utf8(json).is_err() => (
                "SigMF metadata in Latin-1 or another encoding, not UTF-8",
                "convert it, as with `iconv -f ISO-8859-1 -t UTF-8`",
            ),
            _ => return FormatError::MetaSyntax { path: path.to_owned(), source },
        };
        FormatError::Foreign { path: path.to_owned(), what, remedy }
    })
}

/// Returns the files of the recordings in a collection. In earlier versions of SigMF, each
/// recording is a list of name and hash instead of an object.
pub(super) fn streams(json: &[u8], path: &Path) -> Result<Vec<String>, FormatError> {
    let file: Value = read(json, path)?;
    let streams = file["collection"]["core:streams"].as_array().map_or(&[][..], Vec::as_slice);
    let name = |stream: &Value| {
        let name = stream["name"].as_str().or(stream[0].as_str()).or(stream.as_str())?;
        Some(format!("{}.sigmf-meta", name.strip_suffix(".sigmf-meta").unwrap_or(name)))
    };
    Ok(streams.iter().filter_map(name).collect())
}

/// Metadata as read.
pub(super) struct Parsed {
    pub(super) meta: SigMfMeta,
    /// The name of the data file, if the metadata state it.
    pub(super) data_name: Option<String>,
    is_metadata_only: bool,
    /// Notes for the user of the recording, each part of a sentence.
    pub(super) notes: Vec<String>,
}

impl Parsed {
    /// Returns the error for a data file that does not exist. `path` is the metadata file.
    pub(super) fn data_missing(&self, path: &Path, data: PathBuf) -> FormatError {
        if self.is_metadata_only {
            let problem = "there are no samples: give a recording with a data file";
            return refuse(path, "core:metadata_only", true, problem);
        }
        let Some(name) = &self.data_name else {
            return FormatError::DataMissing { path: path.to_owned(), data };
        };
        let problem =
            "there is no such file: correct it, or remove it if the data file has the name of the metadata";
        refuse(path, "core:dataset", format!("{name:?}"), problem)
    }
}

/// Parses metadata. A recording of metadata only is refused if its data file does not exist.
pub(super) fn parse(json: &[u8], path: &Path) -> Result<Parsed, FormatError> {
    let file: Object<MetaJson> = read(json, path)?;
    let key = KeyPlace { path, part: String::new() };
    let Object::Given(file, mut unknown) = file else {
        return Err(key.refuse(
            "global",
            Leaf::Absent,
            "SigMF metadata is an object with this key: give a .sigmf-meta file",
        ));
    };
    let Object::Given(global, of_global) = file.global else {
        return Err(key.refuse(
            "global",
            file.global.wrong(),
            "it must be an object with `core:datatype`: add it",
        ));
    };
    unknown.extend(of_global);
    // In early versions, the name of the list is singular.
    let (list, captures) = match (file.captures, file.capture) {
        (List::Absent, captures) => ("capture", captures),
        (captures, List::Absent) => ("captures", captures),
        (captures, _) => {
            unknown.push("capture".into());
            ("captures", captures)
        }
    };
    let captures = match captures {
        List::Absent => Vec::new(),
        List::Given(captures) => captures,
        List::Wrong(value) => return Err(key.refuse(list, value, "it must be a list: correct it")),
    };
    global.conforms(&key)?;
    let mut notes = global.notes(&key)?;
    let (mut times, mut names) = (Vec::new(), BTreeSet::new());
    let mut meta = global.meta(&key)?;
    // Some programs write the frequency and the time of the recording here alone.
    let frequency_hz = key.number("core:frequency", &global.frequency)?;
    meta.captures.reserve_exact(captures.len());
    for (index, capture) in captures.into_iter().enumerate() {
        let Object::Given(capture, mut of_capture) = capture else {
            let field = format!("{list}[{index}]");
            return Err(key.refuse(&field, capture.wrong(), "it must be an object: correct it"));
        };
        let key = KeyPlace { path, part: format!("{list}[{index}].") };
        // In early versions, the key is `core:time`.
        let mut datetime = match (&capture.datetime, &capture.time) {
            (Leaf::Absent, time) => key.time("core:time", time, &mut times),
            (datetime, time) => {
                of_capture.extend((!matches!(time, Leaf::Absent)).then(|| "core:time".to_owned()));
                key.time("core:datetime", datetime, &mut times)
            }
        };
        if !matches!(capture.clock, Leaf::Absent) && capture.clock().is_none() {
            of_capture.push("stripline:clock".to_owned());
        }
        for name in of_capture {
            if !names.contains(&name) {
                unknown.push(format!("{}{name}", key.part));
                names.insert(name);
            }
        }
        // Version 0.0.1 and files of SDRangel have the rate in the captures.
        let rates = [
            ("core:sample_rate", &capture.sample_rate),
            ("sdrangel:sample_rate", &capture.sdrangel_sample_rate),
        ];
        for (name, value) in rates {
            if let Some(rate) = key.number(name, value)?
                && rate != *meta.sample_rate_hz.get_or_insert(rate)
            {
                let problem = "one rate is read for all captures: split the recording";
                return Err(key.refuse(name, value, problem));
            }
        }
        // Some programs leave out numbers that are zero.
        let default = Some(meta.offset).filter(|offset| index == 0 && *offset == 0);
        let mut capture = capture.checked(&key, default)?;
        capture.frequency_hz = capture.frequency_hz.or(frequency_hz);
        if index == 0 && datetime.is_none() {
            let key = KeyPlace { path, part: String::new() };
            datetime = key.time("core:datetime", &global.datetime, &mut times);
        }
        meta.captures.push(SigMfCapture { datetime, ..capture });
    }
    meta.check(path)?;
    if meta.captures.is_empty() {
        let values = [("core:frequency", &global.frequency), ("core:datetime", &global.datetime)];
        let given = values.into_iter().filter(|(_, value)| !matches!(value, Leaf::Absent));
        unknown.extend(given.map(|(name, _)| name.to_owned()));
    }
    if let Some(first) = times.first() {
        notes.push(format!("{first}, not a time: it is left out{}", and_more(times.len() - 1)));
    }
    if !unknown.is_empty() {
        notes.push(format!("keys that SigMF does not have are left out: {}", listed(&unknown)));
    }
    let (data_name, is_metadata_only) = (global.dataset(&key)?, global.is_metadata_only());
    Ok(Parsed { meta, data_name, is_metadata_only, notes })
}

/// The position of keys in a file, for messages.
struct KeyPlace<'a> {
    path: &'a Path,
    part: String,
}

impl KeyPlace<'_> {
    fn refuse(&self, name: &str, value: impl ToString, problem: &'static str) -> FormatError {
        refuse(self.path, &format!("{}{name}", self.part), value, problem)
    }

    /// Checks that the data file has no bytes beside the samples.
    fn no_bytes(&self, name: &str, value: &Leaf) -> Result<(), FormatError> {
        match self.whole(name, value)? {
            None | Some(0) => Ok(()),
            Some(_) => Err(self.refuse(name, value, NCD)),
        }
    }

    /// Returns the text of a time. A value that is no time is added to `wrong`.
    fn time(&self, name: &str, value: &Leaf, wrong: &mut Vec<String>) -> Option<String> {
        let text = value.text();
        // The first nanosecond of 1970 would mean "no time".
        let is_time = text.as_deref().and_then(utc_ns).is_some_and(|time| time != 0);
        if !is_time && !matches!(value, Leaf::Absent) {
            wrong.push(format!("`{}{name}` is {}", self.part, shortened(value)));
        }
        text
    }

    fn number(&self, name: &str, value: &Leaf) -> Result<Option<f64>, FormatError> {
        let number = match value {
            Leaf::Absent => return Ok(None),
            Leaf::Whole(number) => Some(*number as f64),
            Leaf::Float(number) => Some(*number),
            Leaf::Text(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
            Leaf::Bool(_) | Leaf::List | Leaf::Object => None,
        };
        number
            .map(Some)
            .ok_or_else(|| self.refuse(name, value, "it must be a number: correct it, or remove it"))
    }

    fn whole(&self, name: &str, value: &Leaf) -> Result<Option<u64>, FormatError> {
        // The limit is the largest float below 2^64.
        let is_whole =
            |number: &f64| number.fract() == 0.0 && (0.0..=1.844_674_407_370_955e19).contains(number);
        let number = match value {
            Leaf::Absent => return Ok(None),
            Leaf::Whole(number) => Some(*number),
            Leaf::Float(number) => Some(*number).filter(is_whole).map(|number| number as u64),
            Leaf::Text(text) => text.trim().parse().ok(),
            Leaf::Bool(_) | Leaf::List | Leaf::Object => None,
        };
        number
            .map(Some)
            .ok_or_else(|| self.refuse(name, value, "it must be a whole number from 0: correct it"))
    }
}

/// The value of a key, in any form.
#[derive(Default)]
enum Leaf {
    #[default]
    Absent,
    Whole(u64),
    Float(f64),
    Text(String),
    Bool(bool),
    List,
    Object,
}

impl Leaf {
    /// Returns the text; `None`: the value is not a text.
    fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("missing"),
            Self::Whole(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Bool(truth) => truth.fmt(f),
            Self::List => f.write_str("a list"),
            Self::Object => f.write_str("an object"),
        }
    }
}

impl<'de> Deserialize<'de> for Leaf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Wanted::<Self>(PhantomData))
    }
}

/// An object with the keys that SigMF does not have, or another value in its place.
enum Object<T> {
    Given(T, Vec<String>),
    Wrong(Leaf),
}

impl<T> Object<T> {
    fn wrong(&self) -> &Leaf {
        match self {
            Self::Given(..) => &Leaf::Object,
            Self::Wrong(value) => value,
        }
    }
}

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self::Wrong(Leaf::Absent)
    }
}

impl<'de, T: Deserialize<'de> + Keys> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Wanted::<ObjectOf<T>>(PhantomData))
    }
}

/// A list, or another value in its place.
#[derive(Default)]
enum List<T> {
    #[default]
    Absent,
    Given(Vec<T>),
    Wrong(Leaf),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Wanted::<ListOf<T>>(PhantomData))
    }
}

/// A visitor that takes values of the wanted kind, and any other value as a leaf.
struct Wanted<K>(PhantomData<K>);

struct ObjectOf<T>(PhantomData<T>);
struct ListOf<T>(PhantomData<T>);

/// The rule for a kind of value.
trait WantedKind<'de> {
    type Value;

    fn of_leaf(leaf: Leaf) -> Self::Value;

    fn of_map<A: MapAccess<'de>>(mut object: A) -> Result<Self::Value, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::of_leaf(Leaf::Object))
    }

    fn of_seq<A: SeqAccess<'de>>(mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::of_leaf(Leaf::List))
    }
}

impl WantedKind<'_> for Leaf {
    type Value = Self;

    fn of_leaf(leaf: Leaf) -> Self {
        leaf
    }
}

/// The keys of an object in the namespace `core`, in any version of SigMF, and in files of other
/// programs if they are read.
trait Keys {
    const KEYS: &'static [&'static str];
}

/// The members of an object, with a list of the keys that SigMF does not have.
struct Watched<A> {
    object: A,
    known: &'static [&'static str],
    unknown: Vec<String>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Watched<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.object.next_key::<String>()? else { return Ok(None) };
        if key.starts_with("core:") && !self.known.contains(&&*key) {
            self.unknown.push(key.clone());
        }
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.object.next_value_seed(seed)
    }
}

impl<'de, T: Deserialize<'de> + Keys> WantedKind<'de> for ObjectOf<T> {
    type Value = Object<T>;

    fn of_leaf(leaf: Leaf) -> Object<T> {
        Object::Wrong(leaf)
    }

    fn of_map<A: MapAccess<'de>>(object: A) -> Result<Object<T>, A::Error> {
        let mut watched = Watched { object, known: T::KEYS, unknown: Vec::new() };
        let given = T::deserialize(MapAccessDeserializer::new(&mut watched))?;
        Ok(Object::Given(given, watched.unknown))
    }
}

impl<'de, T: Deserialize<'de>> WantedKind<'de> for ListOf<T> {
    type Value = List<T>;

    fn of_leaf(leaf: Leaf) -> List<T> {
        match leaf {
            Leaf::Absent => List::Absent,
            leaf => List::Wrong(leaf),
        }
    }

    fn of_seq<A: SeqAccess<'de>>(list: A) -> Result<List<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(List::Given)
    }
}

impl<'de, K: WantedKind<'de>> Visitor<'de> for Wanted<K> {
    type Value = K::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<K::Value, E> {
        Ok(K::of_leaf(Leaf::Absent))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<K::Value, E> {
        Ok(K::of_leaf(Leaf::Bool(truth)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<K::Value, E> {
        Ok(K::of_leaf(Leaf::Whole(number)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<K::Value, E> {
        Ok(K::of_leaf(Leaf::Float(number as f64)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<K::Value, E> {
        Ok(K::of_leaf(Leaf::Float(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<K::Value, E> {
        Ok(K::of_leaf(Leaf::Text(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<K::Value, A::Error> {
        K::of_seq(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<K::Value, A::Error> {
        K::of_map(object)
    }
}

/// The JSON of a metadata file. Keys that are not listed are ignored.
#[derive(serde::Deserialize)]
struct MetaJson {
    #[serde(default)]
    global: Object<GlobalJson>,
    #[serde(default)]
    captures: List<Object<CaptureJson>>,
    #[serde(default)]
    capture: List<Object<CaptureJson>>,
}

impl Keys for MetaJson {
    const KEYS: &'static [&'static str] = &[];
}

#[derive(serde::Deserialize)]
#[serde(default)]
#[derive(Default)]
struct GlobalJson {
    #[serde(rename = "core:datatype")]
    datatype: Leaf,
    #[serde(rename = "core:version")]
    version: Leaf,
    #[serde(rename = "core:sample_rate")]
    sample_rate: Leaf,
    #[serde(rename = "core:frequency")]
    frequency: Leaf,
    #[serde(rename = "core:datetime")]
    datetime: Leaf,
    #[serde(rename = "core:num_channels")]
    num_channels: Leaf,
    #[serde(rename = "core:offset")]
    offset: Leaf,
    #[serde(rename = "core:description")]
    description: Leaf,
    #[serde(rename = "core:author")]
    author: Leaf,
    #[serde(rename = "core:hw")]
    hw: Leaf,
    #[serde(rename = "core:recorder")]
    recorder: Leaf,
    #[serde(rename = "core:license")]
    license: Leaf,
    #[serde(rename = "core:dataset")]
    dataset: Leaf,
    #[serde(rename = "core:trailing_bytes")]
    trailing_bytes: Leaf,
    #[serde(rename = "core:header_bytes")]
    header_bytes: Leaf,
    #[serde(rename = "core:metadata_only")]
    metadata_only: Leaf,
    #[serde(rename = "core:extensions")]
    extensions: List<Object<ExtensionJson>>,
}

impl Keys for GlobalJson {
    const KEYS: &'static [&'static str] = &[
        "core:author",
        "core:collection",
        "core:data_doi",
        "core:dataset",
        "core:datatype",
        "core:datetime",
        "core:description",
        "core:extensions",
        "core:frequency",
        "core:geolocation",
        "core:header_bytes",
        "core:hw",
        "core:license",
        "core:meta_doi",
        "core:metadata_only",
        "core:num_channels",
        "core:offset",
        "core:recorder",
        "core:sample_rate",
        "core:sha512",
        "core:trailing_bytes",
        "core:version",
    ];
}

/// An extension of SigMF that the metadata use.
#[derive(serde::Deserialize)]
#[serde(default)]
#[derive(Default)]
struct ExtensionJson {
    name: Leaf,
    optional: Leaf,
}

impl Keys for ExtensionJson {
    const KEYS: &'static [&'static str] = &[];
}

impl GlobalJson {
    /// Checks that the data file has samples only.
    fn conforms(&self, key: &KeyPlace<'_>) -> Result<(), FormatError> {
        key.no_bytes("core:trailing_bytes", &self.trailing_bytes)?;
        key.no_bytes("core:header_bytes", &self.header_bytes)
    }

    fn is_metadata_only(&self) -> bool {
        matches!(self.metadata_only, Leaf::Bool(true))
    }

    /// Returns notes about keys that are not used.
    ///
    /// # Errors
    /// The metadata require an extension that may change the samples.
    fn notes(&self, key: &KeyPlace<'_>) -> Result<Vec<String>, FormatError> {
        let mut notes = Vec::new();
        if self.is_metadata_only() {
            notes.push("`core:metadata_only` is left out, as there is a data file".to_owned());
        }
        let extensions = match &self.extensions {
            List::Absent => &[][..],
            List::Given(extensions) => extensions,
            List::Wrong(value) => {
                notes.push(format!("`core:extensions` is {}, no list: it is left out", shortened(value)));
                &[]
            }
        };
        let mut required = BTreeSet::new();
        for (index, extension) in extensions.iter().enumerate() {
            let Object::Given(ExtensionJson { name, optional: Leaf::Bool(false) }, _) = extension else {
                continue;
            };
            match name.text().and_then(|name| DESCRIBING.into_iter().find(|known| *known == name)) {
                Some(known) => drop(required.insert(known.to_owned())),
                None => {
                    let field = format!("core:extensions[{index}].optional");
                    let problem = "this extension is not supported: set the key to true if the samples are plain without it";
                    return Err(key.refuse(&field, format!("false for {name}"), problem));
                }
            }
        }
        if !required.is_empty() {
            let names = listed(&Vec::from_iter(required));
            notes.push(format!("required extensions, which describe the signal, are left out: {names}"));
        }
        Ok(notes)
    }

    /// Returns the validated metadata, without captures.
    fn meta(&self, key: &KeyPlace<'_>) -> Result<SigMfMeta, FormatError> {
        let datatype = self.datatype.text();
        let Some(encoding) = datatype.as_deref().and_then(Encoding::of_sigmf) else {
            let problem = "a datatype is `c` or `r`, a type from `i8` to `f64`, and `_le` or `_be`, as `ci16_le`: set it to the type of the samples";
            return Err(key.refuse("core:datatype", &self.datatype, problem));
        };
        let channels = key.whole("core:num_channels", &self.num_channels)?.unwrap_or(1);
        Ok(SigMfMeta {
            is_big_endian: encoding.is_big_endian && encoding.scalar.align() > 1,
            channels: u32::try_from(channels).unwrap_or(u32::MAX),
            offset: key.whole("core:offset", &self.offset)?.unwrap_or(0),
            sample_rate_hz: key.number("core:sample_rate", &self.sample_rate)?,
            version: self.version.text().unwrap_or_else(|| VERSION.to_owned()),
            description: self.description.text(),
            author: self.author.text(),
            hardware: self.hw.text(),
            recorder: self.recorder.text(),
            license: self.license.text(),
            ..SigMfMeta::new(encoding.scalar)
        })
    }

    /// Returns the name of the data file, which must not lead out of the folder of the metadata.
    fn dataset(&self, key: &KeyPlace<'_>) -> Result<Option<String>, FormatError> {
        let name = match &self.dataset {
            Leaf::Absent => return Ok(None),
            Leaf::Text(name) => name.as_str(),
            _ => "",
        };
        let is_plain = Path::new(name).file_name().is_some_and(|file_name| file_name == name);
        if !is_plain || name.contains(['/', '\\', '\0']) {
            let problem = "it must be the name of a file in the same folder: correct it";
            return Err(key.refuse("core:dataset", &self.dataset, problem));
        }
        Ok(Some(name.to_owned()))
    }
}

#[derive(serde::Deserialize)]
#[serde(default)]
#[derive(Default)]
struct CaptureJson {
    #[serde(rename = "core:sample_start")]
    sample_start: Leaf,
    #[serde(rename = "core:global_index")]
    global_index: Leaf,
    #[serde(rename = "core:frequency")]
    frequency: Leaf,
    #[serde(rename = "core:datetime")]
    datetime: Leaf,
    #[serde(rename = "core:time")]
    time: Leaf,
    #[serde(rename = "core:header_bytes")]
    header_bytes: Leaf,
    #[serde(rename = "core:sample_rate")]
    sample_rate: Leaf,
    #[serde(rename = "sdrangel:sample_rate")]
    sdrangel_sample_rate: Leaf,
    #[serde(rename = "stripline:clock")]
    clock: Leaf,
    #[serde(rename = "stripline:clock_error_ns")]
    clock_error_ns: Leaf,
}

impl Keys for CaptureJson {
    const KEYS: &'static [&'static str] = &[
        "core:datetime",
        "core:frequency",
        "core:geolocation",
        "core:global_index",
        "core:header_bytes",
        "core:sample_rate",
        "core:sample_start",
        "core:time",
    ];
}

impl CaptureJson {
    /// Returns the validated capture without its time. If the JSON has no start, the capture starts
    /// at `default`.
    fn checked(self, key: &KeyPlace<'_>, default: Option<u64>) -> Result<SigMfCapture, FormatError> {
        key.no_bytes("core:header_bytes", &self.header_bytes)?;
        let start = key.whole("core:sample_start", &self.sample_start)?.or(default);
        let problem = "each capture needs the number of its first sample: add it";
        Ok(SigMfCapture {
            sample_start: start.ok_or_else(|| key.refuse("core:sample_start", &Leaf::Absent, problem))?,
            global_index: key.whole("core:global_index", &self.global_index)?,
            frequency_hz: key.number("core:frequency", &self.frequency)?,
            datetime: None,
            clock: self.clock(),
        })
    }

    /// Returns the clock; `None`: the clock is absent, or unknown to this version.
    fn clock(&self) -> Option<StreamClock> {
        let reference = self.clock.text().as_deref().and_then(ClockReference::from_word)?;
        let error_ns = match self.clock_error_ns {
            Leaf::Whole(ns) => Some(ns).filter(|ns| *ns <= StreamClock::ERROR_NS_MAX),
            _ => None,
        };
        Some(StreamClock { error_ns, ..StreamClock::new(reference) })
    }
}

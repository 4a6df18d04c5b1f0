//! The text of metadata, in which only the captures and a checksum change.

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{FormatError, SigMfCapture, SigMfMeta, json};

/// The members of an object in their order, each with its text.
#[derive(Debug)]
struct Members(Vec<(String, Box<RawValue>)>);

/// Metadata with all keys, numbers and texts of other programs as they were written.
#[derive(Debug)]
pub(super) struct Document {
    members: Members,
    pub(super) captures: Vec<RawCapture>,
}

/// A capture.
#[derive(Clone, Debug)]
pub(super) struct RawCapture {
    pub(super) start: u64,
    text: Box<RawValue>,
}

impl Document {
    /// Reads metadata that were parsed as `meta`.
    ///
    /// # Errors
    /// The text is too long, or is not a JSON object.
    pub(super) fn read(text: &[u8], meta: &SigMfMeta, path: &Path) -> Result<Self, FormatError> {
        let mut members: Members = json::read(text, path)?;
        if members.0.iter().all(|(key, _)| key != "captures")
            && let Some((key, _)) = members.0.iter_mut().find(|(key, _)| key == "capture")
        {
            key.push('s');
        }
        let captures = members.0.iter().find(|(key, _)| key == "captures");
        let texts: Vec<Box<RawValue>> =
            captures.and_then(|(_, texts)| serde_json::from_str(texts.get()).ok()).unwrap_or_default();
        let capture = |(text, parsed): (_, &SigMfCapture)| RawCapture { start: parsed.sample_start, text };
        Ok(Self { members, captures: texts.into_iter().zip(&meta.captures).map(capture).collect() })
    }

    /// Removes the checksum of the samples. Returns whether there was one.
    pub(super) fn remove_checksum(&mut self) -> bool {
        let Some((_, text)) = self.members.0.iter_mut().find(|(key, _)| key == "global") else {
            return false;
        };
        let Ok(mut global) = serde_json::from_str::<Members>(text.get()) else { return false };
        let count = global.0.len();
        global.0.retain(|(key, _)| key != "core:sha512");
        let changed = RawValue::from_string(global.text("  ", None)).ok();
        changed.filter(|_| global.0.len() < count).map(|changed| *text = changed).is_some()
    }

    /// Returns the text of the file.
    pub(super) fn text(&self) -> String {
        let texts: Vec<&str> = self.captures.iter().map(|capture| capture.text.get()).collect();
        let captures = match texts.is_empty() {
            true => "[]".into(),
            false => format!("[\n    {}\n  ]", texts.join(",\n    ")),
        };
        self.members.text("", Some(&captures)) + "\n"
    }
}

impl Members {
    /// Returns the object as text behind this indentation, with these captures.
    fn text(&self, indentation: &str, captures: Option<&str>) -> String {
        let mut lines: Vec<String> = Vec::new();
        let mut is_missing = true;
        for (key, value) in &self.0 {
            let captures = captures.filter(|_| key == "captures");
            is_missing &= captures.is_none();
            lines.push(format!("{}: {}", serde_json::Value::from(&**key), captures.unwrap_or(value.get())));
        }
        lines.extend(captures.filter(|_| is_missing).map(|captures| format!("\"captures\": {captures}")));
        let separator = format!(",\n{indentation}  ");
        format!("{{\n{indentation}  {}\n{indentation}}}", lines.join(&separator))
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = object.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

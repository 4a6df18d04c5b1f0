//! Reads a waveform file, from bytes to tables with valid keys and values of the right kind.
//! `check` then decides whether the parts fit together.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stripline::component::Value;
use stripline::internal::units;
use stripline::node::Dispatch;
use stripline::packet::payload::TypeName;
use stripline::terms::LinkOptions;
use toml::Spanned;
use toml::de::DeTable;

use super::diagnostics::{At, Code, Diagnostic, Diagnostics, Place, Source};
use super::text::{quoted, suggestion};
use super::toml_reader::TableReader;
use super::toml_reader::program::ProgramText;
use super::{Placement, Restart};

/// The maximum size of a waveform file in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// The maximum length of a line in bytes.
const LINE_BYTES_MAX: usize = 1 << 16;
/// The maximum number of components of a waveform.
pub(super) const COMPONENTS_MAX: usize = 1024;
/// The maximum number of connections of a waveform.
pub(super) const CONNECTIONS_MAX: usize = 4096;
/// The maximum length of the name of a component or waveform in bytes.
pub(super) const NAME_BYTES_MAX: usize = 64;
/// The remedy for a connection with one bracket.
pub(super) const CONNECTION_BRACKETS: &str = "write [[connection]], with two brackets, for each connection";
/// The maximum number of repeated names that are reported with the place of the first occurrence.
/// Each needs a search.
const FIRSTS_MAX: usize = 100;

/// The content of the file, before the names are resolved.
pub(super) struct Draft {
    pub name: Option<String>,
    pub description: String,
    pub components: Vec<ComponentDraft>,
    pub connections: Vec<ConnectionDraft>,
}

/// One `[component.NAME]`.
pub(super) struct ComponentDraft {
    pub name: At<String>,
    pub stock: Option<At<String>>,
    pub executable: Option<At<ProgramText>>,
    /// Whether `type` or `exec` is present, even if it is unreadable.
    pub has_program: bool,
    pub placement: Option<Placement>,
    pub restart: Option<Restart>,
    pub priority: Option<u8>,
    pub cpus: Vec<At<usize>>,
    pub dispatch: Option<Dispatch>,
    pub properties: Vec<Property>,
    pub unknown_keys: Vec<At<String>>,
    /// All keys that the table may have.
    pub keys: Vec<&'static str>,
    /// The place of the value of each key.
    pub places: BTreeMap<&'static str, Place>,
}

impl ComponentDraft {
    /// Returns the place of the value of a key.
    pub(super) fn place(&self, key: &str) -> &Place {
        self.places.get(key).unwrap_or(&self.name.place)
    }
}

/// A property as written. The value is `None` if it is an array or has another kind that no
/// property takes.
pub(super) struct Property {
    pub name: At<String>,
    pub value: At<Option<Value>>,
}

/// One `[[connection]]`. `None` stands for a missing key. In `from` and `to` it also stands for a
/// value that has been found wrong.
pub(super) struct ConnectionDraft {
    pub place: Place,
    pub from: Option<At<String>>,
    pub to: Option<At<String>>,
    pub transport: Option<At<String>>,
    /// The transports that `auto` may choose in addition to the default candidates.
    pub allow: Vec<At<String>>,
    pub options: LinkOptions,
    /// The types without a layout that are allowed between programs built differently.
    pub types_without_layout: Vec<At<TypeName>>,
    /// The age of samples above which the launcher warns.
    pub age_limit_ms: Option<u32>,
    /// The place of the value of each key.
    pub places: BTreeMap<&'static str, Place>,
}

impl ConnectionDraft {
    /// Returns the place of the value of a key.
    pub(super) fn place(&self, key: &str) -> &Place {
        self.places.get(key).unwrap_or(&self.place)
    }
}

/// Reads the bytes of the file, at most [`FILE_BYTES_MAX`].
///
/// # Errors
/// The reason why the file cannot be read, with the remedy. For a misspelt path the remedy names
/// the nearest file.
///
/// ```
/// let found = stripline_waveform::internal::read_bytes("no-such-file.toml".as_ref()).unwrap_err();
/// assert!(found.to_string().contains("there is no file `no-such-file.toml`"));
/// ```
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, Diagnostics> {
    let name = quoted(&path.display().to_string());
    let fail =
        |code, message: String, remedy: &str| Err(unreadable(path, String::new(), 0, code, &message, remedy));
    if path.is_dir() {
        return fail(Code::Unreadable, format!("{name} is a folder"), "name the waveform file in it");
    }
    let mut bytes = Vec::new();
    let read =
        open_at_once(path).and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let remedy = match nearest(path) {
                Some(meant) => format!("did you mean {}?", quoted(&meant.display().to_string())),
                None if path.is_relative() => "the path is relative to the current folder".into(),
                None => String::new(),
            };
            fail(Code::Unreadable, format!("there is no file {name}"), &remedy)
        }
        Err(error) => fail(Code::Unreadable, format!("cannot read {name}: {error}"), ""),
        Ok(_) if bytes.len() > FILE_BYTES_MAX => {
            let message = format!("{name} is larger than a waveform file can be");
            fail(Code::Limit, message, "the limit is 1 MiB; is this the right file?")
        }
        Ok(0) if !path.is_file() => fail(
            Code::Unreadable,
            format!("{name} is not a file, and has no content"),
            "name a waveform file",
        ),
        Ok(_) => Ok(bytes),
    }
}

/// Opens a file without waiting for the other end of a named pipe. Later reads of the pipe block.
fn open_at_once(path: &Path) -> std::io::Result<std::fs::File> {
    let at_once = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(at_once).open(path)?;
    rustix::io::ioctl_fionbio(&file, false)?;
    Ok(file)
}

/// Returns the TOML file that a path to no file probably means: the path with the ending `.toml`,
/// or a file of a similar name in the folder.
///
/// ```
/// assert_eq!(stripline_waveform::internal::nearest("no/such/folder/x".as_ref()), None);
/// ```
pub fn nearest(path: &Path) -> Option<PathBuf> {
    // The search ends after this number of files.
    const FILES_MAX: usize = 10_000;
    let with_ending = PathBuf::from(format!("{}.toml", path.to_str()?));
    if with_ending.is_file() {
        return Some(with_ending);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let names = entries.take(FILES_MAX).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut stems: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".toml").map(String::from)).collect();
    stems.sort();
    let meant = suggestion(path.file_stem()?.to_str()?, stems.iter().map(String::as_str))?;
    Some(folder.unwrap_or(Path::new("")).join(format!("{meant}.toml")))
}

/// Returns the text of the file as a source for findings, or a finding when it is not text.
pub(super) fn source(bytes: &[u8], path: &Path) -> Result<Arc<Source>, Diagnostics> {
    let fail = |code, text, at, message, remedy| Err(unreadable(path, text, at, code, message, remedy));
    if bytes.len() > FILE_BYTES_MAX {
        let remedy = "the limit is 1 MiB; is this the right file?";
        return fail(Code::Limit, String::new(), 0, "the file is too large", remedy);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Err(error) => {
            // Only the part before the invalid byte is printed, because the rest may be arbitrary
            // bytes.
            let at = error.valid_up_to();
            let mut text = String::from_utf8_lossy(&bytes[..at]).into_owned();
            text.push('\u{fffd}');
            let remedy = "the file must be UTF-8 text; save it as such, or is this the right file?";
            let start = at - text[..at].rfind('\n').map_or(0, |n| n + 1);
            if start > LINE_BYTES_MAX {
                text.clear();
            }
            fail(Code::NotText, text, at, "this is not UTF-8 text", remedy)
        }
        Ok(text) if text.lines().any(|line| line.len() > LINE_BYTES_MAX) => {
            let remedy = "the limit is 64 KiB a line; is this the right file?";
            fail(Code::Limit, String::new(), 0, "the file has a line that is too long", remedy)
        }
        Ok(text) => Ok(Source::file(path.display().to_string(), text.to_owned())),
    }
}

/// Returns the one finding about a file that cannot be read.
fn unreadable(path: &Path, text: String, at: usize, code: Code, message: &str, remedy: &str) -> Diagnostics {
    let place = Place::new(&Source::file(path.display().to_string(), text), at..at + 1);
    let mut found = Diagnostics::default();
    found.error(code, &place, message, remedy);
    found
}

/// Reads the tables of the file; `None` if the file is not TOML, or far too large.
pub(super) fn read(source: &Arc<Source>, found: &mut Diagnostics) -> Option<Draft> {
    let root = tables(source, found)?;
    TableReader::new(source, found, root.get_ref()).draft()
}

/// Returns the tables of the file; `None` if the file is not TOML.
pub(super) fn tables<'s>(source: &'s Arc<Source>, found: &mut Diagnostics) -> Option<Spanned<DeTable<'s>>> {
    let (root, errors) = DeTable::parse_recoverable(source.text());
    if errors.is_empty() {
        return Some(root);
    }
    // The tables of a broken file are unreliable, so no further checks follow.
    report_syntax(source, &errors, found);
    None
}

fn report_syntax(source: &Arc<Source>, errors: &[toml::de::Error], found: &mut Diagnostics) {
    let text = source.text();
    // The end of a table with a repeated header. The keys in that table are not reported as
    // repeated.
    let mut repeated_until = 0;
    for (number, error) in errors.iter().enumerate() {
        let span = error.span().unwrap_or(0..0);
        let place = Place::new(source, span.clone());
        if error.message() != "duplicate key" {
            let message = format!("this is not TOML: {}", error.message());
            // The parser takes a word without quotes for a boolean, a number or a date.
            let word = &text[span.start.min(text.len())..span.end.min(text.len())];
            let is_word = word.starts_with(|c: char| c.is_ascii_alphabetic()) && !word.contains(['"', '=']);
            let remedy = if is_word && text[..span.start].trim_end().ends_with('=') {
                format!("a text is written in quotes: \"{}\"", word.trim_end())
            } else {
                // `10 MHz`: only the component determines the unit.
                let unit = units::fix(word, "", false).filter(|_| word.contains(char::is_alphabetic));
                unit.map_or(String::new(), |_| {
                    "write the number alone: a property has its own unit, which `stripline components TYPE` prints".into()
                })
            };
            found.error(Code::Syntax, &place, message, remedy);
        } else if span.start >= repeated_until {
            let line = text[..span.start].rfind('\n').map_or(0, |n| n + 1);
            if text[line..].starts_with('[') {
                repeated_until = text[span.start..].find("\n[").map_or(text.len(), |n| span.start + n);
            }
            let (message, remedy) = match text[line..].starts_with("[connection]") {
                true => ("`connection` is here again as a single table", CONNECTION_BRACKETS),
                false => (
                    "this name is already taken",
                    "every component or topic has a name of its own, and every key appears once",
                ),
            };
            let error = Diagnostic::error(Code::Duplicate, &place, message).help(remedy);
            found.push(match (number < FIRSTS_MAX).then(|| first_of(text, span)).flatten() {
                Some(first) => error.also(&Place::new(source, first), "first here"),
                None => error,
            });
        }
    }
}

/// Returns the first place of a repeated key or table name; `None` if the first place does not
/// begin a line.
fn first_of(text: &str, repeated: Range<usize>) -> Option<Range<usize>> {
    let name = text.get(repeated.clone())?;
    let line_start = text[..repeated.start].rfind('\n').map_or(0, |n| n + 1);
    // The name of a table follows the names of the enclosing tables.
    let before = text[line_start..repeated.start].trim_start();
    let is_table = before.starts_with('[');
    let mut first = None;
    let mut start = 0;
    for line in text[..line_start].split_inclusive('\n') {
        let written = line.trim_start();
        let (at, is_header) = (start + line.len() - written.len(), written.starts_with('['));
        start += line.len();
        if is_header && !is_table {
            // The first occurrence must be in the same table.
            first = None;
        }
        let rest = written.strip_prefix(before).and_then(|rest| rest.strip_prefix(name));
        let is_same =
            rest.is_some_and(|rest| rest.trim_start().starts_with(if is_table { ']' } else { '=' }));
        if is_same && first.is_none() {
            let name_at = at + before.len();
            first = Some(name_at..name_at + name.len());
        }
    }
    first
}

/// Returns whether a text can name a component or a waveform.
pub(super) fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_name_has_the_place_of_the_first() {
        let text = "[a]\nx = 1\n[b.c]\n x = 2\ny = { z = 1 }\nx= 3\n[b.c]\ny = 1\n";
        let first = |repeated: &str, nth: usize| {
            let at = text.match_indices(repeated).nth(nth).unwrap().0;
            first_of(text, at..at + repeated.len()).map(|found| found.start)
        };
        assert_eq!(first("x", 2), Some(text.find(" x = 2").unwrap() + 1), "the key of the same table");
        assert_eq!(first("c", 1), Some(text.find("c]").unwrap()));
        assert_eq!(first("x", 1), None, "it is the first");
        assert_eq!(first("z", 0), None);
    }

    #[test]
    fn names() {
        assert!(is_name("a-1_B") && is_name(&"x".repeat(64)));
        assert!(!is_name("") && !is_name("a.b") && !is_name("é") && !is_name(&"x".repeat(65)));
    }
}

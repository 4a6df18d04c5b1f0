//! The folder that `stripline new` writes to, and the library that the new project depends on.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::arguments::Language;
use crate::failure::Failure;
use crate::format::printable;

/// The longest name of a component, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Names that Cargo or the compiler refuses as the name of a crate, and the names of the
/// dependencies.
const RESERVED: &str = "abstract alloc as async await become box break build const continue core crate deps do dyn \
    else enum examples extern false final fn for gen if impl in incremental let loop macro \
    match mod move mut override priv proc-macro proc_macro pub ref return self serde static \
    std stripline stripline-macros stripline-ring struct super test trait true try type typeof \
    union unsafe unsized use virtual where while yield";

/// Checks the name of a component, which in Rust is also the name of the crate.
pub(super) fn check_name(name: &str, language: Language) -> Result<(), Failure> {
    let shown = printable(name, NAME_BYTES_MAX);
    let is_known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    let is_valid = name.len() <= NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(is_known);
    if !is_valid {
        let rule =
            format!("1 to {NAME_BYTES_MAX} lower-case letters, digits, `-` and `_`, with a letter first");
        return Err(Failure::usage(format!("`{shown}` is not a valid name: use {rule}")));
    }
    if language == Language::Rust && RESERVED.split(' ').any(|word| word == name) {
        let remedy = format!("choose another one, as in `my-{name}`");
        return Err(Failure::usage(format!(
            "`{name}` is a name of the language, of Cargo or of a dependency: {remedy}"
        )));
    }
    Ok(())
}

/// Returns the value of the key `stripline` in the manifest of a crate.
pub(super) fn dependency(source_tree: Option<&Path>) -> Result<String, Failure> {
    Ok(match library(source_tree)? {
        Some(library) => format!("{{ path = {} }}", toml_text(&library)),
        // The dependency is the release of this command.
        None => format!("\"{}\"", env!("CARGO_PKG_VERSION")),
    })
}

/// Returns the full path of the source tree that has the library for C and C++; `None`: there is
/// no source tree.
pub(super) fn source_tree(given: Option<&Path>) -> Result<Option<String>, Failure> {
    let tree = |library: String| library.strip_suffix("/crates/stripline").map(String::from);
    Ok(library(given)?.and_then(tree))
}

/// Returns the folder that this command was installed to, if it also has this file and is not one
/// in which compilers search anyway.
pub(super) fn prefix(file: &str) -> Option<String> {
    let command = std::env::current_exe().and_then(std::fs::canonicalize).ok()?;
    let prefix = command.parent().filter(|folder| folder.ends_with("bin"))?.parent()?;
    let is_searched = ["/", "/usr", "/usr/local"].iter().any(|searched| prefix == Path::new(searched));
    let prefix = prefix.to_str().filter(|text| !is_searched && !text.contains(char::is_control))?;
    Path::new(prefix).join(file).is_file().then(|| prefix.into())
}

/// Returns the full path of the library's crate: in the given source tree, or else in the source
/// tree that built this command, if it still exists.
fn library(source_tree: Option<&Path>) -> Result<Option<String>, Failure> {
    let Some(tree) = source_tree else {
        let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("stripline");
        return Ok(library_in(&built_from).and_then(|library| library.into_os_string().into_string().ok()));
    };
    let shown = shown(tree);
    let library =
        library_in(&tree.join("crates/stripline")).or_else(|| library_in(tree)).ok_or_else(|| {
            let remedy = "give the folder with `crates/stripline` in it";
            Failure::usage(format!("{shown} is not a source tree of Stripline: {remedy}"))
        })?;
    let text = library.into_os_string().into_string();
    text.map(Some).map_err(|_| {
        Failure::usage(format!(
            "{shown}: only paths that are text can be written to files; move the source tree"
        ))
    })
}

/// Returns the full path of the folder if it has the library's crate.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let is_library = manifest.lines().any(|line| line.trim() == "name = \"stripline\"");
    is_library.then(|| folder.canonicalize().ok()).flatten()
}

/// Returns the text of a path, without control characters and not shortened.
pub(super) fn shown(path: &Path) -> String {
    printable(&path.display().to_string(), usize::MAX)
}

/// Returns a path as a TOML string.
fn toml_text(path: &str) -> String {
    // Each JSON string is also a TOML string, except that TOML does not allow an unescaped DEL.
    serde_json::Value::from(path).to_string().replace('\u{7f}', "\\u007F")
}

/// A folder for new files.
pub(super) struct Place(PathBuf);

impl Place {
    /// Makes the folder. An empty folder may exist.
    pub fn new(folder: &Path) -> Result<Self, Failure> {
        let shown = shown(folder);
        let fail = |error: std::io::Error| match error.kind() {
            ErrorKind::NotADirectory | ErrorKind::AlreadyExists => Failure::usage(format!(
                "{shown} is not a folder, or is below a file: choose another `--path`"
            )),
            _ => Failure::new(format!("cannot make the folder {shown}: {error}")),
        };
        std::fs::create_dir_all(folder).map_err(fail)?;
        if std::fs::read_dir(folder).map_err(fail)?.next().is_some() {
            let remedy = "nothing was changed; choose another name or `--path`";
            return Err(Failure::usage(format!("{shown} has files in it: {remedy}")));
        }
        Ok(Self(folder.into()))
    }

    /// Writes a new file. A file that exists is never replaced.
    pub fn write(&self, path: &str, text: &str) -> Result<(), Failure> {
        let path = self.0.join(path);
        let folder = path.parent().unwrap_or(&self.0);
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| OpenOptions::new().write(true).create_new(true).open(&path))
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| {
            Failure::new(format!("cannot write {}: {error}; the project is incomplete", shown(&path)))
        })
    }

    pub fn into_folder(self) -> PathBuf {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Exit;

    #[test]
    fn names_are_those_of_crates() {
        for good in ["a", "gain", "my-gain_2", &"x".repeat(64)] {
            assert!(check_name(good, Language::Rust).is_ok(), "{good}");
        }
        for bad in ["", "2nd", "Gain", "a.b", "a/b", "..", "-a", "ä", "a b", "a\n", &"x".repeat(65)] {
            let failure = check_name(bad, Language::Python).expect_err(bad);
            assert!(failure.text.contains("lower-case letters"), "{}", failure.text);
            assert_eq!(failure.exit, Exit::Usage);
        }
        for reserved in ["fn", "test", "serde", "stripline"] {
            assert!(check_name(reserved, Language::Python).is_ok(), "{reserved}");
            let failure = check_name(reserved, Language::Rust).expect_err(reserved);
            assert!(failure.text.contains(&format!("my-{reserved}")), "{}", failure.text);
        }
    }

    #[test]
    fn paths_are_written_as_strings_of_toml() {
        for path in ["/a b/c", "/with \"quotes\"", "/back\\slash", "/tab\tand\u{7f}"] {
            let text = format!("path = {}", toml_text(path));
            let value: toml::Table = toml::from_str(&text).unwrap();
            assert_eq!(value["path"].as_str(), Some(path));
        }
    }
}

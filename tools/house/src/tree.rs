//! The files of the repository.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// Returns the text of a file, named relative to the root.
#[track_caller]
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the paths of all files with this ending, relative to the root and sorted.
pub fn files(ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(&root(), "", ending, &mut found);
    assert!(!found.is_empty(), "the repository has no {ending} file: the rule would check nothing");
    found.sort();
    found
}

/// Returns the names of the folders in a folder, sorted.
pub fn folders(path: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join(path)).unwrap().map(Result::unwrap);
    let folders = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    folders.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn collect(folder: &Path, prefix: &str, ending: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{prefix}{name}");
        if entry.file_type().unwrap().is_dir() {
            // Skip builds, version control, and other work trees within this one.
            let is_other = name == "target" || name.starts_with('.') || entry.path().join(".git").exists();
            if !is_other {
                collect(&entry.path(), &format!("{path}/"), ending, found);
            }
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

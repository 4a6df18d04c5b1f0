//! One name, one meaning.
//!
//! No type name is defined twice in a crate, and no two files of a layer share a name. Test modules
//! are skipped: their items are used in one file only.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tree;

/// The idiom for a trait that only its own crate implements. Each such trait has a module of its
/// own.
const REPEATED_TYPES: [&str; 1] = ["Sealed"];

/// Folders that implement the same seam, file by file.
const TWINS: [(&str, &str); 2] =
    [("transport/ring", "transport/stream"), ("transport/ring", "transport/signalling")];

#[test]
fn no_type_name_is_defined_twice_in_a_crate() {
    let mut problems = Vec::new();
    for source in sources() {
        let mut types: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for file in files(&source) {
            let mut here = type_names(&fs::read_to_string(&file).unwrap());
            // Two types with one name in one file are alternatives for two configurations.
            here.sort();
            here.dedup();
            here.into_iter().for_each(|name| types.entry(name).or_default().push(file.clone()));
        }
        types.retain(|name, files| files.len() > 1 && !REPEATED_TYPES.contains(&name.as_str()));
        problems.extend(types.into_iter().map(|(name, files)| format!("`{name}` in {}", list(&files))));
    }
    assert!(problems.is_empty(), "give each type its own name:\n{}", problems.join("\n"));
}

#[test]
fn no_two_files_of_a_layer_share_a_name() {
    let mut problems = Vec::new();
    for source in sources() {
        let mut named: BTreeMap<(String, String), Vec<PathBuf>> = BTreeMap::new();
        for file in files(&source) {
            let inside = file.strip_prefix(&source).unwrap();
            let layer = inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
            let name = inside.file_name().unwrap().to_string_lossy().into_owned();
            if inside.components().count() > 1 && name != "mod.rs" {
                named.entry((layer, name)).or_default().push(inside.to_path_buf());
            }
        }
        named.retain(|_, files| files.len() > 1 && !are_twins(files));
        problems.extend(named.into_values().map(|files| list(&files)));
    }
    assert!(problems.is_empty(), "give each file of a layer its own name:\n{}", problems.join("\n"));
}

#[test]
fn type_names_are_found() {
    let text = "pub(crate) struct A<T>(T);\nenum B {}\n// struct C;\nimpl A {\n    type Item = u8;\n}\n\
                mod inner {\n    pub trait D {}\n}\ntype E = u8;\n#[cfg(test)]\nmod tests {\n    struct F;\n}\n";
    assert_eq!(type_names(text), ["A", "B", "D", "E"]);
}

fn are_twins(files: &[PathBuf]) -> bool {
    let folders: Vec<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    TWINS.iter().any(|(one, other)| folders == [Path::new(one), Path::new(other)])
}

/// Returns the `src` folder of every crate of the workspace.
fn sources() -> Vec<PathBuf> {
    let mut sources: Vec<PathBuf> = fs::read_dir(tree::root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"))
        .collect();
    sources.retain(|source| source.is_dir());
    sources.sort();
    sources
}

/// Returns the Rust files below a folder, in order, without modules for tests only.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut tests = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let text = fs::read_to_string(path).unwrap();
        let mut before = "";
        for line in text.lines() {
            if before == "#[cfg(test)]"
                && let Some(name) = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'))
            {
                tests.push(name.to_owned());
            }
            before = line;
        }
    }
    let mut files = Vec::new();
    for path in paths {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if tests.contains(&stem) {
            continue;
        }
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    files
}

/// Returns the types and traits defined before the test module, without associated types.
fn type_names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(")
            && line.contains("test")
            && lines.peek().is_some_and(|next| is_module(next))
        {
            break;
        }
        let words = line.trim_start();
        let words = match words.strip_prefix("pub(") {
            Some(rest) => rest.split_once(") ").map_or("", |(_, rest)| rest),
            None => words.strip_prefix("pub ").unwrap_or(words),
        };
        let words = words.strip_prefix("unsafe ").unwrap_or(words);
        let Some((keyword, rest)) = words.split_once(' ') else { continue };
        let is_type = matches!(keyword, "struct" | "enum" | "trait" | "union")
            || keyword == "type" && !line.starts_with(' ');
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if is_type && name.starts_with(char::is_uppercase) {
            names.push(name);
        }
    }
    names
}

fn is_module(line: &str) -> bool {
    line.starts_with("mod ") && line.ends_with('{')
}

fn list(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

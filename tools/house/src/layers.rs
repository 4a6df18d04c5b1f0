//! The layers: a folder of the library imports only folders above it in the table of
//! ARCHITECTURE.md. No two folders side by side import each other.
//!
//! Imports are `use` lines and paths in code, from `crate::` or `super::`. Comments and inline test
//! modules are skipped: an example may use the whole library.

use std::collections::{BTreeMap, BTreeSet};

use crate::documents::layers_in_the_table;
use crate::tree;

const SOURCE: &str = "crates/stripline/src/";
/// Files at the root that export or test items of all layers, and may import everything.
const ABOVE_ALL: [&str; 6] =
    ["lib.rs", "prelude.rs", "internal.rs", "carrier.rs", "fuzzing.rs", "explorer.rs"];
/// Modules at the root that every layer may import, and that import no layer.
const FOR_ALL: [&str; 2] = ["fail_point", "explorer"];

#[test]
fn a_layer_imports_only_those_below_it() {
    let order = layers_in_the_table();
    let rank = |layer: &str| order.iter().position(|known| known == layer);
    let mut against = Vec::new();
    for (file, modules) in imports() {
        let own = layer_of(&file);
        if ABOVE_ALL.contains(&file.as_str()) {
            continue;
        }
        for module in modules {
            let other = layer_of(&module);
            if other == own || FOR_ALL.contains(&other) || !is_at_root(other) {
                continue;
            }
            let (Some(own), Some(other)) = (rank(own), rank(other)) else {
                against.push(format!("{file} imports {module}: ARCHITECTURE.md has no such layer"));
                continue;
            };
            if other > own {
                against.push(format!("{file} imports {module}, which is above it"));
            }
        }
    }
    assert!(
        against.is_empty(),
        "imports against the order of ARCHITECTURE.md; move the item down, or the caller up:\n{}",
        against.join("\n")
    );
}

#[test]
fn no_two_folders_import_each_other() {
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, modules) in imports() {
        let from = folder_of(&file);
        for module in modules {
            let to = folder_of(&module);
            // A folder and a folder inside it are parts of one layer.
            if !from.starts_with(&to) && !to.starts_with(&from) {
                graph.entry(from.clone()).or_default().insert(to);
            }
        }
    }
    let circles: Vec<String> = graph.keys().filter_map(|folder| circle(&graph, folder)).collect();
    assert!(circles.is_empty(), "folders that import each other:\n{}", circles.join("\n"));
}

#[test]
fn imports_are_found() {
    let text = "use crate::{a::B, c};\nuse super::super::d::E;\n// crate::no\npub(in crate::no) fn f() { crate::g::h(); }\n\
                #[cfg(test)]\nmod tests {\n    use crate::i::J;\n}\n";
    let found = paths(text, &["x".into(), "y".into()]);
    assert_eq!(found, ["a::B", "c", "d::E", "g::h"].map(String::from).into());
}

/// Returns the imports of each file, as paths of modules from the root of the crate.
fn imports() -> Vec<(String, BTreeSet<String>)> {
    let names = root_names();
    let files = tree::files(".rs");
    let files: Vec<_> = files.iter().filter_map(|path| path.strip_prefix(SOURCE)).collect();
    assert!(!files.is_empty(), "{SOURCE} has no source");
    files
        .into_iter()
        .map(|file| {
            let text = tree::read(&format!("{SOURCE}{file}"));
            let found = paths(&text, &module_of(file));
            let renamed = found.into_iter().map(|path| {
                let (first, rest) = path.split_once("::").unwrap_or((&path, ""));
                names.get(first).map_or(path.clone(), |layer| format!("{layer}::{rest}"))
            });
            (file.to_string(), renamed.collect())
        })
        .collect()
}

/// Returns the layer of each name that `lib.rs` exports again.
fn root_names() -> BTreeMap<String, String> {
    let text = tree::read(&format!("{SOURCE}lib.rs"));
    let mut names = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("pub use ")?.strip_suffix(';')) {
        let (module, exported) = line.rsplit_once("::").unwrap();
        for name in exported.trim_matches(['{', '}']).split(", ") {
            names.insert(name.to_string(), module.to_string());
        }
    }
    names
}

/// Returns a source without comments, without the inline test module, and without the paths of
/// visibility, which import nothing.
pub fn code(text: &str) -> String {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap()).collect();
    code.join("\n").split("#[cfg(test)]\nmod tests").next().unwrap().replace("pub(in crate::", "pub(in ")
}

/// Returns the imported paths in the source of a module, from the root of the crate.
pub fn paths(text: &str, module: &[String]) -> BTreeSet<String> {
    let code = code(text);
    let mut found = BTreeSet::new();
    for (start, _) in code.match_indices("crate::") {
        expand("", &code[start + "crate::".len()..], &mut found);
    }
    for (start, _) in code.match_indices("super::") {
        // This `super::` belongs to a longer chain, which begins before it.
        if code[..start].ends_with("super::") {
            continue;
        }
        let rest = &code[start..];
        let after = rest.trim_start_matches("super::");
        let up = (rest.len() - after.len()) / "super::".len();
        let base = &module[..module.len().saturating_sub(up)];
        let prefix: String = base.iter().map(|part| format!("{part}::")).collect();
        // A last `super` without a path is the folder itself.
        if !prefix.is_empty() || !after.starts_with("super") {
            expand(&prefix, after, &mut found);
        }
    }
    found
}

/// Adds the paths that begin at a place in the code, also the paths in braces.
pub fn expand(prefix: &str, code: &str, found: &mut BTreeSet<String>) {
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(code.len());
    let path = &code[..end];
    if code[end..].starts_with('{') && path.is_empty() | path.ends_with("::") {
        for part in parts(&code[end + 1..]) {
            expand(&format!("{prefix}{path}"), part.trim(), found);
        }
    } else if !path.is_empty() && path != "self" {
        found.insert(format!("{prefix}{}", path.trim_end_matches("::")));
    }
}

/// Returns the parts of a list in braces, which begins behind the first brace.
fn parts(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&list[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts
}

/// Returns the module of a file, as the parts of its path.
pub fn module_of(file: &str) -> Vec<String> {
    let path = file.strip_suffix(".rs").unwrap();
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').map(String::from).collect()
}

/// Returns whether the root has a file or folder of this name. Other names are modules within a
/// file.
fn is_at_root(name: &str) -> bool {
    let path = tree::root().join(SOURCE).join(name);
    path.is_dir() || path.with_extension("rs").is_file()
}

/// Returns the first part of a path of a file or module.
fn layer_of(path: &str) -> &str {
    path.split(['/', ':']).next().unwrap().trim_end_matches(".rs")
}

/// Returns the folder of a file or module, with a `/` at its end.
fn folder_of(path: &str) -> String {
    let path = path.replace("::", "/");
    let mut folder = String::new();
    for part in path.split('/') {
        let longer = format!("{folder}{}/", part.trim_end_matches(".rs"));
        if !tree::root().join(SOURCE).join(&longer).is_dir() {
            break;
        }
        folder = longer;
    }
    folder
}

/// Returns a path along the imports from a folder back to itself.
fn circle(graph: &BTreeMap<String, BTreeSet<String>>, start: &String) -> Option<String> {
    let mut reached: BTreeMap<&String, String> = BTreeMap::from([(start, start.clone())]);
    let mut next = vec![start];
    while let Some(folder) = next.pop() {
        for other in graph.get(folder).into_iter().flatten() {
            let way = format!("{} -> {other}", reached[folder]);
            if other == start {
                return Some(way);
            }
            if !reached.contains_key(other) {
                reached.insert(other, way);
                next.push(other);
            }
        }
    }
    None
}

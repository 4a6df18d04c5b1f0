//! The README, ARCHITECTURE.md and the links of all documents.

use std::collections::BTreeSet;

use crate::glossary;
use crate::tree;

const README: &str = "README.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// The folders that a path in backticks may be relative to.
const BASES: [&str; 5] =
    ["", "crates", "crates/stripline", "crates/stripline-conformance", "crates/stripline/src"];

#[test]
fn the_first_documents_are_short() {
    for (path, most) in [(README, 130), (ARCHITECTURE, 170)] {
        let lines = tree::read(path).lines().count();
        assert!(lines <= most, "{path} has {lines} lines, at most {most}: move some to docs/");
    }
}

/// Compares the folders, crates and types in the documents with those in the source.
#[test]
fn names_in_the_documents_are_those_of_the_source() {
    let mut differ = BTreeSet::new();
    for (what, here, there) in [
        ("folder", names_in_table("| folder |", "/"), tree::folders("crates/stripline/src")),
        ("crate", names_in_table("| crate |", ""), tree::folders("crates")),
    ] {
        differ.extend(here.difference(&there).map(|name| format!("{what} {name} is not in the source")));
        differ.extend(there.difference(&here).map(|name| format!("{what} {name} is not in the documents")));
    }
    let (named, declared) = (glossary::type_names(), glossary::declared_types());
    differ.extend(named.difference(&declared).map(|name| format!("type {name} is not in the source")));

    assert!(
        differ.is_empty(),
        "documents and source differ (tables of ARCHITECTURE.md, types of docs/glossary.md): {differ:#?}"
    );
}

#[test]
fn threads_in_the_table_are_those_of_the_source() {
    let table = names_in_table("| thread |", "");
    let mut source = BTreeSet::new();
    for path in tree::files(".rs").iter().filter(|path| path.starts_with("crates/stripline")) {
        for line in tree::read(path).lines() {
            let start = line.split_once(".name(\"").or_else(|| line.split_once("JoinedThread::spawn(\""));
            let name = start.and_then(|(_, rest)| rest.split_once('"'));
            source.extend(name.map(|(name, _)| name.to_string()).filter(|it| it.starts_with("stripline-")));
        }
    }
    assert_eq!(table, source, "left: threads in ARCHITECTURE.md; right: names of threads in the source");
    // The kernel truncates longer names.
    assert!(source.iter().all(|name| name.len() <= 16), "{source:?}");
}

#[test]
fn relative_links_lead_somewhere() {
    let mut broken = Vec::new();
    for path in tree::files(".md") {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, line) in (1..).zip(tree::read(&path).lines()) {
            for rest in line.split("](").skip(1) {
                let target = rest.split(')').next().unwrap();
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let file = if file.is_empty() { path.clone() } else { joined(folder, file) };
                if !tree::root().join(&file).exists() {
                    broken.push(format!("{path}:{number}: there is no {file}"));
                } else if !anchor.is_empty() && !anchors(&tree::read(&file)).contains(anchor) {
                    broken.push(format!("{path}:{number}: {file} has no heading for #{anchor}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Finds every path in backticks, relative to one of [`BASES`].
#[test]
fn paths_in_backticks_are_there() {
    let mut missing = BTreeSet::new();
    let is_checked =
        |path: &str| path == ARCHITECTURE || path == "CONTRIBUTING.md" || path.starts_with("docs/");
    for document in tree::files(".md").iter().filter(|path| is_checked(path)) {
        for path in paths_in_backticks(&tree::read(document)) {
            if !BASES.iter().any(|base| tree::root().join(base).join(&path).exists()) {
                missing.insert(format!("{document}: {path}"));
            }
        }
    }
    // The column of files to start at has names relative to the row's folder.
    for row in rows("| folder |") {
        let folder = row.split('`').nth(1).unwrap();
        for name in row.split('|').nth(3).unwrap().split('`').skip(1).step_by(2) {
            if !tree::root().join("crates/stripline/src").join(folder).join(name).exists() {
                missing.insert(format!("{ARCHITECTURE}: {folder}{name}"));
            }
        }
    }
    assert!(missing.is_empty(), "not there, relative to any of {BASES:?}: {missing:#?}");
}

/// Returns the paths in backticks outside of code blocks, without line numbers. The results are
/// paths of sources and documents, and paths that begin with a folder of the root or with `tests/`.
fn paths_in_backticks(text: &str) -> Vec<String> {
    let mut prose = String::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    let words = prose.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
    let paths = words.map(|word| word.split_once(':').map_or(word, |(path, _)| path));
    let mut folders = tree::folders("");
    // A document may contain a path that only a build creates.
    folders.remove("target");
    folders.insert("tests".into());
    let is_path = |path: &&str| {
        let is_in = |(first, _): (&str, &str)| folders.contains(first);
        let is_file = [".rs", ".toml", ".md"].iter().any(|it| path.ends_with(it));
        path.split_once('/').is_some_and(|parts| is_file || is_in(parts))
    };
    paths.filter(is_path).map(String::from).collect()
}

/// Finds every line of the README's code in an example, or a doc comment of Rust. Tests run both.
#[test]
fn code_in_the_readme_is_that_of_the_examples() {
    let mut compiled = BTreeSet::new();
    for path in tree::files(".rs") {
        let is_example = path.starts_with("crates/stripline/examples/");
        for line in tree::read(&path).lines() {
            let doc = line.trim_start();
            match doc.strip_prefix("//! ").or_else(|| doc.strip_prefix("/// ")) {
                Some(code) => drop(compiled.insert(bare(code))),
                None if is_example => drop(compiled.insert(bare(line))),
                None => {}
            }
        }
    }
    for path in tree::files(".py").iter().filter(|path| path.starts_with("bindings/python/examples/")) {
        compiled.extend(tree::read(path).lines().map(bare));
    }
    let readme = tree::read(README);
    let mut is_code = false;
    for (number, line) in (1..).zip(readme.lines()) {
        if line.starts_with("```") {
            is_code = line.starts_with("```rust") || line.starts_with("```python");
        } else if is_code && !bare(line).is_empty() {
            assert!(compiled.contains(&bare(line)), "{README}:{number}: not a line of an example: {line}");
        }
    }
}

/// Returns a line of code without the indentation and the comment.
fn bare(line: &str) -> String {
    let comment = line.find("//").or_else(|| line.find("  # "));
    line[..comment.unwrap_or(line.len())].trim().to_string()
}

/// Returns the layers of the library, the lowest first.
pub fn layers_in_the_table() -> Vec<String> {
    rows_of_table("| folder |", "/")
}

/// Returns the names in backticks in the first column of a table, without the ending.
fn names_in_table(head: &str, ending: &str) -> BTreeSet<String> {
    rows_of_table(head, ending).into_iter().collect()
}

fn rows_of_table(head: &str, ending: &str) -> Vec<String> {
    let rows = rows(head);
    let names = rows.iter().filter_map(|row| row.strip_prefix("| `")?.split_once('`'));
    names.map(|(name, _)| name.strip_suffix(ending).unwrap_or(name).to_string()).collect()
}

/// Returns the rows of a table of ARCHITECTURE.md, without the head.
fn rows(head: &str) -> Vec<String> {
    let text = tree::read(ARCHITECTURE);
    let rows = text.lines().skip_while(|line| !line.starts_with(head)).skip(2);
    let rows: Vec<_> = rows.take_while(|line| line.starts_with('|')).map(String::from).collect();
    assert!(!rows.is_empty(), "{ARCHITECTURE} has no table `{head}`");
    rows
}

/// Returns a path relative to the root, for a path relative to a folder.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the anchors of a file's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

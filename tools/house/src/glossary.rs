//! The form of the glossary, and the type names in it.

use std::collections::BTreeSet;

use crate::tree;

const GLOSSARY: &str = "docs/glossary.md";

/// A row of the glossary, with its line.
struct Row {
    line: usize,
    cells: Vec<String>,
}

fn rows() -> Vec<Row> {
    let text = tree::read(GLOSSARY);
    let rows = (1..).zip(text.lines()).filter(|(_, line)| line.starts_with('|')).map(|(line, text)| {
        let cells = text.trim_matches('|').split('|').map(|cell| cell.trim().to_string());
        Row { line, cells: cells.collect() }
    });
    // Skip the head and the line below it.
    rows.skip(2).collect()
}

#[test]
fn each_term_is_well_formed() {
    for Row { line, cells } in rows() {
        let place = format!("{GLOSSARY}:{line}");
        let [term, meaning, from, code] = &cells[..] else { panic!("{place}: not four cells") };
        assert!(!term.is_empty() && !from.is_empty(), "{place}: an empty cell");
        assert_eq!(*term, term.to_lowercase(), "{place}: a term is in lower case");
        assert!(
            meaning.starts_with(char::is_uppercase) && meaning.ends_with('.'),
            "{place}: a meaning begins with a capital letter and ends with `.`"
        );
        let is_list = code.split(", ").all(|name| name.starts_with('`') && name.ends_with('`'));
        assert!(code == "-" || is_list, "{place}: names in the code are in backticks, or `-`");
    }
}

#[test]
fn terms_are_sorted_and_unique() {
    for pair in rows().windows(2) {
        let [before, after] = pair else { unreachable!() };
        let (line, before, after) = (after.line, &before.cells[0], &after.cells[0]);
        assert!(before < after, "{GLOSSARY}:{line}: `{after}` stands behind `{before}`");
    }
}

/// Returns the type names of the glossary.
pub fn type_names() -> BTreeSet<String> {
    let is_type = |span: &&str| {
        span.starts_with(|symbol: char| symbol.is_ascii_uppercase())
            && span.chars().all(|symbol| symbol.is_ascii_alphanumeric())
    };
    let rows = rows();
    let cells = rows.iter().flat_map(|row| &row.cells);
    // Every second piece is between backticks.
    let spans = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    spans.filter(is_type).map(String::from).collect()
}

/// Returns the names of all types that the sources declare.
pub fn declared_types() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in tree::files(".rs") {
        for line in tree::read(&path).lines().filter(|line| !line.trim_start().starts_with("//")) {
            let mut words = line.split_whitespace();
            while let Some(word) = words.next() {
                if matches!(word, "struct" | "enum" | "trait" | "type" | "union") {
                    let name = words.next().unwrap_or("");
                    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
                    names.insert(name[..end.unwrap_or(name.len())].to_string());
                }
            }
        }
    }
    names
}

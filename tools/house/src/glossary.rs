//! The form of the glossary, and the type names in it.

use std::collections::BTreeSet;

use crate::tree;

const GLOSSARY: &str = "docs/glossary.md";

/// An item of the glossary: the term, the meaning, the origin, and the names in the code.
struct Item {
    term: String,
    meaning: String,
    from: String,
    code: String,
}

fn items() -> Vec<Item> {
    let text = tree::read(GLOSSARY);
    let items = text.split("\n- ").skip(1).map(|item| {
        let item = item.split_whitespace().collect::<Vec<_>>().join(" ");
        let parts = || {
            let (term, rest) = item.strip_prefix("**")?.split_once("**: ")?;
            let (meaning, rest) = rest.split_once(". (")?;
            let (from, code) = rest.rsplit_once(") ").or_else(|| Some((rest.strip_suffix(')')?, "")))?;
            let [term, from, code] = [term, from, code].map(String::from);
            Some(Item { term, meaning: format!("{meaning}."), from, code })
        };
        parts().unwrap_or_else(|| panic!("{GLOSSARY}: not `**term**: Meaning. (origin) names`: {item}"))
    });
    items.collect()
}

#[test]
fn each_term_is_well_formed() {
    for Item { term, meaning, from, code } in items() {
        assert!(!term.is_empty() && !from.is_empty(), "{term}: an empty part");
        assert_eq!(term, term.to_lowercase(), "a term is in lower case");
        assert!(meaning.starts_with(char::is_uppercase), "{term}: a meaning begins with a capital letter");
        let is_list = code.split(", ").all(|name| name.starts_with('`') && name.ends_with('`'));
        assert!(code.is_empty() || is_list, "{term}: names in the code are in backticks");
    }
}

#[test]
fn terms_are_sorted_and_unique() {
    for pair in items().windows(2) {
        let [before, after] = pair else { unreachable!() };
        assert!(before.term < after.term, "{GLOSSARY}: `{}` stands behind `{}`", after.term, before.term);
    }
}

/// Returns the type names of the glossary.
pub fn type_names() -> BTreeSet<String> {
    let is_type = |span: &&str| {
        span.starts_with(|symbol: char| symbol.is_ascii_uppercase())
            && span.chars().all(|symbol| symbol.is_ascii_alphanumeric())
    };
    let items = items();
    // Every second piece is between backticks.
    let spans = items.iter().flat_map(|item| item.code.split('`').skip(1).step_by(2));
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

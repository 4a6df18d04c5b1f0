//! The prose rule of CONTRIBUTING.md, checked in all comments, docstrings and Markdown.

use std::fmt;

use crate::comments::{self, Block, Word};
use crate::tree;

/// A longer sentence is printed as a warning: two sentences may read better.
const WORDS_WARNED: usize = 35;
/// The greatest width of a line of prose.
const COLUMNS_MAX: usize = 100;
/// The greatest number of findings that are printed.
const SHOWN_MAX: usize = 60;

/// Words that hide the acting part, and their replacements.
const PEOPLE: [(&str, &str); 14] = [
    ("who", ROLE),
    ("whom", ROLE),
    ("whose", ROLE),
    ("whoever", ROLE),
    ("nobody", ROLE),
    ("somebody", ROLE),
    ("anybody", ROLE),
    ("everybody", ROLE),
    ("whatever", "what it is, or `any`"),
    ("in vain", "without success, or what was not found"),
    ("lest", "so that ... not"),
    ("as ever", "as before, or nothing"),
    ("of which", "two sentences"),
    ("is none", "is missing, is absent, does not exist"),
];

const ROLE: &str = "the role: sender, receiver, reader, writer, client, server, caller, launcher";

/// Verbs for actions of people, not of code, and their replacements.
const SPEECH: [(&[&str], &str); 7] = [
    (&["say", "says", "said", "saying"], "send, report, return, print, state, set"),
    (&["hear", "hears", "heard", "hearing"], "receive, detect"),
    (&["tell", "tells", "told", "telling"], "send, report, notify, print"),
    (&["look", "looks", "looked", "looking"], "poll, check, read, search"),
    (&["know", "knows", "known", "knew"], "has, stores, detects, is given; defined, recorded"),
    (&["heed", "heeds", "heeded", "obey", "obeys"], "handle, run, follow"),
    (&["believe", "believes", "believed"], "accept, validate, trust"),
];

/// First words of a sentence that stand for a noun, and hide it.
const HIDDEN_NOUNS: [&str; 13] = [
    "it",
    "they",
    "these are",
    "that of",
    "those of",
    "those that",
    "those which",
    "those with",
    "one that",
    "one which",
    "one of those",
    "its",
    "what",
];

/// Words behind `This` that are not nouns, beside verbs that end in `s`.
const NOT_NOUNS: [&str; 8] = ["can", "cannot", "may", "must", "will", "also", "never", "only"];

const NOUN: &str = "the noun that names the thing";

/// Technical terms that contain one of these words.
const ALLOWED: [&str; 6] =
    ["look-up", "look-ups", "look-ahead", "well-known", "known-answer", "look-and-feel"];

/// First words of a type's doc that do not begin a noun phrase.
const NOT_A_NOUN: [&str; 22] = [
    "What", "Whether", "How", "Where", "When", "Why", "Which", "As", "Is", "Has", "Does", "Returns", "Gives",
    "Makes", "Sends", "Receives", "Runs", "Holds", "Keeps", "Waits", "Reads", "Writes",
];

/// First words of a function's doc that end in `s` but are not verbs.
const NOT_A_VERB: [&str; 26] = [
    "As",
    "This",
    "Its",
    "Always",
    "Receivers",
    "Senders",
    "Readers",
    "Writers",
    "Bytes",
    "Packets",
    "Samples",
    "Connections",
    "Names",
    "Ports",
    "Values",
    "Nanoseconds",
    "Microseconds",
    "Seconds",
    "Properties",
    "Components",
    "Servers",
    "Clients",
    "Threads",
    "Frames",
    "Words",
    "Process",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    People,
    Columns,
    Speech,
    FirstLine,
    Opening,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::People => "people",
            Self::Columns => "columns",
            Self::Speech => "speech",
            Self::FirstLine => "first-line",
            Self::Opening => "opening",
        })
    }
}

/// A place that breaks a rule.
#[derive(Debug)]
struct Finding {
    line: usize,
    rule: Rule,
    /// The sentence or the line.
    text: String,
    /// The replacement.
    remedy: String,
}

/// Finds string literals with a raw line break before a continuation: a line of nothing but `\`.
#[test]
fn no_text_has_a_raw_line_break_before_a_continuation() {
    let mut problems = Vec::new();
    for path in tree::files(".rs") {
        for (number, line) in tree::read(&path).lines().enumerate() {
            if line.trim() == "\\" {
                problems.push(format!("{path}:{number}: end the line above with `\\n`"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn comments_and_markdown_keep_the_prose_rule() {
    let mut findings = Vec::new();
    for path in comments::endings().flat_map(tree::files) {
        for (line, sentence) in long_sentences(&path, &tree::read(&path)) {
            println!("warning: {path}:{line}: more than {WORDS_WARNED} words: {sentence}");
        }
        for Finding { line, rule, text, remedy } in check(&path, &tree::read(&path)) {
            findings.push(format!("{path}:{line}: {rule}: {text}\n    instead: {remedy}"));
        }
    }
    let total = findings.len();
    findings.truncate(SHOWN_MAX);
    assert!(
        findings.is_empty(),
        "{total} places break the prose rule (CONTRIBUTING.md), the first {}:\n{}\n",
        findings.len(),
        findings.join("\n")
    );
}

/// Returns the sentences of a file that are longer than they need to be, with their lines.
fn long_sentences(path: &str, source: &str) -> Vec<(usize, String)> {
    let is_long = |sentence: &&[Word]| {
        sentence.iter().map(|word| count_words(&word.text)).sum::<usize>() > WORDS_WARNED
    };
    let blocks = comments::blocks(path, source);
    let long = blocks.iter().flat_map(sentences).filter(is_long);
    long.map(|sentence| (sentence[0].line, text(sentence))).collect()
}

/// Returns all findings of a file.
fn check(path: &str, source: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for block in &comments::blocks(path, source) {
        for sentence in sentences(block) {
            findings.extend(check_words(sentence));
            findings.extend(check_opening(sentence));
        }
    }
    for line in comments::lines(path, source) {
        let columns = line.text.chars().count();
        if columns > COLUMNS_MAX {
            findings.push(Finding {
                line: line.number,
                rule: Rule::Columns,
                text: format!("{columns} columns"),
                remedy: format!("at most {COLUMNS_MAX}"),
            });
        }
    }
    if path.ends_with(".rs") {
        findings.extend(check_first_lines(source));
    }
    findings
}

/// Splits a block behind `.`, `!`, `?`, `:` and `;` where a capital letter or code follows.
fn sentences(block: &Block) -> Vec<&[Word]> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for index in 1..block.len() {
        let before = block[index - 1].text.trim_end_matches([')', '"', '*', '”', '_']);
        let next = block[index].text.chars().next().unwrap();
        let begins = next.is_uppercase() || matches!(next, '(' | '*' | '[' | '"' | '“' | '_');
        if before.ends_with(['.', '!', '?', ':', ';']) && begins {
            sentences.push(&block[start..index]);
            start = index;
        }
    }
    sentences.push(&block[start..]);
    sentences
}

fn check_words(sentence: &[Word]) -> Vec<Finding> {
    // The plain words with their lines, without technical terms.
    let mut plain: Vec<(usize, String)> = Vec::new();
    for word in sentence {
        let lower = word.text.to_lowercase();
        if ALLOWED.contains(&lower.trim_matches(|symbol: char| !symbol.is_alphanumeric())) {
            continue;
        }
        let parts = lower.split(|symbol: char| !symbol.is_alphanumeric() && symbol != '_');
        plain.extend(parts.filter(|part| !part.is_empty()).map(|part| (word.line, part.into())));
    }
    let mut findings = Vec::new();
    for (index, (line, word)) in plain.iter().enumerate() {
        let next = plain.get(index + 1).map_or("", |(_, next)| next.as_str());
        let pair = format!("{word} {next}");
        let people = PEOPLE.iter().find(|(banned, _)| *banned == word || *banned == pair);
        if let Some((banned, remedy)) = people {
            findings.push(finding(*line, Rule::People, banned, sentence, remedy));
        }
        let speech = SPEECH.iter().find(|(banned, _)| banned.contains(&word.as_str()));
        if let Some((_, remedy)) = speech {
            findings.push(finding(*line, Rule::Speech, word, sentence, remedy));
        }
    }
    findings
}

/// Checks that a sentence does not begin with a pronoun in place of a noun. A question or a heading
/// may.
fn check_opening(sentence: &[Word]) -> Option<Finding> {
    let is_statement = sentence.last().is_some_and(|word| word.text.ends_with(['.', ':', ';', '!', ')']));
    let plain = |word: &Word| word.text.trim_matches(|symbol: char| !symbol.is_alphanumeric()).to_lowercase();
    let opening: Vec<String> = sentence.iter().take(3).map(plain).collect();
    let opening = opening.join(" ") + " ";
    let hidden = HIDDEN_NOUNS.iter().find(|words| opening.starts_with(&format!("{words} ")));
    let is_verb = |word: &str| {
        let is_noun = word.ends_with("ss") || word.ends_with("us") || word.contains('\'') || word == "axis";
        NOT_NOUNS.contains(&word) || word.ends_with('s') && !is_noun
    };
    let second = opening.split(' ').nth(1).unwrap_or("");
    let hidden = hidden.or((opening.starts_with("this ") && is_verb(second)).then_some(&"this"));
    let is_first = sentence.first().is_some_and(|word| word.text.starts_with(char::is_uppercase));
    let hidden = hidden.filter(|_| is_first && is_statement)?;
    Some(finding(sentence[0].line, Rule::Opening, hidden, sentence, NOUN))
}

fn finding(line: usize, rule: Rule, word: &str, sentence: &[Word], remedy: &str) -> Finding {
    Finding { line, rule, text: format!("`{word}` in: {}", text(sentence)), remedy: remedy.into() }
}

/// Counts words: `one-way` and `e.g.` are one word each, `shm/uds` is two.
fn count_words(text: &str) -> usize {
    let is_inner = |symbol: char| symbol.is_alphanumeric() || matches!(symbol, '_' | '\'' | '’' | '.' | '-');
    let parts = text.split(|symbol| !is_inner(symbol));
    parts.filter(|part| part.contains(|symbol: char| symbol.is_ascii_alphanumeric())).count()
}

fn text(sentence: &[Word]) -> String {
    sentence.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// Checks that the doc of a function begins with a verb, and the doc of a type with a noun.
fn check_first_lines(source: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut first: Option<(usize, &str)> = None;
    let mut depth = 0;
    for (number, line) in (1..).zip(source.lines()) {
        let line = line.trim();
        if let Some(text) = line.strip_prefix("///") {
            first = first.or(Some((number, text.trim())));
        } else if depth > 0 || line.starts_with("#[") {
            // An attribute, perhaps over several lines.
            depth += line.matches('[').count() as i32 - line.matches(']').count() as i32;
        } else if !line.starts_with("//")
            && let Some((doc_line, doc)) = first.take()
        {
            findings.extend(check_first_line(doc_line, doc, line));
        }
    }
    findings
}

fn check_first_line(number: usize, doc: &str, item: &str) -> Option<Finding> {
    let plain: String = doc.chars().filter(|symbol| !matches!(symbol, '`' | '*' | '[' | ']')).collect();
    let mut words = plain.split_whitespace();
    let is_word = |symbol: char| symbol.is_alphanumeric() || symbol == '-';
    let first = words.next()?.trim_matches(|symbol| !is_word(symbol));
    let second = words.next().unwrap_or("");
    let (is_right, remedy) = match kind(item)? {
        Kind::Function => (
            first.ends_with('s') && !NOT_A_VERB.contains(&first),
            "a verb in the third person first: `Returns ...`, `Sends ...`",
        ),
        Kind::Type => {
            // A verb is followed by an article, a plural is not.
            let articles = ["a", "an", "the", "its", "their", "each", "every", "all", "it", "them"];
            let is_verb = first.ends_with('s') && articles.contains(&second);
            let is_noun = !is_verb && !NOT_A_NOUN.contains(&first);
            (is_noun, "a noun first: `A connection ...`, `Options of ...`")
        }
    };
    let text = format!("`{doc}` above `{}`", item.trim_end_matches(['{', ' ']));
    (!is_right).then(|| Finding { line: number, rule: Rule::FirstLine, text, remedy: remedy.into() })
}

enum Kind {
    Function,
    Type,
}

/// Returns the kind of an item. Only functions and types have a rule.
fn kind(item: &str) -> Option<Kind> {
    let modifiers = ["pub", "const", "async", "unsafe", "extern", "\"C\"", "crate)", "super)"];
    for word in item.split_whitespace() {
        match word {
            "fn" => return Some(Kind::Function),
            "struct" | "enum" | "trait" | "type" | "union" => return Some(Kind::Type),
            _ if modifiers.contains(&word) || word.starts_with("pub(") || word == "in" => {}
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, source: &str) -> Vec<Rule> {
        check(path, source).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn banned_words_are_found_and_terms_of_the_field_are_not() {
        assert_eq!(rules("a.md", "The one who\nwaits in\nvain."), [Rule::People, Rule::People]);
        assert_eq!(rules("a.rs", "// The port tells the sender.\nfn who() {}\n"), [Rule::Speech]);
        assert_eq!(rules("a.md", "A look-up in a lookup table of `who` and well-known ports."), []);
    }

    #[test]
    fn a_sentence_begins_with_a_noun() {
        for wrong in [
            "That of the ring.",
            "A ring ends. Those that wait end.",
            "What arrives waits.",
            "Its end.",
            "It ends.",
            "This ends it.",
            "They end.",
        ] {
            assert_eq!(rules("a.md", wrong), [Rule::Opening], "{wrong}");
        }
        assert_eq!(rules("a.md", "What is it? That ring ends. This axis ends. The end is that of it."), []);
    }

    #[test]
    fn findings_name_line_and_remedy() {
        let finding = check("a.md", "# Title\n\nA line.\nCode heeds nothing.\n").remove(0);
        assert_eq!((finding.line, finding.rule), (4, Rule::Speech));
        assert_eq!(finding.text, "`heeds` in: Code heeds nothing.");
        assert_eq!(finding.remedy, "handle, run, follow");
    }

    #[test]
    fn sentences_have_an_end() {
        let eighteen = "a b c d e f g h i j k l m n o p q r";
        let long = |source: &str| long_sentences("a.md", source).len();
        assert_eq!(long(&format!("{eighteen}. T{eighteen}.")), 0);
        assert_eq!(long(&format!("{eighteen},\n{eighteen}.")), 1);
        assert_eq!(long(&format!("- {eighteen}\n- {eighteen}")), 0);
    }

    #[test]
    fn lines_have_a_width_unless_they_cannot_be_wrapped() {
        let wide = "word. ".repeat(20);
        assert_eq!(rules("a.md", &wide), [Rule::Columns]);
        assert_eq!(rules("a.md", &format!("| {wide} |\n\n```\n{wide}\n```\n")), []);
    }

    #[test]
    fn docs_begin_with_a_verb_or_a_noun() {
        for right in [
            "/// Returns one.\n#[inline]\npub(crate) fn one() {}",
            "/// [`Node`]s of a domain.\npub struct Nodes;",
            "/// Counters of a port.\nenum Counters {}",
            "/// Free for a constant.\nconst ONE: u8 = 1;",
        ] {
            assert_eq!(rules("a.rs", right), [], "{right}");
        }
        for wrong in [
            "/// Whether it is one.\npub const fn is_one() {}",
            "/// The next one.\nfn next() {}",
            "/// Bytes of it.\nunsafe fn bytes() {}",
            "/// Whether it is one.\npub struct One;",
            "/// Joins the fragments.\npub(crate) trait Join {}",
        ] {
            assert_eq!(rules("a.rs", wrong), [Rule::FirstLine], "{wrong}");
        }
    }
}

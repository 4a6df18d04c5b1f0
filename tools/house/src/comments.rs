//! Extracts the prose from Rust sources and Markdown, without code.

/// A word with the punctuation around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    pub line: usize,
    pub text: String,
}

/// A paragraph, list item, heading or table cell. A code span is `X` here, and a link is its text.
pub type Block = Vec<Word>;

/// A line of prose as it stands in the file.
pub struct Line<'a> {
    pub number: usize,
    pub text: &'a str,
}

/// Returns the blocks of all comments of a Rust source.
pub fn rust_blocks(source: &str) -> Vec<Block> {
    let mut collector = Collector::default();
    for (number, line) in (1..).zip(source.lines()) {
        match comment(line) {
            Some(Comment::Whole(text)) => collector.line(number, text),
            Some(Comment::Behind(text)) => {
                collector.end();
                collector.line(number, text);
                collector.end();
            }
            None => {
                collector.end();
                collector.is_code = false;
            }
        }
    }
    collector.end();
    collector.blocks
}

/// Returns the blocks of a Markdown file.
pub fn markdown_blocks(source: &str) -> Vec<Block> {
    let mut collector = Collector::default();
    for (number, line) in (1..).zip(source.lines()) {
        collector.line(number, line);
    }
    collector.end();
    collector.blocks
}

/// Returns the comment lines that are prose, and are therefore limited in width.
pub fn rust_lines(source: &str) -> Vec<Line<'_>> {
    let mut is_code = false;
    let lines = (1..).zip(source.lines()).filter(|(_, line)| match comment(line) {
        Some(Comment::Whole(text)) => {
            let is_fence = text.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence && !is_unbreakable(text)
        }
        Some(Comment::Behind(_)) => false,
        None => {
            is_code = false;
            false
        }
    });
    lines.map(|(number, text)| Line { number, text }).collect()
}

/// Returns the lines of a Markdown file that are prose, and are therefore limited in width.
pub fn markdown_lines(source: &str) -> Vec<Line<'_>> {
    let mut is_code = false;
    let lines = (1..).zip(source.lines()).filter(|(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !line.starts_with("    ") && !is_unbreakable(line)
    });
    lines.map(|(number, text)| Line { number, text }).collect()
}

/// Returns whether the line cannot be wrapped: a row of a table, or a line that contains an
/// address.
fn is_unbreakable(line: &str) -> bool {
    line.trim_start().starts_with('|') || line.contains("://") || line.contains("](")
}

enum Comment<'a> {
    /// The line is a comment.
    Whole(&'a str),
    /// A comment behind code.
    Behind(&'a str),
}

fn comment(line: &str) -> Option<Comment<'_>> {
    if let Some(text) = line.trim_start().strip_prefix("//") {
        return Some(Comment::Whole(text.strip_prefix(['/', '!']).unwrap_or(text)));
    }
    let (before, text) = line.rsplit_once(" // ")?;
    // A `//` within a string does not begin a comment.
    before.matches('"').count().is_multiple_of(2).then_some(Comment::Behind(text))
}

#[derive(Default)]
struct Collector {
    blocks: Vec<Block>,
    current: Vec<(usize, String)>,
    is_code: bool,
}

impl Collector {
    fn line(&mut self, number: usize, line: &str) {
        let text = line.trim();
        if text.starts_with("```") {
            self.is_code = !self.is_code;
            self.end();
        } else if self.is_code || (self.current.is_empty() && line.starts_with("    ")) {
            // Fenced or indented code.
        } else if text.is_empty() {
            self.end();
        } else if text.starts_with('|') {
            self.end();
            for cell in text.trim_matches('|').split('|') {
                self.current.push((number, cell.into()));
                self.end();
            }
        } else {
            let item = item(text);
            if item.is_some() {
                self.end();
            }
            self.current.push((number, item.unwrap_or(text).into()));
        }
    }

    fn end(&mut self) {
        let lines = std::mem::take(&mut self.current);
        let words = words(&lines);
        if !words.is_empty() {
            self.blocks.push(words);
        }
    }
}

/// Returns the text of a heading or of an item of a list.
fn item(text: &str) -> Option<&str> {
    let plain = text.trim_start_matches('#');
    if plain.len() < text.len() {
        return Some(plain.trim_start());
    }
    if let Some(rest) = text.strip_prefix("- ").or_else(|| text.strip_prefix("* ")) {
        return Some(rest);
    }
    let (number, rest) = text.split_once(". ")?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
}

/// Splits the lines into words, with code spans as `X` and without the targets of links.
fn words(lines: &[(usize, String)]) -> Vec<Word> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut in_code = false;
    let mut in_target = false;
    let mut start = 0;
    for (line, text) in lines {
        let mut last = ' ';
        for symbol in text.chars() {
            if symbol == '`' {
                in_code = !in_code;
                if in_code {
                    start = if word.is_empty() { *line } else { start };
                    word.push('X');
                }
            } else if in_code {
                // Code is not prose.
            } else if in_target {
                in_target = symbol != ')';
            } else if symbol == '(' && last == ']' {
                in_target = true;
            } else if symbol.is_whitespace() {
                end_word(&mut words, &mut word, start);
            } else {
                start = if word.is_empty() { *line } else { start };
                word.push(symbol);
            }
            last = symbol;
        }
        if !in_code && !in_target {
            end_word(&mut words, &mut word, start);
        }
    }
    end_word(&mut words, &mut word, start);
    words
}

fn end_word(words: &mut Vec<Word>, word: &mut String, line: usize) {
    if !word.is_empty() {
        words.push(Word { line, text: std::mem::take(word) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(blocks: &[Block]) -> Vec<String> {
        let text = |block: &Block| block.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        blocks.iter().map(text).collect()
    }

    #[test]
    fn comments_become_blocks_without_code() {
        let source = "//! One `a\n//! b` two.\n//!\n//! ```\n//! code\n//! ```\n\
                      let x = \"a // b\"; // Behind.\n/// - [text](target) item\n/// - next\nfn f() {}\n";
        assert_eq!(texts(&rust_blocks(source)), ["One X two.", "Behind.", "[text] item", "next"]);
    }

    #[test]
    fn markdown_becomes_blocks_without_code() {
        let source = "# Title\n\nA line\nand another.\n\n    code\n\n| a | `b` |\n| --- | --- |\n1. First\n";
        let expected = ["Title", "A line and another.", "a", "X", "---", "---", "First"];
        assert_eq!(texts(&markdown_blocks(source)), expected);
    }
}

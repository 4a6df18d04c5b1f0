//! Extracts the prose from sources and Markdown, without code.

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

/// A line of a file, as far as the line is prose.
enum Piece<'a> {
    /// The line is prose.
    Whole(&'a str),
    /// A comment behind code.
    Behind(&'a str),
    Code,
}

/// The marks of comments in a language.
struct Marks {
    /// The start of a comment up to the end of the line.
    line: &'static str,
    /// The start and the end of a comment over several lines. In Python both are also the ends of
    /// other strings: only a string at the start of a line is prose.
    block: Option<(&'static str, &'static str)>,
}

/// The endings of files with prose, and the marks of their comments. Markdown is all prose.
const LANGUAGES: [(&str, Option<Marks>); 9] = [
    (".md", None),
    (".rs", Some(Marks { line: "//", block: None })),
    (".c", C),
    (".h", C),
    (".cc", C),
    (".cpp", C),
    (".hpp", C),
    (".py", PYTHON),
    (".pyi", PYTHON),
];

const C: Option<Marks> = Some(Marks { line: "//", block: Some(("/*", "*/")) });
const PYTHON: Option<Marks> = Some(Marks { line: "#", block: Some((r#"""""#, r#"""""#)) });

/// Returns the endings of all files with prose.
pub fn endings() -> impl Iterator<Item = &'static str> {
    LANGUAGES.iter().map(|(ending, _)| *ending)
}

/// Returns the blocks of all comments of a source, or of a Markdown file.
pub fn blocks(path: &str, source: &str) -> Vec<Block> {
    let mut collector = Collector::default();
    for (number, piece) in (1..).zip(pieces(path, source)) {
        match piece {
            Piece::Whole(text) => collector.line(number, text),
            Piece::Behind(text) => {
                collector.end();
                collector.line(number, text);
                collector.end();
            }
            Piece::Code => {
                collector.end();
                collector.is_code = false;
            }
        }
    }
    collector.end();
    collector.blocks
}

/// Returns the lines that are prose, and are therefore limited in width.
pub fn lines<'a>(path: &str, source: &'a str) -> Vec<Line<'a>> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for ((number, line), piece) in (1..).zip(source.lines()).zip(pieces(path, source)) {
        let Piece::Whole(text) = piece else {
            is_code = false;
            continue;
        };
        let is_fence = text.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence && !text.starts_with("    ") && !is_unbreakable(text) {
            lines.push(Line { number, text: line });
        }
    }
    lines
}

/// Returns whether the line cannot be wrapped: a row of a table, or a line that contains an
/// address.
fn is_unbreakable(line: &str) -> bool {
    line.trim_start().starts_with('|') || line.contains("://") || line.contains("](")
}

/// Returns the prose in each line of a file.
fn pieces<'a>(path: &str, source: &'a str) -> Vec<Piece<'a>> {
    let language = LANGUAGES.iter().find(|(ending, _)| path.ends_with(ending));
    let Some(marks) = &language.expect("a language with prose").1 else {
        return source.lines().map(Piece::Whole).collect();
    };
    // Within a block: the indentation of the first line, and whether the block is prose.
    let mut block = None;
    source.lines().map(|line| marks.piece(line, &mut block)).collect()
}

impl Marks {
    fn piece<'a>(&self, line: &'a str, block: &mut Option<(usize, bool)>) -> Piece<'a> {
        let bare = line.trim_start();
        let indent = line.len() - bare.len();
        if block.is_none()
            && let Some(text) = bare.strip_prefix(self.line)
        {
            return Piece::Whole(text.strip_prefix(['/', '!']).unwrap_or(text));
        }
        let Some((open, close)) = self.block else { return self.behind(line) };
        let outer = *block;
        let start = bare.strip_prefix(open);
        let mut rest = line;
        while let Some((_, after)) = rest.split_once(if block.is_some() { close } else { open }) {
            *block = if block.is_some() { None } else { Some((indent, start.is_some())) };
            rest = after;
        }
        let text = match (outer, start) {
            (Some((_, false)), _) => return Piece::Code,
            (Some((outer_indent, true)), _) => {
                // The lines of a block may begin with a star.
                let text = &line[indent.min(outer_indent)..];
                text.trim_start().strip_prefix('*').unwrap_or(text)
            }
            (None, Some(text)) => text,
            (None, None) => return self.behind(line),
        };
        Piece::Whole(text.split_once(close).map_or(text, |(text, _)| text))
    }

    /// Returns the comment behind code. A mark within a string does not begin a comment.
    fn behind<'a>(&self, line: &'a str) -> Piece<'a> {
        let (open, close) = self.block.unwrap_or((self.line, self.line));
        for mark in [self.line, open] {
            if let Some((before, text)) = line.rsplit_once(&format!(" {mark} "))
                && before.matches('"').count().is_multiple_of(2)
            {
                return Piece::Behind(text.split_once(close).map_or(text, |(text, _)| text));
            }
        }
        Piece::Code
    }
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
        assert_eq!(texts(&blocks("a.rs", source)), ["One X two.", "Behind.", "[text] item", "next"]);
        let source = "/* One\n * two. */\nint x; /* Behind. */\n    /// Three\n    /// four.\n";
        assert_eq!(texts(&blocks("a.h", source)), ["One two.", "Behind.", "Three four."]);
    }

    #[test]
    fn strings_of_python_are_prose_at_the_start_of_a_line() {
        let source = "def f():\n    \"\"\"One.\n\n    Two\n    three.\n\n        code\n    \"\"\"\n    \
                      text = \"\"\"data\n# data\n\"\"\"\n    x = 1  # Behind.\n    \"\"\"Four.\"\"\"\n";
        assert_eq!(texts(&blocks("a.py", source)), ["One.", "Two three.", "Behind.", "Four."]);
    }

    #[test]
    fn markdown_becomes_blocks_without_code() {
        let source = "# Title\n\nA line\nand another.\n\n    code\n\n| a | `b` |\n| --- | --- |\n1. First\n";
        let expected = ["Title", "A line and another.", "a", "X", "---", "---", "First"];
        assert_eq!(texts(&blocks("a.md", source)), expected);
    }
}

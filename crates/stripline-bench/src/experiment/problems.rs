//! The problems of an experiment file, each with a place.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};

/// All problems of an experiment file, in the order of the file. If there are problems, nothing was
/// started.
///
/// ```
/// use stripline_bench::experiment::Experiment;
///
/// let text = "[experiment]\nname = 'x'\n[[case]]\nname = 'a'\nstages = 0\n";
/// let problems = Experiment::parse(text, "x.toml").unwrap_err();
/// assert!(problems.to_string().contains("x.toml:5:10"));
/// assert_eq!(problems.len(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Problems {
    name: String,
    text: String,
    list: Vec<Finding>,
}

/// A problem of an experiment file.
///
/// ```
/// use stripline_bench::experiment::Experiment;
///
/// let problems = Experiment::parse("[experiment]\nname = 'x'\n", "x.toml").unwrap_err();
/// let problem = problems.iter().next().expect("it has no case");
/// assert_eq!((problem.message, problem.span), ("the experiment has no case", 0..0));
/// assert!(problem.remedy.contains("[[case]]"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentProblem<'a> {
    /// The problem in one sentence.
    pub message: &'a str,
    /// The remedy; empty when the message suffices.
    pub remedy: &'a str,
    /// The range of bytes in the file.
    pub span: Range<usize>,
    /// The line of the start, from 1.
    pub line: usize,
    /// The column of the start in characters, from 1.
    pub column: usize,
}

#[derive(Clone, Debug)]
struct Finding {
    span: Range<usize>,
    message: String,
    remedy: String,
}

/// The maximum number of problems shown. A file with more problems is probably of another kind.
const SHOWN_MAX: usize = 50;

impl Problems {
    pub(super) fn new(name: &str, text: &str) -> Self {
        // The renderer escapes all control characters except these. `·` has the same number of
        // bytes.
        let text = text.replace(|c| ('\u{80}'..='\u{9f}').contains(&c), "·");
        Self { name: printable(name), text, list: Vec::new() }
    }

    pub(super) fn push(
        &mut self,
        span: Range<usize>,
        message: impl AsRef<str>,
        remedy: impl AsRef<str>,
    ) -> &mut Self {
        let start = floor(&self.text, span.start);
        // One line is enough to find the place.
        let line = self.text[start..].find(['\r', '\n']).map_or(self.text.len(), |len| start + len);
        let end = floor(&self.text, span.end).clamp(start, line);
        let (message, remedy) = (printable(message.as_ref()), printable(remedy.as_ref()));
        self.list.push(Finding { span: start..end, message, remedy });
        self
    }

    /// Reports a problem of the file as a whole.
    pub(super) fn whole(name: &str, message: impl AsRef<str>, remedy: &str) -> Self {
        let mut problems = Self::new(name, "");
        problems.push(0..0, message, remedy);
        problems
    }

    /// Returns `value` if there is no problem.
    pub(super) fn or<T>(mut self, value: T) -> Result<T, Self> {
        self.list.sort_by_key(|finding| finding.span.start);
        if self.list.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Returns the number of problems.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the problems, in the order of the file.
    ///
    /// ```
    /// use stripline_bench::experiment::Experiment;
    ///
    /// let text = "[experiment]\nname = 'x'\n[[case]]\nname = 'a'\nstages = 0\n";
    /// let problems = Experiment::parse(text, "x.toml").unwrap_err();
    /// let places: Vec<_> = problems.iter().map(|problem| (problem.line, problem.column)).collect();
    /// assert_eq!(places, [(5, 10)]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = ExperimentProblem<'_>> {
        self.list.iter().map(|finding| {
            let before = &self.text[..finding.span.start];
            ExperimentProblem {
                message: &finding.message,
                remedy: &finding.remedy,
                span: finding.span.clone(),
                line: before.matches('\n').count() + 1,
                column: before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
            }
        })
    }

    /// Returns whether there is no problem. An error always has at least one.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Renders all problems as text, with the places underlined.
    pub fn render(&self, coloured: bool) -> String {
        let renderer = if coloured { Renderer::styled() } else { Renderer::plain() };
        let mut text = String::new();
        for finding in self.list.iter().take(SHOWN_MAX) {
            let title = Level::ERROR.primary_title(&finding.message);
            let mut group = if self.text.is_empty() {
                title.element(Origin::path(&self.name))
            } else {
                let annotation = AnnotationKind::Primary.span(finding.span.clone());
                title.element(Snippet::source(&self.text).path(&self.name).annotation(annotation))
            };
            if !finding.remedy.is_empty() {
                group = group.element(Level::HELP.message(&finding.remedy));
            }
            text.push_str(&renderer.render(&[group]));
            text.push_str("\n\n");
        }
        let noun = if self.list.len() == 1 { "error" } else { "errors" };
        let registered = if self.list.len() > SHOWN_MAX {
            format!(", the first {SHOWN_MAX} shown")
        } else {
            String::new()
        };
        text + &format!("{} {noun}{registered}; nothing was started\n", self.list.len())
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Problems {}

fn floor(text: &str, mut index: usize) -> usize {
    index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

/// Returns the text without control characters, shortened to a readable length.
fn printable(text: &str) -> String {
    const LENGTH_MAX: usize = 600;
    let mut registered = stripline::internal::printable(&text.chars().take(LENGTH_MAX).collect::<String>());
    if text.chars().nth(LENGTH_MAX).is_some() {
        registered.push('…');
    }
    registered
}

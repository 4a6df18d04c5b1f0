//! The findings of a check. Each has a place in the source, a label at the place, and a remedy.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Level as Style, Origin, Renderer, Snippet};
use stripline::internal::printable;

use super::text::count;

/// All findings of a check, errors and warnings, in the order of the source.
///
/// `Display` prints plain text. [`Diagnostics::render`] can add colour; [`Diagnostics::print`] adds
/// colour on a terminal.
///
/// ```
/// use std::collections::BTreeMap;
/// use stripline_waveform::{Catalog, Code, Overrides, parse_bytes};
///
/// let components = BTreeMap::new();
/// let catalog = Catalog::new(&components, &["shm"]);
/// let text = b"[component.source]\ntype = \"tone\"\n";
/// let found = parse_bytes(text, "tone.toml".as_ref(), &Overrides::default(), &catalog).unwrap_err();
/// assert_eq!(found.iter().next().unwrap().code(), Code::UnknownType);
/// assert!(found.to_string().contains("tone.toml:2:8"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    /// The number of all errors, whether kept or not.
    errors: usize,
    warnings: usize,
}

impl Diagnostics {
    /// The maximum number of findings that one check keeps; errors have precedence over warnings.
    /// Further findings are only counted.
    pub const LENGTH_MAX: usize = 500;

    /// Returns the findings, in the order of the source.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// Returns whether there are no findings.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the number of kept findings.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there is an error.
    ///
    /// ```
    /// let nothing = stripline_waveform::Diagnostics::default();
    /// assert!(nothing.is_empty() && nothing.len() == 0 && !nothing.has_errors());
    /// assert_eq!(nothing.render(false), "");
    /// ```
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Renders all findings as text for users. If there are errors, the last line counts them.
    pub fn render(&self, coloured: bool) -> String {
        let mut text = String::new();
        for diagnostic in &self.list {
            text.push_str(&diagnostic.render(coloured));
            text.push_str("\n\n");
        }
        if self.has_errors() {
            text.push_str(&count(self.errors, "error"));
            if self.warnings > 0 {
                text.push_str(" and ");
                text.push_str(&count(self.warnings, "warning"));
            }
            let all = self.errors + self.warnings;
            if all > self.list.len() {
                text.push_str(&format!("; {} of them are shown", self.list.len()));
            }
            text.push_str("; nothing was started\n");
        }
        text
    }

    /// Prints everything on standard error, in colour if standard error is a terminal and
    /// `NO_COLOR` is not set.
    pub fn print(&self) {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let mut stderr = std::io::stderr().lock();
        // If standard error is closed, there is no reader.
        let _ = stderr.write_all(self.render(stderr.is_terminal() && !no_colour).as_bytes());
    }

    /// Adds an error and the remedy.
    pub(super) fn error(
        &mut self,
        code: Code,
        place: &Place,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.push(Diagnostic::error(code, place, message).help(remedy));
    }

    /// Drops the errors of a kind at a place, because another error replaces them.
    pub(super) fn drop_at(&mut self, place: &Place, code: Code) {
        let is_other = |kept: &Diagnostic| {
            kept.code != code
                || kept.place.span != place.span
                || !Arc::ptr_eq(&kept.place.source, &place.source)
        };
        let before = self.list.len();
        self.list.retain(is_other);
        self.errors -= before - self.list.len();
    }

    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        match diagnostic.level {
            Level::Error => self.errors += 1,
            Level::Warning => self.warnings += 1,
        }
        if self.list.len() < Self::LENGTH_MAX {
            self.list.push(diagnostic);
        } else if diagnostic.level == Level::Error
            && let Some(place) = self.list.iter_mut().find(|kept| kept.level == Level::Warning)
        {
            *place = diagnostic;
        }
    }

    /// Sorts the findings by the order of the file. Findings about options follow in the order in
    /// which they were found.
    pub(super) fn sort(&mut self) {
        self.list.sort_by_key(|d| match d.place.source.is_option {
            false => (false, d.place.span.start),
            true => (true, 0),
        });
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// The severity of a finding.
///
/// ```
/// use stripline_waveform::{Diagnostics, Level};
///
/// fn warnings(found: &Diagnostics) -> usize {
///     found.iter().filter(|finding| finding.level() == Level::Warning).count()
/// }
/// assert_eq!(warnings(&Diagnostics::default()), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// The waveform is not started.
    Error,
    /// The waveform is started, but is probably not what the user meant.
    Warning,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// The kind of a finding. The text of a code, for example `unknown-key`, stays the same
        /// between versions.
        ///
        /// ```
        /// use stripline_waveform::Code;
        ///
        /// assert!(Code::ALL.iter().any(|code| code.as_str() == "type-mismatch"));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code, in the order documented.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the code as printed.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// The file is missing, a folder, or cannot be read.
    Unreadable => "unreadable",
    /// The file is not UTF-8 text.
    NotText => "not-text",
    /// The text is not TOML.
    Syntax => "syntax",
    /// A name or key appears twice.
    Duplicate => "duplicate",
    /// The file is too large, or something in it is too large or occurs too often. Also a use of
    /// more resources than the limits of the system allow (warning).
    Limit => "limit",
    /// A key that has no meaning here.
    UnknownKey => "unknown-key",
    /// A key that must be there.
    MissingKey => "missing-key",
    /// A value of another kind than the key takes.
    WrongKind => "wrong-kind",
    /// A value of the right kind that the key does not allow.
    BadValue => "bad-value",
    /// A name with characters that names do not have.
    BadName => "bad-name",
    /// A waveform without components.
    Empty => "empty",
    /// A component with neither `type` nor `exec`, or with both.
    Program => "program",
    /// A component type that the launcher does not have.
    UnknownType => "unknown-type",
    /// An executable that could not be queried.
    Describe => "describe",
    /// A component with a specification that breaks the rules.
    BadSpec => "bad-spec",
    /// A property that the component does not have.
    UnknownProperty => "unknown-property",
    /// A property that must be set.
    MissingProperty => "missing-property",
    /// A property's value of the wrong kind or out of range.
    BadProperty => "bad-property",
    /// Properties that are valid one by one but not together, or a file that the component cannot
    /// use.
    PropertiesUnfit => "properties-unfit",
    /// A file that one component or option writes, and that another one also writes or reads.
    FileShared => "file-shared",
    /// A file with a name that stands for another type of samples than the file would get.
    FileMisnamed => "file-misnamed",
    /// Streams of different sample rates at the inputs of a component that takes one rate, or a
    /// rate that the component does not take.
    RateMismatch => "rate-mismatch",
    /// A component that needs a sample rate, behind a source without one.
    NoRate => "no-rate",
    /// A stream of channels or rows at a component that cannot process it.
    OrderMismatch => "order-mismatch",
    /// A component that the waveform does not have.
    UnknownComponent => "unknown-component",
    /// A port that the component does not have.
    UnknownPort => "unknown-port",
    /// A port left out where the component has more than one.
    WhichPort => "which-port",
    /// An input used as an output, or an output as an input.
    PortDirection => "port-direction",
    /// A mandatory port without a connection.
    Unconnected => "unconnected",
    /// Several writers on an input that allows one.
    TwoWriters => "two-writers",
    /// The same connection twice.
    SameConnection => "same-connection",
    /// A component connected to itself by a connection that blocks.
    SelfLoop => "self-loop",
    /// The ends of a connection have no payload type in common.
    TypeMismatch => "type-mismatch",
    /// A connection could carry several payload types.
    TypeAmbiguous => "type-ambiguous",
    /// The type of a connection cannot be determined.
    TypeUnknown => "type-unknown",
    /// A type without a layout between programs that are built differently.
    TypeUnproven => "type-unproven",
    /// A type that `types-without-layout` allows and the connection does not carry (warning).
    AllowanceIdle => "allowance-idle",
    /// A transport that the launcher does not have.
    UnknownTransport => "unknown-transport",
    /// A transport that cannot join these components.
    TransportUnfit => "transport-unfit",
    /// An executable placed in a thread.
    PlacementUnfit => "placement-unfit",
    /// A thread with a rule to restart it when it fails.
    RestartUnfit => "restart-unfit",
    /// A component with a loop of its own, and with another dispatch than `queue`.
    DispatchUnfit => "dispatch-unfit",
    /// Flow control on a connection that never blocks its sender.
    FlowUnfit => "flow-unfit",
    /// An option of the command line that cannot be read.
    BadOption => "bad-option",
    /// A processor that this machine does not have (warning).
    NoSuchCpu => "no-such-cpu",
    /// A `restart` that an option made meaningless (warning).
    RestartIgnored => "restart-ignored",
    /// A `resequence` where the order cannot change (warning).
    ResequenceIdle => "resequence-idle",
    /// An option that other options of the connection leave without effect (warning).
    OptionIdle => "option-idle",
    /// A receiver that drops packets, behind an output with a scope that waits for it (warning).
    ScopeUnfit => "scope-unfit",
    /// A component that spins on the processor of the other end of the connection, at a real-time
    /// priority that leaves the other end no time (warning).
    SpinUnfit => "spin-unfit",
    /// A `resequence` window smaller than the pool before it (warning).
    WindowSmall => "window-small",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A finding.
///
/// ```
/// # use stripline_waveform::{Catalog, Code, Overrides, parse_bytes};
/// # let components = std::collections::BTreeMap::new();
/// # let catalog = Catalog::new(&components, &["shm"]);
/// let text = b"[waveform]\nnmae = \"x\"\n\n[component.a]\ntype = \"tone\"\n";
/// let found = parse_bytes(text, "x.toml".as_ref(), &Overrides::default(), &catalog).unwrap_err();
/// let finding = found.iter().next().expect("a key is misspelt");
/// assert_eq!((finding.code(), finding.code().as_str()), (Code::UnknownKey, "unknown-key"));
/// assert_eq!((finding.source(), finding.line_column(), finding.span()), ("x.toml", (2, 1), 11..15));
/// println!("{}; {}\n{}", finding.message(), finding.remedy(), finding.render(false));
/// ```
#[derive(Clone, Debug)]
pub struct Diagnostic {
    level: Level,
    code: Code,
    message: String,
    label: String,
    /// Lines that a program printed.
    quote: String,
    remedy: String,
    place: Place,
    also: Option<(Place, String)>,
}

impl Diagnostic {
    pub(super) fn error(code: Code, place: &Place, message: impl Into<String>) -> Self {
        Self::new(Level::Error, code, place, message.into())
    }

    pub(super) fn warning(code: Code, place: &Place, message: impl Into<String>) -> Self {
        Self::new(Level::Warning, code, place, message.into())
    }

    /// Adds a label right below the underlined text.
    pub(super) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = printable(&label.into());
        self
    }

    pub(super) fn help(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = printable(&remedy.into());
        self
    }

    /// Adds lines that a program printed.
    pub(super) fn quote(mut self, text: Option<&str>) -> Self {
        let lines: Vec<String> = text.into_iter().flat_map(str::lines).map(printable).collect();
        self.quote = lines.join("\n");
        self
    }

    /// Adds a second place that is relevant to the finding.
    pub(super) fn also(mut self, place: &Place, label: impl Into<String>) -> Self {
        self.also = Some((place.clone(), printable(&label.into())));
        self
    }

    fn new(level: Level, code: Code, place: &Place, message: String) -> Self {
        let (message, label, remedy) = (printable(&message), String::new(), String::new());
        let (place, quote) = (place.clone(), String::new());
        Self { level, code, message, label, quote, remedy, place, also: None }
    }

    /// Returns the level: error or warning.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Returns the kind of finding.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns the problem in one sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the remedy; empty when the message suffices.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    /// Returns the path of the file, or `command line`.
    pub fn source(&self) -> &str {
        &self.place.source.name
    }

    /// Returns the range of bytes in the source.
    pub fn span(&self) -> Range<usize> {
        self.place.span.clone()
    }

    /// Returns line and column of the start, both from 1, the column in characters.
    pub fn line_column(&self) -> (usize, usize) {
        let before = &self.place.source.text[..self.place.span.start];
        let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
        (line, before.rsplit('\n').next().unwrap_or("").chars().count() + 1)
    }

    /// Renders the finding as text for users.
    pub fn render(&self, coloured: bool) -> String {
        let style = match self.level {
            Level::Error => Style::ERROR,
            Level::Warning => Style::WARNING,
        };
        let title = style.primary_title(&self.message).id(self.code.as_str());
        let source = &*self.place.source;
        let mut group = if source.text.is_empty() {
            title.element(Origin::path(&source.name))
        } else {
            // Only the relevant lines are passed to the renderer, because a file may be long and
            // have many findings.
            let also = self.also.as_ref().filter(|(place, _)| self.place.is_near(place));
            let spans = [Some(&self.place), also.map(|(place, _)| place)];
            let start = spans.iter().flatten().map(|p| p.span.start).min().unwrap_or(0);
            let end = spans.iter().flatten().map(|p| p.span.end).max().unwrap_or(0);
            let first = source.text[..start].rfind('\n').map_or(0, |n| n + 1);
            let last = source.text[end..].find('\n').map_or(source.text.len(), |n| end + n);
            let line = source.text[..first].bytes().filter(|&b| b == b'\n').count() + 1;
            let within = |place: &Place| place.span.start - first..place.span.end - first;
            let mut annotation = AnnotationKind::Primary.span(within(&self.place));
            if !self.label.is_empty() {
                annotation = annotation.label(&self.label);
            }
            // The renderer replaces all control characters except these. `·` has the same number of
            // bytes.
            let lines = source.text[first..last].replace(|c| ('\u{80}'..='\u{9f}').contains(&c), "·");
            let mut snippet =
                Snippet::source(lines).line_start(line).path(&source.name).annotation(annotation);
            if let Some((place, label)) = also {
                snippet = snippet.annotation(AnnotationKind::Context.span(within(place)).label(label));
            }
            title.element(snippet)
        };
        if !self.quote.is_empty() {
            group = group.element(Style::NOTE.message(format!("it printed:\n{}", self.quote)));
        }
        if !self.remedy.is_empty() {
            group = group.element(Style::HELP.message(&self.remedy));
        }
        let renderer = if coloured { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// A text that findings point into: the file, or one option of the command line.
pub(super) struct Source {
    name: String,
    text: String,
    is_option: bool,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Print only the name: every finding refers to a source, and the text of a source may be
        // long.
        f.write_str(&self.name)
    }
}

impl Source {
    pub(super) fn file(name: String, text: String) -> Arc<Self> {
        Arc::new(Self { name: printable(&name), text, is_option: false })
    }

    pub(super) fn option(text: String) -> Arc<Self> {
        Arc::new(Self { name: "command line".into(), text, is_option: true })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// A part of a [`Source`].
#[derive(Clone, Debug)]
pub(super) struct Place {
    source: Arc<Source>,
    span: Range<usize>,
}

impl Place {
    /// Creates a place. The span is cut to the first line that it covers, and to whole characters
    /// of the text.
    pub(super) fn new(source: &Arc<Source>, span: Range<usize>) -> Self {
        let text = &source.text;
        let start = floor(text, span.start);
        let end = floor(text, span.end).max(start);
        let end = text[start..end].find(['\r', '\n']).map_or(end, |n| start + n);
        Self { source: source.clone(), span: start..end }
    }

    /// Returns the text at the place.
    pub(super) fn text(&self) -> &str {
        &self.source.text[self.span.clone()]
    }

    /// Returns whether the place is in an option of the command line.
    pub(super) fn is_option(&self) -> bool {
        self.source.is_option
    }

    fn is_near(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.source, &other.source) && self.span.start.abs_diff(other.span.start) < 65_536
    }
}

fn floor(text: &str, mut index: usize) -> usize {
    index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

/// A value and the place in the source.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub value: T,
    pub place: Place,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_cut_to_one_line_of_whole_characters() {
        let source = Source::file("x".into(), "aé\r\nb".into());
        assert_eq!(Place::new(&source, 0..99).span, 0..3);
        assert_eq!(Place::new(&source, 2..99).span, 1..3);
        assert_eq!(Place::new(&source, 99..100).span, 6..6);
    }

    #[test]
    fn codes_are_unique() {
        let texts: std::collections::BTreeSet<_> = Code::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
    }
}

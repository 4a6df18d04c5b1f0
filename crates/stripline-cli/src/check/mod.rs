//! `stripline check`: waveform files, topics files and experiment files.

pub(crate) mod arguments;
mod explain;

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use stripline::component::Registry;
use stripline_bench::experiment::{Experiment, Problems};
use stripline_waveform::internal::{FILE_BYTES_MAX, check_topics, read_bytes, topic_choices};
use stripline_waveform::{Diagnostics, Level, parse_bytes};

use crate::Exit;
use crate::builtin;
use crate::calibrate::Costs;
use crate::control::print_json;
use crate::format::{counted, printable};
use crate::run::{catalog, overrides_of, transport_names, worse};
use crate::show::print;
use crate::terminal;
use arguments::CheckArguments;
use explain::{Explained, legend};

/// The longest message in a line of standard error.
const TEXT_MAX: usize = 2000;

/// The kind of a file, determined by the tables in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Waveform,
    Topics,
    Experiment,
}

/// The result of the check of one file.
#[derive(Debug, Default, Serialize)]
struct FileCheck {
    file: String,
    /// `None`: the file could not be read.
    kind: Option<Kind>,
    ok: bool,
    components: Option<usize>,
    connections: Option<usize>,
    cases: Option<usize>,
    findings: Vec<Finding>,
    /// The choice of each connection's or topic's transport, with `--explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<Vec<Explained>>,
    /// The calibration with the costs of the candidates.
    #[serde(skip_serializing_if = "Option::is_none")]
    calibration: Option<serde_json::Value>,
    /// All findings as text for people.
    #[serde(skip)]
    text: String,
}

#[derive(Debug, Default, Serialize)]
struct Finding {
    level: &'static str,
    /// The kind of finding, the same in all versions. Findings in experiments have no kind.
    code: Option<&'static str>,
    message: String,
    remedy: String,
    source: String,
    line: Option<usize>,
    column: Option<usize>,
    start: Option<usize>,
    end: Option<usize>,
}

pub(crate) fn check(arguments: &CheckArguments, registry: &Registry) -> Exit {
    let costs = arguments.explain.then(Costs::read);
    let of_file = |file: &PathBuf| checked(file, arguments, registry, costs.as_ref());
    let all: Vec<FileCheck> = arguments.files.iter().map(of_file).collect();
    let mut exit = if all.iter().all(|checked| checked.ok) { Exit::Clean } else { Exit::Usage };
    if arguments.json {
        return worse(exit, print_json(&all));
    }
    for checked in &all {
        if !checked.text.is_empty() {
            report!("{}", checked.text.trim_end());
        }
        if checked.ok {
            exit = worse(exit, print(&format!("{}: ok{}\n", checked.file, checked.counts())));
            let explained = checked.explained.iter().flatten();
            exit = explained.fold(exit, |exit, own| worse(exit, print(&format!("\n{}", own.render()))));
        }
    }
    if let Some(costs) = costs
        && all.iter().any(|checked| checked.explained.as_ref().is_some_and(|explained| !explained.is_empty()))
    {
        exit = worse(exit, print(&format!("\n{}", legend(&costs))));
    }
    exit
}

fn checked(file: &Path, arguments: &CheckArguments, registry: &Registry, costs: Option<&Costs>) -> FileCheck {
    let is_stdin = file.as_os_str() == "-";
    // The folder of standard input is the current folder.
    let path = if is_stdin { Path::new("standard input") } else { file };
    let name = path.display().to_string();
    let read = match builtin::waveform(file) {
        _ if is_stdin => read_stdin(),
        Some(text) => Ok(text.into()),
        None => read_bytes(file),
    };
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(found) => return FileCheck { file: name, ..FileCheck::default() }.with_diagnostics(&found),
    };
    let kind = kind_of(&String::from_utf8_lossy(&bytes));
    let mut result = FileCheck { file: name.clone(), kind: Some(kind), ..FileCheck::default() };
    let overrides = overrides_of(&arguments.overrides);
    if kind != Kind::Waveform {
        if !overrides.set.is_empty() || overrides.transport.is_some() || overrides.placement.is_some() {
            return result.with_text("`--set`, `--transport` and `--placement` are for waveform files");
        }
        if kind == Kind::Topics {
            return match check_topics(&bytes, path) {
                Ok(topics) => {
                    let choices = topic_choices(&bytes, &topics, &transport_names());
                    let explained =
                        |costs| choices.iter().map(|topic| Explained::of_topic(topic, costs)).collect();
                    FileCheck { ok: true, ..result }.with_explained(costs, explained)
                }
                Err(found) => result.with_diagnostics(&found),
            };
        }
        let Ok(text) = std::str::from_utf8(&bytes) else {
            return result.with_text("this is not UTF-8 text; is this the right file?");
        };
        return match Experiment::parse(text, &name) {
            Ok(experiment) => FileCheck { ok: true, cases: Some(experiment.cases.len()), ..result },
            Err(problems) => result.with_problems(&problems),
        };
    }
    let names = transport_names();
    match parse_bytes(&bytes, path, &overrides, &catalog(registry, &names)) {
        Ok((waveform, warnings)) => {
            result.components = Some(waveform.components.len());
            result.connections = Some(waveform.connections.len());
            let connections = waveform.connections.iter();
            let explained = |costs| connections.map(|plan| Explained::of_connection(plan, costs)).collect();
            FileCheck { ok: true, ..result }.with_diagnostics(&warnings).with_explained(costs, explained)
        }
        Err(found) => result.with_diagnostics(&found),
    }
}

/// Reads standard input, up to one byte more than the size limit of a file.
fn read_stdin() -> Result<Vec<u8>, Diagnostics> {
    let mut bytes = Vec::new();
    // After an error, the bytes read so far are checked as the whole file.
    let _ = std::io::stdin().lock().take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    Ok(bytes)
}

/// Returns the kind of the first table that only one kind of file has. A file without such a table
/// is checked as a waveform. The text may be invalid TOML.
fn kind_of(text: &str) -> Kind {
    let names = text.lines().filter_map(|line| {
        let is_name = |symbol: char| symbol.is_ascii_alphanumeric() || symbol == '-' || symbol == '_';
        line.trim_start().trim_start_matches(['[', ' ', '\u{feff}']).split(|symbol| !is_name(symbol)).next()
    });
    let kind = |name: &str| match name {
        "waveform" | "component" | "connection" => Some(Kind::Waveform),
        "domain" | "topic" => Some(Kind::Topics),
        "experiment" | "case" | "quick" => Some(Kind::Experiment),
        _ => None,
    };
    names.into_iter().find_map(kind).unwrap_or(Kind::Waveform)
}

impl FileCheck {
    fn counts(&self) -> String {
        let count = |number: Option<usize>, thing| number.map(|number| counted(number as u64, thing));
        let kind = (self.kind == Some(Kind::Topics)).then(|| "topics".to_string());
        let counts = [
            kind,
            count(self.components, "component"),
            count(self.connections, "connection"),
            count(self.cases, "case"),
        ];
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        if counts.is_empty() { String::new() } else { format!(": {}", counts.join(", ")) }
    }

    /// Adds the choices of transports, with `--explain`.
    fn with_explained<'c>(
        self,
        costs: Option<&'c Costs>,
        explain: impl FnOnce(&'c Costs) -> Vec<Explained>,
    ) -> Self {
        let Some(costs) = costs else { return self };
        Self { explained: Some(explain(costs)), calibration: Some(costs.as_json()), ..self }
    }

    fn with_diagnostics(mut self, found: &Diagnostics) -> Self {
        self.text = found.render(terminal::is_stderr_coloured());
        for finding in found {
            let (line, column) = finding.line_column();
            self.findings.push(Finding {
                level: if finding.level() == Level::Error { "error" } else { "warning" },
                code: Some(finding.code().as_str()),
                message: finding.message().into(),
                remedy: finding.remedy().into(),
                source: finding.source().into(),
                line: Some(line),
                column: Some(column),
                start: Some(finding.span().start),
                end: Some(finding.span().end),
            });
        }
        self
    }

    fn with_problems(mut self, problems: &Problems) -> Self {
        self.text = problems.render(terminal::is_stderr_coloured());
        for problem in problems.iter() {
            self.findings.push(Finding {
                level: "error",
                message: problem.message.into(),
                remedy: problem.remedy.into(),
                source: self.file.clone(),
                line: Some(problem.line),
                column: Some(problem.column),
                start: Some(problem.span.start),
                end: Some(problem.span.end),
                ..Finding::default()
            });
        }
        self
    }

    /// Adds one error without a place.
    fn with_text(mut self, message: &str) -> Self {
        let lines: Vec<String> = message.lines().map(|line| printable(line, TEXT_MAX)).collect();
        self.text = format!("error: {}: {}", self.file, lines.join("\n"));
        let (source, message) = (self.file.clone(), lines.join("\n"));
        self.findings.push(Finding { level: "error", message, source, ..Finding::default() });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_that_of_the_first_table_with_one() {
        for (text, kind) in [
            ("", Kind::Waveform),
            ("# topic\n[component.a]\n[topic.b]", Kind::Waveform),
            ("[default]\ndepth = 4\n\n [ topic . \"a\" ]", Kind::Topics),
            ("topic.a.depth = 1", Kind::Topics),
            ("[default]\n[[case]]\nname = [", Kind::Experiment),
            ("\u{feff}[experiment]", Kind::Experiment),
            ("[[connection]]", Kind::Waveform),
            ("\0\u{1b}[topics]", Kind::Waveform),
        ] {
            assert_eq!(kind_of(text), kind, "{text:?}");
        }
    }
}

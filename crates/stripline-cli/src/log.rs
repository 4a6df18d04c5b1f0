//! The log of a run: lines on the screen, and records in a file.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use indicatif::ProgressBar;
use log::{Level, LevelFilter};
use serde::Serialize;
use stripline::internal::{LogFilter, rfc3339};
use stripline_waveform::{Step, Waveform};

use crate::arguments::{LogArguments, LogFormat};
use crate::line_file::LineFile;
use crate::trace::Trace;

/// The target of the launcher's own records.
pub(crate) const LAUNCHER: &str = "stripline::waveform";

/// Prints above the progress, and writes to the log file.
pub(crate) struct RunLog {
    bar: ProgressBar,
    /// The filter for records of the library that are printed.
    screen: LogFilter,
    is_verbose: bool,
    /// Whether the waveform has several components. Then lines begin with the component's name.
    many: bool,
    file: Option<LogFile>,
    trace: Option<Mutex<Trace>>,
}

/// The log file.
struct LogFile {
    lines: Mutex<LineFile>,
    filter: LogFilter,
    format: LogFormat,
}

/// A line of a log in JSON.
#[derive(Serialize)]
struct JsonRecord<'a> {
    time: String,
    level: String,
    target: &'a str,
    component: Option<&'a str>,
    message: &'a str,
}

impl RunLog {
    /// Opens the log file.
    ///
    /// # Errors
    /// The problem with the file.
    pub(crate) fn open(
        arguments: &LogArguments,
        bar: ProgressBar,
        waveform: &Waveform,
    ) -> Result<Self, String> {
        let many = waveform.components.len() > 1;
        // A wrong value was already reported when the process started.
        let setting = LogFilter::from_environment().ok().flatten().unwrap_or_default();
        let screen = match arguments.verbose {
            0 => setting,
            1 => setting.at_least(LevelFilter::Info),
            2 => setting.at_least(LevelFilter::Debug),
            _ => setting.at_least(LevelFilter::Trace),
        };
        let open = |path: &std::path::PathBuf| -> Result<LogFile, String> {
            let lines = Mutex::new(LineFile::open(path, false)?);
            let filter = screen.clone();
            let filter = if filter.has_default() { filter } else { filter.at_least(LevelFilter::Info) };
            Ok(LogFile { lines, filter, format: arguments.log_format })
        };
        let file = arguments.log_file.as_ref().map(open).transpose()?;
        let create = |path: &std::path::PathBuf| Trace::create(path, waveform).map(Mutex::new);
        let trace = arguments.trace.as_ref().map(create).transpose()?;
        Ok(Self { bar, screen, is_verbose: arguments.verbose > 0, many, file, trace })
    }

    /// Returns the filter for component processes: the filter of the log file or, without a log
    /// file, of the screen.
    pub(crate) fn filter(&self) -> &LogFilter {
        self.file.as_ref().map_or(&self.screen, |file| &file.filter)
    }

    /// Makes this log the destination of this process's records.
    pub(crate) fn install(self: &Arc<Self>) {
        let log = Arc::clone(self);
        let sink = move |record: &log::Record<'_>| {
            log.library(None, record.level(), record.target(), &record.args().to_string());
        };
        stripline::internal::log_to(self.filter().max_level(), Box::new(sink));
    }

    /// Handles a record of the library or of a component's code.
    pub(crate) fn library(&self, component: Option<&str>, level: Level, target: &str, message: &str) {
        if level <= self.screen.level(target) {
            let prefix = self.prefix(component);
            let is_usual = level <= Level::Warn && target.split("::").next() == Some("stripline");
            match is_usual && !self.is_verbose {
                true => self.print(&format!("{prefix}stripline: {message}")),
                false => self.print(&format!("{prefix}{} {target}: {message}", lower(level))),
            }
        }
        self.write(component, level, target, message);
    }

    /// Handles a step of a component, which is printed only with `-v`.
    pub(crate) fn step(&self, component: &str, step: &Step) {
        let text = step.to_string();
        if self.is_verbose {
            self.print(&format!("{}{text}", self.prefix(Some(component))));
        }
        let level = match step {
            Step::Failed(_) | Step::Exited(_) => Level::Warn,
            _ => Level::Info,
        };
        self.append(Some(component), level, LAUNCHER, &text);
        self.trace(|trace| trace.step(component, step));
    }

    /// Adds to the trace, if there is one.
    pub(crate) fn trace(&self, add: impl FnOnce(&mut Trace) -> Result<(), String>) {
        let Some(trace) = &self.trace else { return };
        let added = add(&mut trace.lock().unwrap_or_else(PoisonError::into_inner));
        if let Err(problem) = added {
            self.print(&format!("warning: --trace: {problem}; the waveform goes on, the trace ends here"));
        }
    }

    /// Returns the prefix of a component's lines on the screen.
    pub(crate) fn prefix(&self, component: Option<&str>) -> String {
        component.filter(|_| self.many).map(|name| format!("[{name}] ")).unwrap_or_default()
    }

    /// Prints a line above the progress, with the time if `-v` is set.
    pub(crate) fn print(&self, text: &str) {
        let time = if self.is_verbose { rfc3339(SystemTime::now()) + " " } else { String::new() };
        self.bar.suspend(|| report!("{time}{text}"));
    }

    /// Completes the trace, and reports lines that were lost, and files that were removed.
    pub(crate) fn finish(&self) {
        self.trace(Trace::finish);
        if let Some(trace) = &self.trace
            && let Err(problem) = trace.lock().unwrap_or_else(PoisonError::into_inner).file().check(true)
        {
            self.print(&format!("warning: --trace: {problem}"));
        }
        let Some(file) = &self.file else { return };
        let lines = file.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let (lost, checked) = (lines.lost(), lines.check(false));
        drop(lines);
        if lost > 0 {
            self.print(&format!("warning: --log-file: its last {lost} lines are lost"));
        }
        if let Err(problem) = checked {
            self.print(&format!("warning: --log-file: {problem}"));
        }
    }

    /// Writes a record to the log file. A warning or an error also goes to the trace.
    pub(crate) fn write(&self, component: Option<&str>, level: Level, target: &str, message: &str) {
        self.append(component, level, target, message);
        if level <= Level::Warn {
            self.trace(|trace| trace.mark(component, &lower(level), message));
        }
    }

    /// Writes a record to the log file.
    fn append(&self, component: Option<&str>, level: Level, target: &str, message: &str) {
        let Some(file) = self.file.as_ref().filter(|file| level <= file.filter.level(target)) else { return };
        let mut lines = file.lines.lock().unwrap_or_else(PoisonError::into_inner);
        // The time is read while the lock is held, so that the times in the file never decrease.
        let now = SystemTime::now();
        let line = render(file.format, now, component, level, target, message);
        let missing = |count| {
            let message = format!("{count} lines are missing here: the file could not be written");
            render(file.format, now, None, Level::Warn, LAUNCHER, &message)
        };
        let written = lines.write(&line, missing);
        drop(lines);
        if let Err(problem) = written {
            self.print(&format!("warning: --log-file: {problem}; the waveform goes on, lines are lost"));
        }
    }
}

fn lower(level: Level) -> String {
    level.as_str().to_lowercase()
}

/// Renders a record as one line.
fn render(
    format: LogFormat,
    now: SystemTime,
    component: Option<&str>,
    level: Level,
    target: &str,
    message: &str,
) -> String {
    let (time, level) = (rfc3339(now), lower(level));
    match format {
        LogFormat::Text => {
            let component = component.map(|name| format!("[{name}] ")).unwrap_or_default();
            format!("{time} {level:5} {target}: {component}{}", message.replace('\n', "\n    "))
        }
        LogFormat::Json => {
            let record = JsonRecord { time, level, target, component, message };
            serde_json::to_string(&record).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_record_is_one_line_of_json_or_text() {
        let now = UNIX_EPOCH + Duration::from_micros(1);
        let record = |format| render(format, now, Some("a"), Level::Warn, "t", "x \"\u{1b}\n2");
        assert_eq!(record(LogFormat::Text), "1970-01-01T00:00:00.000001Z warn  t: [a] x \"\u{1b}\n    2");
        assert_eq!(
            record(LogFormat::Json),
            "{\"time\":\"1970-01-01T00:00:00.000001Z\",\"level\":\"warn\",\"target\":\"t\",\"component\":\"a\",\
             \"message\":\"x \\\"\\u001b\\n2\"}"
        );
    }
}

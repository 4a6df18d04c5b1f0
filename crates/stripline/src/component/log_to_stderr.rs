//! The logger for programs that install none, which prints records on standard error.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use log::{Level, LevelFilter, Log, Metadata, Record};

use super::control::CONTROL_VARIABLE;
use super::log_filter::LogFilter;
use crate::error::printable;

/// Writes a line to standard error. A full or closed standard error does not end the process.
macro_rules! print_error {
    ($($text:tt)*) => {{
        let line = format!("{}\n", format_args!($($text)*));
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }};
}
pub(super) use print_error;

/// A function that receives all records of this process in place of standard error.
pub type LogSink = Box<dyn Fn(&Record<'_>) + Send + Sync>;

static LOGGER: OnceLock<StderrLogger> = OnceLock::new();
static SINK: OnceLock<LogSink> = OnceLock::new();

/// A logger that prints on standard error, by default this library's warnings and errors.
struct StderrLogger {
    filter: LogFilter,
    form: LineForm,
}

/// The form of a line on standard error.
enum LineForm {
    /// `stripline: MESSAGE`.
    Short,
    /// Time, level, target and message.
    Full,
    /// `stripline[LEVEL TARGET]: MESSAGE`, for a launcher.
    Launched,
}

impl Log for StderrLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        SINK.get().is_some() || metadata.level() <= self.filter.level(metadata.target())
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        if let Some(sink) = SINK.get() {
            return sink(record);
        }
        let (level, target) = (record.level().as_str().to_lowercase(), record.target());
        let message = printable(&record.args().to_string());
        match self.form {
            LineForm::Short => print_error!("stripline: {message}"),
            LineForm::Full => print_error!("{} {level} {target}: {message}", rfc3339(SystemTime::now())),
            LineForm::Launched => print_error!("stripline[{level} {target}]: {message}"),
        }
    }

    fn flush(&self) {}
}

/// Prints this library's warnings and errors on standard error from now on, or the records selected
/// by `STRIPLINE_LOG`. Has no effect if the program has installed a logger.
pub fn log_to_stderr() {
    let setting = LogFilter::from_environment();
    let form = match &setting {
        _ if std::env::var_os(CONTROL_VARIABLE).is_some() => LineForm::Launched,
        Ok(Some(_)) => LineForm::Full,
        Ok(None) | Err(_) => LineForm::Short,
    };
    let filter = setting.clone().ok().flatten().unwrap_or_default();
    let max = filter.max_level();
    // A second call finds the logger of the first call in place.
    if LOGGER.set(StderrLogger { filter, form }).is_ok()
        && let Some(logger) = LOGGER.get()
        && log::set_logger(logger).is_ok()
    {
        log::set_max_level(max);
        if let Err(problem) = setting {
            print_error!("warning: {problem}");
        }
    }
}

/// Passes all records up to this level to a function, which selects among them.
pub fn log_to(max: LevelFilter, sink: LogSink) {
    if SINK.set(sink).is_ok() {
        log::set_max_level(max);
    }
}

/// Returns the level, target and message of a line that a launched process printed for the
/// launcher.
pub fn parse_launched(line: &str) -> Option<(Level, &str, &str)> {
    let (head, message) = line.strip_prefix("stripline[")?.split_once("]: ")?;
    let (level, target) = head.split_once(' ')?;
    Some((level.parse().ok()?, target, message))
}

/// Formats a time as RFC 3339 in UTC, with microseconds.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days since 0000-03-01, so that the leap day is the last of its year. See H. Hinnant,
    // "chrono-compatible low-level date algorithms".
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let micros = since.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000250Z"),
            (951_782_400, "2000-02-29T00:00:00.000250Z"),
            (951_868_799, "2000-02-29T23:59:59.000250Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000250Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000250Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000250Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::new(seconds, 250_999)), text);
        }
    }

    #[test]
    fn a_line_for_the_launcher_is_parsed_and_others_are_not() {
        let line = "stripline[warn stripline::node]: topic iq: [x]: y";
        assert_eq!(parse_launched(line), Some((Level::Warn, "stripline::node", "topic iq: [x]: y")));
        for other in ["stripline: x", "stripline[loud a]: x", "stripline[warn a] x", "stripline[warn]: x", ""]
        {
            assert_eq!(parse_launched(other), None, "{other}");
        }
    }
}

//! The logger of programs that install none: the library's records on standard error.

use log::{LevelFilter, Log, Metadata, Record};

/// Writes a line to standard error. A full or closed standard error does not end the process.
macro_rules! print_error {
    ($($text:tt)*) => {{
        let line = format!("{}\n", format_args!($($text)*));
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }};
}
pub(super) use print_error;

/// Prints this library's warnings and errors as `stripline: MESSAGE`.
struct StderrLogger;

impl Log for StderrLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        metadata.level() <= LevelFilter::Warn && target.split("::").next() == Some("stripline")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            print_error!("stripline: {}", record.args());
        }
    }

    fn flush(&self) {}
}

/// Prints this library's warnings and errors on standard error from now on, unless the program has
/// installed a logger.
pub fn log_to_stderr() {
    if log::set_logger(&StderrLogger).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

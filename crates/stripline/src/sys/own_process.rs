//! Tests that run in a separate process, because they use up or limit resources that all tests
//! share.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::process::Command;
#[cfg(test)]
use std::sync::{
    Mutex,
    mpsc::{Receiver, Sender, channel},
};

#[cfg(test)]
use log::{LevelFilter, Log, Metadata, Record};

/// Names the part that this process runs.
const PART: &str = "STRIPLINE_TEST_PART";

/// Runs a part of the test with this full name in a separate process, which must pass. In an
/// emulator, `STRIPLINE_TEST_RUNNER` names the program that runs the process.
pub fn in_own_process(test: &str, part: &str, run: impl FnOnce()) {
    match std::env::var(PART) {
        Ok(own_part) if own_part == part => run(),
        Ok(_) => {}
        Err(_) => {
            let program = std::env::current_exe().unwrap();
            let mut command = match std::env::var_os("STRIPLINE_TEST_RUNNER") {
                None => Command::new(program),
                Some(runner) => {
                    let mut command = Command::new(runner);
                    command.arg(program);
                    command
                }
            };
            let output = command.args(["--exact", test]).env(PART, part).output().unwrap();
            let printed = [output.stdout, output.stderr].concat();
            let printed = String::from_utf8_lossy(&printed);
            assert!(output.status.success() && printed.contains("1 passed"), "{part}: {printed}");
        }
    }
}

/// Returns the lines that this process logs from now on. Only for a separate process, as a process
/// has one logger.
#[cfg(test)]
pub(crate) fn logged() -> Receiver<String> {
    let (sender, lines) = channel();
    log::set_logger(Box::leak(Box::new(LogLines(Mutex::new(sender))))).unwrap();
    log::set_max_level(LevelFilter::Warn);
    lines
}

/// A logger that passes each message on.
#[cfg(test)]
struct LogLines(Mutex<Sender<String>>);

#[cfg(test)]
impl Log for LogLines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        // Without a receiver, the test has ended.
        let _ = self.0.lock().unwrap().send(record.args().to_string());
    }

    fn flush(&self) {}
}

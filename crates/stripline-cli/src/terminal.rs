//! The terminal or pipe behind standard output: reader, width and colours.

use std::io::{self, IsTerminal};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use signal_hook::low_level;
use stripline::SystemLimit;
use stripline::internal::process;
pub(crate) use stripline_components::internal::width;

use crate::arguments::ColorArgument;
use crate::poll::{PollFlags, wait};

/// Waits for `time`, or for ever. Returns false at once when standard output is a pipe without a
/// reader.
pub(crate) fn wait_while_read(time: Option<Duration>) -> bool {
    // A signal only makes the wait shorter, as no handler here ends the process.
    match wait(io::stdout(), PollFlags::empty(), time) {
        Ok(found) => !found.intersects(PollFlags::ERR | PollFlags::HUP),
        // Without the poll, the pause remains. The next write reports a closed pipe.
        Err(_) => {
            time.iter().for_each(|_| std::thread::sleep(Duration::from_secs(1)));
            true
        }
    }
}

/// Raises a signal once when standard output is a pipe and its reader has gone. The signal ends
/// this process in order. The first signal that is not ignored is raised, because an ignored signal
/// has no effect.
pub(crate) fn raise_when_unread(signals: &[i32]) {
    let Some(signal) = process::not_ignored(signals).first().copied() else { return };
    let wait = move || {
        while wait_while_read(None) {}
        report!("standard output has no reader any more");
        // The call fails only for an invalid signal number.
        let _ = low_level::raise(signal);
    };
    if let Err(error) = std::thread::Builder::new().spawn(wait) {
        let limit = SystemLimit::of_thread(&error).map_or_else(String::new, |limit| format!("; {limit}"));
        report!("no thread can watch standard output ({error}{limit}): a closed pipe is noticed at a write");
    }
}

/// Sets whether output is coloured, for the two functions below.
pub(crate) fn set_colour(when: ColorArgument) {
    match when {
        // The environment decides.
        ColorArgument::Auto => {}
        ColorArgument::Always => ColorChoice::Always.write_global(),
        ColorArgument::Never => ColorChoice::Never.write_global(),
    }
}

/// Returns whether standard output gets colours: by `--color`, NO_COLOR, CLICOLOR_FORCE, and on a
/// terminal.
pub(crate) fn is_stdout_coloured() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}

/// Returns whether standard error gets colours.
pub(crate) fn is_stderr_coloured() -> bool {
    AutoStream::choice(&io::stderr()) != ColorChoice::Never
}

/// Returns whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

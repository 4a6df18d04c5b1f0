//! The outcome of a command.

use std::process::ExitCode;

use stripline::Error;
use stripline_waveform::control::ControlError;

use crate::format::printable;

/// The longest line of an error, in characters. A path has up to 4096.
const LINE_MAX: usize = 5000;

/// The exit code of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Clean,
    /// A failure while running.
    Failure,
    /// A wrong command line or waveform file.
    Usage,
    /// A benchmark that missed targets that were required.
    Targets,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Clean => Self::SUCCESS,
            Exit::Failure => Self::FAILURE,
            Exit::Usage => Self::from(2),
            Exit::Targets => Self::from(3),
        }
    }
}

/// The exit code of a command, or the failure that ended the command.
pub(crate) type Outcome = Result<Exit, Failure>;

/// The failure that ends a command: the exit code, and the lines for standard error.
#[derive(Debug)]
pub(crate) struct Failure {
    pub exit: Exit,
    pub text: String,
}

impl Failure {
    /// Creates a failure of the work itself.
    pub(crate) fn new(text: impl ToString) -> Self {
        Self { exit: Exit::Failure, text: text.to_string() }
    }

    /// Creates a failure for which the command line or a file is the reason.
    pub(crate) fn usage(text: impl ToString) -> Self {
        Self { exit: Exit::Usage, text: text.to_string() }
    }

    /// Prints the failure, and returns the exit code.
    pub(crate) fn report(&self) -> Exit {
        self.text.lines().for_each(|line| report!("error: {}", printable(line, LINE_MAX)));
        self.exit
    }
}

/// A failure that was printed before.
impl From<Exit> for Failure {
    fn from(exit: Exit) -> Self {
        Self { exit, text: String::new() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let is_name = matches!(error, ControlError::NoSuchWaveform { .. } | ControlError::Several { .. });
        if is_name || error.is_wrong() { Self::usage(error) } else { Self::new(error) }
    }
}

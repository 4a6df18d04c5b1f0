//! The programs of the ends, and the running programs that are free.

use std::fmt;
use std::path::PathBuf;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use rustix::process::{Pid, Signal, kill_process};

use crate::build::{Kind, program};
use crate::support::DEADLINE;
use crate::test_process::TestProcess;

/// Set for the end in Rust.
pub const IS_END: &str = "STRIPLINE_CONFORMANCE_END";

/// The language of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Rust,
    C,
    Cpp,
    Python,
}

use Language::{C, Cpp, Python, Rust};

impl Language {
    /// Returns all languages that have a program here. The missing ones are printed.
    pub fn all() -> Vec<Self> {
        [Rust, C, Cpp, Python].into_iter().filter(|language| language.is_here()).collect()
    }

    fn is_here(self) -> bool {
        let Some(variable) = self.variable() else { return true };
        let is_here = std::env::var_os(variable).is_some();
        if !is_here {
            eprintln!("NOT RUN: ends in {self}; bindings/conformance/check runs them");
        }
        is_here
    }

    /// Returns the variable that names the program, for languages that are not built here.
    fn variable(self) -> Option<&'static str> {
        match self {
            Rust | C => None,
            Cpp => Some("STRIPLINE_END_CPP"),
            Python => Some("STRIPLINE_END_PYTHON"),
        }
    }

    fn command(self) -> Command {
        static C_PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        match self {
            Rust => {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["--exact", "child_entry", "--nocapture", "--test-threads=1"]);
                command.env(IS_END, "1");
                command
            }
            C => {
                let source = "../../bindings/conformance/end.c";
                Command::new(C_PROGRAM.get_or_init(|| program(source, Kind::Plain)))
            }
            Cpp | Python => {
                // The program, and the arguments.
                let words = std::env::var(self.variable().unwrap()).unwrap();
                let mut words = words.split(':');
                let mut command = Command::new(words.next().unwrap());
                command.args(words);
                command
            }
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The programs that run and are free. The programs end with this process, which closes their
/// input.
static FREE: Mutex<Vec<End>> = Mutex::new(Vec::new());

/// A program for one end, or for both.
pub struct End {
    pub language: Language,
    process: TestProcess,
    errors: ChildStderr,
}

impl End {
    /// Takes a free program, or starts a new one.
    pub fn of(language: Language) -> Self {
        let mut free = FREE.lock().unwrap();
        if let Some(place) = free.iter().position(|end| end.language == language) {
            return free.swap_remove(place);
        }
        drop(free);
        let mut command = language.command();
        command.env_remove("STRIPLINE_DOMAIN").env_remove("STRIPLINE_TOPICS").stderr(Stdio::piped());
        let (process, errors) = TestProcess::start_program(&mut command);
        let mut end = Self { language, process, errors: errors.unwrap() };
        assert_eq!(end.answer(), "ready");
        end
    }

    /// Gives the program back for another rule.
    pub fn free(mut self) {
        self.ok("close");
        FREE.lock().unwrap().push(self);
    }

    /// Sends a command, and returns the answer.
    #[track_caller]
    pub fn order(&mut self, command: &str) -> String {
        self.begin(command);
        self.answer()
    }

    /// Sends a command that must succeed with `ok`.
    #[track_caller]
    pub fn ok(&mut self, command: &str) {
        self.expect(command, "ok");
    }

    /// Sends a command that must have this answer.
    #[track_caller]
    pub fn expect(&mut self, command: &str, answer: &str) {
        let found = self.order(command);
        assert_eq!(found, answer, "{} answers `{command}`", self.language);
    }

    /// Sends a command that must fail with this code; returns the message.
    #[track_caller]
    pub fn fails(&mut self, command: &str, code: &str) -> String {
        let found = self.order(command);
        self.is_failure(&found, code)
    }

    /// Checks that an answer is a failure with this code; returns the message.
    #[track_caller]
    pub fn is_failure(&self, answer: &str, code: &str) -> String {
        let message = answer.strip_prefix(&format!("error {code} "));
        message.unwrap_or_else(|| panic!("{}: no `{code}`: {answer}", self.language)).to_string()
    }

    /// Sends a command that may not end before another event.
    pub fn begin(&mut self, command: &str) {
        self.process.order(command);
    }

    /// Returns the answer to the last command.
    #[track_caller]
    pub fn answer(&mut self) -> String {
        match self.process.answer(DEADLINE) {
            Ok(answer) => answer,
            Err(error) => {
                self.process.kill();
                let mut text = String::new();
                let _ = std::io::Read::read_to_string(&mut self.errors, &mut text);
                panic!("the end in {} does not answer ({error}); its errors: {text}", self.language);
            }
        }
    }

    /// Returns the number in the answer `ok NUMBER`.
    #[track_caller]
    pub fn number(&mut self, command: &str) -> u64 {
        let answer = self.order(command);
        let number = answer.strip_prefix("ok ").and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("{} answers `{command}` with {answer}", self.language))
    }

    /// Returns whether it has not answered yet.
    pub fn is_silent(&self) -> bool {
        self.process.answer(std::time::Duration::ZERO).is_err()
    }

    /// Ends the wait under way, in the way of the language: Python by Ctrl-C, C and C++ by a waker
    /// in a signal handler, Rust by a waker on another thread.
    pub fn interrupt(&mut self) {
        match self.language {
            Rust => self.process.order("wake"),
            C | Cpp | Python => {
                kill_process(Pid::from_raw(self.id().cast_signed()).unwrap(), Signal::INT).unwrap();
            }
        }
    }

    /// Kills the program without warning.
    pub fn kill(mut self) {
        self.process.kill();
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

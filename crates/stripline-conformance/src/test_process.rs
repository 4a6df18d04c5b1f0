//! A child process of a test: this test binary, started again. Each command and each answer is a
//! line of text.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::await_that;

/// The prefix of every answer. The prefix marks answers, because the test harness writes to the
/// same pipe.
pub const MARK: &str = "@@";

/// A child process. Dropping it kills the process and waits for the exit.
pub struct TestProcess {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
}

impl TestProcess {
    /// Starts the test `child_entry` of this binary. Also returns the standard error of the
    /// process, if the command pipes it.
    pub fn start(command: &mut Command) -> (Self, Option<ChildStderr>) {
        Self::start_program(command.args(["--exact", "child_entry", "--nocapture", "--test-threads=1"]))
    }

    /// Starts another program that executes commands. Returns the same as [`TestProcess::start`].
    pub fn start_program(command: &mut Command) -> (Self, Option<ChildStderr>) {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (tell, answers) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((_, answer)) = line.split_once(MARK) {
                    let _ = tell.send(answer.trim().to_string());
                }
            }
        });
        let (orders, errors) = (child.stdin.take().unwrap(), child.stderr.take());
        (Self { child, orders, answers }, errors)
    }

    /// Sends a line to the process.
    pub fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    /// Waits for the next answer of the process.
    pub fn answer(&self, timeout: Duration) -> Result<String, RecvTimeoutError> {
        self.answers.recv_timeout(timeout)
    }

    /// Waits until the process exits.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Kills the process without warning, and waits until it exits.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.wait();
    }

    /// Stops the process with a signal, and waits until it has stopped.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.id());
        await_that("the process is stopped", || std::fs::read_to_string(&stat).unwrap().contains(") T "));
    }

    /// Lets the stopped process continue.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.id() as i32).unwrap(), signal).unwrap();
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

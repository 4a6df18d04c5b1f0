//! The processes of a comparison, which handle packets, line by line.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::plan::LinkEnds;
use super::programs::Programs;
use crate::Problem;
use crate::machine::printable;
use crate::process::OwnChild;
use crate::rounds::Interruption;
use crate::usage::RunWatch;

/// The longest time for a process to connect, and for a block.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between checks of the Ctrl-C flag.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The longest time for a process to end after it has closed the output, and the interval between
/// checks.
const END_TIMEOUT: Duration = Duration::from_secs(2);
const END_INTERVAL: Duration = Duration::from_millis(10);
/// A block begins with untimed packets, so that the other process wakes: one for each `WARM_SHARE`
/// packets of the block.
const WARM_SHARE: u32 = 5;

/// The one or two processes of a subject.
pub(super) struct Workers<'a> {
    workers: Vec<Worker<'a>>,
    timed: usize,
    packets: u32,
}

impl<'a> Workers<'a> {
    /// Starts the processes, and waits until they are connected.
    pub(super) fn start(
        programs: &Programs,
        subject: &LinkEnds,
        size: usize,
        name: &str,
        cpus: &[usize],
        interruption: &'a Interruption,
    ) -> Result<Self, Problem> {
        let mut workers = Vec::new();
        for (place, role) in subject.roles.iter().enumerate() {
            let command = programs.command(subject, role, size, name)?;
            workers.push(Worker::start(command, cpus.get(place).copied(), interruption)?);
        }
        for worker in &mut workers {
            worker.expect_ready()?;
        }
        Ok(Self { workers, timed: subject.timed, packets: 0 })
    }

    /// Chooses the number of packets of a block, so that a block takes the given time.
    pub(super) fn settle(
        &mut self,
        block_ns: f64,
        (packets, packets_max): (u32, u32),
    ) -> Result<(), Problem> {
        self.packets = packets;
        while self.packets < packets_max && self.block()? * f64::from(self.packets) < block_ns {
            self.packets *= 2;
        }
        Ok(())
    }

    /// Runs a block, and returns the nanoseconds per packet or round trip.
    pub(super) fn block(&mut self) -> Result<f64, Problem> {
        for worker in &mut self.workers {
            worker.begin(self.packets.div_ceil(WARM_SHARE), self.packets)?;
        }
        let mut took = 0.0;
        for (place, worker) in self.workers.iter_mut().enumerate() {
            let seconds = worker.end()?;
            if place == self.timed {
                took = seconds;
            }
        }
        Ok(took / f64::from(self.packets))
    }

    /// Counts the waits of the processes for a processor.
    pub(super) fn count_delays(&self, watch: &mut RunWatch) {
        self.workers.iter().for_each(|worker| watch.count_delay(worker.child.id()));
    }
}

/// A process that prints lines.
pub(super) struct Worker<'a> {
    child: OwnChild,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    interruption: &'a Interruption,
}

impl<'a> Worker<'a> {
    pub(super) fn start(
        mut command: Command,
        cpu: Option<usize>,
        interruption: &'a Interruption,
    ) -> Result<Self, Problem> {
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = OwnChild::spawn(command, Vec::new(), cpu)?;
        let (send, lines) = channel();
        if let Some(output) = child.stdout.take() {
            // The thread ends with the process.
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if send.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let errors = child.stderr.take().map(|mut errors| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                let _ = errors.read_to_end(&mut text);
                String::from_utf8_lossy(&text).into_owned()
            })
        });
        Ok(Self { child, lines, errors, interruption })
    }

    fn expect_ready(&mut self) -> Result<(), Problem> {
        let line = self.line(TIMEOUT)?;
        if line == "ready" { Ok(()) } else { Err(format!("a process printed `{}`", printable(&line))) }
    }

    fn begin(&mut self, warm: u32, packets: u32) -> Result<(), Problem> {
        let sent = self.child.stdin.as_mut().map(|input| writeln!(input, "{warm} {packets}"));
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(self.failure(&format!("takes no line: {error}"))),
            None => Err("a process has ended".into()),
        }
    }

    fn end(&mut self) -> Result<f64, Problem> {
        let line = self.line(TIMEOUT)?;
        line.trim().parse().map_err(|_| format!("a process printed `{}` for a time", printable(&line)))
    }

    /// Returns the next line that the process prints.
    pub(super) fn line(&mut self, timeout: Duration) -> Result<String, Problem> {
        let end = Instant::now() + timeout;
        loop {
            match self.lines.recv_timeout(CHECK_INTERVAL) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.failure("closed its output")),
                Err(RecvTimeoutError::Timeout) if self.interruption.is_set() => {
                    return Err("interrupted".into());
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() > end => {
                    return Err(format!("a process did not reply within {} s", timeout.as_secs()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Returns the reason why the process ends: the last line of the error output, or else `seen`.
    fn failure(&mut self, seen: &str) -> Problem {
        // A process that has closed the output ends by itself, with a status that shows the reason.
        let end = Instant::now() + END_TIMEOUT;
        while Instant::now() < end && self.child.try_wait().is_ok_and(|status| status.is_none()) {
            std::thread::sleep(END_INTERVAL);
        }
        let _ = self.child.kill();
        let ended = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let text = self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default();
        match text.lines().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => printable(line),
            None => format!("a process {seen} ({ended})"),
        }
    }
}

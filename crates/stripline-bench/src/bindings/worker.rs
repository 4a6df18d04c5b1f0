//! The processes of a comparison. They handle packets, line by line.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::plan::LinkEnds;
use super::programs::Programs;
use crate::ladder::{Problem, printable};
use crate::processes;

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
        interrupted: &'a AtomicBool,
    ) -> Result<Self, Problem> {
        let mut workers = Vec::new();
        for (place, role) in subject.roles.iter().enumerate() {
            let command = programs.command(subject, role, size, name)?;
            workers.push(Worker::start(command, cpus.get(place).copied(), interrupted)?);
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
            let its = worker.end()?;
            if place == self.timed {
                took = its;
            }
        }
        Ok(took / f64::from(self.packets))
    }
}

/// A process that ends with this one.
struct Worker<'a> {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    interrupted: &'a AtomicBool,
}

impl<'a> Worker<'a> {
    fn start(mut command: Command, cpu: Option<usize>, interrupted: &'a AtomicBool) -> Result<Self, Problem> {
        let parent = Pid::from_raw(std::process::id().cast_signed());
        let mut cpus = CpuSet::new();
        cpu.into_iter().for_each(|cpu| cpus.set(cpu));
        let prepare = move || {
            processes::end_with_parent(parent)?;
            if cpus.count() > 0 { Ok(sched_setaffinity(None, &cpus)?) } else { Ok(()) }
        };
        // SAFETY: `prepare` makes only system calls and allocates nothing.
        unsafe { command.pre_exec(prepare) };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?;
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
        Ok(Self { input: child.stdin.take(), child, lines, errors, interrupted })
    }

    fn expect_ready(&mut self) -> Result<(), Problem> {
        let line = self.line()?;
        if line == "ready" { Ok(()) } else { Err(format!("a process printed `{}`", printable(&line))) }
    }

    fn begin(&mut self, warm: u32, packets: u32) -> Result<(), Problem> {
        let sent = self.input.as_mut().map(|input| writeln!(input, "{warm} {packets}"));
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(self.failure(&format!("takes no line: {error}"))),
            None => Err("a process has ended".into()),
        }
    }

    fn end(&mut self) -> Result<f64, Problem> {
        let line = self.line()?;
        line.trim().parse().map_err(|_| format!("a process printed `{}` for a time", printable(&line)))
    }

    fn line(&mut self) -> Result<String, Problem> {
        let end = Instant::now() + TIMEOUT;
        loop {
            match self.lines.recv_timeout(CHECK_INTERVAL) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.failure("closed its output")),
                Err(RecvTimeoutError::Timeout) if self.interrupted.load(Ordering::Relaxed) => {
                    return Err("interrupted".into());
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() > end => {
                    return Err(format!("a process did not reply within {} s", TIMEOUT.as_secs()));
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

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        // Closing the input ends the process, unless it waits for packets of the partner. Therefore
        // it is also killed.
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

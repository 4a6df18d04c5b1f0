//! The start of the processes of one run, and the collection of their results.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Problem;
use super::case::{Case, Job, Outcome, Subject};
use super::child::JOB_VARIABLE;
use super::{core_distance, endpoints};
use crate::memory;
use crate::processes::ChildProcesses;

/// The most time that a run may take beyond its measuring time.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Number of attempts to get a run during which the processor distance stays the same.
const TRIES: u32 = 3;

/// The settings and limits of all runs.
pub(super) struct Launcher<'a> {
    /// The program with a `main` that begins with `child_if_launched`.
    pub program: &'a Path,
    pub cpus: Vec<usize>,
    pub seconds: f64,
    pub interrupted: &'a AtomicBool,
    pub count: u32,
}

impl Launcher<'_> {
    /// Runs a case as [`Launcher::run`] does, and again if the distance of the processors changed
    /// meanwhile.
    pub(super) fn run_stable(&mut self, case: &Case) -> Result<Outcome, Problem> {
        let mut tries = 0;
        loop {
            let before = core_distance::cache_line_ns(&self.cpus);
            let mut outcome = self.run(case)?;
            let after = core_distance::cache_line_ns(&self.cpus);
            tries += 1;
            outcome.line_ns = before.zip(after).map(|(before, after)| (before * after).sqrt());
            outcome.is_unsettled = !core_distance::is_same_distance(before, after);
            // Relaxed: a late load costs one more run.
            if !outcome.is_unsettled || tries == TRIES || self.interrupted.load(Ordering::Relaxed) {
                return Ok(outcome);
            }
        }
    }

    /// Runs a case once, in new processes. All of them have ended when it returns.
    pub(super) fn run(&mut self, case: &Case) -> Result<Outcome, Problem> {
        self.count += 1;
        let domain = format!("ladder-{}-{}", std::process::id(), self.count);
        let board = memory::file(memory::PAGE)?;
        let supplies = Supplies::new(case, &domain)?;
        let mut family = ChildProcesses::default();
        for place in 0..case.processes() {
            let descriptors = supplies.of(place);
            let job = Job {
                case: case.clone(),
                place,
                cpus: self.cpus.clone(),
                seconds: self.seconds,
                domain: domain.clone(),
                board: board.as_raw_fd(),
                descriptors,
            };
            let inherited = job.descriptors.iter().copied().chain([job.board]).collect();
            family.spawn(self.program, JOB_VARIABLE, &job, inherited)?;
        }
        // A side detects the death of the other only if no other process holds its socket.
        drop(supplies);
        let end = Instant::now() + TIMEOUT + Duration::from_secs_f64(self.seconds);
        let mut whole = Outcome::default();
        family.listen(end, self.interrupted, |outcome: Outcome| match outcome.error {
            Some(error) => Err(error),
            None => {
                whole.merge(outcome);
                Ok(())
            }
        })?;
        Ok(whole)
    }
}

/// Descriptors that the processes of a run inherit.
enum Supplies {
    /// Each process has all of them.
    Shared(Vec<OwnedFd>),
    /// Each process has its own: one to send to, and one to receive from.
    Own([[OwnedFd; 2]; 2]),
}

impl Supplies {
    fn new(case: &Case, name: &str) -> Result<Self, Problem> {
        let text = |e: std::io::Error| format!("cannot connect two sockets: {e}");
        Ok(match case.subject {
            Subject::Atomics | Subject::Futex => Self::Shared(vec![memory::file(memory::PAGE)?]),
            Subject::Ring => {
                let bytes = endpoints::ring::bytes(case);
                Self::Shared(vec![memory::file(bytes)?, memory::file(bytes)?])
            }
            Subject::PosixQueue => Self::Shared(vec![
                endpoints::queue::open(&format!("{name}-there"), case)?,
                endpoints::queue::open(&format!("{name}-back"), case)?,
            ]),
            Subject::UnixSocket | Subject::TcpSocket => {
                let pair = if case.subject == Subject::UnixSocket { unix_pair } else { tcp_pair };
                let ([near, far], [back_near, back_far]) = (pair().map_err(text)?, pair().map_err(text)?);
                Self::Own([[near, back_near], [back_far, far]])
            }
            Subject::UnixDuplex | Subject::TcpDuplex => {
                let pair = if case.subject == Subject::UnixDuplex { unix_pair } else { tcp_pair };
                let [near, far] = pair().map_err(text)?;
                let again = |end: &OwnedFd| end.try_clone().map_err(text);
                Self::Own([[again(&near)?, near], [again(&far)?, far]])
            }
            _ => Self::Shared(Vec::new()),
        })
    }

    fn of(&self, place: u32) -> Vec<RawFd> {
        match self {
            Self::Shared(all) => all.iter().map(AsRawFd::as_raw_fd).collect(),
            Self::Own(all) => all.get(place as usize).into_iter().flatten().map(AsRawFd::as_raw_fd).collect(),
        }
    }
}

fn unix_pair() -> std::io::Result<[OwnedFd; 2]> {
    let (near, far) = UnixStream::pair()?;
    Ok([near.into(), far.into()])
}

fn tcp_pair() -> std::io::Result<[OwnedFd; 2]> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok([near.into(), far.into()])
}

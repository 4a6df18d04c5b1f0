//! Starting the processes of one run and hearing what they have found.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::Problem;
use super::case::{Case, Job, Outcome, What};
use super::child::JOB_VARIABLE;
use super::ends;
use crate::memory;
use crate::processes::Family;

/// What a run may take beyond its measuring time.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where and how runs are made.
pub(super) struct Launcher<'a> {
    /// The program whose `main` begins with `child_if_launched`.
    pub program: &'a Path,
    pub cpus: Vec<usize>,
    pub seconds: f64,
    pub interrupted: &'a AtomicBool,
    pub count: u32,
}

impl Launcher<'_> {
    /// Runs a case once, in fresh processes. None of them is left when it returns.
    pub(super) fn run(&mut self, case: &Case) -> Result<Outcome, Problem> {
        self.count += 1;
        let domain = format!("ladder-{}-{}", std::process::id(), self.count);
        let board = memory::file(memory::PAGE)?;
        let supplies = Supplies::new(case, &domain)?;
        let mut family = Family::default();
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
        // A side that dies is noticed by the other only if nobody else holds its socket.
        drop(supplies);
        let end = Instant::now() + PATIENCE + Duration::from_secs_f64(self.seconds);
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
    /// Each process has its own.
    Own(Vec<OwnedFd>),
}

impl Supplies {
    fn new(case: &Case, name: &str) -> Result<Self, Problem> {
        let text = |e: std::io::Error| format!("cannot connect two sockets: {e}");
        Ok(match case.what {
            What::Atomics | What::Futex => Self::Shared(vec![memory::file(memory::PAGE)?]),
            What::Ring => {
                let bytes = ends::ring::bytes(case);
                Self::Shared(vec![memory::file(bytes)?, memory::file(bytes)?])
            }
            What::PosixQueue => Self::Shared(vec![
                ends::queue::open(&format!("{name}-there"), case)?,
                ends::queue::open(&format!("{name}-back"), case)?,
            ]),
            What::UnixSocket => {
                let (near, far) = UnixStream::pair().map_err(text)?;
                Self::Own(vec![near.into(), far.into()])
            }
            What::TcpSocket => {
                let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
                let near = TcpStream::connect(listener.local_addr().map_err(text)?).map_err(text)?;
                let (far, _) = listener.accept().map_err(text)?;
                near.set_nodelay(true).map_err(text)?;
                far.set_nodelay(true).map_err(text)?;
                Self::Own(vec![near.into(), far.into()])
            }
            _ => Self::Shared(Vec::new()),
        })
    }

    fn of(&self, place: u32) -> Vec<RawFd> {
        match self {
            Self::Shared(all) => all.iter().map(AsRawFd::as_raw_fd).collect(),
            Self::Own(all) => all.get(place as usize).map(AsRawFd::as_raw_fd).into_iter().collect(),
        }
    }
}

//! The start of the processes of one run, and the collection of their results.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::Problem;
use super::case::{Case, Group, Job, RunOutcome, Subject};
use super::child::JOB_VARIABLE;
use super::endpoints;
use crate::memory;
use crate::processes::{ChildProcesses, OthersWatch};

/// The maximum time that a run may take beyond the measuring time.
const TIMEOUT: Duration = Duration::from_secs(60);

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
    /// Runs a group once, in new processes. All of them have ended when this returns.
    pub(super) fn run(&mut self, group: &Group) -> Result<RunOutcome, Problem> {
        self.count += 1;
        let others = OthersWatch::start();
        let name = format!("ladder-{}-{}", std::process::id(), self.count);
        let page = memory::file(memory::PAGE)?;
        let supplies: Vec<Supplies> = group
            .cases
            .iter()
            .enumerate()
            .map(|(index, case)| match group.original(index) == index {
                true => Supplies::new(case, &format!("{name}-{index}")),
                false => Ok(Supplies::Shared(Vec::new())),
            })
            .collect::<Result<_, _>>()?;
        let mut family = ChildProcesses::default();
        for place in 0..group.processes() {
            let descriptors: Vec<Vec<RawFd>> = supplies.iter().map(|own| own.of(place)).collect();
            let inherited = descriptors.iter().flatten().copied().chain([page.as_raw_fd()]).collect();
            let job = Job {
                group: group.clone(),
                place,
                cpus: self.cpus.clone(),
                seconds: self.seconds,
                name: name.clone(),
                page: page.as_raw_fd(),
                descriptors,
            };
            family.spawn(self.program, JOB_VARIABLE, &job, inherited)?;
        }
        // A side detects the death of the other side only if no other process holds the socket.
        drop(supplies);
        let end = Instant::now() + TIMEOUT + Duration::from_secs_f64(self.seconds);
        let mut whole = RunOutcome::default();
        family.listen(end, self.interrupted, |outcome: RunOutcome| match outcome.error {
            Some(error) => Err(error),
            None => {
                whole.merge(outcome);
                Ok(())
            }
        })?;
        whole.others = others.stop();
        Ok(whole)
    }
}

/// Descriptors that the processes of a run inherit.
enum Supplies {
    /// Each process has all descriptors.
    Shared(Vec<OwnedFd>),
    /// Each process has separate descriptors: one for sending, and one for receiving.
    Own([[OwnedFd; 2]; 2]),
}

impl Supplies {
    fn new(case: &Case, name: &str) -> Result<Self, Problem> {
        let text = |e: std::io::Error| format!("cannot connect two sockets: {e}");
        Ok(match case.subject {
            Subject::Atomics | Subject::Futex => Self::Shared(vec![memory::file(memory::PAGE)?]),
            Subject::MinimalRing => {
                let bytes = endpoints::minimal::bytes(case);
                Self::Shared(vec![memory::file(bytes)?, memory::file(bytes)?])
            }
            Subject::Ring => {
                let bytes = endpoints::ring::bytes(case);
                Self::Shared(vec![memory::file(bytes)?, memory::file(bytes)?])
            }
            Subject::PosixQueue => Self::Shared(vec![
                endpoints::queue::open(&format!("{name}-there"), case)?,
                endpoints::queue::open(&format!("{name}-back"), case)?,
            ]),
            Subject::UnixSocket | Subject::TcpSocket | Subject::UdpSocket => {
                let pair = match case.subject {
                    Subject::UnixSocket => unix_pair,
                    Subject::TcpSocket => tcp_pair,
                    _ => endpoints::datagram::pair,
                };
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

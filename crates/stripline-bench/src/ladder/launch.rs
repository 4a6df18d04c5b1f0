//! Starting the processes of one run and hearing what they have found.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::Problem;
use super::case::{Case, Job, Outcome, What};
use super::child::JOB_VARIABLE;
use super::ends;
use crate::memory;

/// What a run may take beyond its measuring time.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the flag of Ctrl-C is looked at; a signal to this process is noticed at once.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

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
        let mut family = Family(Vec::new());
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
            family.0.push(self.spawn(&job)?);
        }
        // A side that dies is noticed by the other only if nobody else holds its socket.
        drop(supplies);
        self.listen(&mut family)
    }

    fn spawn(&self, job: &Job) -> Result<Member, Problem> {
        let text = serde_json::to_string(job).map_err(|e| e.to_string())?;
        let mut command = Command::new(self.program);
        command.env(JOB_VARIABLE, text).stdin(Stdio::null()).stdout(Stdio::piped());
        let parent = Pid::from_raw(std::process::id().cast_signed());
        let inherited: Vec<RawFd> = job.descriptors.iter().copied().chain([job.board]).collect();
        let prepare = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // It may have died just before.
            if getppid() != parent {
                return Err(std::io::ErrorKind::NotFound.into());
            }
            for descriptor in &inherited {
                // SAFETY: the parent holds them open until this process has started.
                fcntl_setfd(unsafe { BorrowedFd::borrow_raw(*descriptor) }, FdFlags::empty())?;
            }
            Ok(())
        };
        // SAFETY: it makes system calls and allocates nothing.
        unsafe { command.pre_exec(prepare) };
        let mut child =
            command.spawn().map_err(|e| format!("cannot start {}: {e}", self.program.display()))?;
        let output = child.stdout.take();
        Ok(Member { child, output, text: Vec::new() })
    }

    fn listen(&self, family: &mut Family) -> Result<Outcome, Problem> {
        let end = Instant::now() + PATIENCE + Duration::from_secs_f64(self.seconds);
        let mut whole = Outcome::default();
        loop {
            let mut open: Vec<&mut Member> = family.0.iter_mut().filter(|m| m.output.is_some()).collect();
            if open.is_empty() {
                return Ok(whole);
            }
            let outputs = open.iter().filter_map(|member| member.output.as_ref());
            let mut polled: Vec<_> = outputs.map(|output| PollFd::new(output, PollFlags::IN)).collect();
            // A signal ends it early; the flag says which.
            let _ = poll(&mut polled, Some(&GLANCE));
            let ready: Vec<bool> = polled.iter().map(|p| !p.revents().is_empty()).collect();
            if self.interrupted.load(Ordering::Relaxed) {
                return Err("interrupted".into());
            }
            if Instant::now() > end {
                return Err("it did not end in time".into());
            }
            for (member, ready) in open.iter_mut().zip(ready) {
                let outcome = if ready { member.read()? } else { None };
                if let Some(outcome) = outcome {
                    if let Some(error) = outcome.error {
                        return Err(error);
                    }
                    whole.merge(outcome);
                }
            }
        }
    }
}

/// Processes that do not outlive this.
struct Family(Vec<Member>);

struct Member {
    child: Child,
    output: Option<ChildStdout>,
    text: Vec<u8>,
}

impl Member {
    /// Reads what is there; the outcome at its end.
    fn read(&mut self) -> Result<Option<Outcome>, Problem> {
        let Some(output) = &mut self.output else { return Ok(None) };
        let mut part = [0; 1 << 16];
        let len = output.read(&mut part).map_err(|e| format!("a process's result: {e}"))?;
        self.text.extend(&part[..len]);
        if len > 0 {
            return Ok(None);
        }
        self.output = None;
        let status = self.child.wait().map_err(|e| format!("a process: {e}"))?;
        let outcome = serde_json::from_slice(&self.text);
        outcome.map(Some).map_err(|_| format!("a process ended without a result ({status})"))
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        for member in &mut self.0 {
            // Both do nothing to one that has ended and was waited for.
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

/// Descriptors that the processes of a run inherit.
enum Supplies {
    /// Each process has all of them.
    Shared(Vec<OwnedFd>),
    /// Each process has its own: one to send to, one to receive from.
    Own([[OwnedFd; 2]; 2]),
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
            What::UnixSocket | What::TcpSocket => {
                let pair = if case.what == What::UnixSocket { unix_pair } else { tcp_pair };
                let ([near, far], [back_near, back_far]) = (pair().map_err(text)?, pair().map_err(text)?);
                Self::Own([[near, back_near], [back_far, far]])
            }
            What::UnixDuplex | What::TcpDuplex => {
                let pair = if case.what == What::UnixDuplex { unix_pair } else { tcp_pair };
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

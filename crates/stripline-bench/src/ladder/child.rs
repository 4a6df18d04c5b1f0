//! The code of a process that takes part in a measurement.

use std::os::fd::BorrowedFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::Problem;
use super::case::{Job, Measure, Outcome, Subject};
use super::endpoints;
use crate::memory::{Mapping, PAGE};
use crate::processes::{self, Usage};

/// The job, as JSON.
pub(super) const JOB_VARIABLE: &str = "STRIPLINE_BENCH_JOB";

/// The longest wait of a side for the others.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs the job of a process that a ladder started, and returns the exit code. In any other process
/// it returns `None`.
pub(crate) fn child_if_launched() -> Option<ExitCode> {
    processes::answer(JOB_VARIABLE, |job| {
        let outcome = job.and_then(|job| perform(&job));
        let mut outcome =
            outcome.unwrap_or_else(|error| Outcome { error: Some(error), ..Outcome::default() });
        outcome.usage = Usage::now();
        let is_well = outcome.error.is_none();
        (outcome, is_well)
    })
}

fn perform(job: &Job) -> Result<Outcome, Problem> {
    // Two hundred readers need many descriptors.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    pin(job, job.place)?;
    // SAFETY: inherited for this process, which closes none of its descriptors before it ends.
    let board = Mapping::new(unsafe { BorrowedFd::borrow_raw(job.board) }, PAGE, 0)?;
    let here: &AtomicU64 = board.atomic(0);
    let all_here = || assemble(here, job.case.sides());
    if !matches!(job.case.subject, Subject::Stripline | Subject::Calls) {
        return side(job, all_here);
    }
    let node = endpoints::stripline::node(&job.case, &job.domain)?;
    if job.case.processes() > 1 {
        return part(job, job.place, &node, all_here);
    }
    // One process, a thread for each side.
    let sides = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..job.case.sides())
            .map(|place| {
                let (node, all_here) = (&node, &all_here);
                scope.spawn(move || {
                    pin(job, place)?;
                    let outcome = part(job, place, node, all_here);
                    if outcome.is_err() {
                        // Signal the other side not to wait for a side that failed.
                        node.stop();
                    }
                    outcome
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))
        };
        threads.into_iter().map(join).collect::<Vec<Result<Outcome, Problem>>>()
    });
    let mut whole = Outcome::default();
    for side in sides {
        whole.merge(side?);
    }
    Ok(whole)
}

/// Runs one side of a case of Stripline.
fn part(
    job: &Job,
    place: u32,
    node: &stripline::node::Node,
    ready: impl FnOnce() -> Result<(), Problem>,
) -> Result<Outcome, Problem> {
    match job.case.subject {
        Subject::Calls => endpoints::calls::run(&job.case, place, job.seconds, node, ready),
        _ => endpoints::stripline::run(&job.case, place, job.seconds, node, ready),
    }
}

/// Runs one side of any other case.
fn side(job: &Job, ready: impl FnOnce() -> Result<(), Problem>) -> Result<Outcome, Problem> {
    let Job { case, place, seconds, .. } = job;
    let (place, seconds) = (*place, *seconds);
    let needed = match case.subject {
        Subject::Ring | Subject::PosixQueue => 2,
        Subject::UnixSocket | Subject::TcpSocket | Subject::UnixDuplex | Subject::TcpDuplex => 2,
        Subject::Atomics | Subject::Futex => 1,
        _ => 0,
    };
    if job.descriptors.len() != needed {
        return Err(format!("{} descriptors in place of {needed}", job.descriptors.len()));
    }
    match case.subject {
        #[cfg(feature = "peers")]
        Subject::Iceoryx2 => return endpoints::iceoryx2::run(case, place, seconds, &job.domain, ready),
        #[cfg(feature = "peers")]
        Subject::Zeromq => return endpoints::zeromq::run(case, place, seconds, &job.domain, ready),
        // The ring's sides find each other by its memory, before they are ready.
        Subject::Ring => {}
        _ => return bare(job, ready),
    }
    // SAFETY: inherited for this process, which closes none of its descriptors before it ends.
    let files = [0, 1].map(|index| unsafe { BorrowedFd::borrow_raw(job.descriptors[index]) });
    endpoints::ring::run(case, place, seconds, files, ready)
}

/// Runs one side of a case with ends that are connected from the start.
fn bare(job: &Job, ready: impl FnOnce() -> Result<(), Problem>) -> Result<Outcome, Problem> {
    let Job { case, place, seconds, .. } = job;
    let (place, seconds) = (*place, *seconds);
    // SAFETY: inherited for this process, which closes none of its descriptors before it ends.
    let borrow = |index: usize| unsafe { BorrowedFd::borrow_raw(job.descriptors[index]) };
    ready()?;
    match case.subject {
        Subject::Noise => endpoints::bare::noise(seconds),
        Subject::Memcpy => endpoints::bare::memcpy(case, seconds),
        Subject::Atomics => endpoints::bare::atomics(case, place, seconds, borrow(0)),
        Subject::Futex => endpoints::bare::futex(case, place, seconds, borrow(0)),
        Subject::PosixQueue => endpoints::queue::run(case, place, seconds, [borrow(0), borrow(1)]),
        // SAFETY: inherited for this process, and used for nothing else.
        Subject::UnixSocket | Subject::TcpSocket | Subject::UnixDuplex | Subject::TcpDuplex => unsafe {
            endpoints::socket::run(case, place, seconds, [job.descriptors[0], job.descriptors[1]])
        },
        Subject::Ring | Subject::Stripline | Subject::Calls | Subject::Iceoryx2 | Subject::Zeromq => {
            Err("it is not built in".into())
        }
    }
}

/// Waits until all sides have arrived.
pub(crate) fn assemble(here: &AtomicU64, sides: u32) -> Result<(), Problem> {
    here.fetch_add(1, Ordering::AcqRel);
    let patience = Instant::now() + TIMEOUT;
    while here.load(Ordering::Acquire) < u64::from(sides) {
        if Instant::now() > patience {
            return Err("the other side did not start".into());
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// Pins the calling thread, and those that it will start, to its side's processor.
fn pin(job: &Job, place: u32) -> Result<(), Problem> {
    let mut set = CpuSet::new();
    if job.case.measure == Measure::Pipeline {
        job.cpus.iter().for_each(|cpu| set.set(*cpu));
    } else {
        let own = job.cpus.get(place as usize % job.cpus.len().max(1));
        set.set(*own.ok_or("no processor to run on")?);
    }
    sched_setaffinity(None, &set).map_err(|e| format!("cannot pin to a processor: {e}"))
}

//! The code of a process that takes part in a run.

use std::os::fd::BorrowedFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use stripline::node::Node;

use super::Problem;
use super::blocks;
use super::case::{Case, Job, Measure, Outcome, RunOutcome, Subject};
use super::endpoints;
use super::measure::Side;
use super::turns::ControlPage;
use crate::processes;

/// The job, as JSON.
pub(super) const JOB_VARIABLE: &str = "STRIPLINE_BENCH_JOB";

/// The longest wait of a side for the others.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs the job of a process that a ladder started, and returns the exit code. In any other
/// process, returns `None`.
pub(crate) fn child_if_launched() -> Option<ExitCode> {
    processes::answer(JOB_VARIABLE, |job| {
        let outcome = job
            .and_then(|job| perform(&job))
            .unwrap_or_else(|error| RunOutcome { error: Some(error), ..RunOutcome::default() });
        let is_well = outcome.error.is_none();
        (outcome, is_well)
    })
}

fn perform(job: &Job) -> Result<RunOutcome, Problem> {
    // Two hundred readers need many descriptors.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    if job.descriptors.len() != job.group.cases.len() {
        return Err(format!("descriptors of {} cases", job.descriptors.len()));
    }
    pin(job, job.place)?;
    let nodes: Vec<Option<Node>> = (0..job.group.cases.len())
        .map(|index| {
            let case = &job.group.cases[index];
            let needs_node = job.group.original(index) == index && case.is_ours();
            needs_node.then(|| endpoints::stripline::node(case, &domain(job, index))).transpose()
        })
        .collect::<Result<_, Problem>>()?;
    if !job.group.threads {
        return Ok(RunOutcome { cases: run_side(job, job.place, &nodes)?, ..RunOutcome::default() });
    }
    // There is one process, with a thread for each side.
    let sides = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..job.group.sides())
            .map(|place| {
                let nodes = &nodes;
                scope.spawn(move || {
                    pin(job, place).unwrap_or_else(|error| end(error));
                    Ok(run_side(job, place, nodes).unwrap_or_else(|error| end(error)))
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into())))
            .collect::<Vec<Result<Vec<Outcome>, Problem>>>()
    });
    let mut whole = RunOutcome::default();
    for cases in sides {
        whole.merge(RunOutcome { cases: cases?, ..RunOutcome::default() });
    }
    Ok(whole)
}

/// Ends the process, because a side has failed and the other side waits for it.
fn end(error: Problem) -> ! {
    processes::report(&RunOutcome { error: Some(error), ..RunOutcome::default() });
    std::process::exit(1)
}

/// Connects one side of each case, and runs the blocks of this side.
fn run_side(job: &Job, place: u32, nodes: &[Option<Node>]) -> Result<Vec<Outcome>, Problem> {
    // SAFETY: the descriptor was inherited for this process, which closes none of its descriptors
    // before it ends.
    let page = unsafe { BorrowedFd::borrow_raw(job.page) };
    // A spinning side might keep a carrier thread from the processor.
    let cpus = if job.group.has_carrier_threads() { 0 } else { job.cpus.len() };
    let mut page = ControlPage::new(page, job.group.sides(), cpus)?;
    let mut sides: Vec<Option<Box<dyn Side + '_>>> = Vec::new();
    for (index, case) in job.group.cases.iter().enumerate() {
        let is_here = job.group.original(index) == index && !(case.has_one_side() && place > 0);
        let node = nodes[index].as_ref();
        let named = |problem: Problem| format!("{case}: {problem}");
        sides.push(if is_here { Some(connect(job, index, place, node).map_err(named)?) } else { None });
        page.meet();
    }
    blocks::run(job, place, &mut sides, &mut page)
}

/// Connects one side of a case.
fn connect<'n>(
    job: &Job,
    index: usize,
    place: u32,
    node: Option<&'n Node>,
) -> Result<Box<dyn Side + 'n>, Problem> {
    let case = &job.group.cases[index];
    let descriptors = &job.descriptors[index];
    let files = |count: usize| {
        if descriptors.len() != count {
            return Err(format!("{} descriptors in place of {count}", descriptors.len()));
        }
        // SAFETY: the descriptors were inherited for this process, which closes none of them before
        // it ends.
        Ok(descriptors.iter().map(|fd| unsafe { BorrowedFd::borrow_raw(*fd) }).collect::<Vec<_>>())
    };
    let file = || files(1).map(|files| files[0]);
    let pair = || files(2).map(|files| [files[0], files[1]]);
    match (case.subject, node) {
        (Subject::Stripline | Subject::Queued, Some(node)) => {
            endpoints::stripline::connect(case, place, node)
        }
        (Subject::Direct, Some(node)) => endpoints::stripline::connect_direct(case, place, node),
        (Subject::Many, Some(node)) => endpoints::stripline::connect_many(case, place, node),
        (Subject::Calls, Some(node)) => endpoints::calls::connect(case, place, node),
        (Subject::Noise, _) => Ok(Box::new(endpoints::bare::Noise)),
        (Subject::Memcpy, _) => Ok(Box::new(endpoints::bare::Memcpy::new(case))),
        (Subject::Atomics, _) => endpoints::bare::atomics(case, place, file()?),
        (Subject::Futex, _) => endpoints::bare::futex(case, place, file()?),
        (Subject::MinimalRing, _) => endpoints::minimal::connect(case, place, pair()?),
        (Subject::Ring, _) => endpoints::ring::connect(case, place, pair()?),
        (Subject::PosixQueue, _) => Ok(endpoints::queue::connect(case, place, pair()?)),
        (Subject::UdpSocket, _) => {
            pair()?;
            // SAFETY: the descriptors were inherited for this process, and are not used for
            // anything else.
            unsafe { endpoints::datagram::connect(case, place, [descriptors[0], descriptors[1]]) }
        }
        (Subject::UnixSocket | Subject::TcpSocket | Subject::UnixDuplex | Subject::TcpDuplex, _) => {
            pair()?;
            // SAFETY: the descriptors were inherited for this process, and are not used for
            // anything else.
            unsafe { endpoints::socket::connect(case, place, [descriptors[0], descriptors[1]]) }
        }
        #[cfg(any(feature = "peers", feature = "iceoryx2"))]
        (Subject::Iceoryx2, _) => endpoints::iceoryx2::connect(case, place, &domain(job, index)),
        #[cfg(any(feature = "peers", feature = "zeromq"))]
        (Subject::Zeromq, _) => endpoints::zeromq::connect(case, place, &domain(job, index)),
        #[cfg(feature = "zenoh")]
        (Subject::Zenoh | Subject::ZenohCallback, _) => {
            endpoints::zenoh::connect(case, place, &domain(job, index))
        }
        #[cfg(feature = "dds")]
        (Subject::Dds, _) => endpoints::dds::connect(case, place, &domain(job, index)),
        #[cfg(feature = "corba")]
        (Subject::Omniorb | Subject::OmniorbServant, _) => {
            endpoints::corba::connect(case, place, &domain(job, index))
        }
        (Subject::Stripline | Subject::Many | Subject::Queued | Subject::Direct | Subject::Calls, None) => {
            Err("it has no node".into())
        }
        #[cfg(not(any(feature = "peers", feature = "iceoryx2")))]
        (Subject::Iceoryx2, _) => Err("it is not built in".into()),
        #[cfg(not(any(feature = "peers", feature = "zeromq")))]
        (Subject::Zeromq, _) => Err("it is not built in".into()),
        #[cfg(not(feature = "zenoh"))]
        (Subject::Zenoh | Subject::ZenohCallback, _) => Err("it is not built in".into()),
        #[cfg(not(feature = "dds"))]
        (Subject::Dds, _) => Err("it is not built in".into()),
        #[cfg(not(feature = "corba"))]
        (Subject::Omniorb | Subject::OmniorbServant, _) => Err("it is not built in".into()),
    }
}

/// Returns the domain of a case's nodes. It is also the name of other objects that need a name.
fn domain(job: &Job, index: usize) -> String {
    format!("{}-{index}", job.name)
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

/// Pins the calling thread, and threads that it will start, to the processor of the side.
fn pin(job: &Job, place: u32) -> Result<(), Problem> {
    let mut set = CpuSet::new();
    if job.group.has_carrier_threads() {
        return Ok(());
    }
    if job.group.cases.iter().any(|case: &Case| case.measure == Measure::Pipeline) {
        job.cpus.iter().for_each(|cpu| set.set(*cpu));
    } else {
        let own = job.cpus.get(place as usize % job.cpus.len().max(1));
        set.set(*own.ok_or("no processor to run on")?);
    }
    sched_setaffinity(None, &set).map_err(|e| format!("cannot pin to a processor: {e}"))
}

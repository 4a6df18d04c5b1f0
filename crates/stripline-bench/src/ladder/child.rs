//! The code of a process that takes part in a run.

use std::os::fd::BorrowedFd;

use rustix::thread::{CpuSet, sched_setaffinity};
use stripline::node::Node;

use super::blocks;
use super::case::{Case, Measure, Outcome, SideJob, Subject};
use super::endpoints;
use super::measure::Side;
use super::turns::ControlPage;
use crate::Problem;
use crate::process::{self, NoResult};

/// Performs the job of this process, and returns the results of the cases.
pub(crate) fn perform(job: &SideJob) -> Result<Vec<Outcome>, Problem> {
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
        return run_side(job, job.place, &nodes);
    }
    // There is one process, with a thread for each side.
    let side = |place| pin(job, place).and_then(|()| run_side(job, place, &nodes));
    // The other side waits for a side that has failed, so the process ends.
    let end = |problem| -> ! {
        process::answer::<()>(Err(NoResult::Failed(problem)));
        std::process::exit(1)
    };
    let sides: Vec<Vec<Outcome>> = std::thread::scope(|scope| {
        let side = &side;
        let threads: Vec<_> = (0..job.group.sides())
            .map(|place| scope.spawn(move || side(place).unwrap_or_else(|problem| end(problem))))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked"));
        joined.collect::<Result<_, _>>()
    })?;
    Ok(Outcome::merged(sides))
}

/// Connects one side of each case, and runs the blocks of this side.
fn run_side(job: &SideJob, place: u32, nodes: &[Option<Node>]) -> Result<Vec<Outcome>, Problem> {
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
    job: &SideJob,
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
        (Subject::MinimalRing | Subject::DescriptorRing, _) => {
            endpoints::minimal::connect(case, place, pair()?)
        }
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
        _ => Err(if case.is_ours() { "it has no node" } else { "it is not built in" }.into()),
    }
}

/// Returns the domain of a case's nodes. The domain is also the name of other objects that need a
/// name.
fn domain(job: &SideJob, index: usize) -> String {
    format!("{}-{index}", job.name)
}

/// Pins the calling thread, and threads that it will start, to the processor of the side.
fn pin(job: &SideJob, place: u32) -> Result<(), Problem> {
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

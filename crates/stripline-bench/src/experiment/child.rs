//! The code of a process that runs a part of a pipeline, or the whole pipeline.

use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stripline::node::Node;

use super::case::{ExperimentCase, Placement};
use super::stage::{self, PlaceBarrier, PlaceResult};
use crate::memory::{Mapping, PAGE};
use crate::process::NoResult;
use crate::timeout::wait_until;
use crate::usage::Usage;

/// Interval between two checks whether all other places are done.
const GLANCE: Duration = Duration::from_millis(1);

/// The job of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PlaceJob {
    pub case: ExperimentCase,
    /// The place in the pipeline, from 0, which is the producer. If the case has only one process,
    /// the process contains all places.
    pub place: u32,
    /// The domain of the pipeline's nodes.
    pub domain: String,
    /// The shared memory that synchronises the start.
    pub board: i32,
}

/// Performs the job of this process. Returns the measurements of the places in it, and the
/// resources used.
pub(crate) fn perform(job: &PlaceJob) -> Result<(Vec<PlaceResult>, Usage), NoResult> {
    let before = Usage::now();
    let seen = run(job)?;
    // The cost of starting does not belong to the pipeline.
    let usage = Usage::now();
    Ok((seen, Usage { cpu_s: usage.cpu_s - before.cpu_s, ..usage }))
}

fn run(job: &PlaceJob) -> Result<Vec<PlaceResult>, NoResult> {
    // SAFETY: the descriptor was inherited for this process, which closes none of its descriptors
    // before it ends.
    let board = Mapping::new(unsafe { BorrowedFd::borrow_raw(job.board) }, PAGE, 0)?;
    let (here, done, given_up) = (board.atomic(0), board.atomic(8), board.atomic(16));
    let barrier = Board { here, done, given_up, places: job.case.places() };
    let node = Node::join(&job.domain, stage::topics(&job.case)?)?;
    if job.case.placement == Placement::ProcessPerStage {
        return Ok(vec![stage::run(&job.case, job.place, &node, &barrier)?]);
    }
    // Only the first failure counts. Failures of other places follow from it.
    let first_failure = OnceLock::new();
    let seen: Vec<PlaceResult> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..job.case.places())
            .map(|place| {
                let (node, barrier, first_failure) = (&node, &barrier, &first_failure);
                scope.spawn(move || match stage::run(&job.case, place, node, barrier) {
                    Ok(seen) => Some(seen),
                    Err(failure) => {
                        let _ = first_failure.set(failure);
                        // Notify the other places not to wait for a place that failed.
                        barrier.given_up.store(1, Ordering::Release);
                        node.stop();
                        None
                    }
                })
            })
            .collect();
        let panicked = |_| drop(first_failure.set(NoResult::Failed("a thread panicked".into())));
        // All threads end before the failure is reported.
        threads.into_iter().filter_map(|thread| thread.join().map_err(panicked).ok().flatten()).collect()
    });
    first_failure.into_inner().map_or(Ok(seen), Err)
}

/// The shared memory where all places of the pipeline meet.
struct Board<'a> {
    here: &'a AtomicU64,
    done: &'a AtomicU64,
    given_up: &'a AtomicU64,
    places: u32,
}

impl PlaceBarrier for Board<'_> {
    fn start(&self) -> Result<(), NoResult> {
        self.here.fetch_add(1, Ordering::AcqRel);
        wait_until("the other side did not start", || {
            Ok(self.here.load(Ordering::Acquire) >= u64::from(self.places))
        })
    }

    /// Waits until all places have finished, because a sender that closes waits only ten seconds
    /// for its receivers.
    fn end(&self) -> Result<(), NoResult> {
        self.done.fetch_add(1, Ordering::AcqRel);
        while self.done.load(Ordering::Acquire) < u64::from(self.places) {
            if self.given_up.load(Ordering::Acquire) > 0 {
                return Err(NoResult::Failed("another component has failed".into()));
            }
            std::thread::sleep(GLANCE);
        }
        Ok(())
    }
}

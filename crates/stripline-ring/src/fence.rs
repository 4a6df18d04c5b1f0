//! What orders an offer and the look whether anybody sleeps.

use crate::mem::{Ordering, compiler_fence, fence};

/// What stands between "there is something for you" and "is anybody asleep?".
///
/// Either side stores its word and then loads the other's. At least one of the two must see the other's store, and
/// only a full fence between store and load, on both sides, makes sure of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fence {
    /// A full fence here (about 5 ns), as on the side that goes to sleep.
    #[default]
    Full,
    /// None here that costs anything: every peer that goes to sleep runs a barrier that works on all processors at
    /// once (Linux: `membarrier`), by [`Reader::prepare_sleep_with`](crate::Reader::prepare_sleep_with) or
    /// [`Writer::wait_for_space_begin_with`](crate::Writer::wait_for_space_begin_with). Where a peer does not, wake-ups get lost.
    Compiler,
}

impl Fence {
    #[inline]
    pub(crate) fn run(self) {
        match self {
            Self::Full => fence(Ordering::SeqCst),
            Self::Compiler => compiler_fence(Ordering::SeqCst),
        }
    }
}

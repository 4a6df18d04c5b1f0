//! The fence between publishing a word and checking for a sleeping peer.

use crate::mem::{Ordering, compiler_fence, fence};

/// The fence between a published word and the check for a sleeping peer.
///
/// Each side stores its own word and then loads the other's. At least one side must see the other's
/// store. Only a full fence between store and load, on both sides, guarantees that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fence {
    /// A full fence on this side (about 5 ns), as on the side that goes to sleep.
    #[default]
    Full,
    /// No fence instruction on this side. Every peer runs a barrier on all processors (Linux:
    /// `membarrier`) before it sleeps.
    ///
    /// Peers do so in [`Reader::prepare_sleep_with`](crate::Reader::prepare_sleep_with) and
    /// [`Writer::wait_for_space_begin_with`](crate::Writer::wait_for_space_begin_with). If a peer
    /// does not, wake-ups are lost.
    Compiler,
}

impl Fence {
    /// Runs the fence.
    ///
    /// ```
    /// use stripline_ring::Fence;
    ///
    /// Fence::Full.run();
    /// Fence::Compiler.run();
    /// ```
    #[inline]
    pub fn run(self) {
        match self {
            Self::Full => fence(Ordering::SeqCst),
            Self::Compiler => compiler_fence(Ordering::SeqCst),
        }
    }
}

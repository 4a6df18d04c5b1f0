//! The fence between publishing a word and checking for a sleeping peer.

use crate::mem::{Ordering, compiler_fence, fence};

/// The fence between a published word and the check for a sleeping peer.
///
/// Each side stores one word and then loads the word of the other side. At least one side must see
/// the store of the other. Only a full fence between the store and the load, on both sides,
/// guarantees this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fence {
    /// This side runs a full fence (about 5 ns), like the side that goes to sleep.
    #[default]
    Full,
    /// This side runs no fence instruction. Every peer runs a barrier on all processors (Linux:
    /// `membarrier`) before it sleeps.
    ///
    /// Peers run the barrier in [`Reader::prepare_sleep_with`](crate::Reader::prepare_sleep_with)
    /// and [`Writer::wait_for_space_begin_with`](crate::Writer::wait_for_space_begin_with). If a
    /// peer does not run it, wake-ups are lost.
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

//! Methods of `Incoming` for a receiver that takes many packets at a time.

use super::{Incoming, Polled};
use crate::error::{Error, Result};
use crate::transport::AnyInlet;

impl Incoming {
    /// Releases the packet lent, but leaves the store of a ring's cursor to
    /// [`Incoming::finish_releases`], if the packet needs nothing else. Until then, only
    /// [`Incoming::receive_next`] may take the next one.
    #[inline(always)]
    pub(crate) fn release_later(&mut self) {
        if self.taken.taken_ns == 0
            && let Some(AnyInlet::Ring(ring)) = &mut self.connections[self.taken.connection].inlet
        {
            self.is_lent = false;
            return ring.release_later();
        }
        self.finish_releases();
        self.release();
    }

    /// Stores the cursors of the packets that [`Incoming::release_later`] has released, and wakes
    /// senders that wait for their room.
    pub(crate) fn finish_releases(&mut self) {
        // A child leaves it to the process that receives.
        if !self.connections.is_current() {
            return;
        }
        for connection in &mut *self.connections {
            if let Some(AnyInlet::Ring(ring)) = &mut connection.inlet {
                ring.finish_releases();
            }
        }
    }

    /// Returns whether a packet is lent out.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Releases all that a drain has taken, also when its function panics.
    pub(crate) fn end_drain(&mut self) {
        if self.is_lent {
            self.release_later();
        }
        self.finish_releases();
    }

    /// Keeps an error for the next receive. The packets before it have been passed on already.
    #[cold]
    pub(crate) fn defer(&mut self, problem: Error) {
        self.problem = Some(problem);
        // The fast path checks only for events.
        self.events.set_pending();
    }

    /// Returns the error that was kept.
    #[cold]
    pub(super) fn report_problem(&mut self) -> Result<Polled> {
        self.problem.take().map_or(Ok(Polled::Empty), Err)
    }
}

//! A receiving port with a wait elsewhere: in a program's own event loop, or beside the thread of a
//! middleware.

use std::sync::Arc;
use std::time::Instant;

use super::Incoming;
use crate::error::Result;
use crate::sys::doorbell::PollSet;
use crate::sys::ready_set::ReadySet;
use crate::transport::Wait;

/// The number of checks in a call while arrivals are not packets. After that, the set is ready at
/// once.
const CHECKS_MAX: u32 = 100;

impl Incoming {
    /// Returns the port's own set for [`Incoming::arm`].
    ///
    /// # Errors
    /// A lack of descriptors; [`Error::Forked`](crate::Error::Forked).
    pub(crate) fn ready_set(&mut self) -> Result<Arc<ReadySet>> {
        self.check_own()?;
        ReadySet::of_port(&mut self.ready_set)
    }

    /// Makes the set ready once a packet, the end, or an error may have arrived; false: one may
    /// have arrived already. The set stays ready until the next call.
    ///
    /// # Errors
    /// An event that ends a wait: [`Error::Stopped`](crate::Error::Stopped) or
    /// [`Error::Interrupted`](crate::Error::Interrupted). A lack of descriptors, or
    /// [`Error::Forked`](crate::Error::Forked).
    pub(crate) fn arm(&mut self, ready: &ReadySet) -> Result<bool> {
        self.check_own()?;
        self.cancel_sleep();
        self.stop.check(Wait::FOREVER)?;
        for _ in 0..CHECKS_MAX {
            if self.is_ready()? {
                self.end_wait_elsewhere();
                return Ok(false);
            }
            // A resequencing port gives up missing packets when their time is over, without any
            // arrival.
            let until = self.recheck_at();
            let mut poll_set = PollSet::for_ready_set();
            if self.prepare_arm(&mut poll_set) {
                ready.set(&poll_set, until)?;
                self.waited_until(u64::MAX);
                return Ok(true);
            }
            // A description, or a part of a packet, may have arrived after the check.
        }
        ready.set(&PollSet::for_ready_set(), Some(Instant::now()))?;
        Ok(true)
    }

    /// Adds the descriptors that are ready once a packet may have arrived; false: one may have
    /// arrived already.
    pub(crate) fn prepare_arm<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        let view = Arc::clone(&self.view);
        let is_quiet = self.prepare_sleep(Wait::FOREVER, poll_set);
        // The waiting thread may do something else.
        view.set_sleeping(false);
        is_quiet
    }
}

//! The times of measured packets: how long a packet was under way, waited for the component, and
//! was in use.

use super::Incoming;
use crate::packet::Header;
use crate::sys::clock::now_ns;

impl Incoming {
    /// Records the times of a measured packet before the packet's release, off the path that the
    /// component waits for.
    pub(super) fn record_arrival(&mut self, taken_ns: u64) {
        let Header { sent_ns, time_ns, .. } = self.taken.header;
        // A program that waits by itself takes this packet first.
        self.waited_until_ns = self.waited_until_ns.min(taken_ns);
        let queued_ns = taken_ns.saturating_sub(sent_ns.max(self.waited_until_ns));
        let stats = self.stats();
        stats.arrival(taken_ns.saturating_sub(sent_ns), queued_ns);
        stats.age(time_ns, taken_ns);
    }

    /// Records the times of a measured packet that the component has finished with.
    pub(super) fn record_service(&mut self, finished_ns: u64) {
        let taken_ns = self.taken.taken_ns;
        self.record_arrival(taken_ns);
        self.stats().finished(finished_ns.saturating_sub(taken_ns));
    }

    /// Ends a wait with the packet that was found, if it is measured.
    #[inline(always)]
    pub(super) fn end_wait(&mut self) {
        self.waited_until_ns = self.taken.taken_ns;
    }

    /// Ends the program's own wait on a descriptor of the port, if there was one.
    pub(super) fn end_wait_elsewhere(&mut self) {
        if self.waited_until_ns == u64::MAX {
            self.waited_until_ns = now_ns();
        }
    }

    /// Ends a wait outside of `receive`: at a time, or (`u64::MAX`) before the next packet is
    /// taken.
    pub(crate) fn waited_until(&mut self, ns: u64) {
        self.waited_until_ns = ns;
    }
}

//! How a receiving port waits: parked on its only connection, or in `poll` on the descriptors of
//! all.

use std::os::fd::AsFd;

use super::{Incoming, IncomingConnection};
use crate::error::Result;
use crate::sys::doorbell::PollSet;
use crate::transport::Wait;

impl Incoming {
    /// Prepares to sleep on this port together with others; false: a packet is ready.
    pub(crate) fn prepare_sleep(&mut self) -> bool {
        let quiet = !self.events.is_pending()
            && self
                .connections
                .iter_mut()
                .filter_map(|o| o.inlet.as_mut())
                .all(|inlet| inlet.prepare_sleep());
        if quiet {
            self.connections.iter().for_each(IncomingConnection::register);
            self.view.set_sleeping(true);
        }
        quiet
    }

    pub(crate) fn add_to<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        poll_set.readable(self.events.doorbell().as_fd());
        self.connections.iter().filter_map(|o| o.inlet.as_ref()).for_each(|inlet| inlet.add_to(poll_set));
    }

    pub(crate) fn cancel_sleep(&mut self) {
        self.view.set_sleeping(false);
        self.connections.iter_mut().filter_map(|o| o.inlet.as_mut()).for_each(|inlet| inlet.cancel_sleep());
    }

    /// Sleeps until something happens; false: the deadline has passed.
    pub(super) fn sleep(&mut self, wait: Wait) -> Result<bool> {
        if self.can_park(wait) {
            return self.park(wait);
        }
        if !self.prepare_sleep() {
            self.connections
                .iter_mut()
                .filter_map(|o| o.inlet.as_mut())
                .for_each(|inlet| inlet.cancel_sleep());
            return Ok(!wait.is_expired());
        }
        let mut poll_set = PollSet::default();
        if wait.is_stoppable() {
            poll_set.readable(self.stop.doorbell().as_fd());
        }
        self.add_to(&mut poll_set);
        let fired = poll_set.wait(wait.deadline());
        self.cancel_sleep();
        fired
    }

    /// Returns whether the port can park on its only connection, without descriptors.
    pub(super) fn can_park(&self, wait: Wait) -> bool {
        matches!(&**self.connections, [IncomingConnection { inlet: Some(inlet), .. }] if inlet.can_park(wait.deadline()))
    }

    /// Parks on the only connection; false: the deadline has passed.
    pub(super) fn park(&mut self, wait: Wait) -> Result<bool> {
        let [IncomingConnection { inlet: Some(inlet), .. }] = &mut **self.connections else {
            return Ok(true);
        };
        let is_quiet = inlet.prepare_park();
        // After the announcement: a thread with an event first publishes it and then wakes the
        // parked port.
        if !is_quiet || self.events.is_pending() || wait.is_stoppable() && self.stop.is_stopped() {
            return Ok(!wait.is_expired());
        }
        self.view.set_sleeping(true);
        let in_time = inlet.park(wait.deadline());
        self.view.set_sleeping(false);
        in_time
    }
}

//! The waits of a receiving port: parked on the only connection, or in `poll` on the descriptors of
//! all connections.

use std::os::fd::AsFd;

use super::{Incoming, IncomingConnection};
use crate::error::Result;
use crate::sys::doorbell::PollSet;
use crate::transport::{Parked, Wait};

impl Incoming {
    /// Prepares to sleep on this port, and adds the descriptors that wake it; false: a packet is
    /// ready.
    pub(crate) fn prepare_sleep<'a>(&'a mut self, wait: Wait, poll_set: &mut PollSet<'a>) -> bool {
        self.stop.add_to(poll_set, wait);
        poll_set.readable(self.events.doorbell().as_fd());
        self.connections.iter().for_each(IncomingConnection::register);
        let mut inlets = self.connections.iter_mut().filter_map(|connection| connection.inlet.as_mut());
        let quiet = self.events.is_quiet() && inlets.all(|inlet| inlet.prepare_sleep(poll_set));
        self.view.set_sleeping(quiet);
        quiet
    }

    pub(crate) fn cancel_sleep(&mut self) {
        self.view.set_sleeping(false);
        self.connections.iter_mut().filter_map(|o| o.inlet.as_mut()).for_each(|inlet| inlet.cancel_sleep());
    }

    /// Sleeps until an event occurs; false: the deadline has passed.
    pub(super) fn sleep(&mut self, wait: Wait) -> Result<bool> {
        match self.park(wait)? {
            Parked::Unable => {}
            Parked::Woken => return Ok(true),
            Parked::TimedOut => return Ok(false),
        }
        let mut poll_set = PollSet::default();
        let outcome = if self.prepare_sleep(wait, &mut poll_set) {
            poll_set.wait(wait.deadline())
        } else {
            Ok(!wait.is_expired())
        };
        self.cancel_sleep();
        outcome
    }

    /// Parks on the only connection, without descriptors.
    fn park(&mut self, wait: Wait) -> Result<Parked> {
        let Self { connections, events, stop, view, .. } = self;
        let [IncomingConnection { inlet: Some(inlet), .. }] = &mut ***connections else {
            return Ok(Parked::Unable);
        };
        // A thread with an event first publishes the event and then wakes the parked port.
        let interrupt = wait.is_interruptible().then(|| stop.interrupt().word()).flatten();
        let parked = inlet.park(wait.deadline(), interrupt, &mut || {
            let parks = !(events.is_pending() || stop.ends(wait));
            view.set_sleeping(parks);
            parks
        });
        view.set_sleeping(false);
        parked
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::link::{ConnectionOptions, Polled, PortEvents};
    use crate::terms::LinkOptions;
    use crate::transport::StopToken;

    /// Hangs if a wait checks the deadline only when nothing rings.
    #[test]
    fn a_doorbell_that_rings_for_nothing_holds_up_no_timeout() {
        let events = Arc::new(PortEvents::new().unwrap());
        let options_for = Arc::new(|_: &str| ConnectionOptions::new(&LinkOptions::default()));
        let stop = StopToken::new().unwrap();
        let mut port = Incoming::new("in".into(), Arc::clone(&events), options_for, stop, true, None);
        events.doorbell().notify();
        let found = port.receive(|| Wait::within(Duration::from_millis(1))).unwrap();
        assert!(matches!(found, Polled::Empty));
    }
}

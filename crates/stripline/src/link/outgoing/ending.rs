//! Methods of `Outgoing` for the end of a stream, and for the interrupt of waits.

use std::sync::Arc;
use std::time::Instant;

use super::Outgoing;
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::packet::{HEADER_BYTES, Kind};
use crate::transport::{Attention, Flush, Interrupt, Wait};

/// The progress of a port in ending its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Open,
    /// The end is sent, but may not have left this process.
    Flushing,
    Ended,
}

impl Outgoing {
    /// Sends the end of stream, and waits until all data has left this process. After
    /// [`Error::Interrupted`], another call continues.
    pub(crate) fn finish(&mut self, wait: Wait) -> Result<()> {
        self.check_own()?;
        if self.ending == Ending::Ended {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.ending, Ending::Ended);
        let mut outcome = Ok(());
        if before == Ending::Open {
            outcome = self.end_stream(wait);
            if matches!(outcome, Err(Error::Interrupted { .. })) {
                self.ending = Ending::Open;
            }
        }
        let outcome = outcome.and_then(|()| self.flush(wait));
        if matches!(outcome, Err(Error::Interrupted { .. })) && self.ending == Ending::Ended {
            self.ending = Ending::Flushing;
        }
        outcome
    }

    fn end_stream(&mut self, wait: Wait) -> Result<()> {
        if self.unsent.is_some() {
            self.send_remaining(wait)?;
        }
        self.admit();
        if !self.described {
            self.send_stream_info(wait)?;
        }
        // From now on, no fast path applies.
        self.described = false;
        self.leave_steady();
        self.outlets[0].reserve(HEADER_BYTES, wait)?;
        let header = self.control_header(Kind::End, 0);
        fail_point!("end");
        self.publish_to_all(&header, 0, wait)?;
        fail_point!("end-published");
        self.taps.end(&header);
        self.moves.end();
        Ok(())
    }

    /// Waits until the paths of the receivers that block have taken all packets that were sent, but
    /// not longer than the port's send timeout: then the next send waits for room.
    ///
    /// # Errors
    /// [`Error::Full`] at the end of a limited wait; errors that end a wait.
    pub(crate) fn settle(&mut self, wait: Wait) -> Result<()> {
        let outcome = self.with_send_timeout(wait, |this, wait| {
            this.outlets.iter_mut().try_for_each(|outlet| outlet.flush(Flush::Blocking, wait))
        });
        match outcome {
            Err(Error::Stalled { .. }) => Ok(()),
            outcome => outcome,
        }
    }

    /// Waits until all data has left this process.
    pub(crate) fn flush(&mut self, wait: Wait) -> Result<()> {
        self.check_own()?;
        self.moves.flush(wait)?;
        self.outlets.iter_mut().try_for_each(|outlet| outlet.flush(Flush::All, wait))
    }

    /// Returns the interrupt of this port's waits, and the handle that ends the fast path.
    pub(crate) fn interrupt(&self) -> (Arc<Interrupt>, Arc<dyn Attention>) {
        (Arc::clone(self.stop.interrupt()), Arc::<super::PortAttention>::clone(&self.attention))
    }

    /// Waits until `count` receivers are connected; false: the deadline has passed first.
    pub(crate) fn wait_for_receivers(&mut self, count: usize, deadline: Option<Instant>) -> Result<bool> {
        self.check_own()?;
        let wait = Wait::Until(deadline);
        loop {
            self.stop.check(wait)?;
            if self.unsent.is_some() {
                self.send_remaining(wait)?;
            }
            self.admit();
            if self.receivers() >= count {
                return Ok(true);
            }
            if wait.is_expired() {
                return Ok(false);
            }
            // The wait is not on a data path: one poll per millisecond is cheaper than another
            // wake-up mechanism.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Keeps the fast path closed while a wake is pending. The wake is for the next call that may
    /// wait.
    pub(super) fn remind(&self) {
        if self.stop.interrupt().is_pending() {
            self.attention.request();
        }
    }
}

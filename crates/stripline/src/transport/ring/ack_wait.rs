//! The sender's wait for acknowledgements over a ring.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::acks::sleep_fence;
use super::outlet::{RECHECK_INTERVAL, RingOutlet};
use crate::error::Result;
use crate::fail_point::fail_point;
use crate::flow::{AckState, AckWait};
use crate::sys::doorbell::PollSet;
use crate::terms::Scope;
use crate::transport::Wait;

impl RingOutlet {
    /// Waits until the present readers have acknowledged the packet published last. The ring itself
    /// is the queue of a blocking reader, so a blocking reader reaches `server` without a wait.
    pub(super) fn wait_acks(&mut self, ack_wait: &AckWait) -> Result<()> {
        for reader in &mut self.readers {
            let is_awaited = ack_wait.scope == Scope::Target || reader.lossy;
            reader.ack_wait = is_awaited.then_some(*ack_wait);
            reader.cursor.set_ack_awaited(is_awaited);
        }
        let mut sleeps = false;
        let outcome = loop {
            self.poll_acks(ack_wait);
            // Relaxed: the lock orders the rest.
            if self.shared.changed.load(Ordering::Relaxed) {
                self.detach_departed();
            }
            let open = self.readers.iter().filter(|reader| reader.ack_wait.is_some());
            let names = open.map(|reader| &*reader.connection);
            let stopped = self.stop.is_stopped().then(|| self.stop.error());
            if let Some(result) = ack_wait.result(names, stopped, ack_wait.is_expired()) {
                break result;
            }
            if let Err(error) = self.stop.interrupt().take(true) {
                break Err(error);
            }
            if sleeps {
                if let Err(error) = self.sleep_for_acks(ack_wait) {
                    break Err(error);
                }
            } else if !self.spinner.spin_once() {
                // Announce first, poll once more, then sleep: an acknowledgement in between rings
                // the doorbell.
                self.spinner.gave_up();
                sleeps = true;
                let ack_wait = self.readers.iter().filter(|reader| reader.ack_wait.is_some());
                ack_wait.for_each(|reader| reader.cursor.set_waiting(true));
                sleep_fence();
                fail_point!("await-sleep");
            }
        };
        if sleeps {
            self.readers.iter().for_each(|reader| reader.cursor.set_waiting(false));
        } else {
            self.spinner.succeeded();
        }
        for reader in &mut self.readers {
            reader.ack_wait = None;
            reader.cursor.set_ack_awaited(false);
        }
        self.problem.take().map_or(outcome, Err)
    }

    fn poll_acks(&mut self, ack_wait: &AckWait) {
        let mut violator = None;
        for reader in self.readers.iter_mut().filter(|reader| reader.ack_wait.is_some()) {
            let state = reader.cursor.ack_state(ack_wait);
            let violation =
                if let AckState::Violation(violation) = &state { Some(violation.clone()) } else { None };
            let Some(outcome) = ack_wait.outcome(&reader.connection, state) else { continue };
            reader.ack_wait = None;
            // This reader is not waited for any more.
            reader.cursor.set_waiting(false);
            reader.cursor.set_ack_awaited(false);
            if let Err(problem) = outcome {
                self.problem.get_or_insert(problem);
            }
            violator = violation.map(|violation| (reader.id, violation)).or(violator);
        }
        // If several readers violate the protocol, the others are found at the next packet.
        if let Some((id, violation)) = violator {
            self.evict(id, &violation);
        }
    }

    fn sleep_for_acks(&mut self, ack_wait: &AckWait) -> Result<()> {
        let mut poll_set = PollSet::default();
        if !self.doorbell_broken {
            poll_set.readable(self.shared.space_wait.as_fd());
        }
        self.stop.add_to(&mut poll_set, Wait::FOREVER);
        // The same doorbell rings for space, and the same readers may break it.
        poll_set.wait(Some(ack_wait.until.min(Instant::now() + RECHECK_INTERVAL)))?;
        fail_point!("await-woken");
        self.drain_doorbell();
        Ok(())
    }
}

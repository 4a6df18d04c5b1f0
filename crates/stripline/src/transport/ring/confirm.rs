//! The sender's wait for acknowledgements over a ring.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::answers::announced;
use super::outlet::{LOOK_AGAIN, RingOutlet};
use crate::error::Result;
use crate::fail_point::fail_point;
use crate::link::Scope;
use crate::sys::doorbell::Sleep;
use crate::transport::answer::{Awaited, Heard};

impl RingOutlet {
    /// Waits until the present readers have acknowledged the packet published last. The ring itself
    /// is the queue of a blocking reader, so `server` is reached without a wait.
    pub(super) fn await_answers(&mut self, awaited: &Awaited) -> Result<()> {
        for reader in &mut self.readers {
            reader.awaited = (awaited.scope == Scope::Target || reader.lossy).then_some(*awaited);
        }
        let mut sleeps = false;
        let outcome = loop {
            self.look_for_answers(awaited);
            // Relaxed: the lock orders the rest.
            if self.lobby.changed.load(Ordering::Relaxed) {
                self.see_out();
            }
            let open = self.readers.iter().filter(|reader| reader.awaited.is_some());
            let names = open.map(|reader| &*reader.connection);
            if let Some(verdict) = awaited.verdict(names, self.stop.is_stopped(), awaited.has_passed()) {
                break verdict;
            }
            if sleeps {
                if let Err(error) = self.sleep_for_answers(awaited) {
                    break Err(error);
                }
            } else if !self.spinner.again() {
                // Announce first, poll once more, then sleep: an acknowledgement in between rings
                // the doorbell.
                self.spinner.slept();
                sleeps = true;
                let awaited = self.readers.iter().filter(|reader| reader.awaited.is_some());
                awaited.for_each(|reader| reader.cursor.set_sleeps(true));
                announced();
                fail_point!("await-sleep");
            }
        };
        if sleeps {
            self.readers.iter().for_each(|reader| reader.cursor.set_sleeps(false));
        } else {
            self.spinner.found();
        }
        self.readers.iter_mut().for_each(|reader| reader.awaited = None);
        self.problem.take().map_or(outcome, Err)
    }

    fn look_for_answers(&mut self, awaited: &Awaited) {
        let mut violator = None;
        for reader in self.readers.iter_mut().filter(|reader| reader.awaited.is_some()) {
            let heard = reader.cursor.answer(awaited);
            let violation = if let Heard::Lied(violation) = &heard { Some(violation.clone()) } else { None };
            let Some(outcome) = awaited.outcome(&reader.connection, heard) else { continue };
            reader.awaited = None;
            // For inspection: this reader is not waited for any more.
            reader.cursor.set_sleeps(false);
            if let Err(problem) = outcome {
                self.problem.get_or_insert(problem);
            }
            violator = violation.map(|violation| (reader.id, violation)).or(violator);
        }
        // If there are several, the others are found at the next packet.
        if let Some((id, violation)) = violator {
            self.expel(id, &violation);
        }
    }

    fn sleep_for_answers(&mut self, awaited: &Awaited) -> Result<()> {
        let mut sleep = Sleep::default();
        if !self.is_deaf {
            sleep.readable(self.lobby.space.as_fd());
        }
        sleep.readable(self.stop.doorbell().as_fd());
        // The same doorbell rings for space, and the same readers may break it.
        sleep.until(Some(awaited.until.min(Instant::now() + LOOK_AGAIN)))?;
        fail_point!("await-woken");
        self.quiet();
        Ok(())
    }
}

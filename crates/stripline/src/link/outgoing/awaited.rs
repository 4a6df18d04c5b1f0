//! Methods of `Outgoing` for a wait outside the port: in a program's own event loop, or in a wait
//! set.

use std::sync::Arc;

use super::Outgoing;
use super::ending::Ending;
use crate::error::{Error, Result};
use crate::packet::HEADER_BYTES;
use crate::sys::doorbell::PollSet;
use crate::sys::ready_set::ReadySet;
use crate::transport::{Awaited, Prepared, Wait};

impl Outgoing {
    /// Returns the port's own set for [`Outgoing::arm_for_room`] and
    /// [`Outgoing::arm_for_receivers`].
    ///
    /// # Errors
    /// A lack of descriptors, or [`Error::Forked`].
    pub(crate) fn ready_set(&mut self) -> Result<Arc<ReadySet>> {
        self.check_own()?;
        ReadySet::of_port(&mut self.ready_set)
    }

    /// Makes the port's set ready once one frame may have room for a payload of `payload` bytes, or
    /// an error has occurred. False: this is already so. The set stays ready until the next call.
    ///
    /// # Errors
    /// An event that ends a wait: [`Error::Stopped`] or [`Error::Interrupted`]. [`Error::Port`]
    /// after the end of stream, and [`Error::TooLarge`] above [`Outgoing::frame_payload_max`]. The
    /// errors of [`Outgoing::ready_set`].
    pub(crate) fn arm_for_room(&mut self, payload: usize) -> Result<bool> {
        let set = self.ready_set()?;
        self.stop.check(Wait::FOREVER)?;
        if self.ending != Ending::Open {
            return Err(Error::port(&self.port, "has sent its end of stream already"));
        }
        if payload > self.frame_payload_max {
            return Err(Error::TooLarge { bytes: payload, bytes_max: self.frame_payload_max });
        }
        let mut payload = payload;
        if self.send_unsent_now()? {
            self.admit();
            // The description is sent before the packet.
            if !self.described || self.is_due() && self.is_lossy {
                payload = payload.max(self.description_bytes());
            }
        } else {
            // The rest of a packet, in frames of any size.
            payload = self.frame_payload_max;
        }
        let mut poll_set = PollSet::for_ready_set();
        let mut prepared = Prepared::Now;
        // The port waits for the first outlet that has no room, and later for the next such outlet.
        for outlet in &mut *self.outlets {
            prepared = outlet.prepare_wait(Awaited::Room(HEADER_BYTES + payload), &mut poll_set)?;
            if prepared != Prepared::Now {
                break;
            }
        }
        let Prepared::Until(until) = prepared else { return Ok(false) };
        self.stop.add_to(&mut poll_set, Wait::FOREVER);
        set.set(&poll_set, until)?;
        Ok(true)
    }

    /// Makes the port's set ready once `count` receivers may be connected; false: they are already.
    /// The set stays ready until the next call.
    ///
    /// # Errors
    /// The errors of [`Outgoing::arm_for_room`], except for errors of a packet.
    pub(crate) fn arm_for_receivers(&mut self, count: usize) -> Result<bool> {
        let set = self.ready_set()?;
        self.stop.check(Wait::FOREVER)?;
        if !self.send_unsent_now()? {
            // No receiver is accepted between two fragments of a packet.
            return self.arm_for_room(self.frame_payload_max);
        }
        loop {
            self.admit();
            if self.receivers() >= count {
                return Ok(false);
            }
            let mut poll_set = PollSet::for_ready_set();
            let mut until = None;
            let mut has_changed = false;
            for outlet in &mut *self.outlets {
                match outlet.prepare_wait(Awaited::Receivers, &mut poll_set)? {
                    Prepared::Now => has_changed = true,
                    Prepared::Until(at) => until = [until, at].into_iter().flatten().min(),
                }
            }
            if !has_changed {
                self.stop.add_to(&mut poll_set, Wait::FOREVER);
                set.set(&poll_set, until)?;
                return Ok(true);
            }
        }
    }

    /// Sends the rest of an interrupted packet, if there is room for it. False: the rest has to
    /// wait.
    fn send_unsent_now(&mut self) -> Result<bool> {
        if self.unsent.is_none() {
            return Ok(true);
        }
        match self.send_remaining(Wait::Never) {
            Ok(()) => Ok(true),
            Err(Error::Full { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the size of the stream's description in bytes, as far as it fits a frame.
    fn description_bytes(&self) -> usize {
        serde_json::to_vec(&*self.info).map_or(0, |text| text.len()).min(self.frame_payload_max)
    }
}

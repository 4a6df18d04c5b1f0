//! The shortest path of a packet: the next packet of a steady stream, behind a short header, over
//! the port's only ring. Any other packet is left to the other paths.

use super::{Outgoing, SendPath};
use crate::link::FrameMut;
use crate::packet::{HEADER_BYTES, Header};
use crate::transport::AnyOutlet;

impl Outgoing {
    /// Reserves room like [`Outgoing::reserve`] with `waits`, for the next packet of a steady
    /// stream. `None`: nothing is reserved.
    #[inline(always)]
    pub(crate) fn reserve_inlined(&mut self, payload: usize) -> Option<FrameMut> {
        self.waits = true;
        if self.path == SendPath::Steady { self.try_reserve_steady(payload) } else { None }
    }

    /// Reserves room for the next packet of a steady stream. `None`: nothing is reserved.
    #[inline(never)]
    pub(super) fn reserve_steady(&mut self, payload: usize) -> Option<FrameMut> {
        self.try_reserve_steady(payload)
    }

    /// Reserves room for a packet of a steady stream, behind a short header in the port's only
    /// ring. A packet with a time stamp needs the full header.
    #[inline(always)]
    fn try_reserve_steady(&mut self, payload: usize) -> Option<FrameMut> {
        if self.sampler.is_due()
            || payload > self.frame_payload_max
            || !self.is_own()
            || self.stop.is_stopped()
        {
            return None;
        }
        let [AnyOutlet::Ring(ring)] = &mut **self.outlets else { return None };
        // The room is enough for the full header, which may still be needed.
        let frame = ring.try_reserve_fast(HEADER_BYTES + payload)?;
        self.short_offset = Header::short_offset(payload);
        Some(FrameMut::new(&mut frame[self.short_offset..][..payload]))
    }

    /// Sends like [`Outgoing::send`], for the next packet of a steady stream. False: nothing is
    /// sent.
    #[inline(always)]
    pub(crate) fn send_inlined(&mut self, payload: usize, samples: u64) -> bool {
        self.short_offset > 0 && self.path == SendPath::Steady && self.publish_steady(payload, samples, false)
    }

    /// Sends a packet of a steady stream, behind a short header; false: it needs another path.
    #[inline(never)]
    pub(super) fn send_steady(&mut self, payload: usize, samples: u64) -> bool {
        self.publish_steady(payload, samples, false)
    }

    /// Publishes a packet of a steady stream. With `later`, the ring's `finish_publishing` must
    /// follow.
    #[inline(always)]
    pub(super) fn publish_steady(&mut self, payload: usize, samples: u64, later: bool) -> bool {
        // The process is checked again, because a fork may have happened after the place was
        // reserved.
        if !self.is_own() {
            return false;
        }
        let [AnyOutlet::Ring(ring)] = &mut **self.outlets else { return false };
        self.sampler.skip();
        let words = [self.sequence, self.short_word | payload as u64];
        // The packet is counted first, so that nothing has to be kept until it is published.
        self.sequence += 1;
        self.sample_index += samples;
        if later {
            ring.publish_later_with(self.short_offset + payload, words);
        } else {
            ring.publish_with(self.short_offset + payload, words);
        }
        true
    }
}

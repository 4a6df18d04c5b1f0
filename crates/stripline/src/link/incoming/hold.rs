//! Methods of `Incoming` for a port that gives its packets away and goes on.

use std::sync::Arc;

use super::{Incoming, LentPacket};
use crate::error::Result;
use crate::link::connection::IncomingConnection;
use crate::transport::{AnyInlet, RingInlet, RingMemory};

impl Incoming {
    /// Returns the memory of the packet lent if a port that holds up to `packets` may keep it
    /// there.
    pub(in crate::link) fn keepable(&self, packets: usize) -> Option<&Arc<RingMemory>> {
        match &self.connections[self.taken.connection].inlet {
            Some(AnyInlet::Ring(ring)) => ring.keepable(self.taken.payload.start(), packets),
            _ => None,
        }
    }

    /// Returns the ring of a port that has only to take the next packet from it, and whether one is
    /// lent.
    #[inline(always)]
    pub(in crate::link) fn steady_ring(&mut self) -> Option<(&mut RingInlet, &mut bool)> {
        if !self.is_fast_path() {
            return None;
        }
        match &mut **self.connections {
            [IncomingConnection { inlet: Some(AnyInlet::Ring(ring)), .. }] => Some((ring, &mut self.is_lent)),
            _ => None,
        }
    }

    /// Returns the packet lent, if it is of the port's only connection, over a ring.
    #[inline(always)]
    pub(in crate::link) fn steady_packet(&self) -> Option<(&LentPacket, &IncomingConnection, &RingInlet)> {
        let [connection] = &**self.connections else { return None };
        match &connection.inlet {
            Some(AnyInlet::Ring(ring)) if self.resequencer.is_none() => Some((&self.taken, connection, ring)),
            _ => None,
        }
    }

    /// Ends the loan of a packet that was given away in place. With a token, its memory stays in
    /// use under that number.
    pub(in crate::link) fn end_loan(&mut self, token: Option<u64>, finished_ns: u64) {
        self.is_lent = false;
        let connection = &mut self.connections[self.taken.connection];
        if self.taken.header.sent_ns != 0 {
            connection.record_arrival(&self.taken.header, self.taken.taken_ns);
            connection.options.stats.finished(finished_ns.saturating_sub(self.taken.taken_ns));
        }
        match (&mut connection.inlet, token) {
            (Some(AnyInlet::Ring(ring)), Some(token)) => ring.keep(token),
            (Some(inlet), _) => inlet.release(),
            (None, _) => {}
        }
    }

    /// Gives back the memory of packets that are over, from the oldest on. Returns whether there
    /// are others.
    pub(in crate::link) fn settle(&mut self, is_over: &mut dyn FnMut(u64) -> bool) -> Result<bool> {
        let mut keeps = false;
        for connection in &mut *self.connections {
            if let Some(AnyInlet::Ring(ring)) = &mut connection.inlet {
                ring.settle(is_over)?;
                keeps |= ring.keeps_frames();
            }
        }
        Ok(keeps)
    }
}

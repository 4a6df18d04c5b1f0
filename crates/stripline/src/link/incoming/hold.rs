//! Methods of `Incoming` for a port that gives packets away and continues.

use std::sync::Arc;

use super::{Incoming, LentPacket};
use crate::error::Result;
use crate::link::connection::IncomingConnection;
use crate::transport::{AnyInlet, RingInlet, RingMemory};

impl Incoming {
    /// Returns the memory of the lent packet, if a port that holds up to `packets` packets may keep
    /// this one in place.
    pub(in crate::link) fn keepable(&self, packets: usize) -> Option<&Arc<RingMemory>> {
        match &self.connections[self.taken.connection].inlet {
            Some(AnyInlet::Ring(ring)) => ring.keepable(self.taken.payload.start(), packets),
            _ => None,
        }
    }

    /// Returns the ring of a port that only has to take the next packet from it, and whether a
    /// packet is lent.
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

    /// Returns the lent packet, if it comes from the port's only connection, over a ring.
    #[inline(always)]
    pub(in crate::link) fn steady_packet(&self) -> Option<(&LentPacket, &IncomingConnection, &RingInlet)> {
        let [connection] = &**self.connections else { return None };
        match &connection.inlet {
            Some(AnyInlet::Ring(ring)) if self.resequencer.is_none() => Some((&self.taken, connection, ring)),
            _ => None,
        }
    }

    /// Ends the loan of a packet that was handed out in place. With a token, the packet's memory
    /// stays in use under that number.
    pub(in crate::link) fn end_loan(&mut self, token: Option<u64>, finished_ns: u64) {
        self.is_lent = false;
        if self.taken.header.sent_ns != 0 {
            self.record_service(finished_ns);
        }
        match (&mut self.connections[self.taken.connection].inlet, token) {
            (Some(AnyInlet::Ring(ring)), Some(token)) => ring.keep(token),
            (Some(inlet), _) => inlet.release(),
            (None, _) => {}
        }
    }

    /// Gives back the memory of finished packets, from the oldest on. Returns whether other packets
    /// remain.
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

//! Methods of `Incoming` for a receiver that takes many packets at a time.

use super::{Incoming, IncomingConnection, Polled};
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::link::{FrameRef, PacketSource};
use crate::packet::Header;
use crate::transport::AnyInlet;

impl Incoming {
    /// Passes on packets of a steady stream, up to `limit`, while they are in the port's only ring
    /// and nothing else is due. Each packet is released as by [`Incoming::release_later`]. Returns
    /// the number of packets, and whether the ring is empty. Anything else is left to the next
    /// receive, including a packet for which `fits` is false.
    #[inline(always)]
    pub(crate) fn drain_steady(
        &mut self,
        limit: usize,
        fits: impl Fn(FrameRef) -> bool,
        mut each: impl FnMut(&Header, FrameRef, PacketSource<'_>),
    ) -> (usize, bool) {
        let Self { connections, events, stop, taken, is_lent, unknown, sample_size, resequencer, .. } = self;
        let process = connections.process();
        let [connection] = &mut ***connections else { return (0, false) };
        let (number, is_steady) = (connection.connection(), connection.is_steady());
        let IncomingConnection { inlet, name, streams, options, expected, next_sample, .. } = connection;
        let Some(AnyInlet::Ring(ring)) = inlet else { return (0, false) };
        // The drop of a packet that is still lent was forgotten. The next receive releases the
        // packet.
        if resequencer.is_some() || *is_lent || !is_steady || !process.is_current() {
            return (0, false);
        }
        (taken.connection, taken.taken_ns, taken.gap, taken.receipt) = (0, 0, None, None);
        let mut packets = 0;
        while packets < limit && process.is_current() && !events.is_pending() && !stop.is_stopped() {
            let Some(frame) = ring.try_next_new() else { return (packets, true) };
            let Some(payload) = taken.header.split_short(frame, *next_sample) else { break };
            let payload = FrameRef::new(payload);
            if !expected.is_next(taken.header.sequence) || !fits(payload) {
                break;
            }
            fail_point!("receive");
            (taken.payload, *is_lent) = (payload, true);
            *next_sample = next_sample.wrapping_add(sample_size.samples_in(payload.bytes()));
            expected.advance(taken.header.sequence, *next_sample);
            options.stats.packet(payload.bytes());
            each(&taken.header, payload, PacketSource::Connection { name, number, streams, unknown });
            *is_lent = false;
            packets += 1;
            // If `each` has forked, the child leaves the packet to the parent.
            if !process.is_current() {
                break;
            }
            ring.release_later();
        }
        (packets, false)
    }

    /// Releases the lent packet. If the packet needs nothing else, the ring's cursor is stored
    /// later, by [`Incoming::finish_releases`]. Until then, only [`Incoming::receive_next`] may
    /// take the next packet.
    #[inline(always)]
    pub(crate) fn release_later(&mut self) {
        if self.taken.taken_ns == 0
            && let Some(AnyInlet::Ring(ring)) = &mut self.connections[self.taken.connection].inlet
        {
            self.is_lent = false;
            return ring.release_later();
        }
        self.finish_releases();
        self.release();
    }

    /// Stores the cursors of the packets that [`Incoming::release_later`] has released, and wakes
    /// the senders that wait for the room.
    pub(crate) fn finish_releases(&mut self) {
        // A child leaves the cursors to the process that receives.
        if !self.connections.is_current() {
            return;
        }
        for connection in &mut *self.connections {
            if let Some(AnyInlet::Ring(ring)) = &mut connection.inlet {
                ring.finish_releases();
            }
        }
    }

    /// Returns whether a packet is lent out.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Releases all packets that a drain has taken, also if the drain's function panics.
    pub(crate) fn end_drain(&mut self) {
        if self.is_lent {
            self.release_later();
        }
        self.finish_releases();
    }

    /// Keeps an error for the next receive, because earlier packets have been passed on already.
    #[cold]
    pub(crate) fn defer(&mut self, problem: Error) {
        self.problem = Some(problem);
        // The fast path checks only for events.
        self.events.set_pending();
    }

    /// Returns the kept error.
    #[cold]
    pub(super) fn report_problem(&mut self) -> Result<Polled> {
        self.problem.take().map_or(Ok(Polled::Empty), Err)
    }
}

//! Methods of `Incoming` that only the call server uses.

use super::{ArrivedWhile, Incoming, Polled};
use crate::error::Error;

impl Incoming {
    /// Returns when the last received packet arrived.
    #[inline]
    pub(crate) fn arrived_while(&self) -> ArrivedWhile {
        self.arrived_while
    }

    /// Returns the number of connections that are gone.
    #[inline]
    pub(crate) fn closed_count(&self) -> u16 {
        self.counts.ended()
    }

    /// Returns whether a connection of that name exists or is queued, among the events handled so
    /// far.
    pub(crate) fn is_connected(&self, name: &str) -> bool {
        self.connections.iter().any(|candidate| candidate.is_of(name))
    }

    /// Returns whether the connection with that number is still at that index.
    pub(crate) fn is_there(&self, place: usize, connection: u16) -> bool {
        let there = self.connections.get(place).filter(|candidate| candidate.inlet.is_some());
        there.is_some_and(|candidate| candidate.connection() == connection)
    }

    /// Returns whether polling the last packet's connection again needs no system call.
    pub(crate) fn polls_without_syscall(&self) -> bool {
        let candidate = self.connections.get(self.taken.connection);
        candidate.is_some_and(|candidate| candidate.parts.polls_without_syscall)
    }

    /// Returns whether another packet may follow the lent one without a system call.
    pub(crate) fn has_buffered(&mut self) -> bool {
        let others = self.connections.iter().filter(|candidate| candidate.inlet.is_some()).count() > 1;
        let index = self.taken.connection;
        let inlet = self.connections.get_mut(index).and_then(|candidate| candidate.inlet.as_mut());
        others || inlet.is_none_or(|inlet| inlet.spin(0))
    }

    /// Takes the next packet if it has already arrived, without a system call.
    pub(crate) fn try_receive_fast(&mut self) -> bool {
        self.resequencer.is_none() && matches!(self.poll_ready(), Polled::Packet)
    }

    /// Returns the time when the lent packet was sent, in monotonic nanoseconds; 0: not measured.
    pub(crate) fn sent_ns(&self) -> u64 {
        self.taken.header.sent_ns
    }

    /// Returns the time when the lent packet was taken, in monotonic nanoseconds, if it is
    /// measured.
    #[inline]
    pub(crate) fn taken_ns(&self) -> Option<u64> {
        (self.taken.header.sent_ns != 0).then_some(self.taken.taken_ns)
    }

    /// Returns the nanoseconds since the lent packet was sent, if it is measured.
    pub(crate) fn age_ns(&self) -> Option<u64> {
        let sent_ns = self.taken.header.sent_ns;
        (sent_ns != 0).then(|| self.taken.taken_ns.saturating_sub(sent_ns))
    }

    /// Releases the lent packet and closes the packet's connection, because of the content.
    pub(crate) fn evict(&mut self, violation: impl std::fmt::Display) -> Error {
        let error = Error::misbehaved(self.connection(), violation);
        self.release();
        self.connections[self.taken.connection].close_without_end();
        error
    }
}

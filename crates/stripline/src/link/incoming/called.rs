//! What a server of calls asks of its port besides.

use super::{Came, Incoming, Outcome};
use crate::error::Error;

impl Incoming {
    /// When the packet came that `receive` found last.
    #[inline]
    pub(crate) fn came(&self) -> Came {
        self.came
    }

    /// How many connections are gone.
    #[inline]
    pub(crate) fn departures(&self) -> u16 {
        self.traffic.gone()
    }

    /// Whether there is a connection of that name, or will be, of what has been read of the mail.
    pub(crate) fn is_connected(&self, name: &str) -> bool {
        self.origins.iter().any(|origin| origin.is_of(name))
    }

    /// Whether that connection is still at that place.
    pub(crate) fn is_there(&self, place: usize, connection: u16) -> bool {
        let there = self.origins.get(place).filter(|origin| origin.inlet.is_some());
        there.is_some_and(|origin| origin.connection() == connection)
    }

    /// Whether looking for another packet where the last came from takes no call of the system.
    pub(crate) fn looks_cheaply(&self) -> bool {
        let inlet = self.origins.get(self.taken.origin).and_then(|origin| origin.inlet.as_ref());
        inlet.is_some_and(|inlet| inlet.is_cheap())
    }

    /// Whether another packet may lie behind the one that is lent out, where the system need not be asked for it.
    pub(crate) fn may_hold_more(&self) -> bool {
        let others = self.origins.iter().filter(|origin| origin.inlet.is_some()).count() > 1;
        let inlet = self.origins.get(self.taken.origin).and_then(|origin| origin.inlet.as_ref());
        others || inlet.is_none_or(|inlet| inlet.may_hold_more())
    }

    /// Takes the next packet if it is there already, without asking the system.
    pub(crate) fn receive_at_hand(&mut self) -> bool {
        debug_assert!(!self.is_lent, "one packet at a time");
        self.resequencing.is_none() && matches!(self.glance(), Outcome::Packet)
    }

    /// When the packet that is lent out was sent, monotonic nanoseconds; 0: that is not measured.
    pub(crate) fn sent_ns(&self) -> u64 {
        self.taken.header.sent_ns
    }

    /// When the packet that is lent out was taken, monotonic nanoseconds, if it is measured.
    #[inline]
    pub(crate) fn taken_ns(&self) -> Option<u64> {
        (self.taken.header.sent_ns != 0).then_some(self.taken.taken_ns)
    }

    /// How long ago the packet that is lent out was sent, in nanoseconds, if it is measured.
    pub(crate) fn age_ns(&self) -> Option<u64> {
        let sent_ns = self.taken.header.sent_ns;
        (sent_ns != 0).then(|| self.taken.taken_ns.saturating_sub(sent_ns))
    }

    /// Gives the packet that is lent out back and closes its connection, because of what was in it.
    pub(crate) fn expel(&mut self, deed: impl std::fmt::Display) -> Error {
        let error = Error::misbehaved(self.connection(), deed);
        self.release();
        self.origins[self.taken.origin].lose();
        error
    }
}

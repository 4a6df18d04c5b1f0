//! The packet sources of handlers: a subscriber, in the order of arrival or resequenced.

use crate::error::Result;
use crate::link::{Incoming, Receipt};
use crate::packet::payload::Sample;
use crate::transport::Wait;

use super::view::{PacketMeta, PacketView};
use super::{Received, Subscriber};

/// A source that lends one packet at a time.
pub(super) trait PacketSource<T: Sample> {
    /// Takes the next packet, which stays lent until it is released.
    fn take(&mut self, wait: Wait) -> Result<Received<()>>;
    /// Returns the packet lent.
    fn view(&self) -> PacketView<'_, T>;
    /// Releases the packet.
    fn release(&mut self);
    /// Releases a packet that was copied and is still in use. Returns when it was taken, if it is
    /// measured.
    fn release_copied(&mut self) -> Option<u64>;
    /// Takes the receipt of a packet that is still in use, to be dropped when it is finished.
    fn take_receipt(&mut self) -> Option<Receipt> {
        self.incoming().take_receipt()
    }
    /// Returns the port's or topic's name.
    fn port(&self) -> &str;
    /// Returns the port to sleep on when there is no packet.
    fn incoming(&mut self) -> &mut Incoming;
}

impl<T: Sample> PacketSource<T> for Subscriber<T> {
    fn take(&mut self, wait: Wait) -> Result<Received<()>> {
        Ok(match Self::take(self, wait)? {
            Received::Packet(_) => Received::Packet(()),
            Received::Empty => Received::Empty,
            Received::Ended => Received::Ended,
        })
    }

    fn view(&self) -> PacketView<'_, T> {
        // SAFETY: called between taking a packet, which checks size and alignment, and its release;
        // the transport is not called while the subscriber is borrowed.
        let samples = unsafe { self.incoming.taken().payload.get() };
        PacketView::new(samples, PacketMeta::lent(&self.incoming))
    }

    fn release(&mut self) {
        self.incoming.release();
    }

    fn release_copied(&mut self) -> Option<u64> {
        self.incoming.release_copied()
    }

    fn port(&self) -> &str {
        self.name()
    }

    fn incoming(&mut self) -> &mut Incoming {
        &mut self.incoming
    }
}

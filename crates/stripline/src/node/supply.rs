//! Where handlers get their packets from: a subscriber, in the order of arrival or back in sequence.

use crate::error::Result;
use crate::link::{Incoming, Receipt};
use crate::payload::Sample;
use crate::transport::Wait;

use super::view::{About, PacketView};
use super::{Received, Subscriber};

/// Lends one packet at a time.
pub(super) trait Supply<T: Sample> {
    /// The next packet, which is lent until it is given back.
    fn take(&mut self, wait: Wait) -> Result<Received<()>>;
    /// The packet lent.
    fn view(&self) -> PacketView<'_, T>;
    /// Gives the packet back.
    fn release(&mut self);
    /// Gives the packet back, which was copied and is not finished with: when it was taken, if that is measured.
    fn hand_over(&mut self) -> Option<u64>;
    /// Of a packet that is handed over and not finished with then: to be dropped when it is.
    fn take_receipt(&mut self) -> Option<Receipt> {
        self.incoming().take_receipt()
    }
    /// The port's or topic's name.
    fn port(&self) -> &str;
    /// What to sleep on when there is nothing.
    fn incoming(&mut self) -> &mut Incoming;
}

impl<T: Sample> Supply<T> for Subscriber<T> {
    fn take(&mut self, wait: Wait) -> Result<Received<()>> {
        Ok(match Self::take(self, wait)? {
            Received::Packet(_) => Received::Packet(()),
            Received::Empty => Received::Empty,
            Received::Ended => Received::Ended,
        })
    }

    fn view(&self) -> PacketView<'_, T> {
        // SAFETY: called between taking a packet, which checks size and alignment, and giving it back; nothing is
        // asked of the transport while the subscriber is borrowed.
        let samples = unsafe { self.incoming.taken().payload.get() };
        PacketView::new(samples, About::lent(&self.incoming))
    }

    fn release(&mut self) {
        self.incoming.release();
    }

    fn hand_over(&mut self) -> Option<u64> {
        self.incoming.hand_over()
    }

    fn port(&self) -> &str {
        self.name()
    }

    fn incoming(&mut self) -> &mut Incoming {
        &mut self.incoming
    }
}

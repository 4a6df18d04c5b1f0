//! Methods of `Outgoing` for a move to another transport.

use std::sync::Arc;

use super::Outgoing;
use crate::error::Result;
use crate::fail_point::fail_point;
use crate::link::move_slot::MoveSlot;
use crate::packet::{HEADER_BYTES, Header, Kind};
use crate::terms::SenderOptions;
use crate::transport::{FormerPaths, NextPacket, Wait};

impl Outgoing {
    /// Sets the list of the paths that the port leaves. The port's other paths read it.
    pub(in crate::link) fn set_former_paths(&mut self, former_paths: Arc<FormerPaths>) {
        self.moves.set_former_paths(former_paths);
    }

    /// Returns the slot in which other threads put a transport for this port to move to.
    /// `strongest` are the strongest options of the port's connections.
    pub(crate) fn move_slot(&mut self, strongest: &SenderOptions) -> Arc<MoveSlot> {
        let attention = Arc::clone(&self.attention);
        let (stop, former_paths) = (self.stop.clone(), self.moves.former_paths());
        self.moves.allow(MoveSlot::new(&self.port, *strongest, stop, attention, former_paths))
    }

    /// Returns whether receivers still read packets on a transport that the port has left.
    #[cfg(test)]
    pub(in crate::link) fn has_left_transports(&self) -> bool {
        self.moves.has_former_paths()
    }

    /// Ends the present transports, and continues on the prepared transport.
    #[cold]
    pub(super) fn change_transport(&mut self, wait: Wait) -> Result<()> {
        // A receiver that connected before the first packet must get the end of this path as well.
        self.admit();
        // Reserve on every outlet first. If one is interrupted, the move is retried with the next
        // packet.
        for outlet in &mut **self.outlets {
            outlet.reserve(HEADER_BYTES, wait)?;
        }
        let header = Header { flags: Header::MOVED, ..self.control_header(Kind::End, 0) };
        let Some((mut outlet, reply)) = self.moves.take() else { return Ok(()) };
        fail_point!("move");
        // If a receiver is gone, the others continue all the same.
        let outcome = self.publish_to_all(&header, 0, wait);
        fail_point!("moved");
        // Receivers that have connected by now get the next packet.
        let sample = Some(self.sample_index);
        outlet.admit(NextPacket { sequence: self.sequence, sample, stream_start: self.stream_start });
        let before = std::mem::replace(&mut *self.outlets, vec![outlet]);
        self.moves.leave(before, self.sequence);
        self.read_traits();
        (self.described, self.undescribed) = (false, 0);
        self.leave_steady();
        reply(Ok(self.sequence));
        outcome
    }
}

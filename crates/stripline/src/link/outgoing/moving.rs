//! Methods of `Outgoing` for a move to another transport.

use std::sync::Arc;

use super::Outgoing;
use crate::error::Result;
use crate::fail_point::fail_point;
use crate::link::move_slot::MoveSlot;
use crate::packet::{HEADER_BYTES, Header, Kind};
use crate::terms::SenderOptions;
use crate::transport::{LeftPaths, NextPacket, Wait};

impl Outgoing {
    /// Sets the list of the paths that the port leaves, which its other paths read.
    pub(in crate::link) fn set_left_paths(&mut self, left_paths: Arc<LeftPaths>) {
        self.moves.set_left_paths(left_paths);
    }

    /// Returns the place where other threads leave a transport for this port to move to.
    /// `strongest` are the strongest options of its connections.
    pub(crate) fn move_slot(&mut self, strongest: &SenderOptions) -> Arc<MoveSlot> {
        let attention = Arc::clone(&self.attention);
        let (stop, left_paths) = (self.stop.clone(), self.moves.left_paths());
        self.moves.allow(MoveSlot::new(&self.port, *strongest, stop, attention, left_paths))
    }

    /// Returns whether receivers still read what it sent over a transport that it has left.
    #[cfg(test)]
    pub(in crate::link) fn has_left_transports(&self) -> bool {
        self.moves.has_left_any()
    }

    /// Ends the present transports, and goes on over the one that was prepared.
    #[cold]
    pub(super) fn change_transport(&mut self, wait: Wait) -> Result<()> {
        // A receiver that came before the first packet must get the end of this path as well.
        self.admit();
        // At all of them first: what is interrupted leaves the move to the next packet.
        for outlet in &mut **self.outlets {
            outlet.reserve(HEADER_BYTES, wait)?;
        }
        let header = Header { flags: Header::MOVED, ..self.control_header(Kind::End, 0) };
        let Some((mut outlet, reply)) = self.moves.take() else { return Ok(()) };
        fail_point!("move");
        // One receiver may be gone. The others go on all the same.
        let outcome = self.publish_to_all(&header, 0, wait);
        fail_point!("moved");
        // Those that have connected by now get the next packet.
        let sample = Some(self.sample_index);
        outlet.admit(NextPacket { sequence: self.sequence, sample, stream_start: self.stream_start });
        let before = std::mem::replace(&mut *self.outlets, vec![outlet]);
        self.moves.leave(before, self.sequence);
        self.read_traits();
        (self.described, self.is_steady, self.undescribed) = (false, false, 0);
        reply(Ok(self.sequence));
        outcome
    }
}

//! The sender's wait for permission to send, where the link keeps flow control.

use std::os::fd::AsFd;

use super::outlet::StreamOutlet;
use super::receiver::StreamReceiver;
use crate::error::{Error, Result};
use crate::sys::clock::now_ns;
use crate::sys::doorbell::PollSet;
use crate::transport::Wait;

impl StreamOutlet {
    /// Waits until no present receiver stalls the next packet.
    #[cold]
    pub(super) fn wait_for_permission(&mut self, wait: Wait) -> Result<()> {
        loop {
            self.receivers.iter_mut().for_each(StreamReceiver::poll_flow);
            self.remove_dead();
            let held = || self.receivers.iter().filter(|receiver| receiver.is_stalled());
            let Some(first) = held().next() else { return Ok(()) };
            let full = Error::Full { connection: first.connection.clone() };
            let mut poll_set = PollSet::default();
            // Also readable once the receiver has hung up.
            held().for_each(|receiver| poll_set.readable(receiver.socket.as_fd()));
            if !first.while_waiting(|| self.stop.sleep(poll_set, wait))? {
                return Err(full);
            }
        }
    }
}

impl StreamReceiver {
    /// Returns whether it stalls the next packet.
    fn is_stalled(&self) -> bool {
        self.acks.flow_sender.as_ref().is_some_and(|flow_sender| !flow_sender.may_send())
    }

    /// Polls for flow control, unless the permission already suffices.
    fn poll_flow(&mut self) {
        if self.acks.flow_sender.as_ref().is_none_or(|flow_sender| flow_sender.may_send_without_poll()) {
            return;
        }
        match self.acks.read_from(&self.socket) {
            Ok(is_there) => self.dead = !is_there,
            Err(violation) => {
                self.dead = true;
                log::warn!(target: "stripline::transport", "{}", Error::misbehaved(&self.connection, violation));
            }
        }
        if let Some(flow_sender) = &mut self.acks.flow_sender {
            flow_sender.note_stall(now_ns());
        }
    }
}

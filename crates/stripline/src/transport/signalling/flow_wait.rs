//! The sender's wait for permission to send, where the link keeps flow control.

use std::os::fd::AsFd;

use super::remote_receiver::{RemoteReceiver, remove_dead};
use crate::error::{Error, Result};
use crate::sys::clock::now_ns;
use crate::sys::doorbell::PollSet;
use crate::transport::{StopToken, Wait};

/// Waits until no present receiver stalls the next packet.
#[cold]
pub(in crate::transport) fn wait_for_permission<R>(
    receivers: &mut Vec<R>,
    wait: Wait,
    stop: &StopToken,
) -> Result<()>
where
    R: AsRef<RemoteReceiver> + AsMut<RemoteReceiver>,
{
    loop {
        receivers.iter_mut().map(R::as_mut).for_each(RemoteReceiver::poll_flow);
        remove_dead(receivers);
        let held = || receivers.iter().map(R::as_ref).filter(|receiver| receiver.is_stalled());
        let Some(first) = held().next() else { return Ok(()) };
        let full = Error::Full { connection: first.connection.clone() };
        let mut poll_set = PollSet::default();
        // The socket is also readable once the receiver has hung up.
        held().for_each(|receiver| poll_set.readable(receiver.socket.as_fd()));
        if !first.while_waiting(|| stop.sleep(poll_set, wait))? {
            return Err(full);
        }
    }
}

impl RemoteReceiver {
    /// Returns whether the receiver stalls the next packet.
    pub(in crate::transport) fn is_stalled(&self) -> bool {
        self.acks.flow_sender.as_ref().is_some_and(|flow_sender| !flow_sender.may_send())
    }

    /// Polls for flow control, unless the permission already suffices.
    fn poll_flow(&mut self) {
        if self.acks.flow_sender.as_ref().is_none_or(|flow_sender| flow_sender.may_send_without_poll()) {
            return;
        }
        // A receiver that is gone, or violates the protocol, is marked dead here.
        let _ = self.read_acks();
        if let Some(flow_sender) = &mut self.acks.flow_sender {
            flow_sender.note_stall(now_ns());
        }
    }
}

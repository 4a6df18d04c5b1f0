//! The sender's wait for acknowledgements.

use std::os::fd::AsFd;

use super::remote_receiver::{RemoteReceiver, remove_dead};
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::flow::AckWait;
use crate::sys::doorbell::PollSet;
use crate::transport::{StopToken, Wait};

/// Waits until the present receivers have acknowledged the packet published last. `has_packet`:
/// whether a receiver got this packet, or will get it.
pub(in crate::transport) fn wait_acks<R>(
    receivers: &mut Vec<R>,
    has_packet: fn(&R) -> bool,
    ack_wait: &AckWait,
    stop: &StopToken,
) -> Result<()>
where
    R: AsRef<RemoteReceiver> + AsMut<RemoteReceiver>,
{
    let mut problem = None;
    for receiver in &mut *receivers {
        let has_it = has_packet(receiver);
        let receiver = receiver.as_mut();
        receiver.ack_awaited = has_it;
        if has_it {
            receiver.acks.expect(ack_wait);
        } else {
            // The receiver drops packets, and there was no room.
            let (connection, reason) = (receiver.connection.clone(), "its policy dropped it".into());
            problem.get_or_insert(Error::PacketRefused { connection, reason });
        }
    }
    let outcome = loop {
        for receiver in receivers.iter_mut().map(R::as_mut).filter(|receiver| receiver.ack_awaited) {
            if let Err(error) = receiver.poll_ack(ack_wait) {
                problem.get_or_insert(error);
            }
        }
        let open = || receivers.iter().map(R::as_ref).filter(|receiver| receiver.ack_awaited);
        let names = open().map(|receiver| &*receiver.connection);
        let stopped = stop.is_stopped().then(|| stop.error());
        if let Some(result) = ack_wait.result(names, stopped, ack_wait.is_expired()) {
            break result;
        }
        if let Err(error) = stop.interrupt().take(true) {
            break Err(error);
        }
        let mut poll_set = PollSet::default();
        open().for_each(|receiver| poll_set.readable(receiver.socket.as_fd()));
        stop.add_to(&mut poll_set, Wait::FOREVER);
        open().for_each(|receiver| receiver.waits.ack.begin());
        fail_point!("await-sleep");
        let slept = poll_set.wait(Some(ack_wait.until));
        fail_point!("await-woken");
        open().for_each(|receiver| receiver.waits.ack.end());
        if let Err(error) = slept {
            break Err(error);
        }
    };
    remove_dead(receivers);
    problem.map_or(outcome, Err)
}

impl RemoteReceiver {
    /// Polls for the receiver's acknowledgement. Returns the error instead, if there is one.
    fn poll_ack(&mut self, ack_wait: &AckWait) -> Result<()> {
        let read = self.read_acks();
        let outcome = ack_wait.outcome(&self.connection, self.acks.state(&read));
        self.ack_awaited = outcome.is_none();
        outcome.unwrap_or(Ok(()))
    }
}

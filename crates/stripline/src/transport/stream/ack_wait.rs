//! The sender's wait for acknowledgements over sockets.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use super::outlet::StreamOutlet;
use super::receiver::StreamReceiver;
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::flow::{AckState, AckWait};
use crate::sys::doorbell::PollSet;
use crate::sys::socket::Socket;
use crate::transport::Wait;

impl StreamOutlet {
    /// Waits until the present receivers have acknowledged the packet published last.
    pub(super) fn wait_acks(&mut self, ack_wait: &AckWait) -> Result<()> {
        let mut problem = None;
        for receiver in &mut self.receivers {
            receiver.ack_awaited = receiver.has_packet();
            if receiver.ack_awaited {
                receiver.acks.expect(ack_wait);
            } else {
                // It drops packets, and its socket was full.
                let (connection, reason) = (receiver.connection.clone(), "its policy dropped it".into());
                problem.get_or_insert(Error::PacketRefused { connection, reason });
            }
        }
        let outcome = loop {
            for receiver in self.receivers.iter_mut().filter(|receiver| receiver.ack_awaited) {
                if let Err(error) = receiver.poll_ack(ack_wait) {
                    problem.get_or_insert(error);
                }
            }
            let open = || self.receivers.iter().filter(|receiver| receiver.ack_awaited);
            let names = open().map(|receiver| &*receiver.connection);
            if let Some(result) = ack_wait.result(names, self.stop.is_stopped(), ack_wait.is_expired()) {
                break result;
            }
            let mut poll_set = PollSet::default();
            open().for_each(|receiver| poll_set.readable(receiver.socket.as_fd()));
            poll_set.readable(self.stop.doorbell().as_fd());
            // Relaxed: information for inspection only.
            open().for_each(|receiver| receiver.waits.ack.store(true, Ordering::Relaxed));
            fail_point!("await-sleep");
            let slept = poll_set.wait(Some(ack_wait.until));
            fail_point!("await-woken");
            open().for_each(|receiver| receiver.waits.ack.store(false, Ordering::Relaxed));
            if let Err(error) = slept {
                break Err(error);
            }
        };
        self.remove_dead();
        problem.map_or(outcome, Err)
    }

    /// Waits, before the sockets are closed, for acknowledgements that no send waits for any more.
    /// A TCP socket that is closed with unread bytes resets the connection. That discards the data
    /// in transit to the receiver.
    pub(super) fn drain_acks(&mut self, wait: Wait) -> Result<()> {
        loop {
            let is_open = |receiver: &&mut StreamReceiver| {
                matches!(*receiver.socket, Socket::Tcp(_)) && !receiver.dead && receiver.acks.is_open()
            };
            for receiver in self.receivers.iter_mut().filter(is_open) {
                // A receiver that violates the protocol is not read any more.
                receiver.dead = !receiver.acks.read_from(&receiver.socket).unwrap_or(false);
            }
            let mut poll_set = PollSet::default();
            let open: Vec<&mut StreamReceiver> = self.receivers.iter_mut().filter(is_open).collect();
            if open.is_empty() {
                return Ok(());
            }
            open.iter().for_each(|receiver| poll_set.readable(receiver.socket.as_fd()));
            match self.stop.sleep(poll_set, wait) {
                Ok(true) => {}
                Ok(false) | Err(Error::Stopped) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

impl StreamReceiver {
    /// Polls for its acknowledgement. Returns the error instead, if there is one.
    fn poll_ack(&mut self, ack_wait: &AckWait) -> Result<()> {
        let listened = self.acks.read_from(&self.socket);
        let state = self.acks.state(&listened);
        self.dead = listened != Ok(true);
        let is_a_lie = matches!(state, AckState::Violation(_));
        let outcome = ack_wait.outcome(&self.connection, state);
        self.ack_awaited = outcome.is_none();
        if let (Some(Err(error)), true) = (&outcome, is_a_lie) {
            log::warn!(target: "stripline::transport", "{error}");
        }
        outcome.unwrap_or(Ok(()))
    }
}

//! The acknowledgement of a packet that the sender waits for.

use std::sync::{Arc, OnceLock};

use crate::fail_point::fail_point;
use crate::flow::{Ack, AckSender};
use crate::sys::fork::OwnerProcess;

/// A receipt. When it is dropped, it acknowledges that the component has finished with a packet.
pub(crate) struct Receipt {
    to: Arc<dyn AckSender>,
    sequence: u64,
    refusal: OnceLock<String>,
    process: OwnerProcess,
}

impl Receipt {
    pub(super) fn new(to: Arc<dyn AckSender>, sequence: u64) -> Self {
        Self { to, sequence, refusal: OnceLock::new(), process: OwnerProcess::current() }
    }

    /// Replaces the acknowledgement by a refusal.
    pub(crate) fn refuse(&self, reason: String) {
        // The first reason is kept.
        let _ = self.refusal.set(reason);
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        // A child of a fork has not finished with any packet of the parent.
        if !self.process.is_current() {
            return;
        }
        let ack = match self.refusal.get() {
            Some(reason) => Ack::Refused(reason),
            None if std::thread::panicking() => Ack::Refused("the component panicked"),
            None => Ack::Finished,
        };
        fail_point!("answer");
        self.to.send(self.sequence, ack);
        fail_point!("answer-said");
    }
}

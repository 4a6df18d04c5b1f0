//! A packet that its sender waits for, in the hands of a component.

use std::sync::{Arc, OnceLock};

use crate::fail_point::fail_point;
use crate::sys::fork::Process;
use crate::transport::{Answers, Fate};

/// Tells the sender, when it is dropped, that the component has finished with a packet.
pub(crate) struct Receipt {
    to: Arc<dyn Answers>,
    sequence: u64,
    refusal: OnceLock<String>,
    process: Process,
}

impl Receipt {
    pub(super) fn new(to: Arc<dyn Answers>, sequence: u64) -> Self {
        Self { to, sequence, refusal: OnceLock::new(), process: Process::current() }
    }

    /// What the sender is told instead.
    pub(crate) fn refuse(&self, reason: String) {
        // The first reason stays.
        let _ = self.refusal.set(reason);
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        // Of the parent's packets, a child has finished with none.
        if !self.process.is_current() {
            return;
        }
        let fate = match self.refusal.get() {
            Some(reason) => Fate::Refused(reason),
            None if std::thread::panicking() => Fate::Refused("the component panicked"),
            None => Fate::Finished,
        };
        fail_point!("answer");
        self.to.say(self.sequence, fate);
        fail_point!("answer-said");
    }
}

//! The acknowledgement of a packet that its sender waits for (scopes `server` and `target`).

use std::time::{Duration, Instant};

use super::FlowMessage;
use crate::error::{Error, Result};
use crate::terms::Scope;

/// The most bytes of the reason for a refusal.
pub(crate) const REASON_MAX: usize = 256;

/// The outcome of a packet at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ack<'a> {
    /// The packet is in the port's queue.
    Accepted,
    /// The component has finished with the packet.
    Finished,
    /// The packet will be neither accepted nor finished, with the reason.
    Refused(&'a str),
}

/// A sender of acknowledgements, usable from any thread: a packet may be finished on another thread
/// than the thread that received it.
pub(crate) trait AckSender: Send + Sync {
    /// Sends an acknowledgement, without effect if the sender is gone.
    fn send(&self, sequence: u64, ack: Ack<'_>);

    /// Sends a message of flow control, where the link keeps flow control.
    fn send_flow(&self, _message: FlowMessage) {}
}

/// The state of one receiver's acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AckState {
    Pending,
    /// The scope is reached.
    Done,
    /// The scope will not be reached, with the reason.
    Refused(String),
    /// The receiver is gone without an acknowledgement.
    PeerGone,
    /// The receiver violated the protocol.
    Violation(String),
}

/// The packet and scope that a send waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckWait {
    /// The number of the packet, which is the newest of its port.
    pub sequence: u64,
    /// The scope to wait for: `server` or `target`.
    pub scope: Scope,
    pub deadline: Duration,
    pub until: Instant,
}

impl AckWait {
    /// Starts the deadline now.
    pub(crate) fn new(sequence: u64, scope: Scope, deadline: Duration) -> Self {
        Self { sequence, scope, deadline, until: Instant::now() + deadline }
    }

    pub(crate) fn is_expired(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Returns the result that the state of one receiver has for the send; `None`: the wait goes
    /// on.
    pub(crate) fn outcome(&self, connection: &str, state: AckState) -> Option<Result<()>> {
        let connection = connection.into();
        match state {
            AckState::Pending => None,
            AckState::Done => Some(Ok(())),
            AckState::Refused(reason) => Some(Err(Error::PacketRefused { connection, reason })),
            AckState::PeerGone => Some(Err(Error::ReceiverGone { connection, scope: self.scope })),
            AckState::Violation(violation) => {
                Some(Err(Error::PeerMisbehaved { peer: connection, violation }))
            }
        }
    }

    /// Decides whether the wait is over, given the receivers still open; `None`: poll again, or
    /// sleep.
    pub(crate) fn result<'a>(
        &self,
        open: impl Iterator<Item = &'a str>,
        stopped: Option<Error>,
        has_passed: bool,
    ) -> Option<Result<()>> {
        let open: Vec<&str> = open.collect();
        if open.is_empty() {
            return Some(Ok(()));
        }
        if let Some(error) = stopped {
            return Some(Err(error));
        }
        let (scope, deadline) = (self.scope, self.deadline);
        has_passed.then(|| Err(Error::Unanswered { connection: open.join(", "), scope, deadline }))
    }
}

/// Returns the part of a reason that is sent.
pub(crate) fn truncate_reason(reason: &str) -> &str {
    let mut end = reason.len().min(REASON_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}

/// Returns a reason from a peer, made printable.
pub(crate) fn sanitize(reason: &[u8]) -> String {
    let text = String::from_utf8_lossy(reason);
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_between_two_characters() {
        let long = "é".repeat(REASON_MAX);
        assert_eq!(truncate_reason(&format!("x{long}")).len(), REASON_MAX - 1);
        assert_eq!(truncate_reason(&long).len(), REASON_MAX);
        assert_eq!(truncate_reason("short"), "short");
    }

    #[test]
    fn what_cannot_be_printed_is_not() {
        assert_eq!(sanitize(b"a\x1b[2Jb\n\xff"), "a [2Jb \u{fffd}");
    }
}

//! What a receiver says back of a packet that its sender waits for (scopes `server` and `target`).

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::link::{Scope, flow};

/// The most bytes of the reason for a refusal.
pub(crate) const REASON_MAX: usize = 256;

/// What has become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate<'a> {
    /// It is in the port's queue.
    Accepted,
    /// The component has finished with it.
    Finished,
    /// Neither will be so, and why.
    Refused(&'a str),
}

/// Where a receiver answers. Any thread may: who finishes with a packet need not be who received it.
pub(crate) trait Answers: Send + Sync {
    /// Says it. Whoever is not there any more is not told.
    fn say(&self, sequence: u64, fate: Fate<'_>);

    /// Tells the sender what holds it up or lets it go on, where the link sees to that.
    fn tell(&self, _message: flow::Message) {}
}

/// What a send waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    /// The packet, which is the newest of its port.
    pub sequence: u64,
    /// `server` or `target`.
    pub scope: Scope,
    pub deadline: Duration,
    pub until: Instant,
}

impl Awaited {
    /// From now on.
    pub(crate) fn new(sequence: u64, scope: Scope, deadline: Duration) -> Self {
        Self { sequence, scope, deadline, until: Instant::now() + deadline }
    }

    pub(crate) fn has_passed(&self) -> bool {
        Instant::now() >= self.until
    }

    /// What is said of those who have not answered in time.
    pub(crate) fn unanswered<'a>(&self, connections: impl Iterator<Item = &'a str>) -> Error {
        let connection = connections.collect::<Vec<_>>().join(", ");
        Error::Unanswered { connection, scope: self.scope, deadline: self.deadline }
    }

    /// What is said of one who left without an answer.
    pub(crate) fn deserted(&self, connection: &str) -> Error {
        Error::ReceiverGone { connection: connection.into(), scope: self.scope }
    }
}

/// As much of a reason as is sent.
pub(crate) fn bounded(reason: &str) -> &str {
    let mut end = reason.len().min(REASON_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}

/// A reason that came from somebody else, fit to be printed.
pub(crate) fn printable(reason: &[u8]) -> String {
    let text = String::from_utf8_lossy(reason);
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_between_two_characters() {
        let long = "é".repeat(REASON_MAX);
        assert_eq!(bounded(&format!("x{long}")).len(), REASON_MAX - 1);
        assert_eq!(bounded(&long).len(), REASON_MAX);
        assert_eq!(bounded("short"), "short");
    }

    #[test]
    fn what_cannot_be_printed_is_not() {
        assert_eq!(printable(b"a\x1b[2Jb\n\xff"), "a [2Jb \u{fffd}");
    }
}

//! What a receiver says back of a packet that its sender waits for (scopes `server` and `target`).

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
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

/// What a look at one receiver that is waited for has found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Heard {
    Nothing,
    /// It has done what the scope promises,
    Done,
    /// or will not.
    Refused(String),
    /// It has left without a word.
    Gone,
    /// It broke the rules.
    Lied(String),
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

    /// What was heard of one receiver means for the send; `None`: that it is still waited for.
    pub(crate) fn outcome(&self, connection: &str, heard: Heard) -> Option<Result<()>> {
        let connection = connection.into();
        match heard {
            Heard::Nothing => None,
            Heard::Done => Some(Ok(())),
            Heard::Refused(reason) => Some(Err(Error::PacketRefused { connection, reason })),
            Heard::Gone => Some(Err(Error::ReceiverGone { connection, scope: self.scope })),
            Heard::Lied(deed) => Some(Err(Error::PeerMisbehaved { peer: connection, deed })),
        }
    }

    /// Whether the wait is over, with those that have not been heard of; `None`: look again, or sleep.
    pub(crate) fn verdict<'a>(
        &self,
        open: impl Iterator<Item = &'a str>,
        is_stopped: bool,
        has_passed: bool,
    ) -> Option<Result<()>> {
        let open: Vec<&str> = open.collect();
        if open.is_empty() {
            return Some(Ok(()));
        }
        if is_stopped {
            return Some(Err(Error::Stopped));
        }
        let (scope, deadline) = (self.scope, self.deadline);
        has_passed.then(|| Err(Error::Unanswered { connection: open.join(", "), scope, deadline }))
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

//! Parts of sessions: connections that a receiver has joined. The connections wait until the
//! receiver's hello takes them.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use super::handshake::{PartHello, SessionPart};
use crate::sys::refusal::PeerRefusal;
use crate::sys::socket::Socket;

/// The most parts that wait for their hello.
const PARTS_MAX: usize = 64;
/// The longest wait of a part. A hello comes one round trip later.
const PART_TIME: Duration = Duration::from_secs(5);

/// The parts that wait, the oldest first.
#[derive(Default)]
pub(super) struct PendingParts {
    parts: VecDeque<PendingPart>,
}

struct PendingPart {
    token: u64,
    part: SessionPart,
    socket: Socket,
    deadline: Instant,
}

impl PendingParts {
    /// Keeps a part. If there are too many, the oldest part is closed.
    ///
    /// # Errors
    /// The session has this part already. The error is in words for the receiver.
    pub(super) fn add(&mut self, hello: &PartHello, socket: Socket, now: Instant) -> Result<(), PeerRefusal> {
        let PartHello { token, part, .. } = *hello;
        if self.parts.iter().any(|other| (other.token, other.part) == (token, part)) {
            return Err(PeerRefusal::violation("joined the same part of a session twice"));
        }
        if self.parts.len() >= PARTS_MAX {
            self.parts.pop_front();
        }
        self.parts.push_back(PendingPart { token, part, socket, deadline: now + PART_TIME });
        Ok(())
    }

    /// Takes the parts of a session, as the descriptors that a ticket has between processes of one
    /// host.
    ///
    /// # Errors
    /// A part is missing. The error is in words for the receiver.
    pub(super) fn take(&mut self, token: u64) -> Result<Vec<OwnedFd>, PeerRefusal> {
        let taken = [SessionPart::Control, SessionPart::Acks].map(|part| {
            let index = self.parts.iter().position(|other| (other.token, other.part) == (token, part))?;
            self.parts.remove(index)
        });
        let fds = taken.iter().flatten().map(|part| part.socket.as_fd().try_clone_to_owned());
        let fds: Vec<OwnedFd> = fds.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        if fds.len() < taken.len() {
            return Err("a part of the session has not been joined, or too long ago".into());
        }
        Ok(fds)
    }

    /// Returns the time at which the oldest part has waited long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.parts.front().map(|part| part.deadline)
    }

    /// Closes the parts that have waited long enough.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            self.parts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn part(token: u64, part: SessionPart) -> PartHello {
        PartHello { key: 0, token, part }
    }

    fn pair() -> (Socket, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Socket::from(ours), theirs)
    }

    #[test]
    fn a_session_takes_its_own_parts_once() {
        let (mut parts, now) = (PendingParts::default(), Instant::now());
        let both = [SessionPart::Acks, SessionPart::Control];
        for (token, kind) in [(1, both[0]), (2, both[0]), (2, both[1])] {
            parts.add(&part(token, kind), pair().0, now).unwrap();
        }
        let twice = parts.add(&part(2, both[1]), pair().0, now).unwrap_err();
        assert!(twice.reason().contains("twice") && matches!(twice, PeerRefusal::Violation(_)));
        assert!(parts.take(3).unwrap_err().reason().contains("not been joined"));
        assert_eq!(parts.take(2).unwrap().len(), 2);
        assert!(parts.take(2).is_err());
        // If a session lacks a part, the refusal closes the other part.
        assert!(parts.take(1).is_err());
        assert!(parts.deadline().is_none());
    }

    #[test]
    fn parts_are_few_and_have_a_deadline() {
        let (mut parts, now) = (PendingParts::default(), Instant::now());
        let mut others = Vec::new();
        for token in 0..=PARTS_MAX as u64 {
            let (own, other) = pair();
            parts.add(&part(token, SessionPart::Acks), own, now).unwrap();
            others.push(other);
        }
        assert_eq!(parts.parts.len(), PARTS_MAX);
        assert_eq!(others[0].read(&mut [0]).unwrap(), 0);
        parts.expire(now);
        assert_eq!(parts.parts.len(), PARTS_MAX);
        parts.expire(now + PART_TIME);
        assert!(parts.parts.is_empty());
    }
}

//! `mqueue`: POSIX message queues, one for each connection.
//!
//! The receiver makes the queue, so that the receiver's `depth` bounds it, and sends the writing
//! end with its hello. The queue has no name, so no other process can open it. Priorities are not
//! used, because messages with a priority overtake others.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::Capabilities;
use super::carrier::{Carrier, PathRequest, PathSink, PathSource, Ticket, violation};
use super::stream::StreamTransport;
use super::uds::{self, UDS};
use crate::error::{Error, Result};
use crate::sys::doorbell::PollSet;
use crate::sys::message_queue::MessageQueue;
use crate::sys::refusal::PeerRefusal;

/// The transport.
pub(super) static MQUEUE: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "mqueue",
        summary: "a POSIX message queue for each connection",
        depth: "messages of at most 8 KiB in the queue, ten or what the system allows; with flow credit or \
                stop-resume, packets",
        groups: true,
        trust: "same user or a named group (kernel credentials), key",
        ..StreamTransport::CAPABILITIES
    },
    listen: |request| uds::listen("mqueue", request),
    connect: UDS.connect,
    carrier: Some(&MessageQueues),
};

struct MessageQueues;

impl Carrier for MessageQueues {
    fn source(&self, request: &PathRequest<'_>) -> Result<(Box<dyn PathSource>, Ticket)> {
        // A description and the end of a stream are messages, too. The system's bound is ten.
        let messages = request.packets_max.map_or(usize::MAX, |packets| packets as usize + 2);
        let (queue, fd) = MessageQueue::new(messages)
            .map_err(|e| Error::system(format!("{}: cannot make a message queue", request.connection), e))?;
        Ok((Box::new(queue), Ticket { fds: vec![fd], ..Ticket::default() }))
    }

    fn sink(&self, ticket: Ticket) -> Result<Arc<dyn PathSink>, PeerRefusal> {
        let [fd]: [OwnedFd; 1] = ticket.fds.try_into().map_err(|_| "a message queue is one descriptor")?;
        let queue = MessageQueue::from_peer(fd)
            .map_err(|e| format!("the descriptor is not of a message queue: {e}"))?;
        Ok(Arc::new(queue))
    }
}

impl PathSink for MessageQueue {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.write_within(bytes, Duration::ZERO)
    }

    fn write_within(&self, bytes: &[u8], longest: Duration) -> io::Result<usize> {
        let message = &bytes[..bytes.len().min(self.message_max())];
        self.send(message, longest).map(|()| message.len())
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        poll_set.writable(self.as_fd());
    }
}

impl PathSource for MessageQueue {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_within(into, Duration::ZERO)
    }

    fn can_wait(&self) -> bool {
        true
    }

    fn read_within(&mut self, into: &mut [u8], longest: Duration) -> io::Result<usize> {
        match self.receive(into, longest)? {
            // An empty message is not the end of the bytes: a queue has no end.
            0 => Err(violation("sent an empty message")),
            bytes => Ok(bytes),
        }
    }

    fn room_needed(&self) -> usize {
        self.message_max()
    }

    fn bytes(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message_queue_turn::MessageQueueTurn;
    use crate::terms::LinkOptions;
    use crate::transport::carrier::violation_in;

    #[test]
    fn an_empty_message_is_a_violation_and_no_end() {
        let _turn = MessageQueueTurn::take("mqueue");
        let options = LinkOptions::default();
        let (mut source, ticket) =
            MessageQueues.source(&PathRequest::of_receiver("a -> b", &options)).unwrap();
        let sink = MessageQueues.sink(ticket).unwrap();
        let mut into = vec![0; source.room_needed()];
        for message in [&b"abc"[..], b""] {
            sink.write(message).unwrap();
        }
        assert_eq!(source.read(&mut into).unwrap(), 3);
        let error = source.read(&mut into).unwrap_err();
        assert_eq!(violation_in(&error).unwrap(), "sent an empty message");
    }
}

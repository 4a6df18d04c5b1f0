//! `mqueue`: POSIX message queues, one for each connection.
//!
//! The receiver makes the queue, so that the receiver's `depth` bounds it, and sends the writing
//! end with its hello. The queue has no name, so no other process can open it. Priorities are not
//! used, because messages with a priority overtake others.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::Capabilities;
use super::carrier::{
    Carrier, Frames, PathRequest, PathSink, PathSource, ReadRoom, ReadWait, Sink, Source, Ticket, WAIT_MAX,
    violation,
};
use super::stream::StreamTransport;
use crate::error::{Error, Result};
use crate::sys::doorbell::PollSet;
use crate::sys::message_queue::MessageQueue;
use crate::sys::refusal::PeerRefusal;

/// The transport.
pub(super) static MQUEUE: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "mqueue",
        summary: "a POSIX message queue for each connection",
        depth: "messages of at most 8 KiB in the queue, ten or the system's limit; with flow credit or \
                stop-resume, packets",
        groups: true,
        trust: "same user or a named group (kernel credentials), key",
        ..StreamTransport::CAPABILITIES
    },
    carrier: Some(QUEUES),
    ..StreamTransport::LOCAL
};

const QUEUES: Carrier = Carrier { source, sink };

fn source(request: &PathRequest<'_>) -> Result<(Source, Ticket)> {
    // A description and the end of a stream are messages, too. The system's bound is ten.
    let messages = request.packets_max.map_or(usize::MAX, |packets| packets as usize + 2);
    let (queue, fd) = MessageQueue::new(messages)
        .map_err(|e| Error::system(format!("{}: cannot make a message queue", request.connection), e))?;
    let room_needed = queue.message_max();
    let source = Source { can_wait: true, room_needed, ..Source::new(queue) };
    Ok((source, Ticket::new(String::new(), vec![fd])))
}

fn sink(ticket: Ticket) -> Result<Sink, PeerRefusal> {
    let [fd]: [OwnedFd; 1] = ticket.fds.try_into().map_err(|_| "a message queue is one descriptor")?;
    let queue =
        MessageQueue::from_peer(fd).map_err(|e| format!("the descriptor is not of a message queue: {e}"))?;
    Ok(Sink::new(queue))
}

impl PathSink for MessageQueue {
    fn write(&self, frames: &mut Frames<'_>, longest: Duration) -> io::Result<usize> {
        let message = &frames[..frames.len().min(self.message_max())];
        self.send(message, longest).map(|()| message.len())
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        poll_set.writable(self.as_fd());
    }
}

impl PathSource for MessageQueue {
    fn read(&mut self, room: &mut ReadRoom<'_>, wait: ReadWait) -> io::Result<usize> {
        let longest = if wait == ReadWait::Short { WAIT_MAX } else { Duration::ZERO };
        match self.receive(room.bytes(), longest)? {
            // An empty message is not the end of the bytes: a queue has no end.
            0 => Err(violation("sent an empty message")),
            bytes => Ok(bytes),
        }
    }

    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        poll_set.readable(MessageQueue::as_fd(self));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message_queue_turn::MessageQueueTurn;
    use crate::terms::LinkOptions;
    use crate::transport::carrier::violation_in;
    use crate::transport::test_path::{ReadBytes, WriteBytes};

    #[test]
    fn an_empty_message_is_a_violation_and_no_end() {
        let _turn = MessageQueueTurn::take("mqueue");
        let options = LinkOptions::default();
        let (mut source, ticket) = (QUEUES.source)(&PathRequest::of_receiver("a -> b", &options)).unwrap();
        let sink = (QUEUES.sink)(ticket).unwrap();
        let mut into = vec![0; source.room_needed];
        for message in [&b"abc"[..], b""] {
            sink.end.write_bytes(message).unwrap();
        }
        assert_eq!(source.end.read_bytes(&mut into).unwrap(), 3);
        let error = source.end.read_bytes(&mut into).unwrap_err();
        assert_eq!(violation_in(&error).unwrap(), "sent an empty message");
    }
}

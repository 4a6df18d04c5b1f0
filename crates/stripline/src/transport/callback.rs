//! `callback`: pipes that a thread reads and calls back from, like a middleware. For tests of code
//! that runs on the thread of a middleware.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use super::Capabilities;
use super::carrier::{CallbackSource, Carrier, PathRequest, PathSink, PathSource, Ticket};
use super::pipe::{PIPE, Pipes};
use super::stream::StreamTransport;
use super::uds;
use crate::error::{Error, Result};
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::refusal::PeerRefusal;
use crate::sys::scoped_call::CallSlot;

/// The transport.
pub(super) static CALLBACK: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "callback",
        summary: "a pipe with a thread that calls back, for tests",
        ..PIPE.capabilities
    },
    listen: |request| uds::listen("callback", request),
    connect: PIPE.connect,
    carrier: Some(&CallbackPipes),
};

/// The most bytes that wait. The thread that brings more waits.
const BYTES_MAX: usize = 64 * 1024;
/// The most bytes of a callback.
const CHUNK: usize = 16 * 1024;

struct CallbackPipes;

impl Carrier for CallbackPipes {
    fn source(&self, request: &PathRequest<'_>) -> Result<(Box<dyn PathSource>, Ticket)> {
        let (mut pipe, ticket) = Pipes.source(request)?;
        let (feed, source) = CallbackSource::with_slot(BYTES_MAX)?;
        let shutdown = Doorbell::new()?;
        let its = shutdown.clone();
        let run = move || {
            let mut chunk = vec![0; CHUNK];
            loop {
                match pipe.read(&mut chunk) {
                    Ok(read) if read > 0 && feed.push(chunk[..read].to_vec()) => continue,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    _ => return,
                }
                let mut poll_set = PollSet::default();
                poll_set.readable(its.as_fd());
                poll_set.readable(pipe.bytes());
                if poll_set.wait(None).is_err() || poll_set.is_ready(0) {
                    return;
                }
            }
        };
        // The thread is not joined: it may itself drop the source, in a callback.
        std::thread::Builder::new()
            .name("callback-thread".into())
            .spawn(run)
            .map_err(|e| Error::not_started("cannot start a thread", e))?;
        Ok((Box::new(CallbackPipe { source, shutdown }), ticket))
    }

    fn sink(&self, ticket: Ticket) -> Result<Arc<dyn PathSink>, PeerRefusal> {
        Pipes.sink(ticket)
    }
}

/// The receiving end. Dropping it ends the thread.
struct CallbackPipe {
    source: CallbackSource<Vec<u8>>,
    shutdown: Doorbell,
}

impl PathSource for CallbackPipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.source.read(into, Duration::ZERO).map(|(read, _)| read)
    }

    fn await_end(&mut self) -> bool {
        self.source.await_end(|_| false)
    }

    fn bytes(&self) -> BorrowedFd<'_> {
        self.source.arrivals()
    }

    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        self.source.poll(poll_set)
    }

    fn is_filled_by_threads(&self) -> bool {
        true
    }

    fn call_slot(&self) -> Option<&Arc<CallSlot>> {
        self.source.call_slot()
    }
}

impl Drop for CallbackPipe {
    fn drop(&mut self) {
        self.shutdown.notify();
    }
}

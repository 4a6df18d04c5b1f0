//! `callback`: pipes that a thread reads and calls back from, like a middleware. For tests of code
//! that runs on the thread of a middleware.

use std::io;
use std::os::fd::AsFd;

use stripline::carrier::{
    CallbackSource, Capabilities, Carrier, Doorbell, PathRequest, PathSource, PollSet, ReadRoom, ReadWait,
    Source, StreamTransport, Ticket,
};
use stripline::node::{Dispatch, PacketView};
use stripline::{Error, Result};

use stripline_conformance::dispatch::{Gate, send_numbers};
use stripline_conformance::support::{node, pair};

use crate::pipe_transport::{PIPE, PIPES};

/// The transport.
pub static CALLBACK: StreamTransport = StreamTransport {
    capabilities: Capabilities {
        name: "callback",
        summary: "a pipe with a thread that calls back, for tests",
        ..PIPE.capabilities
    },
    carrier: Some(Carrier { source, ..PIPES }),
    ..StreamTransport::LOCAL
};

/// The most bytes that wait. The thread that brings more waits.
const BYTES_MAX: usize = 64 * 1024;
/// The most bytes of a callback.
const CHUNK: usize = 16 * 1024;

fn source(request: &PathRequest<'_>) -> Result<(Source, Ticket)> {
    let (mut pipe, ticket) = (PIPES.source)(request)?;
    let (feed, source) = CallbackSource::with_slot(BYTES_MAX)?;
    let shutdown = Doorbell::new()?;
    let ending = shutdown.clone();
    let run = move || {
        let mut chunk = vec![0; CHUNK];
        loop {
            match pipe.end.read(&mut ReadRoom::from(&mut chunk[..]), ReadWait::Never) {
                Ok(read) if read > 0 && feed.push(chunk[..read].to_vec()) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => return,
            }
            let mut poll_set = PollSet::default();
            poll_set.readable(ending.as_fd());
            pipe.end.poll_bytes(&mut poll_set);
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
    let call_slot = source.call_slot().cloned();
    let source = Source::new(CallbackPipe { source, shutdown });
    Ok((Source { is_filled_by_threads: true, call_slot, ..source }, ticket))
}

/// The receiving end. Dropping it ends the thread.
struct CallbackPipe {
    source: CallbackSource<Vec<u8>>,
    shutdown: Doorbell,
}

impl PathSource for CallbackPipe {
    fn read(&mut self, room: &mut ReadRoom<'_>, wait: ReadWait) -> io::Result<usize> {
        self.source.read(room.bytes(), wait, |_| false).map(|(read, _)| read)
    }

    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        self.source.poll(poll_set)
    }
}

impl Drop for CallbackPipe {
    fn drop(&mut self) {
        self.shutdown.notify();
    }
}

// The next packet is sent once the last one is handled, so the port's thread sleeps before some
// packets.
#[test]
fn direct_runs_on_the_thread_that_calls_back() {
    for options in ["depth = 4", "overflow = 'drop-oldest'", "scope = 'target'", "flow = 'credit'\ndepth = 4"]
    {
        let node = node("callback", options);
        let (mut publisher, mut subscriber) = pair::<u64>(&node, "numbers");
        let handled = std::sync::Arc::new(Gate::default());
        let gate = std::sync::Arc::clone(&handled);
        let sender = std::thread::spawn(move || {
            for number in 0..100 {
                publisher.send(&[number; 10]).unwrap();
                gate.wait_for(number);
            }
            publisher.finish().unwrap();
        });
        let (this, mut numbers, mut called_back) = (std::thread::current().id(), Vec::new(), 0);
        let number = |packet: PacketView<'_, u64>| Ok(packet[9]);
        subscriber
            .serve_then(Dispatch::Direct, number, |_, number| {
                called_back += u32::from(std::thread::current().id() != this);
                numbers.push(number);
                handled.reach(number);
                Ok(())
            })
            .unwrap();
        assert!(numbers.into_iter().eq(0..100), "{options}");
        assert!(called_back > 0, "{options}");
        sender.join().unwrap();
    }
}

// A handler that fails on the calling thread ends the serving. Later packets are kept.
#[test]
fn an_error_on_the_thread_that_calls_back_ends_the_serving() {
    for options in ["", "overflow = 'drop-oldest'\ndepth = 128"] {
        let node = node("callback", options);
        let (publisher, mut subscriber) = pair::<u64>(&node, "numbers");
        let sender = std::thread::spawn(move || send_numbers(publisher, 100));
        let mut next = 0;
        while next < 100 {
            let outcome = subscriber.serve_then(
                Dispatch::Direct,
                |packet: PacketView<'_, u64>| Ok(packet[9]),
                |_, number| {
                    assert_eq!(number, next);
                    next += 1;
                    if number % 7 == 3 { panic!("on purpose") } else { Ok(()) }
                },
            );
            match outcome {
                Ok(()) => break,
                Err(error) => assert!(error.to_string().contains("on purpose"), "{error}"),
            }
        }
        assert_eq!(next, 100, "{options}");
        sender.join().unwrap();
    }
}

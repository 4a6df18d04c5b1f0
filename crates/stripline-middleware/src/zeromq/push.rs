//! The sending end.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use stripline::carrier::packet::HEADER_BYTES;
use stripline::carrier::{Frames, Opening, PathSink, PollSet};
use stripline::{Error, Result};

use super::{LAST, ZeromqTicket};
use crate::transit::{AdmittedFrames, MessageLimits, PREFIX_BYTES, SentCounts, TransitSender};
use crate::transit::{PlainStream, plain_key};
use crate::zeromq::socket::{MonitoredSocket, SocketEvent, ZeromqSocket, path_error};

/// The longest wait of an ending sender until all sent bytes have left the process. The bytes take
/// milliseconds, unless the receiver's process is stopped.
const FINISH_TIME: Duration = Duration::from_secs(5);
/// The time for which ZeroMQ continues to send, if this process lives on.
const LINGER: Duration = Duration::from_secs(60);

/// The bytes of the last message. Up to 8192 bytes are sent together with earlier messages.
/// ZeroMQ sends the rest from the message's own memory, and returns this memory when all of it is
/// in the kernel.
const LAST_BYTES: usize = 3 * 8192;

/// The sending end.
pub(super) struct ZeromqSink {
    socket: ZeromqSocket<PushState>,
    transit: TransitSender,
    name: String,
    /// Whether the receiver has hung up, so that no further bytes need arrive.
    is_receiver_gone: Arc<AtomicBool>,
}

/// The part of the sink that the lock protects.
#[derive(Default)]
struct PushState {
    counts: SentCounts,
    plain: PlainStream,
    /// Whether ZeroMQ has connected.
    is_connected: bool,
}

impl ZeromqSink {
    /// Connects to the receiver of a ticket.
    pub(super) fn connect(
        ticket: &ZeromqTicket,
        transit: TransitSender,
        is_receiver_gone: Arc<AtomicBool>,
    ) -> Result<Self> {
        let mut socket = ZeromqSocket::new(zmq::PUSH, ticket.messages_max(), PushState::default())?;
        let address = ticket.address();
        if let Some(ends) = socket.get_mut() {
            ends.socket()
                .and_then(|socket| socket.connect(&address).map_err(path_error))
                .map_err(|e| Error::system(format!("cannot connect to {address}"), e))?;
        }
        Ok(Self { socket, transit, name: address, is_receiver_gone })
    }

    fn lock(&self) -> io::Result<MutexGuard<'_, MonitoredSocket<PushState>>> {
        self.socket.lock().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    fn send(
        &self,
        ends: &mut MonitoredSocket<PushState>,
        message: impl zmq::Sendable + Copy,
        admitted: &AdmittedFrames,
    ) -> io::Result<usize> {
        let socket = ends.socket()?;
        let mut sent = socket.send(message, zmq::DONTWAIT);
        if sent == Err(zmq::Error::EAGAIN) {
            // A send takes notice of the work of ZeroMQ's thread only once in a millisecond. This
            // call always does.
            let _ = socket.get_events();
            sent = socket.send(message, zmq::DONTWAIT);
        }
        sent.map_err(|error| match error {
            // There is room for all messages that an honest receiver has not taken. So the
            // connection has ended, or this receiver counts messages that it has not taken.
            zmq::Error::EAGAIN => io::ErrorKind::BrokenPipe.into(),
            error => path_error(error),
        })?;
        self.transit.sent(&mut ends.state.counts, admitted, 0);
        Ok(admitted.bytes)
    }
}

impl PathSink for ZeromqSink {
    fn write(&self, frames: &mut Frames<'_>, _longest: Duration) -> io::Result<usize> {
        let mut ends = self.lock()?;
        let bound = self.transit.bound;
        let admitted = self.transit.admit(&mut ends.state.counts, frames, MessageLimits::NONE)?;
        let (number, admitted_frames) = (ends.state.counts.sent + admitted.frames, &frames[..admitted.bytes]);
        let payload = ends.state.plain.payload_of(admitted_frames).map(<[u8]>::len);
        ends.state.plain.note(number, admitted_frames);
        let prefix = bound.prefix(number);
        let key = plain_key(bound);
        let (front, part): (&[u8], _) = match payload {
            Some(bytes) => (&key, HEADER_BYTES..HEADER_BYTES + bytes),
            None => (&prefix, 0..admitted.bytes),
        };
        match frames.buffer() {
            Some(buffer) => self.send(&mut ends, buffer.behind(front, part), &admitted),
            None => self.send(&mut ends, &[front, &frames[part]].concat()[..], &admitted),
        }
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        poll_set.readable(self.transit.doorbell.as_fd());
    }

    /// Checks whether ZeroMQ has connected, which it does on a thread of its own.
    fn open(&self) -> Result<Opening<'_>, String> {
        let mut ends = self.lock().map_err(|e| e.to_string())?;
        match ends.next_event() {
            Some(SocketEvent::Connected) => {
                ends.state.is_connected = true;
                Ok(Opening::Done)
            }
            Some(_) => Err(format!("ZeroMQ cannot reach {}", self.name)),
            None => Ok(Opening::Waits {
                on: self.socket.events(),
                lacks: format!("ZeroMQ has found no receiver at {}", self.name),
                remedy: "start both processes in one network namespace, and raise their limit of open files \
                         (`ulimit -n`)",
            }),
        }
    }
}

impl Drop for ZeromqSink {
    /// Waits until all sent bytes have left this process, which may end at once.
    fn drop(&mut self) {
        // Relaxed: the flag only saves time.
        if self.is_receiver_gone.load(Ordering::Relaxed) {
            return;
        }
        let mut last = vec![0; LAST_BYTES];
        last[..PREFIX_BYTES].copy_from_slice(&self.transit.bound.prefix(LAST));
        let Some(ends) = self.socket.get_mut().filter(|ends| ends.state.is_connected) else { return };
        if !ends.finish(last, LINGER, FINISH_TIME) {
            let name = &self.name;
            log::warn!(
                target: "stripline::transport",
                "packets for {name} have not left this process within {FINISH_TIME:?}"
            );
        }
    }
}

//! The sending end.

use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{LAST, PREFIX_BYTES, ZeromqTicket};
use crate::error::{Error, Result};
use crate::packet::{Header, Kind, LastSent};
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::transit_page::TransitPage;
use crate::sys::zeromq::{Monitored, SocketEvent, ZeromqSocket, path_error};
use crate::transport::carrier::{PathProbe, PathSink};
use crate::transport::stream::padded;

/// How long the end of a sender waits until what it has sent has left the process. That takes
/// milliseconds, unless the receiver's process is stopped.
const FINISH_TIME: Duration = Duration::from_secs(5);
/// How long ZeroMQ goes on with it, if this process lives on.
const LINGER: Duration = Duration::from_secs(60);

/// Bytes of the last message. Up to 8192 of them are sent with what was sent before it. ZeroMQ
/// takes the rest from where it is, and returns that memory when all of it is in the kernel.
const LAST_BYTES: usize = 3 * 8192;

/// The sending end.
pub(super) struct ZeromqSink {
    socket: ZeromqSocket<PushState>,
    page: TransitPage,
    /// Rung by the receiver once there is room.
    doorbell: Doorbell,
    key: u64,
    frames_max: u64,
    unit: Option<NonZeroU32>,
    name: String,
    /// Whether the receiver has hung up, so that nothing more need arrive.
    is_receiver_gone: AtomicBool,
}

/// The part under the lock.
#[derive(Default)]
struct PushState {
    /// Frames handed over, in all. A large one counts as several, here and in the page.
    sent: u64,
    /// Messages handed over.
    messages: u64,
    /// The frames and the messages taken when that was read last.
    taken: u64,
    messages_taken: u64,
    /// Whether the wait for room was announced.
    is_waiting: bool,
    /// Whether ZeroMQ has connected.
    is_connected: bool,
    /// The packet that was written last, or is written in fragments; `None`: the first is to come.
    packet: Option<LastSent>,
}

/// The room of a path.
#[derive(Clone, Copy)]
struct Room {
    /// Frames that may still be handed over.
    left: u64,
    /// Whether nothing is in transit.
    is_empty: bool,
    /// Whether there is room for frames that are not counted: descriptions, ends.
    takes_others: bool,
    unit: Option<NonZeroU32>,
}

impl Room {
    /// Returns how many frames one of so many bytes counts as.
    fn frames_of(self, bytes: usize) -> u64 {
        self.unit.map_or(1, |unit| (bytes as u64 / u64::from(unit.get())).max(1))
    }
}

/// Whole frames that there is room for. Only those of packets are counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct WholeFrames {
    bytes: usize,
    frames: u64,
    /// The last packet that begins before their end.
    packet: Option<LastSent>,
    /// The last one that ends in them.
    last: Option<LastSent>,
}

impl WholeFrames {
    /// Finds the frames at the start of these bytes that there is room for. `packet` is the one
    /// that an earlier frame has begun.
    fn new(bytes: &[u8], room: Room, packet: Option<LastSent>) -> Self {
        let mut batch = Self { packet, ..Self::default() };
        loop {
            let rest = &bytes[batch.bytes..];
            let Some(header) = Header::read(rest) else { break };
            let whole = padded(header.length as usize);
            if whole > rest.len() {
                break;
            }
            // A description and the end of a stream need no room of the packets.
            if header.kind != Kind::Data as u8 {
                if !room.takes_others {
                    break;
                }
            } else {
                let frames = batch.frames + room.frames_of(whole);
                // One that is larger than all the room travels alone.
                if frames > room.left && !(room.is_empty && batch.frames == 0) {
                    break;
                }
                batch.frames = frames;
                let (sequence, sample_index) = (header.sequence, header.sample_index);
                let bytes = u64::from(header.length);
                match &mut batch.packet {
                    // `sample_index` is the place in the packet, in bytes.
                    Some(packet) if header.is_continued() => {
                        packet.bytes = sample_index.saturating_add(bytes);
                    }
                    packet => {
                        let first = packet.map_or([sequence, sample_index], |packet| packet.first);
                        *packet = Some(LastSent { first, sequence, sample_index, bytes });
                    }
                }
                if header.flags & Header::MORE == 0 {
                    batch.last = batch.packet;
                }
            }
            batch.bytes += whole;
        }
        batch
    }
}

impl ZeromqSink {
    /// Connects to the receiver of a ticket.
    pub(super) fn connect(ticket: &ZeromqTicket, page: TransitPage, doorbell: Doorbell) -> Result<Self> {
        let mut socket = ZeromqSocket::new(zmq::PUSH, ticket.messages_max(), PushState::default())?;
        let address = ticket.address();
        if let Some(ends) = socket.get_mut() {
            ends.socket()
                .and_then(|socket| socket.connect(&address).map_err(path_error))
                .map_err(|e| Error::system(format!("cannot connect to {address}"), e))?;
        }
        Ok(Self {
            socket,
            page,
            doorbell,
            key: ticket.key,
            frames_max: ticket.frames,
            unit: ticket.unit,
            name: address,
            is_receiver_gone: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> io::Result<MutexGuard<'_, Monitored<PushState>>> {
        self.socket.lock().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// Returns the frames that there is room for.
    ///
    /// # Errors
    /// `WouldBlock`. The doorbell rings once there is room.
    fn admit(&self, state: &mut PushState, bytes: &[u8]) -> io::Result<WholeFrames> {
        if std::mem::take(&mut state.is_waiting) {
            self.doorbell.drain();
        }
        let room = |state: &PushState| {
            let in_transit = state.sent.saturating_sub(state.taken);
            let left = self.frames_max.saturating_sub(in_transit);
            // Where packets are dropped, descriptions are repeated. ZeroMQ's queues never fill.
            let takes_others = state.messages.saturating_sub(state.messages_taken) < 2 * self.frames_max + 4;
            Room { left, is_empty: in_transit == 0, takes_others, unit: self.unit }
        };
        let batch = |state: &PushState| WholeFrames::new(bytes, room(state), state.packet);
        let mut admitted = batch(state);
        if admitted.bytes < bytes.len() {
            // That word is on a line that the receiver writes, so it is read only where it matters.
            (state.taken, state.messages_taken) = (self.page.taken(), self.page.messages_taken());
            admitted = batch(state);
        }
        if admitted.bytes == 0 {
            (state.taken, state.messages_taken) = (self.page.announce_wait(), self.page.messages_taken());
            admitted = batch(state);
        }
        match admitted.bytes {
            0 if room(state).is_empty && room(state).takes_others => {
                Err(io::Error::other("the bytes are no whole frames"))
            }
            0 => {
                state.is_waiting = true;
                Err(io::ErrorKind::WouldBlock.into())
            }
            _ => Ok(admitted),
        }
    }

    /// Returns what stands before the frames of a message.
    fn prefix(&self, frames: u64) -> [u8; PREFIX_BYTES] {
        let mut prefix = [0; PREFIX_BYTES];
        let (key, number) = prefix.split_at_mut(PREFIX_BYTES / 2);
        key.copy_from_slice(&self.key.to_le_bytes());
        number.copy_from_slice(&frames.to_le_bytes());
        prefix
    }

    fn send(
        &self,
        ends: &mut Monitored<PushState>,
        message: impl zmq::Sendable + Copy,
        batch: &WholeFrames,
    ) -> io::Result<usize> {
        let socket = ends.socket()?;
        let mut sent = socket.send(message, zmq::DONTWAIT);
        if sent == Err(zmq::Error::EAGAIN) {
            // A send takes note of what its thread has done once in a millisecond, and this call
            // always does.
            let _ = socket.get_events();
            sent = socket.send(message, zmq::DONTWAIT);
        }
        sent.map_err(|error| match error {
            // There is room for all that an honest receiver has not taken. So the connection has
            // ended, or this receiver counts what it has not taken.
            zmq::Error::EAGAIN => io::ErrorKind::BrokenPipe.into(),
            error => path_error(error),
        })?;
        ends.state.sent += batch.frames;
        ends.state.packet = batch.packet;
        ends.state.messages += 1;
        self.page.set_sent(ends.state.sent, ends.state.messages, batch.last);
        Ok(batch.bytes)
    }
}

impl PathSink for ZeromqSink {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut ends = self.lock()?;
        let batch = self.admit(&mut ends.state, bytes)?;
        let prefix = self.prefix(ends.state.sent + batch.frames);
        let message = [&prefix, &bytes[..batch.bytes]].concat();
        self.send(&mut ends, &message[..], &batch)
    }

    fn write_buffer(&self, buffer: &mut AlignedBuffer, bytes: usize) -> io::Result<usize> {
        let mut ends = self.lock()?;
        let batch = self.admit(&mut ends.state, &buffer.frame()[..bytes])?;
        let prefix = self.prefix(ends.state.sent + batch.frames);
        self.send(&mut ends, buffer.behind(&prefix, batch.bytes), &batch)
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        poll_set.readable(self.doorbell.as_fd());
    }

    fn probe(&self) -> Option<&dyn PathProbe> {
        Some(self)
    }

    fn receiver_left(&self) {
        // Relaxed: read at the drop, which only saves time by it.
        self.is_receiver_gone.store(true, Ordering::Relaxed);
    }
}

impl PathProbe for ZeromqSink {
    /// Checks whether ZeroMQ has connected, which it does on a thread of its own.
    fn try_once(&self) -> Result<bool, String> {
        let mut ends = self.lock().map_err(|e| e.to_string())?;
        match ends.next_event() {
            Some(SocketEvent::Connected) => {
                ends.state.is_connected = true;
                Ok(true)
            }
            Some(_) => Err(format!("ZeroMQ cannot reach {}", self.name)),
            None => Ok(false),
        }
    }

    fn answers(&self) -> BorrowedFd<'_> {
        self.socket.events()
    }

    fn failure(&self, within: Duration) -> String {
        format!(
            "ZeroMQ has found no receiver at {} within {within:?}; start both processes in one network \
             namespace, and raise their limit of open files (`ulimit -n`)",
            self.name
        )
    }
}

impl Drop for ZeromqSink {
    /// Waits until what was sent has left this process, which may end at once.
    fn drop(&mut self) {
        if *self.is_receiver_gone.get_mut() {
            return;
        }
        let mut last = vec![0; LAST_BYTES];
        last[..PREFIX_BYTES].copy_from_slice(&self.prefix(LAST));
        let Some(ends) = self.socket.get_mut().filter(|ends| ends.state.is_connected) else { return };
        if !ends.finish(last, LINGER, FINISH_TIME) {
            let name = &self.name;
            log::warn!(
                target: "stripline::transport",
                "what was sent to {name} has not left this process within {FINISH_TIME:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(sequence: u64, kind: Kind, flags: u8, sample_index: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; padded(length)];
        let (length, kind) = (length as u32, kind as u8);
        Header {
            sequence,
            length,
            stream: 0,
            kind,
            flags,
            sample_index,
            time_ns: 0,
            intended_ns: 0,
            sent_ns: 0,
        }
        .write(&mut bytes);
        bytes
    }

    #[test]
    fn whole_frames_are_counted_and_the_last_whole_packet_is_named() {
        let frames = [
            frame(4, Kind::Stream, 0, 40, 20),
            frame(4, Kind::Data, 0, 40, 100),
            frame(5, Kind::Data, Header::MORE, 50, 64),
            frame(5, Kind::Data, Header::CONTINUED, 64, 16),
        ];
        let bytes = frames.concat();
        let room = |left| Room { left, is_empty: false, takes_others: true, unit: None };
        let batch = |bytes: &[u8], left| {
            let WholeFrames { bytes, frames, last, .. } = WholeFrames::new(bytes, room(left), None);
            (bytes, frames, last)
        };
        let whole = [0, 1, 2].map(|index| frames[..=index].iter().map(Vec::len).sum::<usize>());
        let first = LastSent { first: [4, 40], sequence: 4, sample_index: 40, bytes: 100 };
        assert_eq!(batch(&bytes, 0), (whole[0], 0, None));
        assert_eq!(batch(&bytes, 1), (whole[1], 1, Some(first)));
        assert_eq!(batch(&bytes, 2), (whole[2], 2, Some(first)));
        let second = LastSent { sequence: 5, sample_index: 50, bytes: 80, ..first };
        assert_eq!(batch(&bytes, 9), (bytes.len(), 3, Some(second)));
        assert_eq!(batch(&bytes[..whole[0] - 1], 9), (0, 0, None));
        // The last fragment comes by itself.
        let begun = WholeFrames::new(&bytes[..whole[2]], room(9), None).packet;
        assert_eq!(WholeFrames::new(&bytes[whole[2]..], room(9), begun).last, Some(second));
    }

    #[test]
    fn a_large_frame_counts_as_several_and_travels_alone_if_it_must() {
        let bytes = [frame(0, Kind::Data, 0, 0, 16), frame(1, Kind::Data, 0, 4, 1000)].concat();
        let frames = |left, is_empty, bytes: &[u8]| {
            let room = Room { left, is_empty, takes_others: true, unit: NonZeroU32::new(100) };
            WholeFrames::new(bytes, room, None).frames
        };
        assert_eq!(frames(11, false, &bytes), 11);
        assert_eq!(frames(10, false, &bytes), 1);
        let large = &bytes[padded(16)..];
        assert_eq!((frames(9, false, large), frames(9, true, large)), (0, 10));
    }
}

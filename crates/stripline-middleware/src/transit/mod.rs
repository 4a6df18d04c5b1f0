//! The sending side of a path through a library with its own queues. The bound of such a queue
//! cannot serve as a packet's `depth`, and the content of the queue dies with the sender. So both
//! ends share a [`TransitPage`]. The page bounds the messages in transit, and names the last packet
//! that a killed sender had sent.
//!
//! ```text
//! message: | key (8) | frames up to its end, in all (8) | frames |
//! ```

#[cfg(any(feature = "iceoryx2", feature = "corba"))]
mod message_frames;
mod page;
#[cfg(any(feature = "zeromq", feature = "zenoh"))]
mod plain_stream;

#[cfg(any(feature = "iceoryx2", feature = "corba"))]
pub(crate) use message_frames::MessageFrames;
pub(crate) use page::TransitPage;
#[cfg(any(feature = "zeromq", feature = "zenoh"))]
pub(crate) use plain_stream::{PlainStream, plain_key};

use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use stripline::carrier::packet::{Header, Kind, LastSent};
use stripline::carrier::{Doorbell, PathRequest, Watermarks, padded, random};
use stripline::{Error, Result};

/// Frames of packets in transit if the port's queue bounds the packets: ZeroMQ's own default.
const FRAMES: u64 = 1000;
/// The most frames that a ticket may allow.
pub(crate) const FRAMES_MAX: u64 = 1 << 24;
/// Bytes of frames in transit in each direction of calls: about the size of a socket's buffer.
const BYTES_OF_CALLS: u64 = 1 << 18;
/// Bytes before the frames of a message: the key, and the frame count up to the end of the message.
pub(crate) const PREFIX_BYTES: usize = 16;

/// The bound of a path, which is part of the ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransitBound {
    /// The key in each message.
    pub key: u64,
    /// The most frames that may be in transit.
    pub frames: u64,
    /// A larger frame counts as several frames, one per `unit` bytes; `None`: each frame counts as
    /// one.
    pub unit: Option<NonZeroU32>,
}

impl TransitBound {
    /// Returns the bound of a connection.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(crate) fn new(request: &PathRequest<'_>) -> Result<Self> {
        let frames = request.packets_max.map_or(FRAMES, u64::from).clamp(1, FRAMES_MAX);
        let unit = u32::try_from(BYTES_OF_CALLS.div_ceil(frames)).ok().and_then(NonZeroU32::new);
        Ok(Self { key: random()?, frames, unit: unit.filter(|_| request.is_of_calls) })
    }

    /// Checks a bound that came from a peer.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.frames {
            1..=FRAMES_MAX => Ok(()),
            frames => Err(format!("the ticket for the data path allows {frames} frames")),
        }
    }

    /// Returns the frames in transit at which a waiting sender resumes, by the rule of
    /// [`Watermarks`].
    pub(crate) fn low(&self) -> u64 {
        let frames = u32::try_from(self.frames).unwrap_or(u32::MAX);
        Watermarks::of_depth(frames).low().into()
    }

    /// Returns the number of frames that a frame of `bytes` bytes counts as.
    pub(crate) fn frames_of(&self, bytes: usize) -> u64 {
        self.unit.map_or(1, |unit| (bytes as u64 / u64::from(unit.get())).max(1))
    }

    /// Returns the prefix of a message, which comes before the frames.
    pub(crate) fn prefix(&self, frames: u64) -> [u8; PREFIX_BYTES] {
        let mut prefix = [0; PREFIX_BYTES];
        let (key, number) = prefix.split_at_mut(PREFIX_BYTES / 2);
        key.copy_from_slice(&self.key.to_le_bytes());
        number.copy_from_slice(&frames.to_le_bytes());
        prefix
    }

    /// Returns the frame count up to the end of a message; `None`: the message is from another
    /// sender.
    pub(crate) fn number_of(&self, message: &[u8]) -> Option<u64> {
        let prefix = message.first_chunk::<PREFIX_BYTES>()?;
        let [key, number]: [u64; 2] = bytemuck::cast(*prefix);
        (u64::from_le(key) == self.key).then_some(u64::from_le(number))
    }
}

/// Returns the page and the doorbell of a receiver, and the descriptors of the ticket.
///
/// # Errors
/// A lack of memory or descriptors.
pub(crate) fn receiving_ends(connection: &str) -> Result<(TransitPage, Doorbell, Vec<OwnedFd>)> {
    let (page, page_fd) = TransitPage::new()?;
    let [ringing, sleeping] = Doorbell::between()?;
    let doorbell_fd = sleeping
        .as_fd()
        .try_clone_to_owned()
        .map_err(|e| Error::system(format!("{connection}: cannot copy a descriptor"), e))?;
    Ok((page, ringing, vec![page_fd, doorbell_fd]))
}

/// The page and the doorbell of a sender, and the bound.
pub(crate) struct TransitSender {
    pub page: TransitPage,
    /// Rung by the receiver once there is room.
    pub doorbell: Doorbell,
    pub bound: TransitBound,
}

/// The counts of a sender.
#[derive(Default)]
pub(crate) struct SentCounts {
    /// The frames handed over, in total. A large frame counts as several, here and in the page.
    pub sent: u64,
    /// The messages handed over, in total.
    messages: u64,
    /// The bytes of these messages.
    bytes: u64,
    /// The frames and messages taken, and the bytes received, as last read.
    taken: u64,
    messages_taken: u64,
    received: u64,
    /// Whether a wait for room was announced.
    is_waiting: bool,
    /// The packet that was written last, or that is being written in fragments; `None`: no packet
    /// yet.
    packet: Option<LastSent>,
    /// The rest of a frame that is larger than a message.
    rest: Rest,
}

/// The limits of a library, in bytes of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageLimits {
    /// The most bytes of frames in one message.
    pub message: usize,
    /// The most bytes of messages that have not arrived in the receiver's process.
    pub on_the_way: u64,
}

impl MessageLimits {
    /// No limits.
    pub(crate) const NONE: Self = Self { message: usize::MAX, on_the_way: u64::MAX };

    /// Returns the bytes on the way at which a waiting sender resumes. Resuming at each message
    /// would cost both sides a wake-up per message.
    pub(crate) const fn low(on_the_way: u64) -> u64 {
        on_the_way - on_the_way / 4
    }
}

impl TransitSender {
    /// Takes the descriptors of a ticket.
    ///
    /// # Errors
    /// A description of the fault in the descriptors, for the peer.
    pub(crate) fn of_ticket(bound: TransitBound, fds: Vec<OwnedFd>) -> Result<Self, String> {
        let [page, doorbell]: [OwnedFd; 2] =
            fds.try_into().map_err(|_| "the ticket for the data path takes two descriptors".to_string())?;
        let peer = "the receiver";
        let page = TransitPage::from_peer(peer, page).map_err(|e| e.to_string())?;
        let doorbell = Doorbell::from_peer(peer, doorbell).map_err(|e| e.to_string())?;
        Ok(Self { page, doorbell, bound })
    }

    /// Makes a page and a doorbell for a receiver on another host. The receiver's part of the page
    /// is written from the receiver's messages.
    ///
    /// # Errors
    /// A lack of memory or descriptors.
    pub(crate) fn across_hosts(bound: TransitBound) -> Result<Self> {
        let (page, _) = TransitPage::new()?;
        Ok(Self { page, doorbell: Doorbell::new()?, bound })
    }

    /// Returns the frames that there is room for in one message.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room. The doorbell rings once there is room.
    pub(crate) fn admit(
        &self,
        state: &mut SentCounts,
        bytes: &[u8],
        limits: MessageLimits,
    ) -> io::Result<AdmittedFrames> {
        if std::mem::take(&mut state.is_waiting) {
            self.doorbell.drain();
        }
        let is_on_the_way =
            |state: &SentCounts| state.bytes.saturating_sub(state.received) > limits.on_the_way;
        let room = |state: &SentCounts| {
            let in_transit = state.sent.saturating_sub(state.taken);
            let left = self.bound.frames.saturating_sub(in_transit);
            // If packets are dropped, descriptions are repeated. Repeated descriptions must not
            // fill the library's queues.
            let messages = state.messages.saturating_sub(state.messages_taken);
            let takes_others = messages < 2 * self.bound.frames + 4;
            let message = if is_on_the_way(state) { 0 } else { limits.message };
            Room { left, is_empty: in_transit == 0, takes_others, bound: self.bound, message }
        };
        let admit = |state: &SentCounts| AdmittedFrames::new(bytes, room(state), state.packet, state.rest);
        let mut admitted = admit(state);
        if admitted.bytes < bytes.len().min(limits.message) {
            // These words are on a line that the receiver writes, so they are read only when they
            // matter.
            state.read(&self.page, self.page.taken(), self.page.received());
            admitted = admit(state);
        }
        while admitted.bytes == 0 {
            let page = &self.page;
            let awaits_receipt = is_on_the_way(state);
            match awaits_receipt {
                true => state.read(page, page.taken(), page.announce_wait_for_receipt()),
                false => state.read(page, page.announce_wait(), page.received()),
            }
            admitted = admit(state);
            // All bytes may have been received by now, although frames are not taken yet. The
            // wake-up for taken frames needs the other announcement.
            if is_on_the_way(state) == awaits_receipt {
                break;
            }
        }
        let has_room = || {
            let room = room(state);
            room.is_empty && room.takes_others && room.message > 0
        };
        match admitted.bytes {
            0 if has_room() => Err(io::Error::other("the bytes are not whole frames")),
            0 => {
                state.is_waiting = true;
                Err(io::ErrorKind::WouldBlock.into())
            }
            _ => Ok(admitted),
        }
    }

    /// Counts a message of `message` bytes that was handed over.
    pub(crate) fn sent(&self, state: &mut SentCounts, admitted: &AdmittedFrames, message: u64) {
        state.sent += admitted.frames;
        state.messages += 1;
        state.bytes += message;
        self.page.set_charged(state.bytes);
        state.packet = admitted.packet;
        state.rest = admitted.rest;
        self.page.set_sent(state.sent, state.messages, admitted.last);
    }
}

impl SentCounts {
    fn read(&mut self, page: &TransitPage, taken: u64, received: u64) {
        (self.taken, self.received) = (taken, received);
        self.messages_taken = page.messages_taken();
    }
}

/// The limit of an ending sender's wait for the last bytes. The wait begins again when some bytes
/// arrive.
pub(crate) struct ArrivalLimit {
    idle: Duration,
    arrived: u64,
    until: Instant,
    /// The end of all waits.
    end: Instant,
}

impl ArrivalLimit {
    /// Begins the wait. `idle` is the longest wait without an arrival, and `longest` the longest
    /// wait in total.
    pub(crate) fn new(idle: Duration, longest: Duration) -> Self {
        let now = Instant::now();
        Self { idle, arrived: 0, until: now + idle, end: now + longest }
    }

    /// Returns the end of the next wait. The doorbell rings earlier if more arrives. `None`: all
    /// bytes are in the receiver's process.
    pub(crate) fn next_wait(&mut self, sent: &SentCounts, page: &TransitPage) -> Option<Instant> {
        let arrived = page.announce_wait_for_receipt();
        (arrived < sent.bytes).then(|| self.until(arrived, Instant::now()))
    }

    fn until(&mut self, arrived: u64, now: Instant) -> Instant {
        if arrived > self.arrived {
            (self.arrived, self.until) = (arrived, self.end.min(now + self.idle));
        }
        self.until
    }
}

/// The room of a path.
#[derive(Clone, Copy)]
struct Room {
    /// The frames that may still be handed over.
    left: u64,
    /// Whether nothing is in transit.
    is_empty: bool,
    /// Whether there is room for frames that are not counted: descriptions and ends.
    takes_others: bool,
    bound: TransitBound,
    /// The most bytes of frames in a message.
    message: usize,
}

/// The rest of a frame that was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rest {
    bytes: usize,
    /// Whether the packet ends with this rest.
    ends_packet: bool,
}

/// The frames that there is room for. Only frames of packets are counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AdmittedFrames {
    pub bytes: usize,
    pub frames: u64,
    /// The last packet that begins in these frames.
    packet: Option<LastSent>,
    /// The last packet that ends in these frames.
    last: Option<LastSent>,
    rest: Rest,
}

impl AdmittedFrames {
    /// Finds the frames at the start of these bytes that there is room for. `packet` is the packet
    /// that an earlier frame has begun, and `rest` the rest of a frame that was cut.
    fn new(bytes: &[u8], room: Room, packet: Option<LastSent>, rest: Rest) -> Self {
        let mut batch = Self { packet, rest, ..Self::default() };
        loop {
            let room_left = room.message.saturating_sub(batch.bytes);
            if batch.rest.bytes > 0 {
                // The frame was counted where it began.
                let now = batch.rest.bytes.min(room_left).min(bytes.len() - batch.bytes);
                batch.bytes += now;
                batch.rest.bytes -= now;
                if batch.rest.bytes > 0 || now == 0 {
                    break;
                }
                if batch.rest.ends_packet {
                    batch.last = batch.packet;
                }
                continue;
            }
            let there = &bytes[batch.bytes..];
            let Some(header) = Header::read(there) else { break };
            let whole = padded(header.length as usize);
            // A frame that is larger than a message begins a new message.
            if whole > there.len() || room_left == 0 || whole > room_left && batch.bytes > 0 {
                break;
            }
            batch.rest = Rest { bytes: whole, ends_packet: false };
            // A description and the end of a stream need no room of the packets.
            if header.kind != Kind::Data as u8 {
                if !room.takes_others {
                    batch.rest = Rest::default();
                    break;
                }
                continue;
            }
            let frames = batch.frames + room.bound.frames_of(whole);
            // A frame that is larger than all the room travels alone.
            if frames > room.left && !(room.is_empty && batch.frames == 0) {
                batch.rest = Rest::default();
                break;
            }
            batch.frames = frames;
            batch.rest.ends_packet = header.flags & Header::MORE == 0;
            let (sequence, sample_index) = (header.sequence, header.sample_index);
            let bytes = u64::from(header.length);
            match &mut batch.packet {
                // In a continued packet, `sample_index` is the place in the packet, in bytes.
                Some(packet) if header.is_continued() => {
                    packet.bytes = sample_index.saturating_add(bytes);
                }
                packet => {
                    let first = packet.map_or([sequence, sample_index], |packet| packet.first);
                    *packet = Some(LastSent { first, sequence, sample_index, bytes });
                }
            }
        }
        batch
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

    const BOUND: TransitBound = TransitBound { key: 5, frames: 9, unit: None };
    const ROOM: Room =
        Room { left: 9, is_empty: false, takes_others: true, bound: BOUND, message: usize::MAX };

    fn admitted(bytes: &[u8], room: Room) -> AdmittedFrames {
        AdmittedFrames::new(bytes, room, None, Rest::default())
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
        let batch = |bytes: &[u8], left| {
            let AdmittedFrames { bytes, frames, last, .. } = admitted(bytes, Room { left, ..ROOM });
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
        let begun = admitted(&bytes[..whole[2]], ROOM).packet;
        let ended = AdmittedFrames::new(&bytes[whole[2]..], ROOM, begun, Rest::default());
        assert_eq!(ended.last, Some(second));
    }

    #[test]
    fn a_large_frame_counts_as_several_and_travels_alone_if_it_must() {
        let bytes = [frame(0, Kind::Data, 0, 0, 16), frame(1, Kind::Data, 0, 4, 1000)].concat();
        let frames = |left, is_empty, bytes: &[u8]| {
            let bound = TransitBound { unit: NonZeroU32::new(100), ..BOUND };
            let room = Room { left, is_empty, bound, ..ROOM };
            admitted(bytes, room).frames
        };
        assert_eq!(frames(11, false, &bytes), 11);
        assert_eq!(frames(10, false, &bytes), 1);
        let large = &bytes[padded(16)..];
        assert_eq!((frames(9, false, large), frames(9, true, large)), (0, 10));
    }

    #[test]
    fn messages_are_cut_at_frames_where_that_is_possible() {
        let bytes = [frame(0, Kind::Data, 0, 0, 16), frame(1, Kind::Data, 0, 4, 1000)].concat();
        let (small, large) = (padded(16), padded(1000));
        let cut = |bytes: &[u8], message, packet, rest| {
            AdmittedFrames::new(bytes, Room { message, ..ROOM }, packet, rest)
        };
        let none = Rest::default();
        let sequence = |admitted: &AdmittedFrames| admitted.last.map(|last| last.sequence);
        let all = cut(&bytes, small + large, None, none);
        assert_eq!((all.bytes, all.frames, sequence(&all)), (small + large, 2, Some(1)));
        let first = cut(&bytes, small + large - 1, None, none);
        assert_eq!((first.bytes, first.frames, sequence(&first)), (small, 1, Some(0)));
        // A frame that is larger than a message.
        let begun = cut(&bytes[small..], 600, first.packet, none);
        assert_eq!((begun.bytes, begun.frames, sequence(&begun)), (600, 1, None));
        let no_room = Room { left: 0, message: 600, ..ROOM };
        let ended = AdmittedFrames::new(&bytes[small + 600..], no_room, begun.packet, begun.rest);
        assert_eq!((ended.bytes, ended.frames, sequence(&ended)), (large - 600, 0, Some(1)));
        assert_eq!(cut(&bytes[small + 600..], 0, begun.packet, begun.rest).bytes, 0);
        assert_eq!(cut(&bytes, 0, None, none).bytes, 0);
    }

    #[test]
    fn the_wait_for_the_last_bytes_begins_again_when_some_arrive() {
        let [idle, longest] = [5, 60].map(Duration::from_secs);
        let mut limit = ArrivalLimit::new(idle, longest);
        let begun = limit.until - idle;
        let mut until = |arrived, after_s| {
            let at = begun + Duration::from_secs(after_s);
            limit.until(arrived, at).duration_since(begun).as_secs()
        };
        // Nothing has arrived, some bytes, no more, more, and some just before the end of all
        // waits.
        let steps = [(0, 1), (10, 4), (10, 8), (20, 8), (30, 58), (40, 59)];
        assert_eq!(steps.map(|(arrived, after_s)| until(arrived, after_s)), [5, 9, 9, 13, 60, 60]);
    }
}

//! The sending port: numbers packets, describes streams, and hands frames to its transports.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::packet::{HEADER_BYTES, Header, Kind, Order, StreamInfo};
use crate::sys::clock::now_ns;
use crate::transport::{Awaited, Outlet, Stop, Wait};

use super::LentMut;
use super::sampler::{Sampler, Sampling};
use super::splitter::{Piece, Splitter, pieces};
use super::{LinkOptions, Scope};

/// Packets between repeated stream descriptions, for receivers that may have lost one. It is also repeated after
/// every quarter of a ring: whatever a receiver that was overtaken still finds there, a description is near.
const DESCRIBE_EVERY: u64 = 1024;

/// What a packet says of itself besides its samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stamp {
    /// `None`: follows the packet before.
    pub sample_index: Option<u64>,
    pub time_ns: i64,
    pub intended_ns: u64,
    /// [`Header::ORDERED`] where `intended_ns` is an order; such a packet says its sample index.
    pub flags: u32,
}

impl Stamp {
    /// Says whose turn the packet had, of which there is room for one thing only.
    pub(crate) fn set_order(&mut self, order: Order) {
        (self.intended_ns, self.flags) = (order.to_bits(), u32::from(Header::ORDERED));
    }

    /// Whether there is nothing to be said.
    #[inline]
    fn is_empty(&self) -> bool {
        self.sample_index.is_none() && self.time_ns == 0 && self.intended_ns == 0
    }
}

pub(crate) struct Outgoing {
    port: String,
    outlets: Vec<Box<dyn Outlet>>,
    /// The largest payload that goes in one frame at every outlet.
    frame_payload_max: usize,
    /// Whether headers may be short.
    compact: bool,
    /// The largest payload behind a short one.
    short_payload_max: usize,
    /// Bytes before the payload of the packet being written.
    before: usize,
    sequence: u64,
    sample_index: u64,
    stream: u16,
    info: Arc<StreamInfo>,
    described: bool,
    /// Bytes of packets since the last description.
    undescribed: usize,
    sampler: Sampler,
    splitter: Splitter,
    /// What the port's sends wait for, and how long at most.
    scope: Scope,
    deadline: Duration,
    /// What the packet being written waits for instead.
    own_scope: Option<Scope>,
    own_deadline: Option<Duration>,
    /// Whether the packet being written is in pieces, or waited for: all that the shortest way has to ask.
    is_special: bool,
    stop: Stop,
    finished: bool,
    /// Taken back when the port is gone.
    offer: Option<Box<dyn Send>>,
}

impl Outgoing {
    pub(crate) fn new(
        port: String,
        mut outlets: Vec<Box<dyn Outlet>>,
        sampling: Sampling,
        stop: Stop,
    ) -> Self {
        if outlets.is_empty() {
            outlets.push(Box::new(super::discard::Discard::default()));
        }
        let info = Arc::new(StreamInfo::new(&port));
        let frame_max = outlets.iter().map(|outlet| outlet.frame_max()).min().unwrap_or(0);
        Self {
            port,
            outlets,
            frame_payload_max: frame_max.saturating_sub(HEADER_BYTES),
            compact: false,
            short_payload_max: Header::SHORT_PAYLOAD_MAX,
            before: HEADER_BYTES,
            sequence: crate::fail_point::start().1,
            sample_index: 0,
            stream: 0,
            info,
            described: false,
            undescribed: 0,
            sampler: Sampler::new(sampling),
            splitter: Splitter::default(),
            scope: Scope::Transport,
            deadline: Duration::ZERO,
            own_scope: None,
            own_deadline: None,
            is_special: false,
            stop,
            finished: false,
            offer: None,
        }
    }

    /// Has headers short in front of payloads of up to so many bytes.
    pub(crate) fn set_short_payload_max(&mut self, bytes: usize) {
        self.short_payload_max = bytes;
    }

    /// Says what its sends wait for, and how long.
    pub(crate) fn set_scope(&mut self, scope: Scope, deadline_ms: u32) {
        (self.scope, self.deadline) = (scope, Duration::from_millis(u64::from(deadline_ms)));
        self.forget_packet();
    }

    /// Says what the packet being written waits for.
    pub(crate) fn set_own_scope(&mut self, scope: Scope) {
        self.own_scope = Some(scope);
        self.is_special = true;
    }

    /// Says how long the packet being written is waited for.
    pub(crate) fn set_own_deadline(&mut self, deadline: Duration) {
        let max = Duration::from_millis(u64::from(LinkOptions::DEADLINE_MS_MAX));
        self.own_deadline = Some(deadline.min(max));
        self.is_special = true;
    }

    /// What was said of the packet being written, if it is to be said again.
    pub(crate) fn own_terms(&self) -> (Option<Scope>, Option<Duration>) {
        (self.own_scope, self.own_deadline)
    }

    /// The sample that follows the packet before.
    pub(crate) fn sample_index(&self) -> u64 {
        self.sample_index
    }

    /// Nothing special is known of the next packet.
    fn forget_packet(&mut self) {
        self.splitter.set_holds(false);
        (self.own_scope, self.own_deadline) = (None, None);
        self.is_special = self.scope > Scope::Transport;
    }

    /// Holds something until the port is gone.
    pub(crate) fn hold(&mut self, offer: impl Send + 'static) {
        self.offer = Some(Box::new(offer));
    }

    pub(crate) fn port(&self) -> &str {
        &self.port
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn receivers(&mut self) -> usize {
        self.outlets.iter().map(|outlet| outlet.receivers()).sum()
    }

    /// Takes in who is waiting at the door; for those who must be counted before a first packet is sent.
    pub(crate) fn admit(&mut self) {
        for outlet in &mut self.outlets {
            if outlet.admit() {
                self.described = false;
            }
        }
        self.compact = matches!(&*self.outlets, [only] if only.loses_nothing());
    }

    /// The largest payload that goes in one frame, in bytes.
    pub(crate) fn frame_payload_max(&self) -> usize {
        self.frame_payload_max
    }

    /// Says which stream the packets that follow belong to; cheap when it is the same as before.
    pub(crate) fn set_stream(&mut self, info: &Arc<StreamInfo>) {
        if Arc::ptr_eq(&self.info, info) {
            return;
        }
        if *self.info != **info {
            // Packets of the old description may still be unread: a new number, not a new meaning.
            if self.described {
                self.stream = self.stream.wrapping_add(1);
                self.described = false;
            }
            if self.info.id != info.id {
                self.sample_index = 0;
            }
        }
        self.info = Arc::clone(info);
    }

    /// Whether packets sent now belong to that stream, without another description.
    pub(crate) fn follows(&mut self, info: &Arc<StreamInfo>) -> bool {
        if !Arc::ptr_eq(&self.info, info) && *self.info == **info {
            self.info = Arc::clone(info);
        }
        Arc::ptr_eq(&self.info, info)
    }

    /// Makes room for a payload of that many bytes and gives the place to write it, which is there until the packet is
    /// sent or cancelled.
    pub(crate) fn reserve(&mut self, payload: usize, wait: Wait) -> Result<LentMut> {
        self.before = HEADER_BYTES;
        let is_easy = self.described
            && !self.is_due()
            && !self.is_special
            && !self.stop.is_stopped()
            && payload <= self.frame_payload_max;
        // Room for all that may yet be said of it.
        if is_easy
            && let [only] = &mut *self.outlets
            && let Some(frame) = only.reserve_at_hand(HEADER_BYTES + payload)
        {
            if self.compact && payload <= self.short_payload_max {
                self.before = Header::SHORT_BYTES;
            }
            return Ok(LentMut::new(&mut frame[self.before..][..payload]));
        }
        self.reserve_slowly(payload, wait)
    }

    /// As [`Outgoing::reserve`], for bytes. To let go of the place is not to cancel it.
    #[inline]
    pub(crate) fn reserve_bytes(&mut self, payload: usize, wait: Wait) -> Result<&mut [u8]> {
        let place = self.reserve(payload, wait)?;
        // SAFETY: just lent, to this value alone; whatever is asked of it takes `&mut self`, for which the borrow must
        // have ended.
        Ok(unsafe { place.get_mut::<u8>() })
    }

    /// Whether nobody receives what is sent, as far as is known without asking the system.
    pub(crate) fn is_alone(&self) -> bool {
        self.outlets.iter().all(|outlet| outlet.is_alone())
    }

    /// As [`Outgoing::reserve`] when there is something else to be done first, or to wait for.
    #[cold]
    fn reserve_slowly(&mut self, payload: usize, wait: Wait) -> Result<LentMut> {
        if self.finished {
            return Err(Error::port(&self.port, "has sent its end of stream already"));
        }
        // Here and not only where it waits: a sender whose receivers keep up never waits.
        if self.stop.is_stopped() {
            return Err(Error::Stopped);
        }
        // A loan may have been forgotten, which gives nothing back.
        self.forget_packet();
        if payload > self.frame_payload_max {
            return self.reserve_large(payload, self.frame_payload_max, wait);
        }
        self.prepare(wait)?;
        let frame = self.outlets[0].reserve(HEADER_BYTES + payload, wait)?;
        Ok(LentMut::new(&mut frame[HEADER_BYTES..][..payload]))
    }

    /// A place for a packet that goes in pieces. It is nobody's but the port's own: all waiting comes with `send`.
    fn reserve_large(&mut self, payload: usize, max: usize, wait: Wait) -> Result<LentMut> {
        // Without waiting, all receivers get a packet or none; nobody knows this of several frames in advance.
        let bytes_max = if matches!(wait, Wait::Never) { max } else { LinkOptions::PACKET_MAX };
        if payload > bytes_max {
            return Err(Error::TooLarge { bytes: payload, bytes_max });
        }
        self.is_special = true;
        Ok(LentMut::new(self.splitter.place(payload)))
    }

    /// What comes before every packet: newcomers, and the description of its stream.
    fn prepare(&mut self, wait: Wait) -> Result<()> {
        self.admit();
        if !self.described || self.is_due() && self.outlets.iter().any(|outlet| outlet.is_lossy()) {
            self.describe(wait)?;
        } else if self.undescribed > self.frame_payload_max / 2 {
            // Nobody needs it again.
            self.undescribed = 0;
        }
        Ok(())
    }

    /// Whether it is time to describe the stream again, if anybody may have missed it.
    #[inline]
    fn is_due(&self) -> bool {
        self.sequence.is_multiple_of(DESCRIBE_EVERY) || self.undescribed > self.frame_payload_max / 2
    }

    /// Sends the first `payload` bytes of the reserved place: `samples` samples.
    pub(crate) fn send(&mut self, payload: usize, samples: u64, stamp: &Stamp, wait: Wait) -> Result<()> {
        let is_short = self.before == Header::SHORT_BYTES;
        if is_short && !self.is_special && stamp.is_empty() && !self.sampler.is_due() {
            self.sampler.skip();
            let only = &mut self.outlets[0];
            Header::write_short(only.reserved(), self.sequence, payload as u32, self.stream);
            only.publish(Header::SHORT_BYTES + payload, wait)?;
            self.sent(self.sample_index, payload, samples);
            return Ok(());
        }
        if self.is_special {
            return self.send_special(payload, samples, stamp, wait);
        }
        self.send_whole(payload, samples, stamp, wait)
    }

    /// Sends a packet with its whole header, in one piece.
    #[inline(always)]
    fn send_whole(&mut self, payload: usize, samples: u64, stamp: &Stamp, wait: Wait) -> Result<()> {
        let [only] = &mut *self.outlets else { return self.send_to_all(payload, samples, stamp, wait) };
        let place = only.reserved();
        if self.before == Header::SHORT_BYTES {
            // There is something to be said after all.
            place.copy_within(Header::SHORT_BYTES..Header::SHORT_BYTES + payload, HEADER_BYTES);
        }
        let sample_index = stamp.sample_index.unwrap_or(self.sample_index);
        // No header is built first: see `Header::write_words`.
        let words = [
            self.sequence,
            Header::second_word(payload as u32, self.stream, Kind::Data as u8, stamp.flags as u8),
            sample_index,
            stamp.time_ns.cast_unsigned(),
            stamp.intended_ns,
            self.sampler.stamp(),
        ];
        Header::write_words(place, words);
        only.publish(HEADER_BYTES + payload, wait)?;
        self.sent(sample_index, payload, samples);
        Ok(())
    }

    #[cold]
    fn send_to_all(&mut self, payload: usize, samples: u64, stamp: &Stamp, wait: Wait) -> Result<()> {
        let header = self.header(payload, stamp);
        self.put(&header, payload, wait)?;
        self.sent(header.sample_index, payload, samples);
        Ok(())
    }

    /// Sends a packet that is in pieces, waited for, or both.
    #[cold]
    fn send_special(&mut self, payload: usize, samples: u64, stamp: &Stamp, wait: Wait) -> Result<()> {
        let scope = self.own_scope.unwrap_or(self.scope);
        let deadline = self.own_deadline.unwrap_or(self.deadline);
        let mark = match scope {
            Scope::None | Scope::Transport => 0,
            Scope::Server => Header::SERVER,
            Scope::Target => Header::TARGET,
        };
        if mark != 0
            && let Err(error) = self.outlets.iter().try_for_each(|outlet| outlet.confirms(scope))
        {
            self.cancel();
            return Err(error);
        }
        let stamp = &Stamp { flags: stamp.flags | u32::from(mark), ..*stamp };
        let (sequence, is_large) = (self.sequence, self.splitter.holds());
        self.forget_packet();
        if is_large {
            self.send_large(payload, samples, stamp, wait)?;
        } else {
            self.send_whole(payload, samples, stamp, wait)?;
        }
        if mark == 0 {
            return Ok(());
        }
        let awaited = Awaited::new(sequence, scope, deadline);
        // All of them, and of what went wrong the first.
        let mut outcome = Ok(());
        for outlet in &mut self.outlets {
            let its = outlet.confirm(&awaited);
            outcome = outcome.and(its);
        }
        outcome
    }

    /// Sends a packet from where the port keeps large ones, in pieces where it must. Nobody is taken in between
    /// them. Once the first has gone, the packet counts as sent: if the rest fails, it is missing at the receivers.
    #[cold]
    fn send_large(&mut self, payload: usize, samples: u64, stamp: &Stamp, wait: Wait) -> Result<()> {
        self.prepare(wait)?;
        let header = self.header(payload, stamp);
        for piece in pieces(payload, self.frame_payload_max) {
            if let Err(error) = self.put_piece(&header, piece, wait) {
                if piece.offset > 0 {
                    self.sent(header.sample_index, payload, samples);
                }
                return Err(error);
            }
        }
        self.sent(header.sample_index, payload, samples);
        Ok(())
    }

    fn put_piece(&mut self, header: &Header, piece: Piece, wait: Wait) -> Result<()> {
        let frame = self.outlets[0].reserve(HEADER_BYTES + piece.bytes, wait)?;
        frame[HEADER_BYTES..][..piece.bytes].copy_from_slice(self.splitter.bytes(piece));
        let mut header = Header { length: piece.bytes as u32, flags: header.flags | piece.flags, ..*header };
        if header.is_continued() {
            header.sample_index = piece.offset as u64;
        }
        self.put(&header, piece.bytes, wait)
    }

    /// That of the next packet.
    fn header(&mut self, payload: usize, stamp: &Stamp) -> Header {
        Header {
            sequence: self.sequence,
            sample_index: stamp.sample_index.unwrap_or(self.sample_index),
            time_ns: stamp.time_ns,
            intended_ns: stamp.intended_ns,
            sent_ns: self.sampler.stamp(),
            length: payload as u32,
            stream: self.stream,
            kind: Kind::Data as u8,
            flags: stamp.flags as u8,
        }
    }

    #[inline]
    fn sent(&mut self, sample_index: u64, payload: usize, samples: u64) {
        self.sequence += 1;
        self.undescribed = self.undescribed.saturating_add(payload);
        self.sample_index = sample_index + samples;
    }

    /// Whether the packet being written will go in pieces, so that the transports know nothing of it yet.
    pub(crate) fn holds_large(&self) -> bool {
        self.splitter.holds()
    }

    pub(crate) fn cancel(&mut self) {
        self.forget_packet();
        self.outlets[0].cancel();
    }

    /// Says that nothing follows and waits until everything has left this process.
    pub(crate) fn finish(&mut self, wait: Wait) -> Result<()> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        self.admit();
        if !self.described {
            self.describe(wait)?;
        }
        // From now on, nothing is easy.
        self.described = false;
        self.outlets[0].reserve(HEADER_BYTES, wait)?;
        let header = self.bare(Kind::End, 0);
        fail_point!("end");
        self.put(&header, 0, wait)?;
        fail_point!("end-published");
        self.outlets.iter_mut().try_for_each(|outlet| outlet.flush(wait))
    }

    fn describe(&mut self, wait: Wait) -> Result<()> {
        let text = serde_json::to_vec(&*self.info)
            .map_err(|e| Error::failed(format!("stream `{}`: {e}", self.info.id)))?;
        let max = self.frame_payload_max().min(StreamInfo::ENCODED_MAX);
        if text.len() > max {
            return Err(Error::TooLarge { bytes: text.len(), bytes_max: max });
        }
        let frame = self.outlets[0].reserve(HEADER_BYTES + text.len(), wait)?;
        frame[HEADER_BYTES..][..text.len()].copy_from_slice(&text);
        let header = self.bare(Kind::Stream, text.len());
        self.put(&header, text.len(), wait)?;
        self.described = true;
        self.undescribed = 0;
        Ok(())
    }

    fn bare(&self, kind: Kind, length: usize) -> Header {
        Header {
            sequence: self.sequence,
            sample_index: self.sample_index,
            time_ns: 0,
            intended_ns: 0,
            sent_ns: if kind == Kind::End { now_ns() } else { 0 },
            length: length as u32,
            stream: self.stream,
            kind: kind as u8,
            flags: 0,
        }
    }

    /// Publishes what the first outlet holds at every outlet: all of them or, when one is full, none.
    fn put(&mut self, header: &Header, payload: usize, wait: Wait) -> Result<()> {
        let bytes = HEADER_BYTES + payload;
        let Some((first, others)) = self.outlets.split_first_mut() else { return Ok(()) };
        for index in 0..others.len() {
            if let Err(error) = others[index].reserve(bytes, wait) {
                others[..index].iter_mut().for_each(|outlet| outlet.cancel());
                first.cancel();
                return Err(error);
            }
        }
        header.write(first.reserved());
        for outlet in &mut *others {
            outlet.reserved()[..bytes].copy_from_slice(&first.reserved()[..bytes]);
        }
        let mut outcome = first.publish(bytes, wait);
        for outlet in others {
            outcome = outcome.and(outlet.publish(bytes, wait));
        }
        outcome
    }
}

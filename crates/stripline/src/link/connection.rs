//! A connection of a receiving port: the expected sequence, the gaps, and the successors.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::packet::{Gap, GapReason, HEADER_BYTES, Header, Kind, Order, SampleSize, StreamInfo, StreamShape};
use crate::sys::clock::now_ns;
use crate::transport::{AnyInlet, Endpoint, InletParts, Next};

use super::inspect::ConnectionView;
use super::{ConnectionStats, FrameRef, PortEvents, Reassembler, Reassembly, Receipt};
use crate::terms::{LinkOptions, Overflow, Resequence, WaitStrategy};

/// The largest number of stream descriptions kept per connection.
const STREAMS_MAX: usize = 64;

/// The options of a connection, and the connection's statistics.
#[derive(Clone)]
pub(crate) struct ConnectionOptions {
    pub stats: Arc<ConnectionStats>,
    pub overflow: Overflow,
    pub wait: WaitStrategy,
    pub depth: u32,
    /// The way in which the port restores the sequence of its packets, if it does.
    pub resequence: Option<Resequence>,
}

impl ConnectionOptions {
    /// Returns the options of a new connection, with empty statistics.
    pub(crate) fn new(options: &LinkOptions) -> Self {
        let LinkOptions { overflow, wait, depth, resequence, .. } = *options;
        Self { stats: Arc::default(), overflow, wait, depth, resequence }
    }
}

/// A function that maps a connection's name to the connection's options.
pub(crate) type OptionsFor = Arc<dyn Fn(&str) -> ConnectionOptions + Send + Sync>;

/// A packet, lent out until [`Incoming::release`](super::Incoming::release).
pub(crate) struct LentPacket {
    pub header: Header,
    pub payload: FrameRef,
    pub gap: Option<Gap>,
    /// The index of the packet's connection in the port.
    pub(super) connection: usize,
    /// The time when the packet was taken. Zero unless the packet is measured or has a receipt.
    pub(super) taken_ns: u64,
    pub(super) receipt: Option<Receipt>,
}

impl LentPacket {
    pub(super) fn none() -> Self {
        let header = bytemuck::Zeroable::zeroed();
        Self { header, payload: FrameRef::new(&[]), gap: None, connection: 0, taken_ns: 0, receipt: None }
    }

    pub(super) fn set_receipt(&mut self, receipt: Receipt) {
        self.receipt = Some(receipt);
        // The value is nonzero, so that `release` checks for the receipt.
        self.taken_ns = self.taken_ns.max(1);
    }
}

/// The number of connections that a port has had, and the number that are gone.
#[derive(Default)]
pub(super) struct ConnectionCounts {
    opened: AtomicU16,
    ended: AtomicU16,
    /// The number of changes of a connection's name or streams.
    described: AtomicU64,
    /// Whether the port receives messages. A message counts as one sample.
    has_messages: AtomicBool,
    /// The port's name, and the shape of the streams that it takes; empty: any shape.
    pub(super) shape: OnceLock<(String, StreamShape)>,
}

impl ConnectionCounts {
    /// Returns the counts of a port without connections.
    pub(super) fn of(has_messages: bool) -> Self {
        Self { has_messages: AtomicBool::new(has_messages), ..Self::default() }
    }

    pub(super) fn set_messages(&self, has_messages: bool) {
        // Relaxed: only the thread of the port reads it, and that thread got the port from this
        // one.
        self.has_messages.store(has_messages, Ordering::Relaxed);
    }

    pub(super) fn ended(&self) -> u16 {
        // Relaxed: the thread that reads it also counts it.
        self.ended.load(Ordering::Relaxed)
    }
}

/// An incoming connection.
pub(super) struct IncomingConnection {
    pub name: String,
    pub inlet: Option<AnyInlet>,
    pub parts: InletParts,
    /// An error found by a wait. The next `receive` reports it.
    pub failed: Option<Error>,
    /// Connections made while an earlier one was still being read.
    pub successors: VecDeque<Successor>,
    pub options: ConnectionOptions,
    pub options_for: OptionsFor,
    counts: Arc<ConnectionCounts>,
    /// The events of the port.
    events: Arc<PortEvents>,
    /// The number of this connection in the port.
    connection: u16,
    /// The port's number for this name and these streams.
    description: u64,
    /// The latest order among the taken packets.
    furthest: Option<Order>,
    pub streams: BTreeMap<u16, Arc<StreamInfo>>,
    pub expected: Expected,
    /// The sample index of a packet with a header that has no sample index.
    pub next_sample: u64,
    /// The size of a sample, once a packet was requested.
    sample_size: Option<SampleSize>,
    /// Whether the next gap is due to a restart and not to the policy.
    pub resuming: bool,
    pub gap: Option<Gap>,
    /// Whether a packet with the expected number needs no other check. Every change that affects
    /// this clears the flag, and a taken packet sets it again.
    is_steady: bool,
    pub reassembler: Reassembler,
    pub ended: bool,
    /// Whether the sender will not come back. If so, the connection has ended once the sender is
    /// gone.
    pub abandoned: bool,
    /// Whether the connection has a sender, for inspection.
    pub open: Arc<AtomicBool>,
}

/// A connection that was made while an earlier one was still being read.
pub(super) struct Successor {
    pub name: String,
    pub inlet: AnyInlet,
    /// The endpoint, if this is another path of the earlier connection.
    pub path: Option<Endpoint>,
}

/// The sequence number and the sample index expected next, once set. A steady stream sets both
/// numbers with every packet, so the flags for set numbers are separate.
#[derive(Default)]
pub(super) struct Expected {
    sequence: u64,
    sample: u64,
    has_sequence: bool,
    has_sample: bool,
}

impl Expected {
    pub(super) fn sequence(&self) -> Option<u64> {
        self.has_sequence.then_some(self.sequence)
    }

    fn sample(&self) -> Option<u64> {
        self.has_sample.then_some(self.sample)
    }

    fn set(&mut self, sequence: u64, sample: Option<u64>) {
        let (has_sample, sample) = (sample.is_some(), sample.unwrap_or(0));
        *self = Self { sequence, sample, has_sequence: true, has_sample };
    }

    /// Begins a stream at a description. If packets before it are missing, the number of their
    /// samples is unknown.
    fn begin_stream(&mut self, header: &Header) {
        let sample = Some(header.sample_index).filter(|_| self.sequence == header.sequence);
        self.set(self.sequence, sample);
    }

    /// Returns whether a packet with that number is the next one. Both numbers must be set.
    #[inline(always)]
    pub(super) fn is_next(&self, sequence: u64) -> bool {
        self.sequence == sequence
    }

    /// Counts a packet with that number, which ends before that sample index. A number that was not
    /// set stays unset.
    #[inline(always)]
    pub(super) fn advance(&mut self, sequence: u64, sample: u64) {
        (self.sequence, self.sample) = (sequence.wrapping_add(1), sample);
    }
}

impl IncomingConnection {
    pub(super) fn new(
        name: String,
        options: ConnectionOptions,
        options_for: OptionsFor,
        counts: Arc<ConnectionCounts>,
        events: Arc<PortEvents>,
    ) -> Self {
        Self {
            name,
            inlet: None,
            parts: InletParts::default(),
            failed: None,
            successors: VecDeque::new(),
            options,
            options_for,
            counts,
            events,
            connection: 0,
            description: 0,
            furthest: None,
            streams: BTreeMap::new(),
            expected: Expected::default(),
            next_sample: 0,
            sample_size: None,
            resuming: false,
            gap: None,
            is_steady: false,
            reassembler: Reassembler::new(false),
            ended: false,
            abandoned: false,
            open: Arc::default(),
        }
    }

    /// Returns the wait strategy of this connection. If a poll is a system call, adaptive spinning
    /// does not pay.
    pub(super) fn wait(&self) -> WaitStrategy {
        match (self.options.wait, &self.inlet) {
            (WaitStrategy::Adaptive, Some(_)) if !self.parts.polls_without_syscall => WaitStrategy::Block,
            (wait, _) => wait,
        }
    }

    /// Returns the view of this connection for inspection.
    pub(super) fn inspect(&self) -> ConnectionView {
        self.register();
        ConnectionView {
            name: self.name.clone(),
            options: self.options.clone(),
            open: Arc::clone(&self.open),
            queue_probe: self.parts.queue_probe.clone(),
        }
    }

    pub(super) fn register(&self) {
        // Relaxed: the value serves only for inspection, and is updated before every sleep.
        self.open.store(self.inlet.is_some(), Ordering::Relaxed);
    }

    /// Returns whether the sender is gone and no successor is queued.
    pub(super) fn is_peer_gone(&mut self) -> bool {
        self.successors.is_empty() && self.inlet.as_mut().is_none_or(|inlet| inlet.is_peer_gone())
    }

    pub(super) fn connect(&mut self, name: String, mut inlet: AnyInlet) {
        if name != self.name {
            self.options = (self.options_for)(&name);
            self.name = name;
        }
        // Relaxed: the numbers only need to differ.
        self.connection = self.counts.opened.fetch_add(1, Ordering::Relaxed);
        self.is_steady = false;
        // A new sender starts new sequence numbers.
        self.expected = Expected::default();
        self.furthest = None;
        self.streams.clear();
        self.number_description();
        self.reassembler.forget();
        self.parts = inlet.parts();
        self.options.stats.set_other_clock(self.parts.is_other_clock, self.parts.ages.clone());
        self.inlet = Some(inlet);
    }

    pub(super) fn connection(&self) -> u16 {
        self.connection
    }

    /// Returns a number that changes with the name and the streams; 0: the connection has not been
    /// made.
    pub(super) fn description(&self) -> u64 {
        self.description
    }

    fn number_description(&mut self) {
        // Relaxed: the numbers only need to differ.
        self.description = 1 + self.counts.described.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether a packet with the expected number needs no other check.
    pub(super) fn is_steady(&self) -> bool {
        self.is_steady
    }

    /// Closes the connection, so that nothing arrives over it any more.
    pub(super) fn disconnect(&mut self) {
        if self.inlet.take().is_some() {
            self.parts = InletParts::default();
            self.counts.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether the connection has that name, or a successor with that name is queued.
    pub(super) fn is_of(&self, name: &str) -> bool {
        self.inlet.is_some() && self.name == name || self.successors.iter().any(|next| next.name == name)
    }

    /// Records that the sender died without an end of stream.
    pub(super) fn peer_died(&mut self) {
        self.options.stats.peer_died();
        let (packets, samples) = self.lost_at_end().unwrap_or_default();
        self.close_losing(packets, samples);
    }

    /// Returns the packets and samples that the sender had sent, and that were lost with it.
    fn lost_at_end(&mut self) -> Option<(u64, u64)> {
        let last = self.inlet.as_mut()?.parts().last_sent?;
        let (expected, sample) = match (self.expected.sequence(), self.expected.sample()) {
            (Some(sequence), sample) => (sequence, sample),
            // No packet has arrived.
            (None, _) => (last.first[0], Some(last.first[1])),
        };
        let packets = last.sequence.checked_sub(expected)?.saturating_add(1);
        let in_last = self
            .sample_size
            .map_or(0, |size| size.samples_in(last.bytes.min(LinkOptions::PACKET_MAX as u64) as usize));
        let end = last.sample_index.saturating_add(in_last);
        let samples = sample.map_or(0, |next| end.saturating_sub(next));
        self.options.stats.lost_at_end(packets, samples);
        log::warn!(
            target: "stripline::link",
            "{}: {packets} packets from number {expected} on are lost: their sender was killed with them", self.name
        );
        Some((packets, samples))
    }

    /// Closes the connection without an end of stream. A successor begins a new sequence.
    pub(super) fn close_without_end(&mut self) {
        self.close_losing(0, 0);
    }

    /// Closes the connection like [`IncomingConnection::close_without_end`], and counts packets
    /// that were lost with the sender.
    fn close_losing(&mut self, packets: u64, samples: u64) {
        self.disconnect();
        self.is_steady = false;
        let first = self.expected.sequence().unwrap_or(0);
        let gap = Gap { first, packets, samples, reason: GapReason::PeerRestart };
        self.gap = Some(self.behind_lost(gap));
        self.ended |= self.abandoned;
        self.start_successor();
    }

    /// Returns a gap, merged with the packets that were lost with earlier senders and that no
    /// packet has reported yet.
    fn behind_lost(&self, gap: Gap) -> Gap {
        match self.gap.filter(|lost| lost.reason == GapReason::PeerRestart && lost.packets > 0) {
            Some(Gap { first, packets, samples, reason }) => {
                let packets = packets.saturating_add(gap.packets);
                Gap { first, packets, samples: samples.saturating_add(gap.samples), reason }
            }
            None => gap,
        }
    }

    pub(super) fn start_successor(&mut self) {
        // The remaining paths belong to the sender that is gone.
        while self.take_path().is_some() {}
        if let Some(next) = self.successors.pop_front() {
            self.ended = false;
            self.connect(next.name, next.inlet);
        }
    }

    /// Drops the path to an endpoint, if it was connected. The sender already uses the paths before
    /// it.
    pub(super) fn cancel_move(&mut self, endpoint: &Endpoint) {
        self.successors.retain(|next| next.path.as_ref() != Some(endpoint));
    }

    /// Takes the next path of the present sender.
    fn take_path(&mut self) -> Option<AnyInlet> {
        self.successors.front()?.path.as_ref()?;
        self.successors.pop_front().map(|path| path.inlet)
    }

    /// Returns whether the frame ends this path while events wait at the port. Such an event may
    /// bring the next path or cancel it. So the port handles the events first, and the frame at the
    /// next poll.
    fn awaits_events(&self, header: &Header) -> bool {
        header.kind == Kind::End as u8 && header.flags & Header::MOVED != 0 && self.events.has_queued()
    }

    /// Continues on the next path, because the sender has left this one. Packets missing in between
    /// are found by their numbers, as on a single path.
    fn change_path(&mut self) -> Result<()> {
        let Some(mut inlet) = self.take_path() else {
            return Err(Error::misbehaved(&self.name, "went on over another path that was not connected"));
        };
        self.is_steady = false;
        self.parts = inlet.parts();
        self.options.stats.set_other_clock(self.parts.is_other_clock, self.parts.ages.clone());
        self.inlet = Some(inlet);
        // The port's wait and view still belong to the old path.
        self.events.set_pending();
        fail_point!("moved-receiver");
        Ok(())
    }

    /// Takes the error that a wait has found, if any.
    pub(super) fn failure(&mut self) -> Option<Error> {
        let error = self.failed.take()?;
        self.fail(&error);
        Some(error)
    }

    /// Closes the connection after an error of the transport. The port does not wait for an ejected
    /// connection to come back.
    pub(super) fn fail(&mut self, error: &Error) {
        if matches!(error, Error::Ejected { .. }) {
            self.disconnect();
            self.ended = true;
            self.start_successor();
        } else {
            self.close_without_end();
        }
    }

    /// Returns whether `receive` would find a packet or an error on this connection. Also
    /// handles the other frames that arrive before that.
    pub(super) fn peek(&mut self) -> Result<bool> {
        loop {
            let Some(inlet) = &mut self.inlet else { return Ok(self.failed.is_some()) };
            let mut header: Header = bytemuck::Zeroable::zeroed();
            let payload = match inlet.try_next()? {
                Next::Empty => return Ok(false),
                Next::Closed => {
                    self.peer_died();
                    continue;
                }
                Next::Frame(frame) => match header.split(frame, self.parts.short_headers, self.next_sample) {
                    Some(payload) => FrameRef::new(payload),
                    None => {
                        return Err(Error::misbehaved(
                            &self.name,
                            describe_bad_frame(frame, self.parts.short_headers),
                        ));
                    }
                },
            };
            let is_packet = header.kind == Kind::Data as u8;
            // The last fragment stays in place for the `receive` that takes the packet.
            let is_before = header.flags & Header::MORE != 0 || !is_packet;
            if is_before && self.reassembler.wants(&header) && self.join(&header, payload)?.is_none() {
                continue;
            }
            if is_packet {
                return Ok(true);
            }
            if self.awaits_events(&header) {
                return Ok(false);
            }
            // SAFETY: the payload was just lent, and the transport has not been called since.
            let text = unsafe { payload.get::<u8>() }.to_vec();
            self.handle_control(&header, &text)?;
        }
    }

    /// Adds a fragment, or a frame behind fragments. If this frame completes a packet, returns the
    /// packet. The caller must then still release the frame.
    #[cold]
    pub(super) fn join(&mut self, header: &Header, fragment: FrameRef) -> Result<Option<(Header, FrameRef)>> {
        self.is_steady = false;
        if !header.is_continued() {
            // A packet that stays incomplete counts as missing as well.
            self.set_start(header);
        }
        // SAFETY: the fragment was just lent, and the transport has not been called since.
        let bytes = unsafe { fragment.get::<u8>() };
        match self.reassembler.add(header, bytes) {
            Ok(Reassembly::Unfragmented) => Ok(Some((*header, fragment))),
            Ok(Reassembly::Complete) => {
                Ok(Some((self.reassembler.header(), FrameRef::new(self.reassembler.payload()))))
            }
            Ok(Reassembly::Partial | Reassembly::Lost) => {
                if let Some(inlet) = &mut self.inlet {
                    inlet.release();
                }
                Ok(None)
            }
            Err(violation) => Err(Error::misbehaved(&self.name, violation)),
        }
    }

    /// Handles a control frame and releases it.
    pub(super) fn handle_control(&mut self, header: &Header, text: &[u8]) -> Result<()> {
        if header.kind == Kind::Stream as u8 {
            self.set_start(header);
            self.next_sample = header.sample_index;
            if self.describe(header.stream, text)? {
                self.expected.begin_stream(header);
            }
            if let Some(inlet) = &mut self.inlet {
                inlet.release();
            }
        } else if header.flags & Header::MOVED != 0 {
            self.set_start(header);
            self.change_path()?;
        } else {
            self.set_start(header);
            if !self.check_sequence(header) {
                return Err(self.earlier_number(header));
            }
            fail_point!("reader-end");
            self.ended = true;
            self.disconnect();
            self.start_successor();
        }
        Ok(())
    }

    /// Sets the start of the sequence numbers, at the first frame of a connection.
    pub(super) fn set_start(&mut self, header: &Header) {
        if self.expected.sequence().is_some() {
            return;
        }
        let start = self.inlet.as_mut().map(|inlet| inlet.parts().start).unwrap_or_default();
        let first_sent = start.first_sent.filter(|first| first.0 < header.sequence);
        match start.resume_from.filter(|next| next.sequence < header.sequence) {
            // This receiver was restarted: the packets that the predecessor had not taken are
            // missing.
            Some(next) => {
                fail_point!("reattach");
                self.expected.set(next.sequence, next.sample);
                self.resuming = true;
            }
            None => {
                let (sequence, sample) = first_sent.unwrap_or((header.sequence, header.sample_index));
                self.expected.set(sequence, Some(sample));
            }
        }
    }

    /// Takes the next packet, if it is in a ring with a short header and has the expected number.
    /// Returns the number of samples.
    #[inline(always)]
    pub(super) fn try_take_steady(&mut self, sample_size: SampleSize, taken: &mut LentPacket) -> Option<u64> {
        let Some(AnyInlet::Ring(ring)) = &mut self.inlet else { return None };
        if !self.is_steady {
            return None;
        }
        // The header is written directly to its final place: see `Header::write_words`.
        let payload = taken.header.split_short(ring.try_next_new()?, self.next_sample)?;
        if !self.expected.is_next(taken.header.sequence) {
            return None;
        }
        taken.payload = FrameRef::new(payload);
        taken.gap = None;
        Some(self.complete(sample_size, taken))
    }

    /// Takes the next packet, if it has arrived and has the expected number. With `reads`, also
    /// makes a read that does not wait. False: the read found nothing. `None`: a frame may have
    /// arrived.
    pub(super) fn try_take_fast(
        &mut self,
        reads: bool,
        sample_size: SampleSize,
        taken: &mut LentPacket,
    ) -> Option<bool> {
        let Next::Frame(frame) = self.inlet.as_mut()?.try_next_fast(reads)? else { return Some(false) };
        // The header is written directly to its final place: see `Header::write_words`.
        let payload = taken.header.split(frame, self.parts.short_headers, self.next_sample)?;
        let header = &taken.header;
        let is_due = self.is_steady
            && self.expected.is_next(header.sequence)
            && header.kind == Kind::Data as u8
            && !self.reassembler.wants(header);
        if is_due {
            taken.payload = FrameRef::new(payload);
            taken.gap = None;
            self.complete(sample_size, taken);
        }
        is_due.then_some(true)
    }

    /// Takes the next packet, if one has arrived. Also handles the other frames that
    /// arrive before it.
    pub(super) fn take(&mut self, sample_size: SampleSize, taken: &mut LentPacket) -> Result<bool> {
        self.sample_size = Some(sample_size);
        loop {
            let Some(inlet) = &mut self.inlet else { return self.failure().map_or(Ok(false), Err) };
            let frame = match inlet.try_next() {
                Ok(Next::Empty) => return Ok(false),
                Ok(Next::Frame(frame)) => frame,
                Ok(Next::Closed) => {
                    self.peer_died();
                    continue;
                }
                Err(error) => {
                    self.fail(&error);
                    return Err(error);
                }
            };
            // The header is written directly to its final place: see `Header::write_words`.
            match taken.header.split(frame, self.parts.short_headers, self.next_sample) {
                Some(payload) => taken.payload = FrameRef::new(payload),
                None => {
                    let error =
                        Error::misbehaved(&self.name, describe_bad_frame(frame, self.parts.short_headers));
                    self.close_without_end();
                    return Err(error);
                }
            }
            if self.awaits_events(&taken.header) {
                return Ok(false);
            }
            let is_packet = taken.header.kind == Kind::Data as u8 && !self.reassembler.wants(&taken.header);
            if is_packet || self.take_special(taken)? {
                self.set_start(&taken.header);
                if !self.check_sequence(&taken.header) {
                    let violation = self.earlier_number(&taken.header);
                    self.close_without_end();
                    return Err(violation);
                }
                self.check_shape(taken.header.stream).inspect_err(|_| self.close_without_end())?;
                taken.gap = self.gap.take();
                self.complete(sample_size, taken);
                self.expected.set(self.expected.sequence, Some(self.next_sample));
                self.is_steady = true;
                if taken.header.flags & Header::TARGET != 0 {
                    self.attach_receipt(taken);
                }
                return Ok(true);
            }
        }
    }

    /// Compares the stream of a packet with the shape that the port takes. A stream without packets
    /// may have any shape.
    fn check_shape(&self, stream: u16) -> Result<()> {
        let Some((port, shape)) = self.counts.shape.get() else { return Ok(()) };
        let Some(info) = self.streams.get(&stream) else { return Ok(()) };
        shape.check(info).map_err(|problem| Error::port(port, problem))
    }

    /// Handles a frame that is not a whole packet; true: the frame completes a packet.
    #[cold]
    fn take_special(&mut self, taken: &mut LentPacket) -> Result<bool> {
        if self.reassembler.wants(&taken.header) {
            match self.join(&taken.header, taken.payload) {
                Ok(Some(whole)) => (taken.header, taken.payload) = whole,
                Ok(None) => return Ok(false),
                Err(error) => {
                    self.close_without_end();
                    return Err(error);
                }
            }
        }
        if taken.header.kind == Kind::Data as u8 {
            self.count_reordered(&taken.header);
            return Ok(true);
        }
        // SAFETY: the payload was just lent, and the transport has not been called since.
        let text = unsafe { taken.payload.get::<u8>() }.to_vec();
        self.handle_control(&taken.header, &text).inspect_err(|_| self.close_without_end())?;
        Ok(false)
    }

    /// Counts a packet that was forwarded after a packet with a later order.
    fn count_reordered(&mut self, header: &Header) {
        let Some(order) = header.order() else { return };
        match self.furthest.filter(|furthest| furthest.origin() == order.origin()) {
            Some(furthest) if order.number() < furthest.number() => self.options.stats.reordered(),
            _ => self.furthest = Some(order),
        }
    }

    /// Completes the values that are returned with a packet.
    #[inline(always)]
    fn complete(&mut self, sample_size: SampleSize, taken: &mut LentPacket) -> u64 {
        fail_point!("receive");
        let LentPacket { header, payload, .. } = taken;
        let bytes = payload.bytes();
        let samples = sample_size.samples_in(bytes);
        self.next_sample = header.sample_index.wrapping_add(samples);
        self.expected.advance(header.sequence, self.next_sample);
        self.options.stats.packet(bytes);
        taken.taken_ns = if header.sent_ns != 0 { now_ns() } else { 0 };
        samples
    }

    /// Attaches a receipt if the packet's sender waits for an acknowledgement.
    #[cold]
    fn attach_receipt(&self, taken: &mut LentPacket) {
        if let Some(acks) = self.parts.acks.clone() {
            taken.set_receipt(Receipt::new(acks, taken.header.sequence));
        }
    }

    /// Compares a sequence number with the expected one, and records missing packets. False: an
    /// earlier packet had this number, and is not delivered again.
    pub(super) fn check_sequence(&mut self, header: &Header) -> bool {
        let resuming = std::mem::take(&mut self.resuming);
        let restarted = self.gap.is_some_and(|gap| gap.reason == GapReason::PeerRestart);
        if restarted {
            self.options.stats.gap(0, 0);
        }
        let Some(expected) = self.expected.sequence() else { return true };
        if header.sequence < expected {
            return false;
        }
        if header.sequence > expected {
            let packets = header.sequence - expected;
            // If a stream's description is missing, the start of the stream's samples is unknown.
            let known = self.expected.sample().filter(|_| self.streams.contains_key(&header.stream));
            // Relaxed: as in `set_messages`.
            let samples = match self.counts.has_messages.load(Ordering::Relaxed) {
                true => packets,
                false => known.map_or(0, |next| header.sample_index.saturating_sub(next)),
            };
            let reason = match self.options.overflow {
                _ if resuming || restarted => GapReason::PeerRestart,
                Overflow::Block => GapReason::Transport,
                _ => GapReason::Overflow,
            };
            self.options.stats.gap(packets, samples);
            self.gap = Some(self.behind_lost(Gap { first: expected, packets, samples, reason }));
            self.is_steady = false;
        }
        true
    }

    /// Returns the violation of a sender that sends an earlier number.
    #[cold]
    fn earlier_number(&self, header: &Header) -> Error {
        let (number, next) = (header.sequence, self.expected.sequence().unwrap_or(0));
        Error::misbehaved(&self.name, format!("sent number {number}, although {next} is the next"))
    }

    /// Takes a description. Returns whether another stream begins, with new sample indexes.
    pub(super) fn describe(&mut self, stream: u16, text: &[u8]) -> Result<bool> {
        if text.len() > StreamInfo::ENCODED_MAX {
            return Err(Error::misbehaved(&self.name, "sent a stream description that is too long"));
        }
        let info: StreamInfo = serde_json::from_slice(text).map_err(|e| {
            Error::misbehaved(&self.name, format!("sent a stream description that does not parse: {e}"))
        })?;
        info.check().map_err(|problem| {
            Error::misbehaved(&self.name, format!("sent an invalid stream description: {problem}"))
        })?;
        self.options.stats.set_clock(info.clock);
        // The first packet of the stream is compared with the shape.
        self.is_steady &= self.counts.shape.get().is_none();
        if self.streams.get(&stream).is_some_and(|known| **known == info) {
            return Ok(false);
        }
        // The numbers of streams only grow.
        let is_other = self.streams.values().next_back().is_some_and(|latest| latest.id != info.id);
        if self.streams.len() >= STREAMS_MAX {
            // No packet in transit belongs to the oldest stream.
            self.streams.pop_first();
        }
        self.streams.insert(stream, Arc::new(info));
        self.number_description();
        Ok(is_other)
    }
}

/// Returns the fault of a frame that cannot be parsed.
#[cold]
fn describe_bad_frame(frame: &[u8], short_headers: bool) -> String {
    let core: Option<&[u8; Header::SHORT_BYTES]> = frame.first_chunk();
    let Some([.., kind, flags]) = core.copied() else { return "sent a frame without a header".into() };
    if Kind::parse(kind).is_none() {
        return format!("sent a frame of unknown kind {kind}");
    }
    let is_short = flags == Header::SHORT;
    if is_short && (kind != Kind::Data as u8 || !short_headers) {
        return format!("sent a frame of kind {kind} with a short header");
    }
    let is_beside = is_short && frame.len() <= Header::SHORT_BYTES + Header::BESIDE_MAX;
    let header_bytes = if is_beside { Header::SHORT_BYTES } else { HEADER_BYTES };
    match (Header::read(&[frame, &[0; HEADER_BYTES]].concat()), frame.len().checked_sub(header_bytes)) {
        (Some(header), Some(bytes)) => format!("announced {} bytes and sent {bytes}", header.length),
        _ => "sent a frame without a header".into(),
    }
}

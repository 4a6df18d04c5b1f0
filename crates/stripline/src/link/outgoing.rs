//! The sending port, which numbers packets, describes streams, and passes frames to the transports.

mod awaited;
mod ending;
mod fragments;
mod moving;
mod send_many;
mod steady_stream;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::flow::AckWait;
use crate::packet::{HEADER_BYTES, Header, Kind, Order, StreamInfo};
use crate::sys::clock::now_ns;
use crate::sys::fork::Local;
use crate::sys::ready_set::ReadySet;
use crate::transport::{AnyOutlet, NextPacket, OutletTraits, StopToken, Wait};

use self::ending::Ending;
use self::fragments::UnsentFragments;
use super::FrameMut;
use super::fragmentation::{Fragment, Fragmenter};
use super::move_slot::{PortAttention, PortMoves};
use super::sampler::{Sampler, Sampling};
use super::tap::{PortTaps, TapSlot};
use crate::terms::{Flow, LinkOptions, Scope, SenderOptions};

/// Packets between repeated stream descriptions, for receivers that may have lost one. The
/// description is also repeated after every quarter of a ring, so that a receiver that was
/// overtaken still finds one nearby.
const DESCRIBE_EVERY: u64 = 1024;

/// The header fields of a packet that the sender can set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub sample_index: u64,
    pub time_ns: i64,
    pub intended_ns: u64,
    /// Contains [`Header::ORDERED`] if `intended_ns` is an order.
    pub flags: u8,
}

impl Stamp {
    /// Sets the packet's order, which shares a field with the intended time.
    pub(crate) fn set_order(&mut self, order: Order) {
        (self.intended_ns, self.flags) = (order.to_bits(), Header::ORDERED);
    }
}

/// The options of the packet being written that differ from the port's options.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacketOverrides {
    /// The scope and the deadline of the packet's send.
    scope: Option<Scope>,
    deadline: Option<Duration>,
    stamp: Option<Stamp>,
}

/// The path of the packet being written. Each path has one function that reserves room, and one
/// that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendPath {
    /// A short header, in the port's only ring. The packet needs no other check: every change that
    /// affects it leaves this path, and a plain packet comes back to it.
    Steady,
    /// A full header, in one frame.
    Full,
    /// The packet is fragmented or waits for acknowledgements, or the port has a tap or former
    /// paths.
    Special,
}

pub(crate) struct Outgoing {
    port: String,
    outlets: Local<Vec<AnyOutlet>>,
    /// The largest payload that fits one frame at every outlet.
    frame_payload_max: usize,
    /// Whether the port's only transport takes short headers.
    short_headers: bool,
    /// The name and the limit of a transport that cannot wait for acknowledgements, if the port has
    /// such a transport.
    scope_max: Option<(String, Scope)>,
    /// Whether a receiver may lose frames.
    is_lossy: bool,
    /// Whether headers may be short now.
    compact: bool,
    path: SendPath,
    /// The offset of the packet being written, if it lies behind a short header; 0: behind a whole
    /// header.
    short_offset: usize,
    /// Whether the packet being written may wait for room, and the options of that packet. Both are
    /// kept here because the loan is copied at every step:
    /// docs/decisions/0007-fast-paths-decide-little.md.
    waits: bool,
    /// The end of the wait for room, unless it is unlimited. For [`Outgoing::send_bytes`].
    until: Option<Instant>,
    overrides: PacketOverrides,
    sequence: u64,
    sample_index: u64,
    stream: u16,
    /// The number of the first packet of the current stream.
    stream_start: u64,
    /// The second word of the stream's short headers, without the length.
    short_word: u64,
    info: Arc<StreamInfo>,
    described: bool,
    /// Bytes of packets since the last description.
    undescribed: usize,
    sampler: Sampler,
    fragmenter: Fragmenter,
    /// The scope of the port's sends, and the longest time that they wait.
    scope: Scope,
    deadline: Duration,
    /// The longest time that a send waits for room.
    timeout: Option<Duration>,
    stop: StopToken,
    ending: Ending,
    /// The packet that is partly sent.
    unsent: Option<UnsentFragments>,
    /// The readers that the port never waits for.
    taps: Local<PortTaps>,
    /// The transports that the port has left, and the slot for the next transport.
    moves: Local<PortMoves>,
    /// The handle by which other threads end the fast path.
    attention: Arc<PortAttention>,
    /// Withdrawn when the port is dropped.
    offer: Local<Option<Box<dyn Send>>>,
    /// The set for waits outside the port, once the port has been waited for in this way.
    ready_set: Option<Arc<ReadySet>>,
}

impl Outgoing {
    pub(crate) fn new(
        port: String,
        mut outlets: Vec<AnyOutlet>,
        sampling: Sampling,
        stop: StopToken,
    ) -> Self {
        if outlets.is_empty() {
            outlets.push(AnyOutlet::other(super::null_outlet::NullOutlet::default()));
        }
        let info = Arc::new(StreamInfo::new(&port));
        let mut this = Self {
            port,
            outlets: Local::new(outlets),
            frame_payload_max: 0,
            short_headers: false,
            scope_max: None,
            is_lossy: false,
            compact: false,
            path: SendPath::Full,
            short_offset: 0,
            waits: true,
            until: None,
            overrides: PacketOverrides::default(),
            sequence: crate::fail_point::start().1,
            sample_index: 0,
            stream: 0,
            stream_start: 0,
            short_word: Header::short_word(0),
            info,
            described: false,
            undescribed: 0,
            sampler: Sampler::new(sampling),
            fragmenter: Fragmenter::default(),
            scope: Scope::Transport,
            deadline: Duration::ZERO,
            timeout: None,
            stop,
            ending: Ending::Open,
            unsent: None,
            taps: Local::new(PortTaps::default()),
            moves: Local::new(PortMoves::default()),
            attention: Arc::default(),
            offer: Local::new(None),
            ready_set: None,
        };
        this.read_traits();
        this
    }

    /// Reads the constant properties of the outlets.
    fn read_traits(&mut self) {
        let traits: Vec<OutletTraits> = self.outlets.iter().map(|outlet| outlet.traits()).collect();
        let frame_max = traits.iter().map(|traits| traits.frame_max).min().unwrap_or(0);
        let limit = |traits: &OutletTraits| Some((traits.endpoint.transport.clone(), traits.scope_max?));
        self.frame_payload_max = frame_max.saturating_sub(HEADER_BYTES);
        self.short_headers = matches!(&traits[..], [only] if only.short_headers);
        self.scope_max = traits.iter().find_map(limit);
        self.attention.set(traits.into_iter().filter_map(|traits| traits.attention).collect());
        self.remind();
    }

    /// Returns the scope of the port's sends.
    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    /// Sets the scope of the port's sends, their deadline, and the time that they wait for room.
    pub(crate) fn set_rules(&mut self, options: &SenderOptions) {
        self.scope = options.scope;
        self.deadline = Duration::from_millis(u64::from(options.deadline_ms));
        self.timeout = options.send_timeout();
        self.reset_overrides();
    }

    /// Limits a wait for room to the port's timeout. The error names the receiver that has no room.
    fn with_send_timeout<T>(
        &mut self,
        wait: Wait,
        work: impl FnOnce(&mut Self, Wait) -> Result<T>,
    ) -> Result<T> {
        let (Wait::Until(None), Some(timeout)) = (wait, self.timeout) else { return work(self, wait) };
        match work(self, Wait::within(timeout)) {
            Err(Error::Full { connection }) => {
                let held = self.outlets.iter().find_map(|outlet| outlet.flow_stall(&connection));
                let (flow, since) = held.unwrap_or((Flow::Transport, timeout));
                Err(Error::Stalled { connection, flow, since: since.max(timeout), timeout })
            }
            outcome => outcome,
        }
    }

    /// Sets the scope of the packet being written.
    pub(crate) fn set_own_scope(&mut self, scope: Scope) {
        self.overrides.scope = Some(scope);
        self.path = SendPath::Special;
    }

    /// Sets the deadline of the packet being written.
    pub(crate) fn set_own_deadline(&mut self, deadline: Duration) {
        let max = Duration::from_millis(u64::from(LinkOptions::DEADLINE_MS_MAX));
        self.overrides.deadline = Some(deadline.min(max));
        self.path = SendPath::Special;
    }

    /// Ends the steady path, until a plain packet comes back to it.
    fn leave_steady(&mut self) {
        if self.path == SendPath::Steady {
            self.path = SendPath::Full;
        }
    }

    /// Returns the options of the packet being written.
    pub(crate) fn overrides(&self) -> PacketOverrides {
        self.overrides
    }

    /// Sets the options of the packet being written.
    pub(crate) fn set_overrides(&mut self, overrides: PacketOverrides) {
        self.overrides = overrides;
        self.leave_steady();
        if overrides.scope.is_some() || overrides.deadline.is_some() {
            self.path = SendPath::Special;
        }
    }

    /// Returns the stamp of the packet being written. The initial value continues the
    /// previous packet.
    pub(crate) fn stamp(&mut self) -> &mut Stamp {
        let follows = Stamp { sample_index: self.sample_index, time_ns: 0, intended_ns: 0, flags: 0 };
        self.leave_steady();
        self.overrides.stamp.get_or_insert(follows)
    }

    /// Resets everything that applies to a single packet.
    fn reset_overrides(&mut self) {
        self.fragmenter.set_active(false);
        self.overrides = PacketOverrides::default();
        let is_special = self.scope > Scope::Transport
            || self.taps.is_tapped()
            || self.moves.has_former_paths()
            || self.unsent.is_some();
        self.path = match self.path {
            _ if is_special => SendPath::Special,
            SendPath::Special => SendPath::Full,
            plain => plain,
        };
    }

    /// Keeps a value until the port is dropped.
    pub(crate) fn hold(&mut self, offer: impl Send + 'static) {
        *self.offer = Some(Box::new(offer));
    }

    pub(crate) fn port(&self) -> &str {
        &self.port
    }

    /// Returns whether this process made the port, and not a parent of this process.
    #[inline(always)]
    pub(crate) fn is_own(&self) -> bool {
        self.outlets.is_current()
    }

    /// Checks that this process made the port.
    ///
    /// # Errors
    /// [`Error::Forked`] in a child of the process that made the port.
    #[inline(always)]
    pub(crate) fn check_own(&self) -> Result<()> {
        self.outlets.check(|| format!("sending port `{}`", self.port))
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn receivers(&mut self) -> usize {
        if !self.is_own() {
            return 0;
        }
        self.outlets.iter().map(|outlet| outlet.receivers(true)).sum()
    }

    /// Accepts waiting receivers, for callers that must count them before the first packet is sent.
    pub(crate) fn admit(&mut self) {
        self.admit_before(self.sample_index);
    }

    /// Accepts waiting receivers before a packet with that sample index.
    fn admit_before(&mut self, sample_index: u64) {
        // No receiver is accepted between two fragments of a packet.
        if !self.is_own() || self.unsent.is_some() {
            return;
        }
        self.is_lossy = false;
        let sample = Some(sample_index);
        let next = NextPacket { sequence: self.sequence, sample, stream_start: self.stream_start };
        for outlet in &mut *self.outlets {
            let admitted = outlet.admit(next);
            self.described &= !admitted.is_new;
            self.is_lossy |= admitted.is_lossy;
        }
        let is_tapped = self.taps.admit(next);
        self.moves.drop_unread();
        self.leave_steady();
        if is_tapped || self.moves.has_former_paths() {
            self.path = SendPath::Special;
        }
        self.compact = self.short_headers && !self.is_lossy && !is_tapped;
        self.remind();
    }

    /// Returns the slot in which other threads put a tap for this port. `buffer` is the size of the
    /// port's largest ring.
    pub(crate) fn tap_slot(&mut self, buffer: u32) -> Arc<TapSlot> {
        self.taps.allow(TapSlot::new(&self.port, buffer, self.stop.clone(), Arc::clone(&self.attention)))
    }

    /// Returns the largest payload that fits one frame, in bytes.
    pub(crate) fn frame_payload_max(&self) -> usize {
        self.frame_payload_max
    }

    /// Sets the stream of the next packets. Cheap if the stream has not changed.
    pub(crate) fn set_stream(&mut self, info: &Arc<StreamInfo>) {
        if Arc::ptr_eq(&self.info, info) {
            return;
        }
        if *self.info != **info {
            // Packets with the old description may still be unread, so a new description needs a
            // new number.
            if self.described {
                self.stream = self.stream.wrapping_add(1);
                self.short_word = Header::short_word(self.stream);
                self.described = false;
                self.leave_steady();
            }
            if self.info.id != info.id {
                (self.sample_index, self.stream_start) = (0, self.sequence);
            } else if self.info.frame_samples() != info.frame_samples() {
                // Rows and frames begin at multiples of their length.
                let next = self.sample_index.checked_next_multiple_of(info.frame_samples());
                self.sample_index = next.unwrap_or(0);
            }
        }
        self.info = Arc::clone(info);
    }

    /// Returns the stream of the next packets, and the index of the next sample.
    pub(crate) fn place(&self) -> (&Arc<StreamInfo>, u64) {
        (&self.info, self.sample_index)
    }

    /// Returns the stream of the next packets.
    pub(crate) fn stream(&self) -> &Arc<StreamInfo> {
        &self.info
    }

    /// Returns whether packets sent now belong to that stream, without another description.
    pub(crate) fn follows(&mut self, info: &Arc<StreamInfo>) -> bool {
        if !Arc::ptr_eq(&self.info, info) && *self.info == **info {
            self.info = Arc::clone(info);
        }
        Arc::ptr_eq(&self.info, info)
    }

    /// Reserves room for a payload of `payload` bytes, valid until the packet is sent or cancelled.
    /// Neither this call nor the send waits for room unless `waits` is set.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, payload: usize, waits: bool) -> Result<FrameMut> {
        self.waits = waits;
        if self.path == SendPath::Steady
            && let Some(place) = self.reserve_steady(payload)
        {
            return Ok(place);
        }
        match self.reserve_fast(payload) {
            Some(place) => Ok(place),
            None => self.reserve_slow(payload),
        }
    }

    /// Reserves room behind a full header, if no other work is due and there is room.
    #[inline(never)]
    fn reserve_fast(&mut self, payload: usize) -> Option<FrameMut> {
        self.short_offset = 0;
        let is_easy = self.path != SendPath::Special
            && self.overrides.stamp.is_none()
            && self.described
            && self.is_own()
            && !self.is_due()
            && !self.stop.is_stopped()
            && payload <= self.frame_payload_max;
        let [only] = &mut **self.outlets else { return None };
        if !is_easy {
            return None;
        }
        let frame = only.try_reserve_fast(HEADER_BYTES + payload)?;
        Some(FrameMut::new(&mut frame[HEADER_BYTES..][..payload]))
    }

    /// Sends a packet of one sample with `payload` bytes, which `fill` writes in place.
    #[inline]
    pub(crate) fn send_bytes(
        &mut self,
        payload: usize,
        wait: Wait,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        self.until = wait.deadline();
        let sent = self.reserve(payload, !matches!(wait, Wait::Never)).and_then(|place| {
            // SAFETY: the place was just lent, and the port has not been called since.
            fill(unsafe { place.get_mut::<u8>() });
            self.send(payload, 1)
        });
        self.until = None;
        sent
    }

    /// Returns the send time of the next packet, for callers that need it beforehand; 0: the packet
    /// is not measured.
    #[inline]
    pub(crate) fn reserve_timestamp(&mut self) -> u64 {
        self.sampler.reserve_timestamp()
    }

    /// Discards the reserved time, because the packet is not sent yet.
    pub(crate) fn cancel_timestamp(&mut self) {
        self.sampler.cancel_timestamp();
    }

    /// Returns whether the port has no receivers, as far as can be checked without a system call.
    pub(crate) fn has_no_receivers(&self) -> bool {
        self.outlets.iter().all(|outlet| outlet.receivers(false) == 0)
    }

    /// Reserves room if other work is due first, or if waiting is needed.
    #[cold]
    fn reserve_slow(&mut self, payload: usize) -> Result<FrameMut> {
        self.check_own()?;
        let wait = self.wait();
        if self.ending != Ending::Open {
            return Err(Error::port(&self.port, "has sent its end of stream already"));
        }
        // The stop is checked here as well, because a sender with fast receivers never waits.
        self.stop.check(wait)?;
        if self.unsent.is_some() {
            self.with_send_timeout(wait, Self::send_remaining)?;
        }
        // A leaked loan releases nothing.
        self.reset_overrides();
        if self.moves.is_requested() {
            self.with_send_timeout(wait, Self::change_transport)?;
        }
        if payload > self.frame_payload_max {
            return self.reserve_large(payload, self.frame_payload_max, wait);
        }
        self.with_send_timeout(wait, |this, wait| {
            this.prepare(this.sample_index, wait)?;
            let frame = this.outlets[0].reserve(HEADER_BYTES + payload, wait)?;
            Ok(FrameMut::new(&mut frame[HEADER_BYTES..][..payload]))
        })
    }

    /// Reserves room for a fragmented packet, in the port's own buffer. All waiting is left to
    /// `send`.
    fn reserve_large(&mut self, payload: usize, max: usize, wait: Wait) -> Result<FrameMut> {
        // Without waiting, all receivers get a packet or none. For several frames, this cannot be
        // decided in advance.
        let bytes_max = if matches!(wait, Wait::Never) { max } else { LinkOptions::PACKET_MAX };
        if payload > bytes_max {
            return Err(Error::TooLarge { bytes: payload, bytes_max });
        }
        self.path = SendPath::Special;
        Ok(FrameMut::new(self.fragmenter.buffer(payload)))
    }

    /// Does the work before every packet: accepts receivers and describes the stream.
    fn prepare(&mut self, sample_index: u64, wait: Wait) -> Result<()> {
        self.admit_before(sample_index);
        if !self.described || self.is_due() && self.is_lossy {
            self.send_stream_info(wait)?;
        } else if self.undescribed > self.frame_payload_max / 2 {
            // Every receiver has the description.
            self.undescribed = 0;
        }
        Ok(())
    }

    /// Returns whether the stream must be described again, because receivers may have missed it.
    #[inline]
    fn is_due(&self) -> bool {
        self.sequence.is_multiple_of(DESCRIBE_EVERY) || self.undescribed > self.frame_payload_max / 2
    }

    /// Returns whether the packet being written may wait for room.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Returns how long the packet may wait.
    fn wait(&self) -> Wait {
        if self.waits { Wait::Until(self.until) } else { Wait::Never }
    }

    /// Sends the first `payload` bytes of the reserved room, as `samples` samples.
    #[inline(always)]
    pub(crate) fn send(&mut self, payload: usize, samples: u64) -> Result<()> {
        if self.short_offset > 0 && self.path == SendPath::Steady && self.send_steady(payload, samples) {
            return Ok(());
        }
        self.send_full(payload, samples)
    }

    #[inline(never)]
    fn send_full(&mut self, payload: usize, samples: u64) -> Result<()> {
        self.check_own()?;
        if self.path == SendPath::Special {
            return self.send_special(payload, samples);
        }
        self.send_whole(payload, samples, 0)
    }

    /// Sends a packet with a full header, in one frame.
    #[inline(always)]
    fn send_whole(&mut self, payload: usize, samples: u64, marks: u8) -> Result<()> {
        let wait = self.wait();
        let [only] = &mut **self.outlets else { return self.send_to_all(payload, samples, marks) };
        let place = only.reserved();
        if self.short_offset == Header::SHORT_BYTES {
            // The packet now needs the full header.
            place.copy_within(Header::SHORT_BYTES..Header::SHORT_BYTES + payload, HEADER_BYTES);
        }
        let stamp = self.overrides.stamp.take();
        // A sender that stamps its packets gets full headers from the start. Moving bytes that were
        // just written would stall on the core's store buffer.
        if self.path != SendPath::Special {
            let is_steady = self.compact && self.described && stamp.is_none();
            self.path = if is_steady { SendPath::Steady } else { SendPath::Full };
        }
        let (sample_index, time_ns, intended_ns, flags) = match stamp {
            Some(stamp) => (stamp.sample_index, stamp.time_ns, stamp.intended_ns, stamp.flags),
            None => (self.sample_index, 0, 0, 0),
        };
        // The header is not built first: see `Header::write_words`.
        let words = [
            self.sequence,
            Header::second_word(payload as u32, self.stream, Kind::Data as u8, flags | marks),
            sample_index,
            time_ns.cast_unsigned(),
            intended_ns,
            self.sampler.stamp(),
        ];
        Header::write_words(place, words);
        only.publish(HEADER_BYTES + payload, wait)?;
        self.sent(sample_index, payload, samples);
        Ok(())
    }

    #[cold]
    fn send_to_all(&mut self, payload: usize, samples: u64, marks: u8) -> Result<()> {
        let header = self.header(payload, marks);
        self.with_send_timeout(self.wait(), |this, wait| this.publish_to_all(&header, payload, wait))?;
        self.sent(header.sample_index, payload, samples);
        Ok(())
    }

    /// Sends a packet in one frame, and a copy to the tap.
    #[cold]
    fn send_tapped(&mut self, payload: usize, samples: u64, marks: u8) -> Result<()> {
        let header = self.header(payload, marks);
        self.taps.stage(&header, &self.outlets[0].reserved()[HEADER_BYTES..][..payload], &self.info);
        self.with_send_timeout(self.wait(), |this, wait| this.publish_to_all(&header, payload, wait))?;
        self.taps.commit();
        self.sent(header.sample_index, payload, samples);
        Ok(())
    }

    /// Sends a packet that is fragmented, waits for acknowledgements, or both.
    #[cold]
    fn send_special(&mut self, payload: usize, samples: u64) -> Result<()> {
        let scope = self.overrides.scope.unwrap_or(self.scope);
        let deadline = self.overrides.deadline.unwrap_or(self.deadline);
        let mark = match scope {
            Scope::None | Scope::Transport => 0,
            Scope::Server => Header::SERVER,
            Scope::Target => Header::TARGET,
        };
        if mark != 0
            && let Some((transport, scope_max)) = &self.scope_max
        {
            let error = beyond_scope(transport, scope, *scope_max);
            self.cancel();
            return Err(error);
        }
        let (sequence, is_large, stamp) = (self.sequence, self.fragmenter.is_active(), self.overrides.stamp);
        self.reset_overrides();
        self.overrides.stamp = stamp;
        if is_large {
            self.with_send_timeout(self.wait(), |this, wait| this.send_large(payload, samples, mark, wait))?;
        } else if self.taps.is_tapped() {
            self.send_tapped(payload, samples, mark)?;
        } else {
            self.send_whole(payload, samples, mark)?;
        }
        if mark == 0 {
            return Ok(());
        }
        let ack_wait = AckWait::new(sequence, scope, deadline);
        fail_point!("await");
        let outcome = self.wait_acks(ack_wait);
        fail_point!("await-answered");
        outcome
    }

    /// Waits for the acknowledgements of the last packet at all outlets, and returns the first
    /// error. After an interrupt, the other outlets do not wait for their acknowledgements.
    pub(super) fn wait_acks(&mut self, mut ack_wait: AckWait) -> Result<()> {
        let mut outcome = Ok(());
        for outlet in &mut *self.outlets {
            let acked = outlet.wait_acks(&ack_wait);
            if matches!(acked, Err(Error::Interrupted { .. })) {
                ack_wait.until = Instant::now();
            }
            outcome = outcome.and(acked);
        }
        outcome
    }

    /// Sends a packet from the port's own buffer, in fragments if needed. No receiver is accepted
    /// between fragments. After the first fragment, the packet counts as sent: if the rest fails,
    /// receivers report it missing. If the wait for room is interrupted after that fragment, the
    /// rest is sent before anything else.
    #[cold]
    fn send_large(&mut self, payload: usize, samples: u64, marks: u8, wait: Wait) -> Result<()> {
        let header = self.header(payload, marks);
        self.prepare(header.sample_index, wait)?;
        let outcome = self.send_fragments(UnsentFragments::new(header, payload, &self.info), wait);
        // After the first fragment, the packet's number is used up.
        if outcome.is_ok() || matches!(outcome, Err((_, true))) {
            self.sent(header.sample_index, payload, samples);
        }
        outcome.map_err(|(error, _)| error)
    }

    fn publish_fragment(&mut self, header: &Header, fragment: Fragment, wait: Wait) -> Result<()> {
        let frame = self.outlets[0].reserve(HEADER_BYTES + fragment.bytes, wait)?;
        frame[HEADER_BYTES..][..fragment.bytes].copy_from_slice(self.fragmenter.bytes(fragment));
        let mut header =
            Header { length: fragment.bytes as u32, flags: header.flags | fragment.flags, ..*header };
        if header.is_continued() {
            header.sample_index = fragment.offset as u64;
        }
        self.publish_to_all(&header, fragment.bytes, wait)
    }

    /// Returns the header of the next packet.
    fn header(&mut self, payload: usize, marks: u8) -> Header {
        let stamp = *self.stamp();
        self.overrides.stamp = None;
        Header {
            sequence: self.sequence,
            sample_index: stamp.sample_index,
            time_ns: stamp.time_ns,
            intended_ns: stamp.intended_ns,
            sent_ns: self.sampler.stamp(),
            length: payload as u32,
            stream: self.stream,
            kind: Kind::Data as u8,
            flags: stamp.flags | marks,
        }
    }

    #[inline]
    fn sent(&mut self, sample_index: u64, payload: usize, samples: u64) {
        self.sequence += 1;
        self.undescribed = self.undescribed.saturating_add(payload);
        self.sample_index = sample_index.wrapping_add(samples);
    }

    /// Returns whether the packet being written is fragmented, so that the transports have no part
    /// of it yet.
    pub(crate) fn holds_large(&self) -> bool {
        self.fragmenter.is_active()
    }

    /// Forgets the packet being written. The next packet reuses the room.
    pub(crate) fn cancel(&mut self) {
        self.reset_overrides();
    }

    fn send_stream_info(&mut self, wait: Wait) -> Result<()> {
        self.info
            .check()
            .map_err(|problem| Error::InvalidArgument(format!("stream `{}`: {problem}", self.info.id)))?;
        let text = serde_json::to_vec(&*self.info)
            .map_err(|e| Error::InvalidArgument(format!("stream `{}`: {e}", self.info.id)))?;
        let max = self.frame_payload_max().min(StreamInfo::ENCODED_MAX);
        if text.len() > max {
            return Err(Error::TooLarge { bytes: text.len(), bytes_max: max });
        }
        let frame = self.outlets[0].reserve(HEADER_BYTES + text.len(), wait)?;
        frame[HEADER_BYTES..][..text.len()].copy_from_slice(&text);
        let header = self.control_header(Kind::Stream, text.len());
        self.publish_to_all(&header, text.len(), wait)?;
        self.described = true;
        self.undescribed = 0;
        Ok(())
    }

    fn control_header(&self, kind: Kind, length: usize) -> Header {
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

    /// Publishes the first outlet's frame at every outlet: at all of them, or at none if one is
    /// full.
    fn publish_to_all(&mut self, header: &Header, payload: usize, wait: Wait) -> Result<()> {
        let bytes = HEADER_BYTES + payload;
        let Some((first, others)) = self.outlets.split_first_mut() else { return Ok(()) };
        header.write(first.reserved());
        for outlet in &mut *others {
            outlet.reserve(bytes, wait)?[..bytes].copy_from_slice(&first.reserved()[..bytes]);
        }
        let mut outcome = first.publish(bytes, wait);
        for outlet in others {
            outcome = outcome.and(outlet.publish(bytes, wait));
        }
        outcome
    }
}

/// Returns the error of a packet that would wait for acknowledgements that are never read.
#[cold]
fn beyond_scope(transport: &str, scope: Scope, scope_max: Scope) -> Error {
    Error::Unsupported {
        transport: transport.into(),
        rule: format!(
            "scope {scope} for a packet of a connection of scope {scope_max} (the reader of the socket was \
             fixed when it was made)"
        ),
        alternatives: format!("give the connection scope {scope}, and the other packets a weaker one"),
    }
}

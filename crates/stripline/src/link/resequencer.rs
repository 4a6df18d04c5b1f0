//! A receiving port that restores the sequence of packets, behind a stage that forwarded each
//! packet as soon as it was finished.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::packet::{Gap, GapReason, Order};
use crate::sys::clock::now_ns;
use crate::transport::Wait;

use super::incoming::{Incoming, Polled};
use super::{ConnectionStats, OwnedPacket, Position, ReorderBuffer};
use crate::terms::{LinkOptions, Resequence};

/// The largest number of separate sequences. Beyond it, the sequence that was idle for longest is
/// given up.
const ORIGINS_MAX: usize = 64;

/// The state of a port that restores the sequence. A packet that is due stays in place, and an
/// early packet is copied.
pub(super) struct Resequencer {
    /// The setting for connections without a separate setting.
    otherwise: Option<Resequence>,
    origins: Vec<OriginSequence>,
    /// The payload bytes held, over all sequences.
    bytes: usize,
    /// The lent packet, if it was held.
    current: Option<OwnedPacket>,
    /// A due packet that a wait has found.
    next_up: Option<OwnedPacket>,
    /// A gap that was reported, without a packet to carry it.
    gap_at_end: Option<Gap>,
    /// An error that the next `receive` reports.
    problem: Option<Error>,
    spare: Vec<OwnedPacket>,
    /// The number of packets so far, as a measure of age.
    clock: u64,
}

/// The sequence of an origin.
struct OriginSequence {
    id: u16,
    /// The connection on which the sequence arrives.
    connection_index: (usize, u16),
    packets: ReorderBuffer<OwnedPacket>,
    stats: Arc<ConnectionStats>,
    /// The gap before the next packet, independent of the packet's number.
    gap: Option<Gap>,
    /// The loss that the link has reported, and how many of the missing packets are already
    /// attributed to it.
    known: Option<Gap>,
    explained: u64,
    expected_sample: Option<u64>,
    /// The value of `clock` at the arrival of the last packet.
    used: u64,
}

impl Incoming {
    /// Turns on resequencing with the options of each connection. `otherwise` is for connections
    /// without such an option.
    pub(crate) fn resequence(&mut self, otherwise: Option<Resequence>) {
        self.release_forgotten();
        self.resequencer = Some(Box::new(Resequencer {
            otherwise,
            origins: Vec::new(),
            bytes: 0,
            current: None,
            next_up: None,
            gap_at_end: None,
            problem: None,
            spare: Vec::new(),
            clock: 0,
        }));
    }

    /// Returns the time when a packet may become due although nothing has arrived.
    pub(crate) fn recheck_at(&mut self) -> Option<Instant> {
        self.resequencer.as_mut()?.skip_ns().and_then(instant_of)
    }

    /// Receives like [`Incoming::receive`], in sequence.
    #[cold]
    pub(super) fn receive_in_sequence(&mut self, wait: Wait) -> Result<Polled> {
        self.stop().check(wait)?;
        self.with(|state, link| state.next(link, wait)).unwrap_or(Ok(Polled::Empty))
    }

    /// Polls like [`Incoming::is_ready`], in sequence. A found packet is kept for the next receive.
    #[cold]
    pub(super) fn is_next_there(&mut self) -> bool {
        self.with(Resequencer::poll).unwrap_or(false)
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut Resequencer, &mut Self) -> R) -> Option<R> {
        // The state is taken out, because it takes packets from this port itself.
        let mut state = self.resequencer.take()?;
        let result = act(&mut state, self);
        self.resequencer = Some(state);
        Some(result)
    }
}

impl Resequencer {
    /// Returns the lent packet if it was held.
    pub(super) fn lent(&self) -> Option<&OwnedPacket> {
        self.current.as_ref()
    }

    /// Releases the lent packet; false: it was not held.
    pub(super) fn release_held(&mut self) -> bool {
        let held = self.current.take();
        let was_held = held.is_some();
        self.spare.extend(held);
        was_held
    }

    /// Takes the gap after the last packet, merged with the gap found by the link.
    pub(super) fn gap_at_end(&mut self, link: Option<Gap>) -> Option<Gap> {
        merge(self.gap_at_end.take(), link)
    }

    fn next(&mut self, link: &mut Incoming, wait: Wait) -> Result<Polled> {
        if let Some(packet) = self.next_up.take() {
            self.lend(link, packet);
            return Ok(Polled::Packet);
        }
        loop {
            if let Some(problem) = self.problem.take() {
                return Err(problem);
            }
            if self.lend_held(link, 0) {
                return Ok(Polled::Packet);
            }
            self.forget();
            let skip_ns = self.skip_ns();
            let is_over = skip_ns.is_some_and(|skip_ns| now_ns() >= skip_ns);
            let link_wait = match (wait, skip_ns.and_then(instant_of)) {
                // Packets that have arrived are taken before a missing packet is given up.
                _ if is_over => Wait::Never,
                (Wait::Until(deadline), Some(skip)) => {
                    Wait::Until(Some(deadline.map_or(skip, |deadline| deadline.min(skip))))
                }
                _ => wait,
            };
            match link.receive_as_it_comes(link_wait, u32::MAX, false)? {
                Polled::Packet if self.place(link) => return Ok(Polled::Packet),
                Polled::Packet => {}
                Polled::Ended => {
                    self.close(link);
                    if self.origins.iter().all(|origin_sequence| origin_sequence.packets.held() == 0) {
                        self.forget();
                        return Ok(Polled::Ended);
                    }
                }
                Polled::Empty if is_over && self.lend_held(link, now_ns()) => return Ok(Polled::Packet),
                Polled::Empty
                    if matches!(wait, Wait::Never) || link.is_interrupted() || wait.is_expired() =>
                {
                    return Ok(Polled::Empty);
                }
                Polled::Empty => {}
            }
        }
    }

    /// Returns whether `next` would return at once.
    fn poll(&mut self, link: &mut Incoming) -> bool {
        if self.next_up.is_some() || self.problem.is_some() {
            return true;
        }
        match self.next(link, Wait::Never) {
            Ok(Polled::Empty) => false,
            Ok(Polled::Ended) => true,
            Ok(Polled::Packet) => {
                // Nothing may stay lent by the transport, which is polled for more packets until
                // the next receive.
                self.next_up = Some(self.current.take().unwrap_or_else(|| {
                    let mut copy = self.spare.pop().unwrap_or_default();
                    copy.copy_from(link);
                    link.release_copied();
                    copy
                }));
                link.clear_lent();
                true
            }
            Err(problem) => {
                self.problem = Some(problem);
                true
            }
        }
    }

    /// Places the packet that the link has lent; true: it is passed on.
    fn place(&mut self, link: &mut Incoming) -> bool {
        let (gap, stamp) = (link.taken().gap, link.taken().header.order());
        let how = link.options().resequence.or(self.otherwise);
        let (Some(_), Some(how)) = (stamp, how) else { return true };
        let order = link.order();
        let index = self.origin(link, order, how);
        self.origins[index].advance(gap);
        let place = self.origins[index].packets.position(order.number());
        let is_alone = self.origins.iter().all(|origin_sequence| !origin_sequence.packets.is_closed());
        match place {
            Position::Due if is_alone => {
                let gap = self.origins[index].release(order.number(), link.samples_lent());
                link.set_gap(gap);
                return true;
            }
            // Earlier packets have not been passed on yet.
            Position::Due | Position::Early => self.hold(link, index, order),
            Position::Late { reported } => self.origins[index].mark_missing(order.number(), reported),
            Position::Duplicate => {
                let connection = link.connection().into();
                self.problem = Some(Error::DuplicatePacket { connection, number: order.number() });
            }
        }
        link.release_copied();
        false
    }

    /// Returns the index of the sequence to which the packet belongs.
    fn origin(&mut self, link: &Incoming, order: Order, how: Resequence) -> usize {
        self.clock += 1;
        let connection_index = link.connection_index();
        for origin_sequence in &mut self.origins {
            // The sender was restarted, so the unfinished sequence gets no more packets.
            if origin_sequence.connection_index.0 == connection_index.0
                && origin_sequence.connection_index.1 != connection_index.1
            {
                origin_sequence.packets.close();
            }
        }
        let used = self.clock;
        // The same origin number on different connections is a coincidence.
        let is_it = |o: &OriginSequence| {
            (o.id, o.connection_index) == (order.origin(), connection_index) && !o.packets.is_closed()
        };
        let known = self.origins.iter().position(is_it);
        if let Some(index) = known {
            self.origins[index].used = used;
            return index;
        }
        self.forget();
        let open = || self.origins.iter().enumerate().filter(|(_, n)| !n.packets.is_closed());
        if open().count() >= ORIGINS_MAX
            && let Some((index, _)) = open().min_by_key(|(_, origin_sequence)| origin_sequence.used)
        {
            self.origins[index].packets.close();
        }
        self.origins.push(OriginSequence {
            id: order.origin(),
            connection_index,
            packets: ReorderBuffer::new(how.window(), how.skip_after_ns()),
            stats: Arc::clone(link.stats()),
            gap: None,
            known: None,
            explained: 0,
            expected_sample: None,
            used,
        });
        self.origins.len() - 1
    }

    /// Copies the lent packet.
    fn hold(&mut self, link: &Incoming, index: usize, order: Order) {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.copy_from(link);
        copy.gap = None;
        let bytes = copy.bytes().len();
        let (packets, now) = (&mut self.origins[index].packets, now_ns());
        if packets.is_full() || self.bytes.saturating_add(bytes) > LinkOptions::PACKET_MAX {
            // A full window is not an error if the time is over as well.
            if packets.deadline().is_none_or(|deadline| now < deadline) {
                let connection = link.connection().into();
                let (first, window) = (packets.next(), packets.held());
                self.problem = Some(Error::WindowOverflow { connection, first, window });
            }
            packets.skip();
        }
        self.bytes += bytes;
        packets.hold(order.number(), copy, now);
    }

    /// Lends a held packet that is due at time `now`. At time 0, no missing packet is given up for
    /// lateness.
    fn lend_held(&mut self, link: &mut Incoming, now: u64) -> bool {
        let mut origin_sequences = self.origins.iter_mut();
        let Some((origin_sequence, turn)) =
            origin_sequences.find_map(|n| n.packets.take(now).map(|turn| (n, turn)))
        else {
            return false;
        };
        let mut packet = turn.packet;
        self.bytes = self.bytes.saturating_sub(packet.bytes().len());
        if let Some((header, _)) = packet.meta() {
            let first_sample = header.sample_index;
            let samples = link.samples_in(packet.bytes().len());
            packet.gap = origin_sequence.mark_lost(turn.first, turn.missing, first_sample);
            origin_sequence.expected_sample = Some(first_sample.wrapping_add(samples));
        }
        self.lend(link, packet);
        true
    }

    fn lend(&mut self, link: &mut Incoming, packet: OwnedPacket) {
        if let Some((header, _)) = packet.meta() {
            link.lend(*header, packet.lend(), packet.gap, packet.index);
        }
        self.current = Some(packet);
    }

    /// Gives up all missing packets, because no packet arrives any more.
    fn close(&mut self, link: &mut Incoming) {
        for origin_sequence in &mut self.origins {
            // The packets that the link lost at its end may be missing before a held packet.
            if origin_sequence.packets.held() > 0 {
                let gap = link.take_gap_of(origin_sequence.connection_index);
                origin_sequence.known = merge(origin_sequence.known.take(), gap);
            }
            origin_sequence.packets.close();
        }
    }

    /// Drops sequences that get no more packets.
    fn forget(&mut self) {
        let mut rest = None;
        self.origins.retain_mut(|origin_sequence| {
            let is_over = origin_sequence.packets.is_closed() && origin_sequence.packets.held() == 0;
            if is_over {
                rest = merge(rest, merge(origin_sequence.gap.take(), origin_sequence.known.take()));
            }
            !is_over
        });
        self.gap_at_end = merge(self.gap_at_end.take(), rest);
    }

    /// Returns the time when the next missing packet is given up, in monotonic nanoseconds.
    fn skip_ns(&mut self) -> Option<u64> {
        self.origins.iter_mut().filter_map(|origin_sequence| origin_sequence.packets.deadline()).min()
    }
}

/// Returns the instant of a time in monotonic nanoseconds, or now if that has passed.
fn instant_of(ns: u64) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_nanos(ns.saturating_sub(now_ns())))
}

impl OriginSequence {
    /// Records the loss reported by the link.
    fn advance(&mut self, gap: Option<Gap>) {
        let Some(gap) = gap else { return };
        let place = if gap.reason == GapReason::PeerRestart { &mut self.gap } else { &mut self.known };
        *place = merge(place.take(), Some(gap));
    }

    /// Records that the packet with that number is passed on at once. Returns the gap before it.
    fn release(&mut self, number: u64, (sample_index, samples): (u64, u64)) -> Option<Gap> {
        self.packets.advance(number);
        self.expected_sample = Some(sample_index.wrapping_add(samples));
        self.gap.take()
    }

    /// Records a packet that arrived after it was skipped, or before the packet that was taken for
    /// the first.
    fn mark_missing(&mut self, number: u64, reported: bool) {
        let gap = Gap { first: number, packets: 1, samples: 0, reason: GapReason::Late };
        if !reported {
            self.stats.gap(1, 0);
            self.gap = merge(self.gap.take(), Some(gap));
        } else if self.explained > 0 {
            // The link has reported a different packet as lost, which will still turn out missing.
            self.stats.gap(1, 0);
            self.explained -= 1;
            self.known = merge(Some(gap), self.known.take());
        }
    }

    /// Records that `packets` packets from `first` on never arrived. Returns the gap to report with
    /// the next packet, which starts at `sample_index`.
    fn mark_lost(&mut self, first: u64, packets: u64, sample_index: u64) -> Option<Gap> {
        let before = self.gap.take();
        if packets == 0 {
            return before;
        }
        let samples = self.expected_sample.map_or(0, |next| sample_index.saturating_sub(next));
        // A loss that the link has reported is already counted, and is lost, not late.
        let known = self.known.map_or(0, |known| known.packets.min(packets));
        let reason = self.known.filter(|_| known == packets).map_or(GapReason::Late, |known| known.reason);
        if packets > known {
            self.stats.gap(packets - known, if known == 0 { samples } else { 0 });
        }
        self.explained = self.explained.saturating_add(known);
        self.known = self.known.and_then(|rest| {
            let packets = rest.packets - known;
            let samples = rest.samples.saturating_sub(samples);
            (packets > 0).then_some(Gap { packets, samples, ..rest })
        });
        merge(before, Some(Gap { first, packets, samples, reason }))
    }
}

fn merge(before: Option<Gap>, after: Option<Gap>) -> Option<Gap> {
    match (before, after) {
        (Some(before), Some(after)) => Some(before.and(after)),
        (before, after) => before.or(after),
    }
}

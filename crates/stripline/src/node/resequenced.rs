//! Packets back in sequence, after a stage that forwarded them as it finished them.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::link::{ConnectionStats, Incoming, LinkOptions, Place, Resequencer};
use crate::packet::{Gap, GapReason, Order};
use crate::payload::Sample;
use crate::sys::clock::now_ns;
use crate::transport::Wait;

use super::supply::Supply;
use super::view::{About, Copied, PacketView, answers};
use super::{Received, Subscriber};

/// Origins whose packets are kept apart; before one more, the one that was silent for longest is given up.
const ORIGINS_MAX: usize = 64;

/// A [`Subscriber`] that puts packets back in sequence by their [`Order`]: what comes behind a stage that runs its
/// handler on several threads.
///
/// A packet whose turn it is lies in the transport's memory, as with any subscriber. One that comes before its turn is
/// copied. A missing one is waited for until `window` packets are held or one of them has been for `skip_after`;
/// then what is missing is reported with the next packet ([`GapReason::Late`]) and counted as lost. Packets that say no
/// order were not forwarded by several threads: they come in sequence, and are handed on at once. What the connection
/// itself loses is missing in the sequence as well, and counted once; unless it is given up before the connection says
/// so, with the next packet that arrives: then twice.
///
/// The stage in between forwards one packet for every one that it gets, if need be an empty one: it would be waited
/// for. Nobody knows whether the first packet that comes is the first there is, unless its number is 0. It is waited
/// for as for any other; what had its turn before it and comes later still is reported as lost.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use stripline::node::{Dispatch, Node};
///
/// let node = Node::isolated()?;
/// let mut source = node.publisher::<u32>("numbers")?;
/// let mut numbers = node.subscriber::<u32>("numbers")?;
/// let mut output = node.publisher::<u32>("squares")?;
/// let mut squares = node.subscriber::<u32>("squares")?.resequenced(64, Duration::from_secs(5))?;
/// source.wait_for_receivers(1, Duration::from_secs(5))?;
/// output.wait_for_receivers(1, Duration::from_secs(5))?;
/// (0..20).try_for_each(|number| source.send(&[number]))?;
/// source.finish()?;
///
/// // Four threads square, whoever is ready is sent.
/// let square = |packet: stripline::node::PacketView<'_, u32>| Ok(packet[0] * packet[0]);
/// numbers.serve_then(Dispatch::pool(4)?, square, |packet, square| {
///     let mut loan = output.loan(1)?;
///     loan[0] = square;
///     loan.send_like(&packet)
/// })?;
/// output.finish()?;
///
/// for number in 0..20 {
///     assert_eq!(squares.receive()?.expect("a square")[0], number * number);
/// }
/// assert!(squares.receive()?.is_none());
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Resequenced<T: Sample> {
    subscriber: Subscriber<T>,
    window: usize,
    skip_after_ns: u64,
    origins: Vec<Origin>,
    /// Payload bytes held, of all origins.
    bytes: usize,
    current: Current,
    /// What is missing before the packet lent.
    gap: Option<Gap>,
    /// Reported and without a packet to come with.
    gap_at_end: Option<Gap>,
    /// To be told by the next receive.
    problem: Option<Error>,
    spare: Vec<Copied>,
    /// Counts what comes.
    clock: u64,
}

/// The packet lent out.
enum Current {
    Nothing,
    /// By the link.
    InPlace,
    Held(Copied),
}

/// What has one numbering.
struct Origin {
    id: u16,
    /// The connection that it comes over.
    came_over: (usize, u16),
    packets: Resequencer<Copied>,
    stats: Arc<ConnectionStats>,
    /// What is missing before the next packet, whatever its number.
    gap: Option<Gap>,
    /// What the link has reported lost, which will be missing, and how many of those that were are taken for it.
    known: Option<Gap>,
    explained: u64,
    expected_sample: Option<u64>,
    /// When its last packet came.
    used: u64,
}

impl<T: Sample> Resequenced<T> {
    /// The largest window, in packets.
    pub const WINDOW_MAX: usize = 65_536;
    /// The longest that a missing packet can be waited for.
    ///
    /// ```
    /// use stripline::node::Resequenced;
    ///
    /// assert_eq!(Resequenced::<f32>::WINDOW_MAX, 65_536);
    /// assert_eq!(Resequenced::<f32>::SKIP_AFTER_MAX.as_secs(), 3600);
    /// ```
    pub const SKIP_AFTER_MAX: Duration = Duration::from_secs(3600);

    pub(super) fn new(subscriber: Subscriber<T>, window: usize, skip_after: Duration) -> Result<Self> {
        let wrong = |problem: String| Err(Error::port(subscriber.name(), problem));
        if window == 0 || window > Self::WINDOW_MAX {
            return wrong(format!(
                "the resequencing window is {window}; it must be from 1 to {}",
                Self::WINDOW_MAX
            ));
        }
        if skip_after > Self::SKIP_AFTER_MAX {
            let max = Self::SKIP_AFTER_MAX;
            return wrong(format!("a missing packet is skipped after {skip_after:?}; {max:?} is the most"));
        }
        Ok(Self {
            subscriber,
            window,
            // At most an hour, which fits.
            skip_after_ns: skip_after.as_nanos() as u64,
            origins: Vec::new(),
            bytes: 0,
            current: Current::Nothing,
            gap: None,
            gap_at_end: None,
            problem: None,
            spare: Vec::new(),
            clock: 0,
        })
    }

    /// The port's or topic's name.
    pub fn name(&self) -> &str {
        self.subscriber.name()
    }

    /// Senders connected now.
    pub fn senders(&mut self) -> usize {
        self.subscriber.senders()
    }

    /// Blocks until the next packet; `None` is the end of stream.
    ///
    /// # Errors
    /// As [`Subscriber::receive`]; [`Error::WindowOverflow`] when more packets wait behind a missing one than may,
    /// [`Error::Twice`] for a second one of the same number. Receiving goes on after both.
    pub fn receive(&mut self) -> Result<Option<InSequence<'_, T>>> {
        Ok(self.receive_within(Wait::FOREVER)?.packet())
    }

    /// The next packet if it is its turn.
    ///
    /// # Errors
    /// As [`Resequenced::receive`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use stripline::Received;
    ///
    /// let node = stripline::node::Node::isolated()?;
    /// let subscriber = node.subscriber::<u8>("bytes")?;
    /// let mut bytes = subscriber.resequenced(16, Duration::from_millis(100))?;
    /// assert_eq!(bytes.name(), "bytes");
    /// assert_eq!(bytes.senders(), 0);
    /// assert!(matches!(bytes.try_receive()?, Received::Empty));
    /// assert!(matches!(bytes.receive_timeout(Duration::from_millis(1))?, Received::Empty));
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn try_receive(&mut self) -> Result<Received<InSequence<'_, T>>> {
        self.receive_within(Wait::Never)
    }

    /// Blocks until the next packet, but not longer than `timeout`.
    ///
    /// # Errors
    /// As [`Resequenced::receive`].
    pub fn receive_timeout(&mut self, timeout: Duration) -> Result<Received<InSequence<'_, T>>> {
        self.receive_within(Wait::within(timeout))
    }

    /// After the end of stream: packets that were missing at its very end, as far as they are known.
    pub fn gap_at_end(&mut self) -> Option<Gap> {
        merge(self.gap_at_end.take(), self.subscriber.gap_at_end())
    }

    fn receive_within(&mut self, wait: Wait) -> Result<Received<InSequence<'_, T>>> {
        Ok(match self.take(wait)? {
            Received::Empty => Received::Empty,
            Received::Ended => Received::Ended,
            Received::Packet(()) => Received::Packet(InSequence { of: self }),
        })
    }

    /// Says where the packet that the link has lent belongs; true: it is lent on.
    fn sort(&mut self) -> bool {
        let incoming = &self.subscriber.incoming;
        let (gap, stamp) = (incoming.taken().gap, incoming.taken().header.order());
        if stamp.is_none() {
            (self.current, self.gap) = (Current::InPlace, gap);
            return true;
        }
        let order = incoming.order();
        let index = self.origin(order);
        self.origins[index].heed(gap);
        let place = self.origins[index].packets.place(order.number());
        let is_alone = self.origins.iter().all(|origin| !origin.packets.is_closed());
        match place {
            Place::Due if is_alone => {
                let samples = self.samples_lent();
                self.gap = self.origins[index].hand_on(order.number(), samples);
                self.current = Current::InPlace;
                return true;
            }
            // Those that come before it have not been handed on yet.
            Place::Due | Place::Ahead => self.hold(index, order),
            Place::Late { reported } => self.origins[index].miss(order.number(), reported),
            Place::Twice => {
                let connection = self.subscriber.incoming.connection().into();
                self.problem = Some(Error::Twice { connection, number: order.number() });
            }
        }
        self.subscriber.incoming.hand_over();
        false
    }

    /// Where the packets of an origin are put in sequence.
    fn origin(&mut self, order: Order) -> usize {
        self.clock += 1;
        let came_over = self.subscriber.incoming.came_over();
        for origin in &mut self.origins {
            // Its sender was started again: nothing more comes of what it had begun.
            if origin.came_over.0 == came_over.0 && origin.came_over.1 != came_over.1 {
                origin.packets.close();
            }
        }
        let used = self.clock;
        // Over different connections, the same only if somebody means it to be.
        let is_it = |o: &Origin| (o.id, o.came_over) == (order.origin(), came_over) && !o.packets.is_closed();
        let known = self.origins.iter().position(is_it);
        if let Some(index) = known {
            self.origins[index].used = used;
            return index;
        }
        self.forget();
        let open = || self.origins.iter().enumerate().filter(|(_, origin)| !origin.packets.is_closed());
        if open().count() >= ORIGINS_MAX
            && let Some((index, _)) = open().min_by_key(|(_, origin)| origin.used)
        {
            self.origins[index].packets.close();
        }
        self.origins.push(Origin {
            id: order.origin(),
            came_over,
            packets: Resequencer::new(self.window, self.skip_after_ns),
            stats: Arc::clone(self.subscriber.incoming.stats()),
            gap: None,
            known: None,
            explained: 0,
            expected_sample: None,
            used,
        });
        self.origins.len() - 1
    }

    /// Copies the packet lent.
    fn hold(&mut self, index: usize, order: Order) {
        let packet = self.subscriber.view();
        let bytes = size_of_val(&*packet);
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.fill(packet);
        copy.set_gap(None);
        let origin = &mut self.origins[index].packets;
        if origin.is_full() || self.bytes.saturating_add(bytes) > LinkOptions::PACKET_MAX {
            let connection = self.subscriber.incoming.connection().into();
            let (first, window) = (origin.next(), origin.held());
            self.problem = Some(Error::WindowOverflow { connection, first, window });
            origin.skip();
        }
        self.bytes += bytes;
        origin.hold(order.number(), copy, now_ns());
    }

    /// Lends a packet held whose turn has come.
    fn lend_held(&mut self) -> bool {
        if self.origins.iter().all(|origin| origin.packets.held() == 0) {
            return false;
        }
        let now = now_ns();
        for origin in &mut self.origins {
            let Some(turn) = origin.packets.take(now) else { continue };
            self.bytes = self.bytes.saturating_sub(turn.packet.bytes());
            if let Some(packet) = turn.packet.view::<T>() {
                self.gap = origin.lose(turn.first, turn.missing, packet.sample_index());
                origin.expected_sample = Some(packet.sample_index().wrapping_add(packet.len() as u64));
            }
            self.current = Current::Held(turn.packet);
            let Current::Held(packet) = &mut self.current else { return false };
            packet.set_gap(self.gap);
            return true;
        }
        false
    }

    /// Drops origins of which nothing more comes.
    fn forget(&mut self) {
        let mut rest = None;
        self.origins.retain_mut(|origin| {
            let is_over = origin.packets.is_closed() && origin.packets.held() == 0;
            if is_over {
                rest = merge(rest, merge(origin.gap.take(), origin.known.take()));
            }
            !is_over
        });
        self.gap_at_end = merge(self.gap_at_end.take(), rest);
    }

    /// When what is missing is waited for no longer.
    fn skip_at(&mut self) -> Option<Instant> {
        let deadline = self.origins.iter_mut().filter_map(|origin| origin.packets.deadline()).min()?;
        Instant::now().checked_add(Duration::from_nanos(deadline.saturating_sub(now_ns())))
    }

    /// The sample index of the packet that the link has lent, and its samples.
    fn samples_lent(&self) -> (u64, u64) {
        let taken = self.subscriber.incoming.taken();
        (taken.header.sample_index, (taken.payload.bytes() / size_of::<T>()) as u64)
    }
}

impl Origin {
    /// Takes in what the link has said of packets lost.
    fn heed(&mut self, gap: Option<Gap>) {
        let Some(gap) = gap else { return };
        let place = if gap.reason == GapReason::PeerRestart { &mut self.gap } else { &mut self.known };
        *place = merge(place.take(), Some(gap));
    }

    /// The packet of that number is handed on at once: what is missing before it.
    fn hand_on(&mut self, number: u64, (sample_index, samples): (u64, u64)) -> Option<Gap> {
        self.packets.advance(number);
        self.expected_sample = Some(sample_index.wrapping_add(samples));
        self.gap.take()
    }

    /// A packet came so late that it was skipped, or before what was taken for the first.
    fn miss(&mut self, number: u64, reported: bool) {
        let gap = Gap { first: number, packets: 1, samples: 0, reason: GapReason::Late };
        if !reported {
            self.stats.gap(1, 0);
            self.gap = merge(self.gap.take(), Some(gap));
        } else if self.explained > 0 {
            // Then it was not one of those that the link had lost, which is still to be found missing.
            self.stats.gap(1, 0);
            self.explained -= 1;
            self.known = merge(Some(gap), self.known.take());
        }
    }

    /// So many packets from `first` on never came: what is to be said of it with the next, which starts with that
    /// sample.
    fn lose(&mut self, first: u64, packets: u64, sample_index: u64) -> Option<Gap> {
        let before = self.gap.take();
        if packets == 0 {
            return before;
        }
        let samples = self.expected_sample.map_or(0, |next| sample_index.saturating_sub(next));
        // What the link has reported is counted already, and not late but lost.
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

impl<T: Sample> Supply<T> for Resequenced<T> {
    fn take(&mut self, wait: Wait) -> Result<Received<()>> {
        loop {
            if let Some(problem) = self.problem.take() {
                return Err(problem);
            }
            if self.lend_held() {
                return Ok(Received::Packet(()));
            }
            self.forget();
            let patience = match (wait, self.skip_at()) {
                (Wait::Until(deadline), Some(skip)) => {
                    Wait::Until(Some(deadline.map_or(skip, |deadline| deadline.min(skip))))
                }
                _ => wait,
            };
            match self.subscriber.take(patience)? {
                Received::Packet(_) if self.sort() => return Ok(Received::Packet(())),
                Received::Packet(_) => {}
                Received::Ended => {
                    self.origins.iter_mut().for_each(|origin| origin.packets.close());
                    if self.origins.iter().all(|origin| origin.packets.held() == 0) {
                        self.forget();
                        return Ok(Received::Ended);
                    }
                }
                Received::Empty if matches!(wait, Wait::Never) => return Ok(Received::Empty),
                Received::Empty if wait.has_passed() => {
                    let found = self.lend_held();
                    return Ok(if found { Received::Packet(()) } else { Received::Empty });
                }
                Received::Empty => {}
            }
        }
    }

    fn view(&self) -> PacketView<'_, T> {
        match &self.current {
            Current::Held(packet) => match packet.view() {
                Some(view) => view,
                None => unreachable!("what is held was filled"),
            },
            Current::InPlace | Current::Nothing => {
                let mut view = self.subscriber.view();
                view.set_gap(self.gap.as_ref());
                view
            }
        }
    }

    fn release(&mut self) {
        if let Some(packet) = self.let_go() {
            self.spare.push(packet);
        } else {
            self.subscriber.incoming.release();
        }
    }

    fn hand_over(&mut self) -> Option<u64> {
        if let Some(packet) = self.let_go() {
            self.spare.push(packet);
            return None;
        }
        self.subscriber.incoming.hand_over()
    }

    fn port(&self) -> &str {
        self.name()
    }

    fn incoming(&mut self) -> &mut Incoming {
        &mut self.subscriber.incoming
    }

    fn look_again_at(&mut self) -> Option<Instant> {
        self.skip_at()
    }
}

impl<T: Sample> Resequenced<T> {
    /// The packet lent is done with; what it lay in, if that is not the transport's.
    fn let_go(&mut self) -> Option<Copied> {
        self.gap = None;
        match std::mem::replace(&mut self.current, Current::Nothing) {
            Current::Held(packet) => Some(packet),
            Current::InPlace | Current::Nothing => None,
        }
    }
}

/// A packet whose turn it is, given back when dropped.
///
/// ```
/// use std::time::Duration;
///
/// let node = stripline::node::Node::isolated()?;
/// let mut publisher = node.publisher::<i16>("audio")?;
/// let mut audio = node.subscriber::<i16>("audio")?.resequenced(64, Duration::from_millis(100))?;
/// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// publisher.send(&[1, 2, 3])?;
/// let packet = audio.receive()?.expect("a packet");
/// assert_eq!((&*packet, packet.sequence(), packet.sample_index()), (&[1, 2, 3][..], 0, 0));
/// assert_eq!((packet.time_ns(), packet.intended_ns(), packet.gap()), (0, None, None));
/// assert_eq!((packet.order().number(), &*packet.stream().id), (0, "audio"));
/// assert!(packet.connection().ends_with("-> audio"));
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct InSequence<'a, T: Sample> {
    of: &'a mut Resequenced<T>,
}

impl<T: Sample> InSequence<'_, T> {
    pub(super) fn view(&self) -> PacketView<'_, T> {
        self.of.view()
    }

    fn about(&self) -> About<'_> {
        self.view().into_about()
    }
}

answers!(InSequence);

impl<T: Sample> Deref for InSequence<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.view().into_samples()
    }
}

impl<T: Sample> Drop for InSequence<'_, T> {
    fn drop(&mut self) {
        self.of.release();
    }
}

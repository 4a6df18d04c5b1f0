//! A buffer that restores the sequence of packets from one origin. The buffer has no clock, and is
//! generic over the packet.

use std::collections::{BTreeMap, VecDeque};

/// The packets that arrived early, and the number that is due.
pub(crate) struct ReorderBuffer<P> {
    window: usize,
    skip_after_ns: u64,
    /// The number that is due (`None` before the first packet is passed on), and the number of the
    /// first packet passed on.
    next: Option<u64>,
    first: u64,
    held: BTreeMap<u64, P>,
    /// The numbers of held packets, and of some packets passed on since, in order of arrival, each
    /// with the time of arrival.
    arrivals: VecDeque<(u64, u64)>,
    /// Whether each of the numbers just before `next` was passed on. At most `window` entries.
    recent: VecDeque<bool>,
    /// Whether the buffer still waits for missing packets.
    skip_mode: SkipMode,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SkipMode {
    /// Missing packets are waited for, up to the time limit.
    No,
    /// Missing packets before the lowest held packet are skipped.
    Once,
    /// All missing packets are skipped, because no packet arrives any more.
    Always,
}

/// The position of a packet in the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The packet is the next one.
    Due,
    /// Other packets come before it.
    Early,
    /// The packet was given up, as far as the buffer remembers.
    Late {
        /// Whether the packet was among those reported missing.
        reported: bool,
    },
    /// A packet with that number is held or was passed on.
    Duplicate,
}

/// A packet that is due, after `missing` packets that never arrived. The first missing number is
/// `first`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InTurn<P> {
    pub packet: P,
    pub first: u64,
    pub missing: u64,
}

impl<P> ReorderBuffer<P> {
    /// Returns a buffer for `window` packets. A missing packet is given up when a later packet has
    /// been held for `skip_after_ns`.
    pub(crate) fn new(window: usize, skip_after_ns: u64) -> Self {
        Self {
            window,
            skip_after_ns,
            next: None,
            first: 0,
            held: BTreeMap::new(),
            arrivals: VecDeque::new(),
            recent: VecDeque::new(),
            skip_mode: SkipMode::No,
        }
    }

    /// Returns the position of the packet with that number. Before any packet was passed on, only
    /// number 0 is due, as any other packet may have overtaken earlier ones.
    pub(crate) fn position(&self, number: u64) -> Position {
        let Some(next) = self.next else {
            return if number == 0 { Position::Due } else { self.early(number) };
        };
        if number == next {
            return Position::Due;
        }
        if number > next {
            return self.early(number);
        }
        let back = usize::try_from(next - number).unwrap_or(usize::MAX);
        let was_handed_on = self.recent.len().checked_sub(back).map(|index| self.recent[index]);
        match was_handed_on {
            Some(true) => Position::Duplicate,
            _ => Position::Late { reported: number >= self.first },
        }
    }

    /// Records that the packet with that number, which is due, is passed on.
    pub(crate) fn advance(&mut self, number: u64) {
        if self.next.is_none() {
            self.first = number;
        }
        self.remember(true);
        self.next = Some(number + 1);
    }

    /// Returns whether no more packets can be held.
    pub(crate) fn is_full(&self) -> bool {
        self.held.len() >= self.window
    }

    /// Holds a packet that arrived early.
    pub(crate) fn hold(&mut self, number: u64, packet: P, now_ns: u64) {
        self.held.insert(number, packet);
        self.arrivals.push_back((number, now_ns));
        if self.arrivals.len() > 2 * self.window {
            self.arrivals.retain(|(number, _)| self.held.contains_key(number));
        }
    }

    /// Gives up the missing packets before the lowest held packet.
    pub(crate) fn skip(&mut self) {
        self.skip_mode = self.skip_mode.max(SkipMode::Once);
    }

    /// Gives up all missing packets, now and later.
    pub(crate) fn close(&mut self) {
        self.skip_mode = SkipMode::Always;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.skip_mode == SkipMode::Always
    }

    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns the number that is due, or 0 before the first packet.
    pub(crate) fn next(&self) -> u64 {
        self.next.unwrap_or(0)
    }

    /// Returns the time when [`ReorderBuffer::take`] may find another packet without an arrival;
    /// `None`: no time changes the result.
    pub(crate) fn deadline(&mut self) -> Option<u64> {
        while self.arrivals.front().is_some_and(|(number, _)| !self.held.contains_key(number)) {
            self.arrivals.pop_front();
        }
        // The packet held longest has been behind every missing number all the time, so the time of
        // that packet decides for all missing numbers.
        self.arrivals.front().map(|(_, at_ns)| at_ns.saturating_add(self.skip_after_ns))
    }

    /// Takes the next held packet that is due at that time.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<InTurn<P>> {
        let (&number, _) = self.held.first_key_value()?;
        // Before the first packet, number 0 is due (see `position`), even if it was held.
        if number != self.next() {
            let is_over =
                self.skip_mode != SkipMode::No || self.deadline().is_some_and(|deadline| now_ns >= deadline);
            if !is_over {
                return None;
            }
            if self.skip_mode == SkipMode::Once {
                self.skip_mode = SkipMode::No;
            }
        }
        let packet = self.held.remove(&number)?;
        let first = self.next.unwrap_or(number);
        let missing = number - first;
        (0..missing.min(self.window as u64)).for_each(|_| self.remember(false));
        self.advance(number);
        Some(InTurn { packet, first, missing })
    }

    fn early(&self, number: u64) -> Position {
        if self.held.contains_key(&number) { Position::Duplicate } else { Position::Early }
    }

    fn remember(&mut self, was_handed_on: bool) {
        if self.recent.len() >= self.window {
            self.recent.pop_front();
        }
        self.recent.push_back(was_handed_on);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SKIP_AFTER: u64 = 100;

    fn of(window: usize) -> ReorderBuffer<char> {
        ReorderBuffer::new(window, SKIP_AFTER)
    }

    /// Returns a buffer that has passed on 0, 1 and 2.
    fn begun(window: usize) -> ReorderBuffer<char> {
        let mut packets = of(window);
        for number in 0..3 {
            assert_eq!(packets.position(number), Position::Due);
            packets.advance(number);
        }
        packets
    }

    fn turn(packet: char, first: u64, missing: u64) -> Option<InTurn<char>> {
        Some(InTurn { packet, first, missing })
    }

    #[test]
    fn what_came_early_comes_in_its_turn() {
        let mut packets = begun(8);
        assert_eq!(packets.position(4), Position::Early);
        packets.hold(4, 'e', 10);
        packets.hold(5, 'f', 11);
        assert_eq!(packets.take(11), None);
        assert_eq!(packets.position(3), Position::Due);
        packets.advance(3);
        assert_eq!(packets.take(12), turn('e', 4, 0));
        assert_eq!(packets.take(12), turn('f', 5, 0));
        assert_eq!((packets.take(12), packets.deadline(), packets.next()), (None, None, 6));
    }

    #[test]
    fn a_missing_packet_is_waited_for_from_the_first_that_passed_it() {
        let mut packets = begun(8);
        packets.hold(7, 'h', 10);
        packets.hold(5, 'f', 90);
        assert_eq!(packets.deadline(), Some(110));
        assert_eq!(packets.take(109), None);
        assert_eq!(packets.take(110), turn('f', 3, 2));
        // The packet 7 has been held long enough to give up 6 as well.
        assert_eq!(packets.take(110), turn('h', 6, 1));
        assert_eq!(packets.deadline(), None);
    }

    #[test]
    fn what_comes_after_it_was_given_up_is_late() {
        let mut packets = begun(4);
        packets.hold(5, 'f', 0);
        assert_eq!(packets.take(100), turn('f', 3, 2));
        assert_eq!(packets.position(4), Position::Late { reported: true });
        assert_eq!(packets.position(5), Position::Duplicate);
        assert_eq!(packets.position(2), Position::Duplicate);
        assert_eq!(packets.position(6), Position::Due);
    }

    #[test]
    fn two_of_a_number_are_noticed() {
        let mut packets = begun(4);
        packets.hold(4, 'e', 0);
        assert_eq!(packets.position(4), Position::Duplicate);
        assert_eq!(packets.position(1), Position::Duplicate);
        let mut fresh = of(4);
        fresh.hold(9, 'j', 0);
        assert_eq!(fresh.position(9), Position::Duplicate);
    }

    #[test]
    fn a_full_window_gives_up_what_is_missing_once() {
        let mut packets = begun(2);
        packets.hold(4, 'e', 0);
        assert!(!packets.is_full());
        packets.hold(6, 'g', 0);
        assert!(packets.is_full());
        packets.skip();
        packets.hold(7, 'h', 0);
        assert_eq!(packets.take(0), turn('e', 3, 1));
        assert_eq!(packets.take(0), None, "5 may still come");
        assert_eq!(packets.position(5), Position::Due);
        packets.advance(5);
        assert_eq!(packets.take(0), turn('g', 6, 0));
        assert_eq!(packets.take(0), turn('h', 7, 0));
    }

    #[test]
    fn of_what_is_long_ago_nobody_knows_whether_it_was_there() {
        let mut packets = begun(4);
        (3..10).for_each(|number| packets.advance(number));
        assert_eq!(packets.position(6), Position::Duplicate);
        assert_eq!(packets.position(5), Position::Late { reported: true });
    }

    #[test]
    fn nothing_is_waited_for_behind_the_end() {
        let mut packets = begun(4);
        (3..10).for_each(|number| packets.advance(number));
        packets.hold(11, 'l', 0);
        packets.close();
        assert_eq!(packets.take(0), turn('l', 10, 1));
        assert!(packets.is_closed() && packets.held() == 0);
    }

    #[test]
    fn nobody_knows_the_first_but_it_is_0() {
        let mut packets = of(8);
        assert_eq!(packets.position(41), Position::Early);
        packets.hold(41, 'x', 5);
        assert_eq!(packets.position(40), Position::Early);
        packets.hold(40, 'w', 50);
        assert_eq!((packets.take(104), packets.next), (None, None));
        assert_eq!(packets.take(105), turn('w', 40, 0));
        assert_eq!(packets.take(105), turn('x', 41, 0));
        assert_eq!(packets.position(39), Position::Late { reported: false });
        let mut held_0 = of(8);
        held_0.hold(0, 'a', 0);
        assert_eq!(held_0.take(0), turn('a', 0, 0));
        let mut from_0 = of(8);
        from_0.hold(1, 'b', 0);
        assert_eq!(from_0.position(0), Position::Due);
        from_0.advance(0);
        assert_eq!(from_0.take(0), turn('b', 1, 0));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut packets = of(3);
        packets.advance(0);
        packets.hold(1 << 40, 'z', 0);
        for number in (1..3000).step_by(2) {
            packets.hold(number + 1, 'y', 0);
            packets.advance(number);
            assert_eq!(packets.take(0), turn('y', number + 1, 0));
        }
        assert!(packets.arrivals.len() <= 7 && packets.recent.len() <= 3);
        assert_eq!(packets.take(100), turn('z', 3001, (1 << 40) - 3001));
        assert!(packets.recent.len() <= 3);
    }

    /// A reference model: all arrivals, and their outcome.
    #[derive(Default)]
    struct Model {
        next: Option<u64>,
        /// The number and the time of arrival.
        held: Vec<(u64, u64)>,
        gone: Vec<u64>,
    }

    impl Model {
        /// Returns the numbers passed on at that time, each with the number of missing packets
        /// before it.
        fn due(&mut self, now: u64, skip_mode: bool) -> Vec<(u64, u64)> {
            let mut out = Vec::new();
            while let Some(lowest) = self.held.iter().map(|held| held.0).min() {
                let oldest = self.held.iter().map(|held| held.1).min().unwrap();
                let is_next = self.next == Some(lowest) || self.next.is_none() && lowest == 0;
                if !is_next && !skip_mode && now < oldest + SKIP_AFTER {
                    break;
                }
                out.push((lowest, lowest - self.next.unwrap_or(lowest)));
                self.gone.push(lowest);
                self.held.retain(|held| held.0 != lowest);
                self.next = Some(lowest + 1);
            }
            out
        }
    }

    /// Generates steps of time, and numbers near the previous ones.
    fn arrivals() -> impl Strategy<Value = Vec<(u64, u64)>> {
        proptest::collection::vec((0..60_u64, 0..12_u64), 0..120).prop_map(|steps| {
            let mut now = 0;
            let numbered = steps.into_iter().enumerate();
            numbered
                .map(|(index, (dt, jitter))| {
                    now += dt;
                    (now, (index as u64 + jitter).saturating_sub(6))
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn any_arrivals_match_the_model(arrivals in arrivals()) {
            // The window never fills, and no number is so far behind that the sequence restarts.
            let mut packets = ReorderBuffer::new(1000, SKIP_AFTER);
            let mut model = Model::default();
            let (mut now, mut lost) = (0, 0);
            for (at, number) in arrivals {
                now = at;
                while let Some(turn) = packets.take(now) {
                    prop_assert_eq!(turn.packet, turn.first + turn.missing);
                    lost += turn.missing;
                }
                model.due(now, false);
                let is_held = model.held.iter().any(|held| held.0 == number);
                let place = packets.position(number);
                match place {
                    Position::Due => packets.advance(number),
                    Position::Early => packets.hold(number, number, now),
                    _ => {}
                }
                let expected = match model.next {
                    _ if is_held || model.gone.contains(&number) => Position::Duplicate,
                    Some(next) if number < next => {
                        let reported = model.gone.iter().min().is_some_and(|first| number > *first);
                        Position::Late { reported }
                    }
                    next if number == next.unwrap_or(0) => Position::Due,
                    _ => Position::Early,
                };
                prop_assert_eq!(place, expected);
                if matches!(place, Position::Due | Position::Early) {
                    model.held.push((number, now));
                    model.due(now, false);
                }
                while let Some(turn) = packets.take(now) {
                    lost += turn.missing;
                }
                prop_assert_eq!(packets.next, model.next);
                prop_assert_eq!(packets.held(), model.held.len());
                let oldest = model.held.iter().map(|held| held.1).min();
                prop_assert_eq!(packets.deadline(), oldest.map(|at| at + SKIP_AFTER));
            }
            packets.close();
            let rest: Vec<(u64, u64)> =
                std::iter::from_fn(|| packets.take(now)).map(|turn| (turn.packet, turn.missing)).collect();
            prop_assert_eq!(&rest, &model.due(now, true));
            lost += rest.iter().map(|(_, missing)| missing).sum::<u64>();
            // Every number between the first and the last number passed on was passed on or
            // reported missing.
            let span = model.gone.iter().max().map_or(0, |last| last + 1 - model.gone.iter().min().unwrap());
            prop_assert_eq!(span, model.gone.len() as u64 + lost);
            prop_assert!(model.gone.is_sorted());
        }
    }
}

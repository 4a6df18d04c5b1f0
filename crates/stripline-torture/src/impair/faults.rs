//! The fate of the frames of one direction: lost, cut, repeated, late or overtaken, as determined
//! by a seed.
//!
//! There is no I/O and no clock. The result is a function of the frames and of the times that the
//! caller passes.

use std::collections::VecDeque;
use std::str::FromStr;

use serde::Serialize;

use crate::payload::Rng;

/// One million: shares are counted in millionths.
const WHOLE: u64 = 1_000_000;
/// The maximum number of frames that may overtake a frame that is held back.
const OVERTAKEN_MAX: u64 = 8;
/// The longest time for which a frame is held back.
pub const HOLD_NS: u64 = 10_000_000;
/// The maximum number of frames held back at the same time. With more, the first frame leaves.
const HELD_MAX: usize = 64;
/// The maximum length of the queue. Further frames are refused, as by a switch.
pub const QUEUE_MAX: usize = 16_384;
/// The number of bytes of a frame that are never cut: the Ethernet header.
const ETHERNET_BYTES: usize = 14;

/// A share of the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share(u64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent: f64 =
            text.trim_end_matches('%').parse().map_err(|_| format!("`{text}` is not a share in percent"))?;
        if !(0.0..=100.0).contains(&percent) {
            return Err(format!("`{text}` is not from 0 to 100 percent"));
        }
        Ok(Self((percent / 100.0 * WHOLE as f64).round() as u64))
    }
}

/// The transit time of a frame: the minimum and the maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    least_ns: u64,
    most_ns: u64,
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let parse = |text: &str| {
            let ms: f64 = text.parse().map_err(|_| format!("`{text}` is not a time in milliseconds"))?;
            match (0.0..=10_000.0).contains(&ms) {
                true => Ok((ms * 1e6) as u64),
                false => Err(format!("`{text}` is not from 0 to 10000 milliseconds")),
            }
        };
        let delay = Self { least_ns: parse(least)?, most_ns: parse(most)? };
        if delay.least_ns > delay.most_ns {
            return Err(format!("`{text}`: the first time is the longer one"));
        }
        Ok(delay)
    }
}

/// The frames to which faults apply. Other frames pass at once, and address resolution (ARP) always
/// passes at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Only {
    /// All frames
    #[default]
    All,
    /// UDP datagrams
    Udp,
}

impl Only {
    fn includes(self, frame: &[u8]) -> bool {
        const UDP: u8 = 17;
        let byte = |at: usize| frame.get(at).copied().unwrap_or(0);
        match [byte(12), byte(13)] {
            [0x08, 0x06] => false,
            [0x08, 0x00] => self == Self::All || byte(23) == UDP,
            [0x86, 0xdd] => self == Self::All || byte(20) == UDP,
            _ => self == Self::All,
        }
    }
}

/// The faults of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: Share,
    pub cut: Share,
    pub duplicate: Share,
    pub reorder: Share,
    pub delay: Delay,
    /// Bits per second; 0 for no limit.
    pub rate: u64,
    pub only: Only,
}

/// Counts of frames in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Frames that arrived.
    pub arrived: u64,
    /// Frames to which faults do not apply.
    pub exempt: u64,
    pub lost: u64,
    /// Frames without their end.
    pub cut: u64,
    /// Duplicates of frames.
    pub duplicated: u64,
    /// Frames that a later frame has overtaken.
    pub reordered: u64,
    /// Frames that left later than they arrived.
    pub delayed: u64,
    /// Frames for which there was no room in the queue.
    pub refused: u64,
    /// Frames that left, including duplicates.
    pub passed: u64,
}

/// A frame in the queue.
#[derive(Debug)]
struct QueuedFrame {
    frame: Vec<u8>,
    due_ns: u64,
    /// The number of frames that are to overtake this frame.
    overtaken_by: u64,
}

/// A frame that is held back.
#[derive(Debug)]
struct DelayedFrame {
    frame: Vec<u8>,
    /// The frame leaves when `passed` has reached `after`, and at `until_ns` at the latest.
    after: u64,
    until_ns: u64,
    /// The number of frames that had passed when this frame was held back.
    since: u64,
}

/// One direction of the link.
#[derive(Debug)]
pub struct Direction {
    faults: Faults,
    rng: Rng,
    waiting: VecDeque<QueuedFrame>,
    held: Vec<DelayedFrame>,
    /// Reusable memory of frames that have left.
    spare: Vec<Vec<u8>>,
    /// The time at which the last frame in the queue is due.
    last_due_ns: u64,
    /// The time at which the link can take the next frame.
    free_ns: u64,
    /// The number of passed frames to which the faults apply.
    passed: u64,
    counts: Counts,
}

impl Direction {
    /// Creates a direction with these faults and this seed.
    pub fn new(faults: Faults, seed: u64) -> Self {
        Self {
            faults,
            rng: Rng::new(seed),
            waiting: VecDeque::new(),
            held: Vec::new(),
            spare: Vec::new(),
            last_due_ns: 0,
            free_ns: 0,
            passed: 0,
            counts: Counts::default(),
        }
    }

    /// Takes a frame, and passes all frames that leave now.
    pub fn accept(&mut self, frame: &[u8], now_ns: u64, pass: &mut impl FnMut(&[u8])) {
        self.counts.arrived += 1;
        if !self.faults.only.includes(frame) {
            self.counts.exempt += 1;
            self.counts.passed += 1;
            pass(frame);
            return;
        }
        // The number of draws is the same for each frame.
        let is_lost = self.draws(self.faults.loss);
        let is_cut = self.draws(self.faults.cut);
        let is_repeated = self.draws(self.faults.duplicate);
        let kept = ETHERNET_BYTES + self.rng.below(WHOLE) as usize;
        if is_lost {
            self.counts.lost += 1;
            return;
        }
        let frame = match is_cut && frame.len() > ETHERNET_BYTES {
            true => {
                self.counts.cut += 1;
                &frame[..ETHERNET_BYTES + (kept - ETHERNET_BYTES) % (frame.len() - ETHERNET_BYTES)]
            }
            false => frame,
        };
        self.enter(frame, now_ns, pass);
        if is_repeated {
            self.counts.duplicated += 1;
            self.enter(frame, now_ns, pass);
        }
    }

    /// Passes all frames that are due.
    pub fn advance(&mut self, now_ns: u64, pass: &mut impl FnMut(&[u8])) {
        loop {
            let is_over = |held: &DelayedFrame| held.after <= self.passed || held.until_ns <= now_ns;
            let over = match self.held.len() > HELD_MAX {
                true => Some(0),
                false => self.held.iter().position(is_over),
            };
            if let Some(index) = over {
                let held = self.held.remove(index);
                self.counts.reordered += u64::from(self.passed > held.since);
                self.leave(held.frame, pass);
                continue;
            }
            match self.waiting.front() {
                Some(first) if first.due_ns <= now_ns => {}
                _ => return,
            }
            let Some(QueuedFrame { frame, due_ns, overtaken_by }) = self.waiting.pop_front() else { return };
            match overtaken_by {
                0 => self.leave(frame, pass),
                _ => self.held.push(DelayedFrame {
                    frame,
                    after: self.passed + overtaken_by,
                    until_ns: due_ns + HOLD_NS,
                    since: self.passed,
                }),
            }
        }
    }

    /// Returns when the next frame leaves, if no frame arrives before that.
    pub fn next_ns(&self) -> Option<u64> {
        let held = self.held.iter().map(|held| held.until_ns).min();
        let waiting = self.waiting.front().map(|waiting| waiting.due_ns);
        held.into_iter().chain(waiting).min()
    }

    /// Returns the frames that have not left yet.
    pub fn on_the_way(&self) -> usize {
        self.waiting.len() + self.held.len()
    }

    /// Returns the counts.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn draws(&mut self, share: Share) -> bool {
        self.rng.below(WHOLE) < share.0
    }

    fn enter(&mut self, frame: &[u8], now_ns: u64, pass: &mut impl FnMut(&[u8])) {
        let is_overtaken = self.draws(self.faults.reorder);
        let overtaken_by = 1 + self.rng.below(OVERTAKEN_MAX);
        let Delay { least_ns, most_ns } = self.faults.delay;
        let delay_ns = least_ns + self.rng.below(most_ns - least_ns + 1);
        if self.waiting.len() >= QUEUE_MAX {
            self.counts.refused += 1;
            return;
        }
        let mut due_ns = now_ns;
        if let Some(took_ns) = (frame.len() as u64 * 8_000_000_000).checked_div(self.faults.rate) {
            self.free_ns = self.free_ns.max(now_ns) + took_ns;
            due_ns = self.free_ns;
        }
        // A delay alone does not reorder frames.
        due_ns = (due_ns + delay_ns).max(self.last_due_ns);
        self.last_due_ns = due_ns;
        self.counts.delayed += u64::from(due_ns > now_ns);
        if due_ns <= now_ns && !is_overtaken && self.waiting.is_empty() {
            self.counts.passed += 1;
            self.passed += 1;
            pass(frame);
        } else {
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.extend_from_slice(frame);
            let overtaken_by = if is_overtaken { overtaken_by } else { 0 };
            self.waiting.push_back(QueuedFrame { frame: copy, due_ns, overtaken_by });
        }
        self.advance(now_ns, pass);
    }

    fn leave(&mut self, mut frame: Vec<u8>, pass: &mut impl FnMut(&[u8])) {
        self.counts.passed += 1;
        self.passed += 1;
        pass(&frame);
        if self.spare.len() < HELD_MAX {
            frame.clear();
            self.spare.push(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds from one frame to the next.
    const STEP_NS: u64 = 3_000;

    /// Returns an IPv4 frame with the frame's number in the addresses, which are never cut.
    fn frame(number: u64, protocol: u8) -> Vec<u8> {
        let mut frame = vec![0; 100];
        (frame[12], frame[23]) = (0x08, protocol);
        frame[..8].copy_from_slice(&number.to_le_bytes());
        frame
    }

    fn number(frame: &[u8]) -> u64 {
        u64::from_le_bytes(frame[..8].try_into().unwrap())
    }

    fn faults(loss: &str, duplicate: &str, reorder: &str) -> Faults {
        let share = |text: &str| text.parse().unwrap();
        Faults {
            loss: share(loss),
            duplicate: share(duplicate),
            reorder: share(reorder),
            ..Faults::default()
        }
    }

    /// Sends frames through a direction. Returns the numbers in the order in which the frames left,
    /// with the transit time of each, and the counts.
    fn run(faults: Faults, seed: u64, frames: u64) -> (Vec<(u64, u64)>, Counts) {
        let mut direction = Direction::new(faults, seed);
        let mut left = Vec::new();
        let mut now = 0;
        for number_in in 0..frames {
            now = number_in * STEP_NS;
            let mut pass = |frame: &[u8]| left.push((number(frame), now - number(frame) * STEP_NS));
            direction.advance(now, &mut pass);
            direction.accept(&frame(number_in, 17), now, &mut pass);
            assert!(direction.next_ns().is_none_or(|next| next > now), "what is due has left");
        }
        while let Some(next) = direction.next_ns() {
            assert!(next > now);
            now = next;
            direction.advance(now, &mut |frame| left.push((number(frame), now - number(frame) * STEP_NS)));
        }
        let counts = direction.counts();
        assert_eq!(direction.on_the_way(), 0);
        // Every frame is accounted for.
        assert_eq!(counts.arrived, frames);
        assert_eq!(counts.arrived + counts.duplicated, counts.lost + counts.refused + counts.passed);
        assert_eq!(counts.passed, left.len() as u64);
        (left, counts)
    }

    fn numbers(left: &[(u64, u64)]) -> Vec<u64> {
        left.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn without_faults_all_frames_pass_at_once_and_in_order() {
        let (left, counts) = run(Faults::default(), 1, 10_000);
        assert_eq!(left, (0..10_000).map(|number| (number, 0)).collect::<Vec<_>>());
        assert_eq!(counts, Counts { arrived: 10_000, passed: 10_000, ..Counts::default() });
    }

    #[test]
    fn shares_are_those_that_were_asked_for_whatever_the_seed() {
        for seed in 0..10 {
            for (percent, text) in [(1.0, "1"), (5.0, "5%"), (30.0, "30")] {
                let (left, counts) = run(faults(text, "0", "0"), seed, 100_000);
                let share = counts.lost as f64 / 1000.0;
                // Five standard deviations.
                let bound = 5.0 * (percent * (100.0 - percent) / 100_000.0_f64).sqrt();
                assert!((share - percent).abs() < bound, "seed {seed}: {share} of {percent} percent");
                assert!(numbers(&left).is_sorted());
            }
            let (left, counts) = run(faults("0", "5", "0"), seed, 100_000);
            assert!((4_650..=5_350).contains(&counts.duplicated), "{counts:?}");
            let mut once = numbers(&left);
            once.dedup();
            assert_eq!(once, (0..100_000).collect::<Vec<_>>());
            let (left, counts) = run(faults("0", "0", "25"), seed, 100_000);
            assert!((24_300..=25_700).contains(&counts.reordered), "{counts:?}");
            let late = numbers(&left).windows(2).filter(|pair| pair[0] > pair[1]).count();
            assert!(late > 10_000, "{late} places out of order");
            let mut sorted = numbers(&left);
            sorted.sort_unstable();
            assert_eq!(sorted, (0..100_000).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_seed_determines_everything() {
        let all = Faults { cut: "3".parse().unwrap(), ..faults("10", "5", "25") };
        assert_eq!(run(all, 7, 5_000), run(all, 7, 5_000));
        assert_ne!(run(all, 7, 5_000).0, run(all, 8, 5_000).0);
    }

    #[test]
    fn a_frame_is_held_back_for_a_bounded_number_and_a_bounded_time() {
        let (left, _) = run(faults("0", "0", "25"), 3, 50_000);
        let mut highest = 0;
        for (place, (number, _)) in (0u64..).zip(&left) {
            highest = highest.max(*number);
            // Frames that are held back in a row wait for frames that pass, and for each other.
            assert!(place.abs_diff(*number) <= OVERTAKEN_MAX * 8, "{number} at {place}");
        }
        // No frame follows that could overtake this one. In the second run, no frame passes at all
        // until the time limit.
        let (left, counts) = run(faults("0", "0", "100"), 3, 1);
        assert_eq!((left, counts.reordered), (vec![(0, HOLD_NS)], 0));
        let (left, _) = run(faults("0", "0", "100"), 3, 1000);
        assert!(left.iter().all(|(_, took)| *took <= HOLD_NS));
    }

    #[test]
    fn a_delay_is_within_its_bounds_and_keeps_the_order() {
        let slow = Faults { delay: "1..5".parse().unwrap(), ..Faults::default() };
        let (left, counts) = run(slow, 1, 10_000);
        assert_eq!(numbers(&left), (0..10_000).collect::<Vec<_>>());
        // A frame that is due between two frames leaves with the second one.
        assert!(left.iter().all(|(_, took)| (1_000_000..5_000_000 + STEP_NS).contains(took)));
        assert_eq!(counts.delayed, 10_000);
    }

    #[test]
    fn a_rate_is_kept_and_its_queue_is_bounded() {
        // 800 bits every 3 us are twice the rate.
        let slow = Faults { rate: 133_333_333, ..Faults::default() };
        let (left, counts) = run(slow, 1, 100_000);
        assert!(numbers(&left).is_sorted());
        assert!(counts.refused > 0, "{counts:?}");
        let (number, took) = *left.last().unwrap();
        let rate = left.len() as f64 * 800.0 / ((number * STEP_NS + took) as f64 / 1e9);
        assert!((rate / 133_333_333.0 - 1.0).abs() < 0.001, "{rate} bit/s");
        assert!(left.iter().all(|(_, took)| *took <= (QUEUE_MAX as u64 + 1) * 6_001));
    }

    #[test]
    fn a_cut_frame_is_shorter_and_keeps_its_address() {
        let mut direction = Direction::new(Faults { cut: "100".parse().unwrap(), ..Faults::default() }, 9);
        let mut lengths = std::collections::BTreeSet::new();
        for number in 0..5_000 {
            let frame = frame(number, 6);
            direction.accept(&frame, 0, &mut |cut| {
                assert_eq!(cut, &frame[..cut.len()]);
                lengths.insert(cut.len());
            });
        }
        assert_eq!((lengths.len(), lengths.first(), lengths.last()), (86, Some(&14), Some(&99)));
        // A frame that is shorter than a header passes unchanged.
        direction.accept(&[1; 5], 0, &mut |frame| assert_eq!(frame, [1; 5]));
        assert_eq!(direction.counts().cut, 5_000);
    }

    #[test]
    fn frames_that_faults_are_not_for_pass_at_once() {
        let mut arp = frame(0, 17);
        arp[13] = 0x06;
        let mut ipv6 = frame(0, 0);
        (ipv6[12], ipv6[13], ipv6[20]) = (0x86, 0xdd, 17);
        let lossy = faults("100", "0", "0");
        let only_udp = Faults { only: Only::Udp, ..lossy };
        for (faults, frame, passes) in [
            (lossy, arp.clone(), true),
            (lossy, frame(0, 17), false),
            (lossy, frame(0, 6), false),
            (lossy, vec![0; 3], false),
            (only_udp, arp, true),
            (only_udp, frame(0, 17), false),
            (only_udp, ipv6, false),
            (only_udp, frame(0, 6), true),
            (only_udp, vec![], true),
        ] {
            let mut direction = Direction::new(faults, 1);
            let mut passed = false;
            direction.accept(&frame, 0, &mut |_| passed = true);
            assert_eq!(passed, passes, "{faults:?} {frame:?}");
            let counts = direction.counts();
            assert_eq!((counts.exempt, counts.lost), (u64::from(passes), u64::from(!passes)));
        }
    }

    #[test]
    fn bad_options_are_refused_with_their_text() {
        for text in ["", "x", "-1", "101", "NaN", "inf"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        for text in ["", "x", "-1", "5..1", "1..", "..", "1..x", "10001", "NaN"] {
            assert!(text.parse::<Delay>().is_err(), "{text}");
        }
        assert_eq!("0.01".parse(), Ok(Share(100)));
        assert_eq!("0.5..20".parse(), Ok(Delay { least_ns: 500_000, most_ns: 20_000_000 }));
    }
}

//! The watch over the age of samples: when to warn, and where the time went.

use std::time::{Duration, Instant};

/// The shortest time between two warnings about a connection.
const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// The warnings about the age of a connection's samples.
#[derive(Default)]
pub(super) struct AgeWatch {
    /// The number of measured packets at the last check.
    samples: u64,
    warned: Option<Instant>,
}

impl AgeWatch {
    /// Returns whether to warn about an age that is above the limit.
    pub fn is_due(&mut self, samples: u64, is_above: bool, now: Instant) -> bool {
        // Without a new packet, the age is not of this moment.
        let is_new = std::mem::replace(&mut self.samples, samples) != samples;
        let may_warn = self.warned.is_none_or(|warned| now.duration_since(warned) >= WARNING_PAUSE);
        let is_due = is_new && is_above && may_warn;
        if is_due {
            self.warned = Some(now);
        }
        is_due
    }
}

/// A connection on the way of the samples: the sending and the receiving component, and the age.
#[derive(Clone, Copy)]
pub(super) struct Hop {
    pub from: usize,
    pub to: usize,
    pub age_ns: Option<i64>,
}

/// Returns the connection behind which the age grows most on the way to a connection, with the
/// connection before it (`None`: the first of the way), and the growth.
pub(super) fn longest(hops: &[Hop], index: usize) -> Option<(usize, Option<usize>, i64)> {
    let mut best: Option<(usize, Option<usize>, i64)> = None;
    let (mut at, mut is_seen) = (index, vec![false; hops.len()]);
    loop {
        is_seen[at] = true;
        let age = hops[at].age_ns?;
        // The oldest samples of a component have held up its output.
        let is_input = |hop: &Hop| hop.to == hops[at].from && hop.age_ns.is_some();
        let inputs = hops.iter().enumerate().filter(|(input, hop)| is_input(hop) && !is_seen[*input]);
        let before = inputs.max_by_key(|(_, hop)| hop.age_ns).map(|(input, _)| input);
        if before.is_none() && hops.iter().any(is_input) {
            // A cycle has no first input.
            return best;
        }
        let part = age.saturating_sub(before.and_then(|before| hops[before].age_ns).unwrap_or(0));
        if best.is_none_or(|(_, _, most)| part > most) {
            best = Some((at, before, part));
        }
        match before {
            Some(before) => at = before,
            None => return best,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(from: usize, to: usize, age_ns: impl Into<Option<i64>>) -> Hop {
        Hop { from, to, age_ns: age_ns.into() }
    }

    #[test]
    fn the_largest_growth_is_found_on_the_way() {
        // 0 -> 1 -> 2 -> 3, and a source 4 with newer samples that also sends to 2.
        let hops = [hop(2, 3, 130), hop(0, 1, 10), hop(1, 2, 110), hop(4, 2, 5), hop(2, 4, None)];
        assert_eq!(longest(&hops, 0), Some((2, Some(1), 100)));
        assert_eq!(longest(&hops, 2), Some((2, Some(1), 100)));
        assert_eq!(longest(&hops, 1), Some((1, None, 10)));
        assert_eq!(longest(&hops, 4), None);
    }

    #[test]
    fn a_cycle_ends() {
        let hops = [hop(0, 1, 10), hop(1, 0, 30), hop(1, 1, 31)];
        assert_eq!(longest(&hops, 2), Some((2, Some(0), 21)));
    }

    #[test]
    fn warnings_pause_and_need_new_samples() {
        let (mut watch, start) = (AgeWatch::default(), Instant::now());
        let mut is_due =
            |samples, is_above, s| watch.is_due(samples, is_above, start + Duration::from_secs(s));
        assert!(!is_due(1, false, 0));
        assert!(is_due(2, true, 1));
        assert!(!is_due(3, true, 10));
        assert!(!is_due(3, true, 12));
        assert!(is_due(4, true, 12));
    }
}

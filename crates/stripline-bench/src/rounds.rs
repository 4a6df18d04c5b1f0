//! The order in which the cases of a benchmark are run, and the end by Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stripline::internal::process;

use crate::Problem;

/// The progress of a benchmark.
///
/// ```
/// let start = stripline_bench::Progress { done: 0, total: 10, doing: "two atomics".into() };
/// assert!(start.done < start.total);
/// ```
#[derive(Clone, Debug)]
pub struct Progress {
    /// Number of runs done.
    pub done: usize,
    /// The total number of runs.
    pub total: usize,
    /// The current case.
    pub doing: String,
}

/// Runs each case once a round, until Ctrl-C. The order reverses from round to round (A B, B A, …),
/// so that a slow change of the machine affects all cases alike. Returns the number of complete
/// rounds.
pub(crate) fn take_turns<C>(
    cases: &mut [C],
    rounds: u32,
    interruption: &Interruption,
    mut run: impl FnMut(&mut C, u32),
) -> u32 {
    for round in 0..rounds {
        let mut order: Vec<&mut C> = cases.iter_mut().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for case in order {
            run(case, round);
            if interruption.is_set() {
                return round;
            }
        }
    }
    rounds
}

/// The repeats of disturbed runs. Their number is fixed at the start, so that a busy machine cannot
/// make a benchmark endless.
pub(crate) struct Repeats(u32);

impl Repeats {
    /// Allows as many repeats as there are cases, and none for a quick benchmark.
    pub(crate) fn new(cases: usize, is_quick: bool) -> Self {
        Self(if is_quick { 0 } else { cases as u32 })
    }

    /// Runs a case, and repeats the run at once for as long as it is disturbed and repeats are
    /// left.
    pub(crate) fn run<R>(&mut self, mut run: impl FnMut() -> R, is_disturbed: impl Fn(&R) -> bool) -> R {
        let mut found = run();
        while is_disturbed(&found) && self.0 > 0 {
            self.0 -= 1;
            found = run();
        }
        found
    }
}

/// A guard that records Ctrl-C and similar signals until it is dropped.
pub(crate) struct Interruption {
    flag: Arc<AtomicBool>,
    ids: Vec<signal_hook::SigId>,
}

impl Interruption {
    pub(crate) fn watch() -> Result<Self, Problem> {
        let mut own = Self { flag: Arc::default(), ids: Vec::new() };
        for signal in process::not_ignored(&[SIGINT, SIGTERM, SIGHUP]) {
            let id = signal_hook::flag::register(signal, Arc::clone(&own.flag));
            own.ids.push(id.map_err(|error| format!("cannot watch for Ctrl-C: {error}"))?);
        }
        Ok(own)
    }

    /// Returns whether one of the signals has come.
    pub(crate) fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        self.ids.drain(..).for_each(|id| {
            signal_hook::low_level::unregister(id);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbed_run_is_repeated_within_bounds() {
        let mut repeats = Repeats::new(3, false);
        let mut runs = 0..;
        assert_eq!(repeats.run(|| runs.next(), |run| *run == Some(0)), Some(1));
        assert_eq!(repeats.run(|| runs.next(), |_| true), Some(4));
        assert_eq!(repeats.run(|| runs.next(), |_| true), Some(5));
        assert_eq!(Repeats::new(3, true).run(|| runs.next(), |_| true), Some(6));
    }

    #[test]
    fn the_order_reverses_every_round_and_the_end_is_at_once() {
        let interruption = Interruption { flag: Arc::default(), ids: Vec::new() };
        let mut order = String::new();
        let rounds = take_turns(&mut ['a', 'b', 'c'], 3, &interruption, |case, round| {
            order.push(*case);
            interruption.flag.store(round == 2 && *case == 'b', Ordering::Relaxed);
        });
        assert_eq!((order.as_str(), rounds), ("abccbaab", 2));
    }
}

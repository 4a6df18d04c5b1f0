//! How far apart the two processors are. On a virtual machine they may be neighbours at one moment and on different
//! chips at the next, which changes every figure of shared memory severalfold: only like is compared with like.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::statistics::median;

/// Of one look: batches, and round trips in each.
const BATCHES: usize = 15;
const TRIPS: u64 = 200;
/// The most by which two looks may differ that say the same.
const ALIKE: f64 = 1.5;

#[repr(align(256))]
#[derive(Default)]
struct Word(AtomicU64);

/// Nanoseconds that a cache line takes from one processor to the other; `None` where there are not two.
pub(super) fn line_ns(cpus: &[usize]) -> Option<f64> {
    let [one, other] = cpus else { return None };
    let words = [Word::default(), Word::default()];
    let trips = BATCHES as u64 * TRIPS;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stay_on(*other);
            for trip in 1..=trips {
                await_value(&words[0], trip);
                words[1].0.store(trip, Ordering::Release);
            }
        });
        // In a thread of its own, too: this one may go where it likes.
        let timed = scope.spawn(|| {
            stay_on(*one);
            let mut batches = Vec::new();
            let mut start = Instant::now();
            for trip in 1..=trips {
                words[0].0.store(trip, Ordering::Release);
                await_value(&words[1], trip);
                if trip % TRIPS == 0 {
                    batches.push(start.elapsed().as_nanos() as f64 / (2 * TRIPS) as f64);
                    start = Instant::now();
                }
            }
            median(&batches)
        });
        timed.join().ok().flatten()
    })
}

/// Whether two looks say the same; of what was not looked at, nothing else is known.
pub(super) fn are_alike(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.max(other) <= ALIKE * one.min(other),
        _ => true,
    }
}

fn await_value(word: &Word, value: u64) {
    while word.0.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
    }
}

fn stay_on(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // Where that is refused, the figure is a worse guess, and the run's own refusal is told.
    let _ = sched_setaffinity(None, &set);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_is_within_half() {
        assert!(are_alike(Some(50.0), Some(70.0)) && are_alike(Some(70.0), Some(50.0)));
        assert!(!are_alike(Some(50.0), Some(270.0)));
        assert!(are_alike(None, Some(50.0)));
    }

    #[test]
    fn a_line_takes_some_time_between_two_processors() {
        let cpus = super::super::allowed_cpus();
        assert_eq!(line_ns(&cpus[..1]), None);
        if let [one, other, ..] = *cpus {
            assert!(line_ns(&[one, other]).unwrap() > 1.0);
        }
    }
}

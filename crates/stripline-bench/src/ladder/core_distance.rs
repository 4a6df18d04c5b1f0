//! The distance of the two processors, as the time of a cache line between them. On a virtual
//! machine it can change at any moment, from neighbouring cores to different chips. That changes
//! every figure of shared memory severalfold. So only runs at the same distance are compared.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::statistics::median;

/// Batches of one measurement, and round trips in each.
const BATCHES: usize = 15;
const TRIPS: u64 = 200;
/// The largest ratio of two measurements that count as the same distance.
const SAME_DISTANCE: f64 = 1.5;

#[repr(align(256))]
#[derive(Default)]
struct SharedWord(AtomicU64);

/// Measures the nanoseconds that a cache line takes from one processor to the other; `None` without
/// two processors.
pub(super) fn cache_line_ns(cpus: &[usize]) -> Option<f64> {
    let [one, other] = cpus else { return None };
    let words = [SharedWord::default(), SharedWord::default()];
    let trips = BATCHES as u64 * TRIPS;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stay_on(*other);
            for trip in 1..=trips {
                await_value(&words[0], trip);
                words[1].0.store(trip, Ordering::Release);
            }
        });
        // In a thread of its own, too: the calling thread stays unpinned.
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

/// Returns whether two measurements show the same distance. An unmeasured distance equals only
/// another unmeasured one.
pub(super) fn is_same_distance(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.max(other) <= SAME_DISTANCE * one.min(other),
        _ => true,
    }
}

fn await_value(word: &SharedWord, value: u64) {
    while word.0.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
    }
}

fn stay_on(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // If pinning is refused, the figure is less exact. The run itself reports the refusal.
    let _ = sched_setaffinity(None, &set);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_is_within_half() {
        assert!(is_same_distance(Some(50.0), Some(70.0)) && is_same_distance(Some(70.0), Some(50.0)));
        assert!(!is_same_distance(Some(50.0), Some(270.0)));
        assert!(is_same_distance(None, Some(50.0)));
    }

    #[test]
    fn a_line_takes_some_time_between_two_processors() {
        let cpus = super::super::allowed_cpus();
        assert_eq!(cache_line_ns(&cpus[..1]), None);
        if let [one, other, ..] = *cpus {
            assert!(cache_line_ns(&[one, other]).unwrap() > 1.0);
        }
    }
}

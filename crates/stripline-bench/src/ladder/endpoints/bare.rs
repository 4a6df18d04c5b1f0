//! The limits: two words in shared memory (spinning or with a futex), and memcpy.

use std::hint::{black_box, spin_loop};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::futex;

use super::super::Problem;
use super::super::case::{Case, Measure, Outcome};
use super::super::measure::{Receiver, Sender, timed};
use crate::memory::{Mapping, PAGE};

/// A distance beyond the prefetcher, which fetches cache lines in pairs.
const APART: usize = 256;
/// The memory that memcpy uses, in bytes: as much as a link's ring.
const REGION: usize = 1 << 21;

pub(crate) fn atomics(
    case: &Case,
    place: u32,
    seconds: f64,
    file: BorrowedFd<'_>,
) -> Result<Outcome, Problem> {
    let memory = Mapping::new(file, PAGE, 0)?;
    let (own, peers) = (place as usize * APART, (1 - place as usize) * APART);
    let receiver = AtomicWord { word: memory.atomic(peers), last: 0 };
    super::run_pair(case, place, seconds, AtomicWord { word: memory.atomic(own), last: 0 }, receiver)
}

/// A sender or receiver with a single word as its packet.
struct AtomicWord<'a> {
    word: &'a AtomicU64,
    last: u64,
}

impl Sender for AtomicWord<'_> {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        self.word.store(word, Ordering::Release);
        Ok(())
    }
}

impl Receiver for AtomicWord<'_> {
    fn receive(&mut self) -> Result<u64, Problem> {
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word != self.last {
                self.last = word;
                return Ok(word);
            }
            spin_loop();
        }
    }
}

pub(crate) fn futex(case: &Case, place: u32, seconds: f64, file: BorrowedFd<'_>) -> Result<Outcome, Problem> {
    let memory = Mapping::new(file, PAGE, 0)?;
    let doorbell = |place: usize| FutexWord {
        bell: memory.atomic(place * APART),
        word: memory.atomic(place * APART + 8),
        last: 0,
    };
    super::run_pair(case, place, seconds, doorbell(place as usize), doorbell(1 - place as usize))
}

/// A word, and a count on which its reader sleeps.
struct FutexWord<'a> {
    bell: &'a AtomicU32,
    word: &'a AtomicU64,
    last: u32,
}

impl Sender for FutexWord<'_> {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        // Relaxed: the Release of the bell orders it.
        self.word.store(word, Ordering::Relaxed);
        self.bell.fetch_add(1, Ordering::Release);
        futex::wake(self.bell, futex::Flags::empty(), 1).map_err(|e| format!("futex: {e}"))?;
        Ok(())
    }
}

impl Receiver for FutexWord<'_> {
    fn receive(&mut self) -> Result<u64, Problem> {
        loop {
            let doorbell = self.bell.load(Ordering::Acquire);
            if doorbell != self.last {
                self.last = doorbell;
                return Ok(self.word.load(Ordering::Relaxed));
            }
            // The count has changed already, or a signal came: check again.
            let _ = futex::wait(self.bell, futex::Flags::empty(), doorbell, None);
        }
    }
}

/// Measures copies within one region, from its lower half to its upper: no more memory than a ring
/// has.
pub(crate) fn memcpy(case: &Case, seconds: f64) -> Result<Outcome, Problem> {
    let stride = case.size.next_multiple_of(64);
    let half = (REGION / 2).max(stride);
    let mut region = vec![1u8; 2 * half];
    let (from, to) = region.split_at_mut(half);
    let mut at = 0;
    let mut copy = || {
        to[at..at + case.size].copy_from_slice(black_box(&from[at..at + case.size]));
        black_box(&mut to[at]);
        at = if at + 2 * stride > half { 0 } else { at + stride };
    };
    let mut outcome = Outcome::default();
    if case.measure == Measure::Latency {
        timed(seconds, &mut outcome, || {
            copy();
            Ok(())
        })?;
        // These are not round trips, but the report halves them.
        outcome.round_trips.iter_mut().for_each(|(ns, _)| *ns *= 2);
        return Ok(outcome);
    }
    let start = Instant::now();
    let chunk = ((1 << 16) / case.size).clamp(1, 1024) as u64;
    let mut first = None;
    let end = Duration::from_secs_f64(seconds);
    loop {
        (0..chunk).for_each(|_| copy());
        outcome.packets += chunk;
        let elapsed = start.elapsed();
        if first.is_none() && elapsed >= end / 10 {
            (outcome.packets, first) = (0, Some(elapsed));
        }
        if let Some(first) = first
            && elapsed >= end
            && outcome.packets > 0
        {
            outcome.elapsed_s = (elapsed - first).as_secs_f64();
            return Ok(outcome);
        }
    }
}

/// Measures the same loop without work: the cost of the clock, and interruptions by the machine.
pub(crate) fn noise(seconds: f64) -> Result<Outcome, Problem> {
    let mut outcome = Outcome::default();
    timed(seconds, &mut outcome, || Ok(()))?;
    // The cost of one reading of the clock.
    let mut readings = Vec::new();
    for _ in 0..1000 {
        let start = Instant::now();
        for _ in 0..100 {
            black_box(Instant::now());
        }
        readings.push(start.elapsed().as_nanos() as f64 / 101.0);
    }
    outcome.typical_ns = super::super::statistics::median(&readings);
    Ok(outcome)
}

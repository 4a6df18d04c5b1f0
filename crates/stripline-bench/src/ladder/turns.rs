//! The control page of a run, through which the processes take turns.
//!
//! The leader (the side at place 0) announces which case the next block measures, and how many
//! packets the block has. The other sides report that they are ready, run the block, and report its
//! end. The last side also reports the time that it measured.

use std::hint::spin_loop;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};

use crate::Problem;
use crate::memory::{Mapping, PAGE};

/// A distance larger than the reach of the prefetcher, which fetches cache lines in pairs.
pub(crate) const APART: usize = 256;

/// The number of checks of a word before a side sleeps on it, if sides share processors. The checks
/// take tens of microseconds.
const SPINS: u32 = 2000;

/// The words of a turn, after the number of the turn.
const TURN_WORDS: [usize; 4] = [8, 16, 24, 32];

/// Announced in place of a case if no turn follows.
const END: u64 = u64::MAX;

/// A block of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub case: usize,
    /// The number of untimed packets before the timed ones.
    pub lead: u64,
    /// The number of timed packets.
    pub count: u64,
    /// Whether the timed packets carry the time of sending.
    pub is_stamped: bool,
}

/// The control page from the view of one side.
pub(crate) struct ControlPage {
    memory: Mapping,
    sides: u32,
    /// The number of checks before a wait sleeps.
    spins: u32,
    /// Number of meetings of all sides so far.
    meetings: u32,
    /// Number of turns so far.
    turns: u32,
}

impl ControlPage {
    /// Maps the page for a side of a run with `sides` sides, on `cpus` processors. A side that has
    /// a processor alone never sleeps here, because a processor that wakes up is slow at first.
    pub(crate) fn new(file: impl AsFd, sides: u32, cpus: usize) -> Result<Self, Problem> {
        let spins = if sides as usize <= cpus { u32::MAX } else { SPINS };
        Ok(Self { memory: Mapping::new(file, PAGE, 0)?, sides, spins, meetings: 0, turns: 0 })
    }

    /// Waits until all sides have arrived.
    pub(crate) fn meet(&mut self) {
        self.meetings += 1;
        let all = self.sides * self.meetings;
        bump(self.here());
        // Setting up takes long, and the other sides may need this processor.
        wait_for(self.here(), SPINS, |count| count >= all);
    }

    /// Announces a turn, and returns when all other sides are ready for it.
    pub(crate) fn announce(&mut self, turn: Turn) {
        self.store([turn.case as u64, turn.lead, turn.count, turn.is_stamped.into()]);
        let all = (self.sides - 1).wrapping_mul(self.turns);
        wait_for(self.ready(), self.spins, |count| count == all);
    }

    /// Announces that no turn follows.
    pub(crate) fn announce_end(&mut self) {
        self.store([END, 0, 0, 0]);
    }

    /// Waits for the end of the turn. Returns the nanoseconds that the last side measured.
    pub(crate) fn wait_for_others(&self) -> u64 {
        let all = (self.sides - 1).wrapping_mul(self.turns);
        wait_for(self.done(), self.spins, |count| count == all);
        // Relaxed: the Acquire load of the count orders this load.
        self.measured().load(Ordering::Relaxed)
    }

    /// Waits for the next turn, and reports that this side is ready; `None` at the end.
    pub(crate) fn next_turn(&mut self) -> Option<Turn> {
        let before = self.turns;
        wait_for(self.turn(), self.spins, |turn| turn != before);
        self.turns = self.turns.wrapping_add(1);
        // Relaxed: the Acquire load of the turn orders these loads after the leader's stores.
        let [case, lead, count, is_stamped] = TURN_WORDS.map(|at| self.turn_word(at).load(Ordering::Relaxed));
        if case == END {
            return None;
        }
        bump(self.ready());
        Some(Turn { case: case as usize, lead, count, is_stamped: is_stamped != 0 })
    }

    /// Reports that the side at this place has ended its part of the turn, and the time that it
    /// measured.
    pub(crate) fn finish_turn(&self, place: u32, measured_ns: u64) {
        if place + 1 == self.sides {
            // Relaxed: the Release of the count orders this store.
            self.measured().store(measured_ns, Ordering::Relaxed);
        }
        bump(self.done());
    }

    fn store(&mut self, words: [u64; 4]) {
        for (at, word) in TURN_WORDS.into_iter().zip(words) {
            // Relaxed: the Release of the turn orders this store.
            self.turn_word(at).store(word, Ordering::Relaxed);
        }
        self.turns = self.turns.wrapping_add(1);
        bump(self.turn());
    }

    fn here(&self) -> &AtomicU32 {
        self.memory.atomic(0)
    }

    fn turn(&self) -> &AtomicU32 {
        self.memory.atomic(APART)
    }

    fn turn_word(&self, at: usize) -> &AtomicU64 {
        self.memory.atomic(APART + at)
    }

    fn ready(&self) -> &AtomicU32 {
        self.memory.atomic(2 * APART)
    }

    fn done(&self) -> &AtomicU32 {
        self.memory.atomic(3 * APART)
    }

    fn measured(&self) -> &AtomicU64 {
        self.memory.atomic(3 * APART + 8)
    }
}

/// Returns the monotonic clock of the host in nanoseconds. All processes share this clock.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Adds 1 to a word, and wakes the sides that sleep on it.
fn bump(word: &AtomicU32) {
    word.fetch_add(1, Ordering::Release);
    // A failure leaves a side asleep, and the run ends at the time limit.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}

/// Waits until a word has a certain value. Checks the word `most` times, and then sleeps between
/// checks.
fn wait_for(word: &AtomicU32, most: u32, is_there: impl Fn(u32) -> bool) {
    let mut spins = 0u32;
    loop {
        // Acquire: everything that the other side stored before its Release is visible after this
        // load.
        let value = word.load(Ordering::Acquire);
        if is_there(value) {
            return;
        }
        spins = spins.saturating_add(1);
        if spins < most || most == u32::MAX {
            spin_loop();
        } else {
            // If the word has changed already, or a signal came, check again.
            let _ = futex::wait(word, futex::Flags::empty(), value, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory;

    #[test]
    fn all_sides_run_each_turn_and_the_end() {
        let file = memory::file(PAGE).unwrap();
        let turns: Vec<Turn> = (0..100u64)
            .map(|n| Turn { case: n as usize % 3, lead: n + 1, count: n, is_stamped: n % 2 == 0 })
            .collect();
        std::thread::scope(|scope| {
            for place in [1, 2] {
                let (file, turns) = (&file, &turns);
                scope.spawn(move || {
                    let mut page = ControlPage::new(file, 3, 2).unwrap();
                    page.meet();
                    let mut seen = Vec::new();
                    while let Some(turn) = page.next_turn() {
                        seen.push(turn);
                        page.finish_turn(place, turn.count * u64::from(place));
                    }
                    assert_eq!(seen, *turns);
                });
            }
            let mut page = ControlPage::new(&file, 3, 2).unwrap();
            page.meet();
            for turn in &turns {
                page.announce(*turn);
                assert_eq!(page.wait_for_others(), 2 * turn.count);
            }
            page.announce_end();
        });
    }
}

//! The limits: two words in shared memory (with spinning or with a futex), and memcpy.

use std::hint::{black_box, spin_loop};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::thread::futex;

use super::super::case::Case;
use super::super::measure::{self, OneWayTimes, Receiver, Sender, Side};
use super::super::turns::{APART, now_ns};
use crate::Problem;
use crate::memory::{Mapping, PAGE};

/// The memory that memcpy uses, in bytes: as much as the ring of a link.
const REGION: usize = 1 << 21;

/// Connects one side of two words.
pub(crate) fn atomics(case: &Case, place: u32, file: BorrowedFd<'_>) -> Result<Box<dyn Side>, Problem> {
    let memory = Rc::new(Mapping::new(file, PAGE, 0)?);
    let end = |place: u32| AtomicWord { memory: Rc::clone(&memory), at: place as usize * APART, last: 0 };
    Ok(measure::side(case, place, end(place), end(1 - place)))
}

/// A sender or receiver with a single word as its packet.
struct AtomicWord {
    memory: Rc<Mapping>,
    at: usize,
    last: u64,
}

impl Sender for AtomicWord {
    #[inline]
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        self.memory.atomic::<AtomicU64>(self.at).store(word, Ordering::Release);
        Ok(())
    }
}

impl Receiver for AtomicWord {
    #[inline]
    fn receive(&mut self) -> Result<u64, Problem> {
        let own: &AtomicU64 = self.memory.atomic(self.at);
        loop {
            let word = own.load(Ordering::Acquire);
            if word != self.last {
                self.last = word;
                return Ok(word);
            }
            spin_loop();
        }
    }
}

/// Connects one side of two words. Readers sleep on the words.
pub(crate) fn futex(case: &Case, place: u32, file: BorrowedFd<'_>) -> Result<Box<dyn Side>, Problem> {
    let memory = Rc::new(Mapping::new(file, PAGE, 0)?);
    let end = |place: u32| FutexWord { memory: Rc::clone(&memory), at: place as usize * APART, last: 0 };
    Ok(measure::side(case, place, end(place), end(1 - place)))
}

/// A word, and a count on which the reader of the word sleeps.
struct FutexWord {
    memory: Rc<Mapping>,
    at: usize,
    last: u32,
}

impl FutexWord {
    fn bell(&self) -> &AtomicU32 {
        self.memory.atomic(self.at)
    }

    fn word(&self) -> &AtomicU64 {
        self.memory.atomic(self.at + 8)
    }
}

impl Sender for FutexWord {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        // Relaxed: the Release of the bell orders the store.
        self.word().store(word, Ordering::Relaxed);
        self.bell().fetch_add(1, Ordering::Release);
        futex::wake(self.bell(), futex::Flags::empty(), 1).map_err(|e| format!("futex: {e}"))?;
        Ok(())
    }
}

impl Receiver for FutexWord {
    fn receive(&mut self) -> Result<u64, Problem> {
        loop {
            let bell = self.bell().load(Ordering::Acquire);
            if bell != self.last {
                self.last = bell;
                // Relaxed: the Acquire of the bell orders the load.
                return Ok(self.word().load(Ordering::Relaxed));
            }
            // If the count has changed already, or a signal came, check again.
            let _ = futex::wait(self.bell(), futex::Flags::empty(), bell, None);
        }
    }
}

/// Copies within one region, from the lower half to the upper half, so that it uses no more memory
/// than a ring.
pub(crate) struct Memcpy {
    region: Vec<u8>,
    size: usize,
    at: usize,
}

impl Memcpy {
    pub(crate) fn new(case: &Case) -> Self {
        let half = (REGION / 2).max(case.size.next_multiple_of(64));
        Self { region: vec![1; 2 * half], size: case.size, at: 0 }
    }

    #[inline]
    fn copy(&mut self) {
        let stride = self.size.next_multiple_of(64);
        let half = self.region.len() / 2;
        let (from, to) = self.region.split_at_mut(half);
        let end = self.at + self.size;
        to[self.at..end].copy_from_slice(black_box(&from[self.at..end]));
        black_box(&mut to[self.at]);
        self.at = if self.at + 2 * stride > half { 0 } else { self.at + stride };
    }
}

impl Side for Memcpy {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        (0..count).for_each(|_| self.copy());
        Ok(())
    }

    fn stamped(&mut self, count: u64, times: &mut OneWayTimes) -> Result<(), Problem> {
        for _ in 0..count {
            let start = now_ns();
            self.copy();
            times.record_since(start);
        }
        Ok(())
    }
}

/// The same loop without work: the cost of the clock, and interruptions by the machine.
pub(crate) struct Noise;

impl Side for Noise {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        (0..count).for_each(|_| {
            black_box(now_ns());
        });
        Ok(())
    }

    fn stamped(&mut self, count: u64, times: &mut OneWayTimes) -> Result<(), Problem> {
        (0..count).for_each(|_| times.record_since(now_ns()));
        Ok(())
    }
}

//! Tests of threads at full speed over the real double mapping. Every byte is checked.
#![cfg(all(not(loom), not(miri), target_os = "linux"))]
#![allow(clippy::unwrap_used)] // helpers of tests, which clippy does not count as tests

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use stripline_ring::{CopyOutcome, Mode, Reader, ReserveError, Writer, max_frame};
use support::{Mapped, Random, Ring};

const CAPACITY: usize = 1 << 14;
const FRAMES: u64 = 60_000;
/// The 32-bit boundaries are crossed soon after the start.
const START: u64 = (1 << 32) - (1 << 16);
const START_COUNT: u64 = (1 << 32) - 1000;

/// Fills a frame with the number of the frame and noise derived from it.
fn fill(bytes: &mut [u8], number: u64) {
    let mut random = Random(number);
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    for chunk in bytes[8..].chunks_mut(8) {
        let word = random.next().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

fn check(bytes: &[u8], number: u64) {
    let mut expected = vec![0; bytes.len()];
    fill(&mut expected, number);
    assert!(bytes == expected, "frame {number} of {} bytes is damaged", bytes.len());
}

/// Time limit that only ends a hang.
const LIMIT: Duration = Duration::from_secs(300);

/// Set by a thread that fails, so that the other threads do not spin for ever.
#[derive(Default)]
struct Failed(AtomicBool);

impl Failed {
    /// Lets other threads run, and fails if one of them has failed.
    fn step_aside(&self) {
        // Relaxed: only the flag itself counts.
        assert!(!self.0.load(Ordering::Relaxed), "the other side is gone");
        thread::yield_now();
    }

    /// Runs the part of a thread, and reports a panic to the other threads.
    fn watch(&self, part: impl FnOnce()) {
        let _guard = Guard(self);
        part();
    }
}

/// A guard that reports a panic of its thread.
struct Guard<'f>(&'f Failed);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.0.store(true, Ordering::Relaxed);
        }
    }
}

fn write(mut writer: Writer, mut idle: impl FnMut(&mut Writer), mut published: impl FnMut(&mut Writer)) {
    let mut random = Random(99);
    while writer.count() < START_COUNT + FRAMES {
        let number = writer.count();
        let len = 8 + match random.below(50) {
            0 => random.below(max_frame(CAPACITY) - 7),
            _ => random.below(200),
        };
        loop {
            match writer.try_reserve(len) {
                Ok(bytes) => break fill(bytes, number),
                Err(ReserveError::Full { .. }) => idle(&mut writer),
                Err(error) => panic!("{error}"),
            }
        }
        // Sometimes publish less than was reserved.
        let unused = if random.below(4) == 0 { random.below(len - 7) } else { 0 };
        writer.publish(len - unused);
        published(&mut writer);
    }
    writer.close();
    published(&mut writer);
}

fn read(mut reader: Reader, mut idle: impl FnMut(&mut Reader), mut wake: impl FnMut()) {
    assert!(reader.is_attached());
    loop {
        let closed = reader.is_closed();
        let number = reader.count();
        match reader.try_next().unwrap() {
            Some(bytes) => check(bytes, number),
            None if closed => break,
            None => {
                idle(&mut reader);
                continue;
            }
        }
        if reader.release() {
            wake();
        }
    }
    assert_eq!(reader.count(), START_COUNT + FRAMES);
}

#[test]
fn blocking_and_lossy_readers_spin() {
    let (mut ring, mut writer) = Mapped::make(CAPACITY, START, START_COUNT);
    let (_, reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
    let (_, mut lossy) = ring.attach(&mut writer, Mode::Lossy);
    let failed = Failed::default();
    thread::scope(|scope| {
        scope.spawn(|| failed.watch(|| write(writer, |_| failed.step_aside(), |_| {})));
        scope.spawn(|| failed.watch(|| read(reader, |_| failed.step_aside(), || {})));
        let _guard = Guard(&failed);
        let (mut bytes, mut taken, mut missed) = (Vec::new(), 0, 0);
        for turn in 0.. {
            let closed = lossy.is_closed();
            match lossy.try_copy(turn % 3, &mut bytes).unwrap() {
                CopyOutcome::Frame { skipped } => {
                    missed += skipped;
                    check(&bytes, START_COUNT + taken + missed);
                    taken += 1;
                }
                CopyOutcome::Empty if closed => break,
                CopyOutcome::Empty => failed.step_aside(),
            }
        }
        println!("lossy: {taken} taken, {missed} missed");
        assert_eq!(taken + missed, FRAMES);
    });
}

/// Checks that no sleep ends by the time limit, as it would after a lost wake-up.
#[test]
fn a_blocking_reader_and_the_writer_sleep() {
    for depth in [0, 1, 7] {
        let (mut ring, mut writer) = Mapped::make(CAPACITY, START, START_COUNT);
        let (_, reader) = ring.attach(&mut writer, Mode::Blocking { depth });
        let (to_reader, reader_bell) = mpsc::channel();
        let (to_writer, writer_bell) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                let idle = |writer: &mut Writer| {
                    writer.wait_for_space_begin();
                    if writer.try_reserve(max_frame(CAPACITY)).is_err() {
                        writer_bell.recv_timeout(LIMIT).expect("a reader wakes the writer");
                    }
                    writer.wait_for_space_end();
                };
                let wake = |writer: &mut Writer| {
                    writer.for_each_sleeper(|_| {
                        let _ = to_reader.send(());
                    });
                };
                write(writer, idle, wake);
            });
            let start = Instant::now();
            let idle = |reader: &mut Reader| {
                if reader.prepare_sleep() {
                    reader_bell.recv_timeout(LIMIT).expect("the writer wakes a reader");
                }
            };
            read(reader, idle, || {
                let _ = to_writer.send(());
            });
            println!("depth {depth}: {:?}", start.elapsed());
        });
    }
}

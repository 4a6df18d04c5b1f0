//! Tests of every interleaving, up to a bound on preemptions, in small rings of four lines, which
//! hold at most three frames.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p stripline-ring --release --test loom`
#![cfg(loom)]
#![allow(clippy::unwrap_used)] // helpers of tests, which clippy does not count as tests

use std::sync::Arc;

use loom::sync::Notify;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use stripline_ring::{CopyOutcome, Fence, HeapRing, Mode, ReadError, Reader, ReserveError, Writer};

/// Positions and counts cross the 32-bit boundary in every model.
const START: u64 = (1 << 32) - 128;
const START_COUNT: u64 = (1 << 32) - 2;
const CAPACITY: usize = 256;

fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(f);
}

fn ring() -> (HeapRing, Writer) {
    HeapRing::with_start(CAPACITY, START, START_COUNT)
}

/// Publishes a frame that contains the count of the frame. Returns false if the ring is full.
fn try_publish(writer: &mut Writer) -> bool {
    let number = writer.count();
    match writer.try_reserve(8) {
        Ok(bytes) => bytes.copy_from_slice(&number.to_le_bytes()),
        Err(ReserveError::Full { .. }) => return false,
        Err(error) => panic!("{error}"),
    }
    writer.publish(8);
    true
}

/// Takes the next frame and checks that it is the expected one. Returns the result of `release`.
fn try_take(reader: &mut Reader) -> Option<bool> {
    let bytes: Vec<u8> = reader.try_next().unwrap()?.to_vec();
    assert_eq!(bytes, reader.count().to_le_bytes());
    Some(reader.release())
}

/// Takes the next frame as `try_take` does, but leaves storing the cursor to a later call.
fn try_take_later(reader: &mut Reader) -> Option<bool> {
    let bytes: Vec<u8> = reader.try_next().unwrap()?.to_vec();
    assert_eq!(bytes, reader.count().to_le_bytes());
    Some(reader.release_later())
}

// No model spins: every turn of a waiting loop would double the interleavings. Instead the threads
// try a few times, and the test checks the rest at the end.

#[test]
fn frames_arrive_whole_and_in_order_over_laps() {
    model(3, || {
        let (ring, mut writer) = ring();
        let (_, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
        // No thread sleeps here: a full fence would hide another missing ordering.
        reader.set_fence(Fence::Compiler);
        assert!(try_publish(&mut writer));
        let thread = thread::spawn(move || {
            for _ in 0..3 {
                try_take(&mut reader);
            }
            reader
        });
        for _ in 0..4 {
            try_publish(&mut writer);
        }
        let mut reader = thread.join().unwrap();
        while try_take(&mut reader).is_some() {}
        assert_eq!(reader.count(), writer.count());
    });
}

#[test]
fn two_readers_each_get_every_frame() {
    model(2, || {
        let (ring, mut writer) = ring();
        let [mut first, mut second] =
            [0, 3].map(|depth| ring.attach(&mut writer, Mode::Blocking { depth }).1);
        for _ in 0..3 {
            assert!(try_publish(&mut writer));
        }
        assert!(!try_publish(&mut writer));
        let one = thread::spawn(move || {
            for _ in 0..2 {
                assert!(try_take(&mut first).is_some());
            }
            first
        });
        let two = thread::spawn(move || {
            for _ in 0..2 {
                assert!(try_take(&mut second).is_some());
            }
            second
        });
        try_publish(&mut writer);
        try_publish(&mut writer);
        for thread in [one, two] {
            let mut reader = thread.join().unwrap();
            while try_take(&mut reader).is_some() {}
            assert_eq!(reader.count(), writer.count());
        }
    });
}

/// Checks a reader that sleeps whenever it finds nothing. A lost wake-up leads to a deadlock, which
/// loom reports.
fn sleeping_reader(mode: Mode, frames: u64, close: bool) {
    model(3, move || {
        let (ring, mut writer) = ring();
        let (_, mut reader) = ring.attach(&mut writer, mode);
        let doorbell = Arc::new(Notify::new());
        let bell = doorbell.clone();
        let thread = thread::spawn(move || {
            let mut bytes = Vec::new();
            loop {
                let ended = reader.is_closed();
                let taken = match mode {
                    Mode::Blocking { .. } => try_take(&mut reader).is_some(),
                    Mode::Lossy => reader.try_copy(0, &mut bytes).unwrap() != CopyOutcome::Empty,
                };
                let done = if close { ended && !taken } else { reader.count() == START_COUNT + frames };
                if done {
                    break;
                }
                if !taken && !ended && reader.prepare_sleep() {
                    bell.wait();
                }
            }
            assert_eq!(reader.count(), START_COUNT + frames);
        });
        while writer.count() < START_COUNT + frames {
            assert!(try_publish(&mut writer));
            writer.for_each_sleeper(|_| doorbell.notify());
        }
        if close {
            writer.close();
            writer.for_each_sleeper(|_| doorbell.notify());
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_sleeping_reader_is_woken() {
    sleeping_reader(Mode::Blocking { depth: 0 }, 2, false);
}

#[test]
fn a_sleeping_reader_is_woken_at_the_end() {
    sleeping_reader(Mode::Blocking { depth: 0 }, 1, true);
}

#[test]
fn a_sleeping_lossy_reader_is_woken() {
    sleeping_reader(Mode::Lossy, 2, false);
}

/// The way in which a reader releases the frames it has taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Release {
    Each,
    /// Releases all available frames, with one store of the cursor if that is allowed.
    Later,
}

/// Checks a writer that sleeps whenever there is no space. `before` frames fill the ring, and
/// `more` frames follow. A lost wake-up leads to a deadlock.
fn sleeping_writer(release: Release, depth: u32, low: Option<u32>, before: u64, more: u64) {
    model(3, move || {
        let (ring, mut writer) = ring();
        let (id, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth });
        if let Some(low) = low {
            writer.set_low_watermark(id, low);
        }
        for _ in 0..before {
            assert!(try_publish(&mut writer));
        }
        let doorbell = Arc::new(Notify::new());
        let bell = doorbell.clone();
        let thread = thread::spawn(move || {
            for _ in 0..before {
                let wakes = match release {
                    Release::Each => try_take(&mut reader).unwrap(),
                    Release::Later => try_take_later(&mut reader).unwrap(),
                };
                if wakes {
                    bell.notify();
                }
            }
            // A drain also ends if frames are left.
            if reader.finish_releases() {
                bell.notify();
            }
            reader
        });
        while writer.count() < START_COUNT + before + more {
            if try_publish(&mut writer) {
                continue;
            }
            writer.wait_for_space_begin();
            if !try_publish(&mut writer) {
                doorbell.wait();
            }
            writer.wait_for_space_end();
        }
        let mut reader = thread.join().unwrap();
        while try_take(&mut reader).is_some() {}
        assert_eq!(reader.count(), writer.count());
    });
}

#[test]
fn a_writer_asleep_on_a_full_ring_is_woken() {
    sleeping_writer(Release::Each, 0, None, 3, 2);
}

#[test]
fn a_writer_asleep_on_a_depth_of_one_is_woken() {
    sleeping_writer(Release::Each, 1, None, 1, 1);
}

#[test]
fn a_writer_asleep_on_a_depth_of_two_is_woken() {
    sleeping_writer(Release::Each, 2, None, 2, 2);
}

#[test]
fn a_writer_that_waits_for_the_low_watermark_is_woken() {
    // Only one more frame follows. With two, the reader might take the first two and leave the
    // third, which exceeds the watermark of 0.
    sleeping_writer(Release::Each, 2, Some(0), 2, 1);
}

#[test]
fn a_writer_that_waits_for_a_low_watermark_in_between_is_woken() {
    sleeping_writer(Release::Each, 3, Some(1), 3, 1);
}

#[test]
fn a_writer_is_woken_by_a_reader_that_drains_a_full_ring() {
    sleeping_writer(Release::Later, 0, None, 3, 2);
}

#[test]
fn a_writer_is_woken_by_a_reader_that_drains_a_depth_of_one() {
    sleeping_writer(Release::Later, 1, None, 1, 1);
}

#[test]
fn a_writer_is_woken_by_a_reader_that_drains_a_depth_of_two() {
    sleeping_writer(Release::Later, 2, None, 2, 2);
}

#[test]
fn a_writer_is_woken_by_a_drain_to_the_low_watermark() {
    sleeping_writer(Release::Later, 2, Some(0), 2, 1);
}

#[test]
fn a_writer_is_woken_by_a_drain_past_the_low_watermark() {
    sleeping_writer(Release::Later, 3, Some(1), 3, 1);
}

/// Checks frames that another thread reads while the reader moves on, and that the other thread
/// gives back in reverse order.
#[test]
fn kept_frames_stay_until_they_are_given_back() {
    model(2, || {
        let (ring, mut writer) = ring();
        let (_, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
        // No thread sleeps here: a full fence would hide another missing ordering.
        reader.set_fence(Fence::Compiler);
        for _ in 0..2 {
            assert!(try_publish(&mut writer));
        }
        let over = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let kept = [0, 1].map(|token| {
            assert!(reader.try_next().unwrap().is_some());
            reader.keep(token).unwrap()
        });
        let theirs = over.clone();
        let user = thread::spawn(move || {
            for index in [1, 0] {
                let number = START_COUNT + index as u64;
                // SAFETY: the frame is not over yet.
                assert_eq!(unsafe { kept[index].bytes() }, number.to_le_bytes());
                theirs[index].store(1, Ordering::Release);
            }
        });
        let receiver = thread::spawn(move || {
            for _ in 0..2 {
                reader.settle(|frame| over[frame.token() as usize].load(Ordering::Acquire) == 1);
                if let Ok(Some(bytes)) = reader.try_next() {
                    assert_eq!(bytes, reader_count(2));
                    reader.pass();
                    break;
                }
            }
            (reader, over)
        });
        // The third frame fits beside the two kept frames; the other frames fit only after these
        // are given back.
        for _ in 0..3 {
            try_publish(&mut writer);
        }
        user.join().unwrap();
        let (mut reader, over) = receiver.join().unwrap();
        reader.settle(|frame| over[frame.token() as usize].load(Ordering::Acquire) == 1);
        assert!(!reader.keeps_frames());
        while try_take(&mut reader).is_some() {}
        assert_eq!(reader.count(), writer.count());
    });
}

/// Returns the bytes of the frame that is `behind` frames behind the first.
fn reader_count(behind: u64) -> [u8; 8] {
    (START_COUNT + behind).to_le_bytes()
}

/// Checks a writer that sleeps because it has no room, and a reader that keeps the first frame
/// until it has read all others. The reader sleeps only while it keeps so little that the writer
/// has room.
#[test]
fn a_writer_is_woken_by_a_reader_that_keeps_frames() {
    keeping_reader(true);
}

#[test]
fn a_writer_is_woken_by_a_reader_that_gives_back_before_it_sleeps() {
    keeping_reader(false);
}

/// Checks a reader that keeps frames. With `settles_each`, the reader gives frames back before each
/// attempt to read; otherwise it does so only at the end.
fn keeping_reader(settles_each: bool) {
    model(3, move || {
        let (ring, mut writer) = ring();
        let (id, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 2 });
        writer.set_low_watermark(id, 1);
        for _ in 0..2 {
            assert!(try_publish(&mut writer));
        }
        let doorbell = Arc::new(Notify::new());
        let bell = doorbell.clone();
        let thread = thread::spawn(move || {
            assert!(reader.try_next().unwrap().is_some());
            reader.keep(0).unwrap();
            for _ in 0..2 {
                if settles_each && reader.settle(|_| false) {
                    bell.notify();
                }
                if reader.try_next().unwrap().is_some() {
                    reader.pass();
                }
            }
            // One frame is kept and all frames are read. The writer may wait for no more than this.
            if reader.settle(|_| true) {
                bell.notify();
            }
            reader
        });
        while writer.count() < START_COUNT + 3 {
            if try_publish(&mut writer) {
                continue;
            }
            writer.wait_for_space_begin();
            if !try_publish(&mut writer) {
                doorbell.wait();
            }
            writer.wait_for_space_end();
        }
        let mut reader = thread.join().unwrap();
        while try_take(&mut reader).is_some() {}
        assert_eq!(reader.count(), writer.count());
    });
}

/// Checks a reader that sleeps whenever it finds nothing, with a writer that publishes several
/// frames and then checks for sleepers once.
#[test]
fn a_sleeping_reader_is_woken_by_frames_published_together() {
    model(3, || {
        let (ring, mut writer) = ring();
        let (_, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
        let doorbell = Arc::new(Notify::new());
        let bell = doorbell.clone();
        let thread = thread::spawn(move || {
            while reader.count() < START_COUNT + 3 {
                if try_take_later(&mut reader).is_none() {
                    reader.finish_releases();
                    if reader.prepare_sleep() {
                        bell.wait();
                    }
                }
            }
        });
        for frames in [2, 1] {
            for _ in 0..frames {
                let number = writer.count();
                writer.try_reserve(8).unwrap().copy_from_slice(&number.to_le_bytes());
                writer.publish_later_with(8, []);
            }
            writer.finish_publishing();
            writer.for_each_sleeper(|_| doorbell.notify());
        }
        thread.join().unwrap();
    });
}

/// Checks that two readers can share a sleep word: the check for one must not hide the other.
#[test]
fn sleeping_readers_that_share_a_word_are_both_woken() {
    model(2, || {
        let (ring, mut writer) = ring();
        let mode = Mode::Blocking { depth: 0 };
        let sleepers = ring.sleepers();
        let doorbells = [Arc::new(Notify::new()), Arc::new(Notify::new())];
        let mut ids = Vec::new();
        let threads: Vec<_> = doorbells
            .iter()
            .map(|bell| {
                let (id, mut reader) = ring.attach_sharing(&mut writer, &sleepers, mode);
                ids.push(id);
                let bell = bell.clone();
                thread::spawn(move || {
                    while try_take(&mut reader).is_none() {
                        if reader.prepare_sleep() {
                            bell.wait();
                        }
                    }
                })
            })
            .collect();
        assert!(try_publish(&mut writer));
        writer.for_each_sleeper(|sleeper| {
            let index = ids.iter().position(|known| *known == sleeper.reader).unwrap();
            doorbells[index].notify();
        });
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_writer_that_waits_for_a_release_is_woken() {
    model(3, || {
        let (ring, mut writer) = ring();
        let (id, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
        for _ in 0..2 {
            assert!(try_publish(&mut writer));
        }
        let doorbell = Arc::new(Notify::new());
        let bell = doorbell.clone();
        let thread = thread::spawn(move || {
            for _ in 0..2 {
                if try_take(&mut reader).unwrap() {
                    bell.notify();
                }
            }
        });
        while writer.released(id).unwrap().0 < writer.position() {
            writer.wait_for_space_begin();
            if writer.released(id).unwrap().0 < writer.position() {
                doorbell.wait();
            }
            writer.wait_for_space_end();
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_reader_attached_while_frames_are_published_starts_with_the_next() {
    model(3, || {
        let (ring, mut writer) = ring();
        let mode = Mode::Blocking { depth: 0 };
        let (mut reader, cursor) = ring.reader(mode);
        let doorbell = Arc::new(Notify::new());
        let bell = doorbell.clone();
        let thread = thread::spawn(move || {
            // The reader sleeps even before it is attached.
            while reader.count() < START_COUNT + 2 {
                if try_take(&mut reader).is_none() && reader.prepare_sleep() {
                    bell.wait();
                }
            }
        });
        assert!(try_publish(&mut writer));
        ring.attach_cursor(&mut writer, cursor, mode);
        writer.for_each_sleeper(|_| doorbell.notify());
        assert!(try_publish(&mut writer));
        writer.for_each_sleeper(|_| doorbell.notify());
        thread.join().unwrap();
    });
}

/// Checks that the numbers of taken and skipped frames add up, and that no frame is a mixture of
/// two.
fn overtaken(depth: u32, frames: u64, takes: u32, preemptions: usize) {
    model(preemptions, move || {
        let (ring, mut writer) = ring();
        let (_, mut reader) = ring.attach(&mut writer, Mode::Lossy);
        let thread = thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut before = reader.count();
            let mut take = move |reader: &mut Reader| match reader.try_copy(depth, &mut bytes) {
                Ok(CopyOutcome::Empty) => false,
                Ok(CopyOutcome::Frame { skipped }) => {
                    assert_eq!(bytes, (before.max(START_COUNT) + skipped).to_le_bytes());
                    before = reader.count();
                    true
                }
                Err(error) => panic!("{error}"),
            };
            for _ in 0..takes {
                take(&mut reader);
            }
            (reader, take)
        });
        for _ in 0..frames {
            assert!(try_publish(&mut writer));
        }
        let (mut reader, mut take) = thread.join().unwrap();
        while take(&mut reader) {}
        assert_eq!(reader.count(), START_COUNT + frames);
    });
}

#[test]
fn a_lossy_reader_that_is_overtaken_counts_what_it_missed() {
    overtaken(0, 5, 2, 3);
}

#[test]
fn a_lossy_reader_of_the_newest_frame_counts_what_it_missed() {
    overtaken(1, 4, 1, 3);
}

#[test]
fn a_lossy_reader_of_the_two_newest_frames_counts_what_it_missed() {
    overtaken(2, 5, 2, 2);
}

#[test]
fn a_reader_in_the_wrong_mode_is_told() {
    model(1, || {
        let (ring, mut writer) = ring();
        let (_, mut reader) = ring.attach(&mut writer, Mode::Lossy);
        assert_eq!(reader.try_next(), Err(ReadError::WrongMode));
    });
}

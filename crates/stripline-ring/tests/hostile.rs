//! Tests of peers that write values that no correct peer writes. The values must be detected, named
//! and harmless.
#![cfg(all(not(loom), not(miri), target_os = "linux"))]
#![allow(clippy::unwrap_used)] // helpers of tests, which clippy does not count as tests

mod support;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stripline_ring::{
    AttachError, Control, CopyOutcome, Corruption, Cursor, LINE, Mode, ReadError, Reader, ReaderMode,
    ReaderViolation, ReserveError, Writer, max_frame,
};
use support::{Mapped, Random, Ring};

const CAPACITY: usize = 4096;
/// Time limit that only ends a hang.
const LIMIT: Duration = Duration::from_secs(300);
const BLOCKING: Mode = Mode::Blocking { depth: 0 };

/// Returns a word of memory, for access outside of the protocol.
fn word<T>(base: NonNull<T>, offset: usize) -> &'static AtomicU64 {
    // SAFETY: the tests stay inside the page and drop the ring last. All words are aligned atomics.
    unsafe { base.cast::<u8>().add(offset).cast::<AtomicU64>().as_ref() }
}

/// A guard that ends the other thread, even if a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn publish(writer: &mut Writer, len: usize) {
    writer.try_reserve(len).unwrap().fill(7);
    writer.publish(len);
}

/// Returns a writer with one published, unreleased frame and no room for another of the largest
/// size.
fn with_cursor(mode: Mode) -> (Mapped, Writer, Reader, NonNull<Cursor>, stripline_ring::ReaderId) {
    let (mut ring, mut writer) = Mapped::make(CAPACITY, 128, 1);
    let (reader, cursor) = ring.reader(mode);
    // SAFETY: the cursor lives as long as the ring.
    let id = unsafe { writer.attach(cursor, mode) };
    (ring, writer, reader, cursor, id)
}

#[test]
fn a_lying_cursor_is_named_and_only_its_reader_suffers() {
    let (head, count) = (128 + 2 * 1984, 3);
    let lies: [(usize, u64, ReaderViolation); 7] = [
        (0, 129, ReaderViolation::ReleasedUnaligned { released: 129 }),
        (0, 64, ReaderViolation::ReleasedBackwards { released: 64, before: 128 }),
        (0, 0, ReaderViolation::ReleasedBackwards { released: 0, before: 128 }),
        (0, head + 64, ReaderViolation::ReleasedUnpublished { released: head + 64, head }),
        (0, !63, ReaderViolation::ReleasedUnpublished { released: !63, head }),
        (8, 0, ReaderViolation::CountBackwards { count: 0, before: 1 }),
        (8, u64::MAX, ReaderViolation::CountUnpublished { count: u64::MAX, published: count }),
    ];
    for (offset, lie, violation) in lies {
        let (mut ring, mut writer, _reader, cursor, id) = with_cursor(BLOCKING);
        let (other, mut honest) = Ring::attach(&mut ring, &mut writer, BLOCKING);
        let max = max_frame(CAPACITY);
        publish(&mut writer, max);
        publish(&mut writer, max);
        assert_eq!(writer.position(), head);
        word(cursor, offset).store(lie, Ordering::Relaxed);
        for _ in 0..2 {
            assert_eq!(
                writer.try_reserve(max).unwrap_err(),
                ReserveError::Misbehaved { reader: id, violation }
            );
        }
        // A later correction of the cursor does not help.
        word(cursor, 0).store(128, Ordering::Relaxed);
        word(cursor, 8).store(1, Ordering::Relaxed);
        assert_eq!(writer.violation(id), Some(violation));
        assert_eq!(writer.lag(id), None);
        assert_eq!(writer.released(id), None);
        writer.detach(id);
        assert_eq!(writer.try_reserve(max).unwrap_err(), ReserveError::Full { slowest: other });
        for _ in 0..2 {
            assert_eq!(honest.try_next().unwrap().unwrap().len(), max);
            honest.release();
        }
        publish(&mut writer, max);
    }
}

#[test]
fn a_writer_survives_a_cursor_scribbled_over() {
    let scribbling = AtomicBool::new(true);
    let (mut ring, mut writer, _reader, cursor, id) = with_cursor(Mode::Blocking { depth: 3 });
    let (_, mut honest) = Ring::attach(&mut ring, &mut writer, BLOCKING);
    let cursor_words: Vec<&AtomicU64> =
        (0..size_of::<Cursor>() / 8).map(|index| word(cursor, index * 8)).collect();
    std::thread::scope(|scope| {
        let _stop = Stop(&scribbling);
        scope.spawn(|| {
            let mut random = Random(1);
            while scribbling.load(Ordering::Relaxed) {
                let word = cursor_words[random.below(cursor_words.len())];
                word.store(random.next() >> random.below(64), Ordering::Relaxed);
            }
        });
        let mut detached = false;
        for (turn, len) in (0..max_frame(CAPACITY)).cycle().step_by(97).enumerate() {
            if turn > 20_000 && detached {
                break;
            }
            match writer.try_reserve(len) {
                Ok(bytes) => {
                    bytes.fill(len as u8);
                    writer.publish(len);
                }
                Err(ReserveError::Misbehaved { reader, .. }) => {
                    assert_eq!(reader, id);
                    writer.detach(id);
                    detached = true;
                }
                Err(ReserveError::Full { slowest }) if slowest == id => {
                    writer.wait_for_space_begin();
                    writer.wait_for_space_end();
                }
                Err(ReserveError::Full { .. }) => {
                    while let Some(bytes) = honest.try_next().unwrap() {
                        assert!(bytes.iter().all(|byte| *byte == bytes.len() as u8));
                        honest.release();
                    }
                }
                Err(error) => panic!("{error}"),
            }
            writer.for_each_sleeper(|_| {});
            let _ = writer.lag(id);
        }
    });
}

#[test]
fn a_lying_writer_is_named() {
    let lies = [
        (8, 1 << 32 | 4096, Corruption::Length { position: 128, len: 4096, max: max_frame(CAPACITY) }),
        (
            8,
            1 << 32 | 0xffff_ffff,
            Corruption::Length { position: 128, len: 0xffff_ffff, max: max_frame(CAPACITY) },
        ),
        (8, 2 << 32 | 5, Corruption::FrameCount { position: 128, expected: 1, found: 2 }),
    ];
    for (offset, lie, what) in lies {
        for mode in [BLOCKING, Mode::Lossy] {
            let (ring, mut writer, mut reader, _, _) = with_cursor(mode);
            publish(&mut writer, 5);
            word(ring.writable.data(), 128 + offset as usize).store(lie, Ordering::Relaxed);
            let error = match mode {
                Mode::Lossy => reader.try_copy(0, &mut Vec::new()).unwrap_err(),
                _ => reader.try_next().unwrap_err(),
            };
            // A lossy reader has only the count in the frame and the count that it stored itself.
            assert_eq!(error, ReadError::Corrupt { what });
        }
    }
}

/// Checks that any word other than the right one means that there is no frame yet. A reader that
/// goes to sleep compares this result with the number of frames.
#[test]
fn a_wrong_commit_word_is_no_frame() {
    for found in [0, 1, 128, 0x1001, 129 + CAPACITY as u64, u64::MAX] {
        let (ring, mut writer, mut reader, _, _) = with_cursor(Mode::Lossy);
        publish(&mut writer, 5);
        word(ring.writable.data(), 128).store(found, Ordering::Relaxed);
        assert_eq!(reader.try_copy(0, &mut Vec::new()), Ok(CopyOutcome::Empty));
        assert!(reader.prepare_sleep());

        let (ring, mut writer, mut reader, _, _) = with_cursor(BLOCKING);
        publish(&mut writer, 5);
        word(ring.writable.data(), 128).store(found, Ordering::Relaxed);
        assert_eq!(reader.try_next(), Ok(None));
        assert!(!reader.prepare_sleep(), "a reader with an error must not sleep");
        let what = Corruption::CommitWord { position: 128, found };
        assert_eq!(reader.try_next(), Err(ReadError::Corrupt { what }));
        let count = 128 + 8;
        word(ring.writable.control(), count).store(1, Ordering::Relaxed);
        assert!(reader.prepare_sleep());
        assert_eq!(reader.try_next(), Ok(None));
    }
}

#[test]
fn impossible_terms_are_refused() {
    let attach_info = 256;
    for (offset, lie) in [(attach_info, 129), (attach_info, !63), (attach_info + 8, u64::MAX)] {
        let (_ring, _writer, mut reader, cursor, _) = with_cursor(BLOCKING);
        word(cursor, offset).store(lie, Ordering::Relaxed);
        assert!(!reader.is_attached());
        assert_eq!(reader.try_next(), Err(ReadError::Corrupt { what: Corruption::Progress { found: lie } }));
        assert!(!reader.prepare_sleep(), "a reader with an error must not sleep");
    }
    let (mut ring, mut writer, _, _, _) = with_cursor(BLOCKING);
    let (mut reader, cursor) = ring.reader(BLOCKING);
    // SAFETY: the cursor lives as long as the ring.
    unsafe { writer.attach(cursor, Mode::Lossy) };
    assert_eq!(reader.try_next(), Err(ReadError::Corrupt { what: Corruption::Mode { found: 2 } }));
}

#[test]
fn memory_that_holds_no_such_ring_is_refused() {
    let (ring, _writer) = Mapped::make(CAPACITY, 0, 0);
    let cursor = Cursor::default();
    let open = |capacity| {
        let (control, data) = (ring.read_only.control(), ring.read_only.data());
        // SAFETY: this is the memory of a ring. No reader is created if the capacity differs from
        // the capacity of the ring.
        unsafe { Reader::new(control, data, capacity, NonNull::from(&cursor), ReaderMode::Lossy) }
    };
    assert!(open(CAPACITY).is_ok());
    for (offset, lie, error) in [
        (8, 8192, AttachError::Capacity { found: 8192, expected: CAPACITY }),
        (16, 3, AttachError::Version { found: 3, known: 5 }),
        (0, 0, AttachError::NotARing { magic: 0 }),
    ] {
        word(ring.writable.control(), offset).store(lie, Ordering::Relaxed);
        assert_eq!(open(CAPACITY).unwrap_err(), error);
    }
}

/// Checks that readers take a bounded time and stay in bounds, whether overtaken or not, awake or
/// asleep.
#[test]
fn readers_survive_memory_scribbled_over() {
    for (mode, borrows) in [(BLOCKING, true), (BLOCKING, false), (Mode::Lossy, false)] {
        let (mut ring, mut writer) = Mapped::make(CAPACITY, 128, 1);
        let control: Vec<&AtomicU64> =
            (16..size_of::<Control>() / 8).map(|index| word(ring.writable.control(), index * 8)).collect();
        let data: Vec<&AtomicU64> =
            (0..CAPACITY / 8).map(|index| word(ring.writable.data(), index * 8)).collect();
        let (scribbling, scribbles) = (AtomicBool::new(true), AtomicU64::new(0));
        let (mut frames, mut errors) = (0, 0);
        std::thread::scope(|scope| {
            let _stop = Stop(&scribbling);
            scope.spawn(|| {
                let mut random = Random(2);
                while scribbling.load(Ordering::Relaxed) {
                    scribbles.fetch_add(1, Ordering::Relaxed);
                    scribble(&mut random, &control, &data);
                }
            });
            let mut bytes = Vec::new();
            let start = Instant::now();
            for turn in 0.. {
                // The scheduling of the two threads varies. Continue until both frames and errors
                // have occurred often.
                let enough = turn > 500 && scribbles.load(Ordering::Relaxed) > 500_000;
                if (enough && frames > 100 && errors > 100) || start.elapsed() > LIMIT {
                    break;
                }
                let (id, mut reader) = Ring::attach(&mut ring, &mut writer, mode);
                for depth in 0..200 {
                    let outcome = match mode {
                        Mode::Lossy => {
                            let copied = reader.try_copy(depth % 4, &mut bytes);
                            copied.map(|copied| (copied != CopyOutcome::Empty).then_some(bytes.len()))
                        }
                        _ if !borrows => {
                            let copied = reader.try_next_copied(&mut bytes);
                            copied.map(|copied| copied.then_some(bytes.len()))
                        }
                        _ => reader.try_next().map(|next| next.map(<[u8]>::len)),
                    };
                    match outcome {
                        Ok(None) => {}
                        Ok(Some(len)) => {
                            assert!(len <= max_frame(CAPACITY));
                            frames += 1;
                        }
                        Err(_) => errors += 1,
                    }
                    if depth % 8 < 4 {
                        reader.release_later();
                    } else {
                        reader.finish_releases();
                        reader.release();
                    }
                    if depth % 8 == 3 {
                        reader.finish_releases();
                    }
                    if depth % 8 > 2 && reader.prepare_sleep() {
                        reader.cancel_sleep();
                    }
                    reader.is_closed();
                }
                writer.detach(id);
            }
        });
        assert!(frames > 100 && errors > 100, "{mode:?}: {frames} frames and {errors} errors made up");
        // The writer also never goes beyond the head, even over corrupted headers.
        Ring::attach(&mut ring, &mut writer, Mode::Lossy);
        for _ in 0..100 {
            publish(&mut writer, 500);
        }
    }
}

/// Overwrites words. Often the result is a nearly valid ring: frames of one line each, from
/// position 128 on, where readers start.
fn scribble(random: &mut Random, control: &[&AtomicU64], data: &[&AtomicU64]) {
    let line = random.below(CAPACITY / LINE);
    let position = (line * LINE) as u64;
    let count = (line as u64).wrapping_sub(1);
    match random.below(16) {
        0 => data[random.below(data.len())].store(random.next(), Ordering::Relaxed),
        1 => control[random.below(control.len())].store(random.next(), Ordering::Relaxed),
        2 => control[random.below(control.len())].store(position, Ordering::Relaxed),
        3 => control[random.below(control.len())].store(count, Ordering::Relaxed),
        4 => data[line * 8 + 1].store(random.next() >> random.below(64), Ordering::Relaxed),
        5 => data[line * 8].store(0, Ordering::Relaxed),
        6 => control.iter().for_each(|word| word.store(0, Ordering::Relaxed)),
        _ => {
            data[line * 8 + 1].store(random.below(49) as u64 | count << 32, Ordering::Relaxed);
            data[line * 8].store(position | 1, Ordering::Relaxed);
        }
    }
}

//! The guarantees of the ring, one test for each.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)] // helpers of tests, which clippy does not count as tests

mod support;

use stripline_ring::{
    CopyOutcome, Fence, HeapRing, Lag, Mode, ReadError, ReserveError, Writer, frame_stride,
    is_valid_capacity, max_frame,
};

const CAPACITY: usize = 4096;
const BLOCKING: Mode = Mode::Blocking { depth: 0 };

fn publish(writer: &mut Writer, bytes: &[u8]) {
    writer.try_reserve(bytes.len()).unwrap().copy_from_slice(bytes);
    writer.publish(bytes.len());
}

#[test]
fn the_largest_frame_fits_and_one_byte_more_does_not() {
    let (ring, mut writer) = HeapRing::new(CAPACITY);
    let (id, mut reader) = ring.attach(&mut writer, BLOCKING);
    let max = max_frame(CAPACITY);
    assert_eq!(writer.try_reserve(max + 1), Err(ReserveError::TooLarge { max }));
    for lap in 0..5 {
        publish(&mut writer, &vec![lap; max]);
        publish(&mut writer, &vec![lap + 100; max]);
        assert_eq!(writer.try_reserve(max), Err(ReserveError::Full { slowest: id }));
        assert_eq!(reader.try_next().unwrap().unwrap(), vec![lap; max]);
        assert_eq!(writer.try_reserve(max), Err(ReserveError::Full { slowest: id }));
        reader.release();
        assert_eq!(reader.try_next().unwrap().unwrap(), vec![lap + 100; max]);
        reader.release();
    }
}

#[test]
fn an_empty_frame_is_a_frame() {
    let (ring, mut writer) = HeapRing::new(CAPACITY);
    let (_, mut reader) = ring.attach(&mut writer, BLOCKING);
    publish(&mut writer, &[]);
    assert_eq!(reader.try_next(), Ok(Some(&[][..])));
    reader.release();
    assert_eq!(reader.try_next(), Ok(None));
    assert_eq!(writer.position(), frame_stride(0) as u64);
}

#[test]
fn a_frame_stays_until_it_is_released() {
    let (ring, mut writer) = HeapRing::new(CAPACITY);
    let (_, mut reader) = ring.attach(&mut writer, BLOCKING);
    assert!(!reader.release(), "nothing to release");
    publish(&mut writer, b"one");
    publish(&mut writer, b"two");
    assert_eq!(reader.try_next(), Ok(Some(&b"one"[..])));
    assert_eq!(reader.try_next(), Ok(Some(&b"one"[..])));
    reader.release();
    assert_eq!(reader.try_next(), Ok(Some(&b"two"[..])));
}

/// Checks that a waiting writer is woken as early as with single releases, up to a quarter.
#[test]
fn frames_released_later_are_stored_by_the_quarter() {
    for (depth, low, stores) in [
        (0, None, vec![16, 32, 48, 63]),
        (16, None, vec![4, 8, 12, 16]),
        // The frames in the second quarter pass the low watermark.
        (16, Some(9), vec![8, 12, 16]),
    ] {
        let (ring, mut writer) = HeapRing::new(CAPACITY);
        let (id, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth });
        if let Some(low) = low {
            writer.set_low_watermark(id, low);
        }
        while writer.try_reserve(1).is_ok() {
            writer.publish(1);
        }
        writer.wait_for_space_begin();
        let mut woken = Vec::new();
        while reader.try_next().unwrap().is_some() {
            if reader.release_later() {
                woken.push(reader.count());
            }
        }
        if reader.finish_releases() {
            woken.push(reader.count());
        }
        assert_eq!(woken, stores, "{depth}, {low:?}");
        assert_eq!(writer.lag(id), Some(Lag { bytes: 0, frames: 0 }));
        assert!(!reader.finish_releases(), "nothing is left to store");
    }
}

#[test]
fn frames_copied_are_those_that_are_borrowed() {
    let (ring, mut writer) = HeapRing::new(CAPACITY);
    let (id, mut borrower) = ring.attach(&mut writer, BLOCKING);
    let (_, mut copier) = ring.attach(&mut writer, BLOCKING);
    let mut copy = b"left from before".to_vec();
    assert_eq!(copier.try_next_copied(&mut copy), Ok(false));
    // Covers several laps, with every remainder of a word and of a line, and also across the end of
    // the ring.
    for len in (0..=200).chain([max_frame(CAPACITY); 5]) {
        let frame: Vec<u8> = (0..len).map(|index| (index * 7 + len) as u8).collect();
        publish(&mut writer, &frame);
        for _ in 0..2 {
            assert_eq!(copier.try_next_copied(&mut copy), Ok(true));
            assert_eq!(copy, frame);
        }
        assert_eq!(borrower.try_next(), Ok(Some(&copy[..])));
        borrower.release();
        copier.release();
        assert_eq!(copier.position(), writer.position());
        assert_eq!(copier.try_next_copied(&mut copy), Ok(false));
    }
    drop(borrower);
    writer.detach(id);
    // A frame that is copied but not released still takes space.
    publish(&mut writer, &vec![1; max_frame(CAPACITY)]);
    publish(&mut writer, &vec![2; max_frame(CAPACITY)]);
    copier.try_next_copied(&mut copy).unwrap();
    assert!(matches!(writer.try_reserve(1000), Err(ReserveError::Full { .. })));
    let (_, mut lossy) = ring.attach(&mut writer, Mode::Lossy);
    assert_eq!(lossy.try_next_copied(&mut copy), Err(ReadError::WrongMode));
}

#[test]
#[should_panic(expected = "5 bytes published, Some(4) reserved")]
fn more_than_reserved_cannot_be_published() {
    let (_ring, mut writer) = HeapRing::new(CAPACITY);
    writer.try_reserve(4).unwrap();
    writer.publish(5);
}

#[test]
#[should_panic(expected = "0 bytes published, None reserved")]
fn nothing_is_published_after_a_refusal() {
    let (ring, mut writer) = HeapRing::new(CAPACITY);
    let (_, _reader) = ring.attach(&mut writer, Mode::Blocking { depth: 1 });
    publish(&mut writer, b"one");
    assert!(writer.try_reserve(4).is_err());
    writer.publish(0);
}

#[test]
fn a_depth_is_kept_per_reader() {
    let (ring, mut writer) = HeapRing::new(CAPACITY);
    let (shallow, mut one) = ring.attach(&mut writer, Mode::Blocking { depth: 2 });
    let (deep, two) = ring.attach(&mut writer, Mode::Blocking { depth: 3 });
    publish(&mut writer, b"1");
    publish(&mut writer, b"2");
    assert_eq!(writer.try_reserve(1), Err(ReserveError::Full { slowest: shallow }));
    one.try_next().unwrap();
    one.release();
    publish(&mut writer, b"3");
    one.try_next().unwrap();
    one.release();
    assert_eq!(writer.try_reserve(1), Err(ReserveError::Full { slowest: deep }));
    assert_eq!(writer.lag(deep), Some(Lag { bytes: 192, frames: 3 }));
    assert_eq!(writer.released(shallow), Some((128, 2)));
    drop(two);
    writer.detach(deep);
    publish(&mut writer, b"4");
}

#[test]
fn ids_are_never_used_twice() {
    let (ring, mut writer) = HeapRing::new(CAPACITY);
    let (first, reader) = ring.attach(&mut writer, BLOCKING);
    drop(reader);
    writer.detach(first);
    let (second, _reader) = ring.attach(&mut writer, BLOCKING);
    assert_ne!(first, second);
    writer.detach(first);
    assert_eq!(writer.readers(), 1);
}

#[test]
#[should_panic(expected = "dropped before it is detached")]
fn a_heap_reader_that_may_borrow_cannot_be_detached() {
    let (ring, mut writer) = HeapRing::new(CAPACITY);
    let (id, _reader) = ring.attach(&mut writer, BLOCKING);
    writer.detach(id);
}

#[test]
fn a_detached_reader_is_told() {
    let (ring, mut writer) = HeapRing::new(CAPACITY);
    let (id, mut reader) = ring.attach(&mut writer, Mode::Lossy);
    publish(&mut writer, b"one");
    let mut bytes = Vec::new();
    assert_eq!(reader.try_copy(0, &mut bytes), Ok(CopyOutcome::Frame { skipped: 0 }));
    assert!(reader.prepare_sleep());
    writer.detach(id);
    assert!(!reader.prepare_sleep());
    assert_eq!(reader.try_copy(0, &mut bytes), Err(ReadError::Detached));
}

#[test]
fn the_end_comes_after_the_last_frame() {
    let (ring, mut writer) = HeapRing::new(CAPACITY);
    let (_, mut reader) = ring.attach(&mut writer, BLOCKING);
    publish(&mut writer, b"last");
    assert!(!reader.is_closed());
    writer.close();
    assert!(reader.is_closed());
    assert_eq!(reader.try_next(), Ok(Some(&b"last"[..])));
    reader.release();
    assert!(!reader.prepare_sleep(), "nothing will wake it again");
    assert_eq!(reader.try_next(), Ok(None));
}

#[test]
fn sleepers_are_woken_once() {
    let (ring, mut writer) = HeapRing::new(CAPACITY);
    let (sleeper, mut reader) = ring.attach(&mut writer, BLOCKING);
    let (_, mut awake) = ring.attach(&mut writer, BLOCKING);
    let sleepers = |writer: &mut Writer| {
        let mut found = Vec::new();
        writer.for_each_sleeper(|sleeper| found.push(sleeper.reader));
        found
    };
    assert!(sleepers(&mut writer).is_empty());
    assert!(reader.prepare_sleep());
    assert!(awake.prepare_sleep());
    awake.cancel_sleep();
    publish(&mut writer, b"one");
    assert_eq!(sleepers(&mut writer), [sleeper]);
    assert!(sleepers(&mut writer).is_empty());
    assert!(!reader.prepare_sleep(), "there is a frame");
    assert!(sleepers(&mut writer).is_empty());
}

#[test]
fn a_waiting_writer_is_woken_when_a_quarter_is_free_or_all_is_read() {
    for fence in [Fence::Full, Fence::Compiler] {
        let (ring, mut writer) = HeapRing::new(CAPACITY);
        let (_, mut reader) = ring.attach(&mut writer, BLOCKING);
        reader.set_fence(fence);
        writer.set_fence(fence);
        let mut release = || {
            reader.try_next().unwrap().unwrap();
            reader.release()
        };
        while writer.try_reserve(240).is_ok() {
            writer.publish(240);
        }
        assert_eq!(writer.count(), 15); // of 256 bytes each, and a line
        writer.wait_for_space_begin();
        let woken: Vec<bool> = (0..15).map(|_| release()).collect();
        let expected: Vec<bool> = (1..=15).map(|frame| frame % 4 == 0 || frame == 15).collect();
        assert_eq!(woken, expected);
        writer.wait_for_space_end();
        publish(&mut writer, b"more");
        assert!(!release());
    }
}

#[test]
fn a_lossy_reader_holds_nobody_up() {
    let (ring, mut writer) = HeapRing::new(CAPACITY);
    let (_, mut reader) = ring.attach(&mut writer, Mode::Lossy);
    let mut bytes = Vec::new();
    for number in 0..1000u32 {
        publish(&mut writer, &number.to_le_bytes());
    }
    // The ring has 64 lines. The line beyond the newest frame is not available.
    assert_eq!(reader.try_copy(0, &mut bytes), Ok(CopyOutcome::Frame { skipped: 937 }));
    assert_eq!(bytes, 937u32.to_le_bytes());
    assert_eq!(reader.try_copy(5, &mut bytes), Ok(CopyOutcome::Frame { skipped: 57 }));
    assert_eq!(bytes, 995u32.to_le_bytes());
    assert_eq!(reader.try_copy(1, &mut bytes), Ok(CopyOutcome::Frame { skipped: 3 }));
    assert_eq!(bytes, 999u32.to_le_bytes());
    assert_eq!(reader.try_copy(1, &mut bytes), Ok(CopyOutcome::Empty));
    assert_eq!(reader.try_next(), Err(ReadError::WrongMode));
}

#[test]
fn a_frame_reserved_while_a_lossy_reader_is_attached_is_claimed() {
    let (ring, mut writer) = HeapRing::new(CAPACITY);
    for _ in 0..100 {
        publish(&mut writer, b"before");
    }
    writer.try_reserve(1000).unwrap();
    let (_, mut reader) = ring.attach(&mut writer, Mode::Lossy);
    writer.publish(10);
    let mut bytes = Vec::new();
    assert_eq!(reader.try_copy(0, &mut bytes), Ok(CopyOutcome::Frame { skipped: 0 }));
    assert_eq!(bytes.len(), 10);
}

#[test]
fn writers_and_readers_go_to_other_threads() {
    fn goes<T: Send>(_: &T) {}
    let (ring, mut writer) = HeapRing::new(CAPACITY);
    let (_, reader) = ring.attach(&mut writer, BLOCKING);
    goes(&writer);
    goes(&reader);
}

#[test]
fn capacities_are_checked() {
    for capacity in [0, 64, 2048, 4097, 12288, usize::MAX] {
        assert!(!is_valid_capacity(capacity));
    }
    for capacity in [4096, 1 << 20, 1 << 31] {
        assert!(is_valid_capacity(capacity));
        assert!(frame_stride(max_frame(capacity)) + 64 <= capacity / 2);
    }
}

/// Checks the low watermark: there is no room until the reader reaches it, and there is one
/// wake-up, exactly at the watermark.
#[test]
fn a_writer_without_room_goes_on_at_the_low_watermark() {
    for (depth, low) in [(1, 0), (2, 0), (8, 0), (8, 2), (8, 7), (64, 48)] {
        let (ring, mut writer) = HeapRing::new(1 << 16);
        let (id, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth });
        writer.set_low_watermark(id, low);
        for _ in 0..3 {
            while writer.try_reserve(8).is_ok() {
                writer.publish(8);
            }
            assert_eq!(writer.lag(id).unwrap().frames, u64::from(depth));
            writer.wait_for_space_begin();
            for unread in (low..depth).rev() {
                assert!(!writer.is_worth_resuming(id));
                assert_eq!(writer.try_reserve(8), Err(ReserveError::Full { slowest: id }), "{depth} {low}");
                assert!(reader.try_next().unwrap().is_some());
                assert_eq!(reader.release(), unread == low, "{depth} {low} at {unread}");
            }
            writer.wait_for_space_end();
            assert!(writer.is_worth_resuming(id));
            publish(&mut writer, b"and");
            // The writer is no longer held up, so any room is enough.
            while writer.lag(id).unwrap().frames < u64::from(depth) {
                publish(&mut writer, b"on");
            }
            while reader.try_next().unwrap().is_some() {
                reader.release();
            }
        }
    }
}

#[test]
fn a_reader_that_has_room_is_not_held_to_its_low_watermark() {
    let (ring, mut writer) = HeapRing::new(1 << 16);
    let (slow, mut behind) = ring.attach(&mut writer, Mode::Blocking { depth: 4 });
    let (quick, mut ahead) = ring.attach(&mut writer, Mode::Blocking { depth: 8 });
    writer.set_low_watermark(quick, 0);
    for _ in 0..4 {
        publish(&mut writer, b"x");
    }
    assert_eq!(writer.try_reserve(1), Err(ReserveError::Full { slowest: slow }));
    behind.try_next().unwrap();
    behind.release();
    publish(&mut writer, b"x");
    // A detached reader no longer holds up the writer.
    for reader in [&mut ahead, &mut behind] {
        while reader.try_next().unwrap().is_some() {
            reader.release();
        }
    }
    while writer.try_reserve(1).is_ok() {
        writer.publish(1);
        behind.try_next().unwrap();
        behind.release();
    }
    assert_eq!(writer.try_reserve(1), Err(ReserveError::Full { slowest: quick }));
    drop(ahead);
    writer.detach(quick);
    publish(&mut writer, b"x");
}

#[test]
fn kept_frames_are_given_back_from_the_oldest_on() {
    let (ring, mut writer) = HeapRing::new(4096);
    let (id, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
    let publish = |writer: &mut Writer, number: u64| {
        writer.try_reserve(8).unwrap().copy_from_slice(&number.to_le_bytes());
        writer.publish(8);
    };
    (0..4).for_each(|number| publish(&mut writer, number));
    let mut kept = Vec::new();
    for number in 0..4 {
        assert_eq!(reader.try_next().unwrap(), Some(&u64::to_le_bytes(number)[..]));
        if number == 2 {
            assert!(!reader.pass());
        } else {
            kept.push(reader.keep(number).unwrap());
        }
    }
    assert!(reader.keep(9).is_none(), "nothing is borrowed");
    assert_eq!(reader.kept_lag(), Lag { bytes: 256, frames: 4 });
    let lag = |writer: &mut Writer| writer.lag(id).unwrap().frames;
    assert_eq!(lag(&mut writer), 4);
    // The second frame is over, but stands behind the first.
    reader.settle(|frame| frame.token() == 1);
    assert_eq!(lag(&mut writer), 4);
    // Other threads read the frames.
    std::thread::scope(|scope| {
        for (frame, number) in kept.iter().zip([0u64, 1, 3]) {
            // SAFETY: none of the frames has been given back.
            scope.spawn(move || assert_eq!(unsafe { frame.bytes() }, number.to_le_bytes()));
        }
    });
    reader.settle(|frame| frame.token() < 2);
    // The passed frame is given back together with the kept frame before it.
    assert_eq!((lag(&mut writer), reader.kept_lag().frames), (1, 1));
    (4..8).for_each(|number| publish(&mut writer, number));
    // SAFETY: the frame has not been given back.
    assert_eq!(unsafe { kept[2].bytes() }, 3u64.to_le_bytes());
    reader.settle(|_| true);
    assert!(!reader.keeps_frames());
    assert_eq!(lag(&mut writer), 4);
    while reader.try_next().unwrap().is_some() {
        reader.release();
    }
    assert_eq!(lag(&mut writer), 0);
}

/// Fills the ring behind a kept frame over several laps.
#[test]
fn a_kept_frame_outlasts_what_the_writer_sends() {
    let (ring, mut writer) = HeapRing::new(4096);
    let (_, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
    for lap in 0..200u64 {
        while let Ok(place) = writer.try_reserve(100) {
            place.fill(lap as u8);
            writer.publish(100);
        }
        let mut kept = None;
        while reader.try_next().unwrap().is_some() {
            match kept {
                None => kept = reader.keep(lap),
                Some(_) => drop(reader.pass()),
            }
        }
        let kept = kept.expect("the ring was full");
        assert!(writer.try_reserve(100).is_err(), "the writer waits for the kept frame");
        // SAFETY: the frame has not been given back.
        assert!(unsafe { kept.bytes() }.iter().all(|byte| *byte == lap as u8));
        reader.settle(|_| true);
    }
}

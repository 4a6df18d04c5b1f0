//! A ring's reader over memory with arbitrary content, and the ring's writer with an arbitrary
//! cursor.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use libfuzzer_sys::fuzz_target;
use stripline_fuzz::Choices;
use stripline_ring::{
    CAPACITY_MIN, Control, CopyOutcome, Cursor, Mode, Reader, ReaderMode, ReserveError, Writer, max_frame,
};

const CAPACITY: usize = CAPACITY_MIN;

/// Memory of twice the ring's size, as if the ring were mapped twice, aligned as a page.
#[repr(C, align(4096))]
struct Data([AtomicU64; 2 * CAPACITY / 8]);

/// A ring's memory as plain words that any side may write.
struct Memory {
    control: Box<Control>,
    data: Box<Data>,
    cursors: [Box<Cursor>; 2],
}

impl Memory {
    fn new() -> Self {
        let data = Box::new(Data([const { AtomicU64::new(0) }; 2 * CAPACITY / 8]));
        Self { control: Box::default(), data, cursors: [Box::default(), Box::default()] }
    }

    fn data(&self) -> NonNull<u8> {
        NonNull::from(&*self.data).cast()
    }

    /// Overwrites a word at the start of `place`.
    fn poke<T>(place: &T, word: usize, value: u64) {
        let word = word % (size_of::<T>() / 8);
        // SAFETY: the address is inside the place, and all words of the place are atomics (two of
        // 32 bits may be written at once).
        unsafe { NonNull::from(place).cast::<AtomicU64>().add(word).as_ref() }
            .store(value, Ordering::Relaxed);
    }
}

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let way = choices.byte();
    let lossy = way & 1 != 0;
    let (mode, reader_mode) = match lossy {
        true => (Mode::Lossy, ReaderMode::Lossy),
        false => (Mode::Blocking { depth: u32::from(way >> 4) }, ReaderMode::Blocking),
    };
    let start = if way & 2 == 0 { 128 } else { choices.word() % (1 << 62) / 64 * 64 };
    let memory = Memory::new();
    let (control, bytes) = (NonNull::from(&*memory.control), memory.data());
    // SAFETY: the memory is fresh, has twice the capacity, and outlives the writer.
    let mut writer = unsafe { Writer::with_start(control, bytes, CAPACITY, start, 1) };
    if way & 4 != 0 {
        // Overwrite a word before the reader loads it for the first time.
        Memory::poke(&*memory.control, usize::from(choices.byte()), choices.number());
    }
    let cursors = memory.cursors.each_ref().map(|cursor| NonNull::from(&**cursor));
    // SAFETY: the memory is valid as above, and each reader has a cursor of its own. Bytes are not
    // changed while a blocking reader borrows them.
    let reader = unsafe { Reader::new(control, bytes, CAPACITY, cursors[0], reader_mode) };
    let Ok(mut reader) = reader else { return };
    // SAFETY: the cursors outlive the writer.
    let ids = cursors.map(|cursor| unsafe { writer.attach(cursor, mode) });
    let mut copy = Vec::new();
    let mut steps = 0;
    while !choices.is_empty() && steps < 500 {
        steps += 1;
        let action = choices.byte();
        match action & 15 {
            0..=2 => publish(&mut writer, usize::from(choices.byte()) * 8 % (max_frame(CAPACITY) + 1)),
            3 => publish(&mut writer, max_frame(CAPACITY)),
            4 => Memory::poke(&*memory.control, choices.byte().into(), choices.number()),
            5 => {
                let step = u64::from(choices.byte()) * 8;
                Memory::poke(&*memory.control, choices.byte().into(), writer.position().wrapping_sub(step));
            }
            6 => Memory::poke(&*memory.data, choices.word() as usize, choices.number()),
            7 => {
                // A forged frame at the reader's position.
                let at = reader.position() as usize % CAPACITY / 8;
                Memory::poke(&*memory.data, at + 1, u64::from(choices.byte()) << 4 | reader.count() << 32);
                Memory::poke(&*memory.data, at, reader.position() | 1);
            }
            8 => Memory::poke(&*memory.cursors[0], choices.byte().into(), choices.number()),
            9 => Memory::poke(&*memory.cursors[1], choices.byte().into(), choices.number()),
            10 => {
                let step = u64::from(choices.byte()) * 8;
                Memory::poke(
                    &*memory.cursors[1],
                    choices.byte().into(),
                    writer.position().wrapping_sub(step),
                );
            }
            11 => {
                if reader.prepare_sleep() {
                    reader.cancel_sleep();
                }
            }
            12 => {
                writer.wait_for_space_begin();
                writer.for_each_sleeper(|_| {});
                writer.wait_for_space_end();
                for id in ids {
                    let _ = (writer.lag(id), writer.released(id), writer.violation(id));
                }
            }
            _ => {
                let taken = if lossy {
                    let depth = u32::from(action >> 4);
                    reader.try_copy(depth, &mut copy).map(|copied| match copied {
                        CopyOutcome::Empty => None,
                        _ => Some(copy.len()),
                    })
                } else {
                    reader.try_next().map(|next| next.map(<[u8]>::len))
                };
                if let Ok(Some(length)) = taken {
                    assert!(length <= max_frame(CAPACITY));
                }
                reader.release();
                let _ = (reader.is_closed(), reader.is_attached());
            }
        }
    }
    drop(reader);
    ids.into_iter().for_each(|id| writer.detach(id));
});

fn publish(writer: &mut Writer, length: usize) {
    match writer.try_reserve(length) {
        Ok(place) => {
            place.fill(7);
            writer.publish(length);
        }
        Err(ReserveError::Misbehaved { .. } | ReserveError::Full { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

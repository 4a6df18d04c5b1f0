//! A minimal ring: the limit of a link with a header and a cursor.
//!
//! There is one writer and one reader. A frame has a header of 16 bytes (a commit word and the
//! length) and the bytes of the frame. The reader's cursor has a separate page, which the writer
//! loads when there is no more room. Nothing is checked: each side trusts the other.

use std::hint::spin_loop;
use std::os::fd::BorrowedFd;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::case::Case;
use super::super::measure::{self, Receiver, Sender, Side};
use crate::Problem;
use crate::memory::{Mapping, PAGE};

/// Bytes before the payload of a frame.
const HEADER: usize = 16;
/// Frames start at multiples of this many bytes.
const LINE: usize = 64;

/// Returns the number of bytes of memory for one ring.
pub(crate) fn bytes(case: &Case) -> usize {
    PAGE + case.buffer()
}

/// Connects one side, which writes one of the two rings and reads the other.
pub(crate) fn connect(case: &Case, place: u32, files: [BorrowedFd<'_>; 2]) -> Result<Box<dyn Side>, Problem> {
    let ring = |place: u32| MinimalRing::new(files[place as usize], case.buffer());
    let writer = MinimalWriter { ring: ring(place)?, position: 0, released: 0, size: case.size };
    let reader = MinimalReader { ring: ring(1 - place)?, position: 0 };
    Ok(measure::side(case, place, writer, reader))
}

/// The memory of a ring: the page of the cursor, and then the frames, mapped twice in a row. So a
/// frame that begins before the end of the ring may extend beyond it.
struct MinimalRing {
    memory: Mapping,
    capacity: usize,
}

impl MinimalRing {
    fn new(file: BorrowedFd<'_>, capacity: usize) -> Result<Self, Problem> {
        Ok(Self { memory: Mapping::new(file, PAGE, capacity)?, capacity })
    }

    /// Returns the number of bytes that the reader has released.
    fn cursor(&self) -> &AtomicU64 {
        self.memory.atomic(0)
    }

    /// Returns the address of a frame. The first word of a frame is the commit word.
    #[inline]
    fn frame(&self, position: u64) -> *mut u8 {
        self.memory.at(PAGE + (position as usize & (self.capacity - 1))).as_ptr()
    }

    /// Returns the commit word of a frame. The value is the position plus 1 once the frame is
    /// complete.
    #[inline]
    fn commit(&self, position: u64) -> &AtomicU64 {
        // SAFETY: the word is inside the mapping, aligned to a line, and used only as an atomic.
        // Frames have at most half the capacity, so a frame that is being written does not cover
        // this word.
        unsafe { &*self.frame(position).cast::<AtomicU64>() }
    }
}

fn stride(len: usize) -> u64 {
    (HEADER + len).next_multiple_of(LINE) as u64
}

struct MinimalWriter {
    ring: MinimalRing,
    position: u64,
    /// The reader's cursor when it was last loaded.
    released: u64,
    size: usize,
}

impl Sender for MinimalWriter {
    #[inline]
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        let end = self.position + stride(self.size);
        while end - self.released > self.ring.capacity as u64 {
            // Acquire: the reader has finished with the bytes below the cursor.
            self.released = self.ring.cursor().load(Ordering::Acquire);
            spin_loop();
        }
        let frame = self.ring.frame(self.position);
        // SAFETY: the frame has at most half the capacity, and the memory is mapped twice in a row,
        // so the frame is inside the mapping. The reader has released this memory, and reads it
        // only after the commit.
        let payload = unsafe {
            frame.add(8).cast::<u64>().write(self.size as u64);
            slice::from_raw_parts_mut(frame.add(HEADER), self.size)
        };
        measure::write(payload, word);
        // Release: the reader sees the length and the bytes.
        self.ring.commit(self.position).store(self.position + 1, Ordering::Release);
        self.position = end;
        Ok(())
    }
}

struct MinimalReader {
    ring: MinimalRing,
    position: u64,
}

impl Receiver for MinimalReader {
    #[inline]
    fn receive(&mut self) -> Result<u64, Problem> {
        // Acquire: the length and the bytes were stored before the commit word.
        while self.ring.commit(self.position).load(Ordering::Acquire) != self.position + 1 {
            spin_loop();
        }
        let frame = self.ring.frame(self.position);
        // SAFETY: the writer has written this frame, and does not touch it until it is released.
        // The writer belongs to this program, so the length is right.
        let (len, payload) = unsafe {
            let len = frame.add(8).cast::<u64>().read() as usize;
            (len, slice::from_raw_parts(frame.add(HEADER), len))
        };
        let word = measure::read(payload)?;
        self.position += stride(len);
        // Release: the bytes have been read.
        self.ring.cursor().store(self.position, Ordering::Release);
        Ok(word)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::super::super::case::{Measure, Subject, Wait};
    use super::*;
    use crate::memory;

    #[test]
    fn packets_come_through_lap_after_lap() {
        for size in [8, 48, 49, 4096, 1 << 20] {
            let case = Case::new(Measure::Throughput, Subject::MinimalRing, "shm", Wait::Spin, size);
            let files = [0, 1].map(|_| memory::file(bytes(&case)).unwrap());
            let mut sides =
                [0, 1].map(|place| connect(&case, place, [files[0].as_fd(), files[1].as_fd()]).unwrap());
            for _ in 0..3 * case.buffer() / stride(size) as usize {
                sides[0].block(1).unwrap();
                sides[1].block(1).unwrap();
            }
            assert_eq!(sides[1].losses(), [0, 0]);
        }
    }
}

//! Minimal rings: the limits of a link with a header and a cursor.
//!
//! There is one writer and one reader. A frame has a header (a commit word and the length) and the
//! bytes of the frame. The reader's cursor has a separate page, which the writer loads when there
//! is no more room. Nothing is checked: each side trusts the other. There are two layouts:
//!
//! - The minimal ring: the header stands before the bytes.
//! - The descriptor ring: the headers are an array of lines, each with up to 40 bytes of payload.
//!   Longer payloads have lines of their own.

use std::hint::spin_loop;
use std::os::fd::BorrowedFd;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::case::{Case, Subject};
use super::super::measure::{self, Receiver, Sender, Side};
use crate::Problem;
use crate::memory::{Mapping, PAGE};

/// Bytes before the payload of a frame.
const HEADER: usize = 16;
/// Bytes before the payload in a descriptor: the commit word, the length and the place of the
/// payload.
const DESCRIPTOR: usize = 24;
/// Frames start at multiples of this many bytes.
const LINE: usize = 64;
/// The number of descriptors.
const DESCRIPTORS: usize = 1 << 14;

/// Returns the number of bytes of memory for one ring.
pub(crate) fn bytes(case: &Case) -> usize {
    head(case.subject == Subject::DescriptorRing) + case.buffer()
}

/// Returns the number of bytes before the data: the page of the cursor, and any descriptors.
const fn head(has_descriptors: bool) -> usize {
    if has_descriptors { PAGE + DESCRIPTORS * LINE } else { PAGE }
}

/// Connects one side, which writes one of the two rings and reads the other.
pub(crate) fn connect(case: &Case, place: u32, files: [BorrowedFd<'_>; 2]) -> Result<Box<dyn Side>, Problem> {
    if case.subject == Subject::DescriptorRing {
        layout::<true>(case, place, files)
    } else {
        layout::<false>(case, place, files)
    }
}

fn layout<const D: bool>(
    case: &Case,
    place: u32,
    files: [BorrowedFd<'_>; 2],
) -> Result<Box<dyn Side>, Problem> {
    let ring = |place: u32| MinimalRing::<D>::new(files[place as usize], case.buffer());
    let writer = MinimalWriter {
        ring: ring(place)?,
        at: Place::default(),
        released: Place::default(),
        size: case.size,
    };
    let reader = MinimalReader { ring: ring(1 - place)?, at: Place::default() };
    Ok(measure::side(case, place, writer, reader))
}

/// A place in the stream of frames.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The position of the bytes.
    position: u64,
    /// The number of frames before this place.
    count: u64,
}

/// The memory of a ring: the page of the cursor, any descriptors, and then the frames, mapped twice
/// in a row. So a frame that begins before the end of the ring may extend beyond it.
struct MinimalRing<const D: bool> {
    memory: Mapping,
    capacity: usize,
}

impl<const D: bool> MinimalRing<D> {
    fn new(file: BorrowedFd<'_>, capacity: usize) -> Result<Self, Problem> {
        Ok(Self { memory: Mapping::new(file, head(D), capacity)?, capacity })
    }

    /// Returns the words of the place that the reader has released: the position and the count.
    fn cursor(&self) -> [&AtomicU64; 2] {
        [self.memory.atomic(0), self.memory.atomic(8)]
    }

    /// Returns the address of the bytes at a position.
    #[inline]
    fn data(&self, position: u64) -> *mut u8 {
        self.memory.at(head(D) + (position as usize & (self.capacity - 1))).as_ptr()
    }

    /// Returns the address of a frame's header.
    #[inline]
    fn header(&self, at: Place) -> *mut u8 {
        if D {
            self.memory.at(PAGE + (at.count as usize & (DESCRIPTORS - 1)) * LINE).as_ptr()
        } else {
            self.data(at.position)
        }
    }

    /// Returns the address of a payload of `len` bytes.
    #[inline]
    fn payload(&self, at: Place, len: usize) -> *mut u8 {
        let offset = match (D, len <= LINE - DESCRIPTOR) {
            (true, true) => DESCRIPTOR,
            (true, false) => return self.data(at.position),
            (false, _) => HEADER,
        };
        // SAFETY: a header, and the payload that stands behind it, are inside the mapping.
        unsafe { self.header(at).add(offset) }
    }

    /// Returns the commit word of a frame. The value is the number of the frame plus 1, or the
    /// position plus 1, once the frame is complete.
    #[inline]
    fn commit(&self, at: Place) -> (&AtomicU64, u64) {
        // SAFETY: the word is inside the mapping, aligned to a line, and used only as an atomic.
        // Frames have at most half the capacity, so a frame that is being written does not cover
        // this word.
        let word = unsafe { &*self.header(at).cast::<AtomicU64>() };
        (word, if D { at.count } else { at.position } + 1)
    }

    /// Returns the place after a frame of `len` bytes.
    #[inline]
    fn after(at: Place, len: usize) -> Place {
        let bytes = match (D, len <= LINE - DESCRIPTOR) {
            (true, true) => 0,
            (true, false) => len,
            (false, _) => HEADER + len,
        };
        Place { position: at.position + bytes.next_multiple_of(LINE) as u64, count: at.count + 1 }
    }
}

struct MinimalWriter<const D: bool> {
    ring: MinimalRing<D>,
    at: Place,
    /// The reader's cursor when it was last loaded.
    released: Place,
    size: usize,
}

impl<const D: bool> MinimalWriter<D> {
    /// Returns whether there is room up to a place.
    #[inline]
    fn has_room(&self, end: Place) -> bool {
        let has_bytes = end.position - self.released.position <= self.ring.capacity as u64;
        has_bytes && (!D || end.count - self.released.count <= DESCRIPTORS as u64)
    }
}

impl<const D: bool> Sender for MinimalWriter<D> {
    #[inline]
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        let end = MinimalRing::<D>::after(self.at, self.size);
        while !self.has_room(end) {
            // Acquire: the reader has finished with the bytes below the cursor.
            let [position, count] = self.ring.cursor().map(|word| word.load(Ordering::Acquire));
            self.released = Place { position, count };
            spin_loop();
        }
        let header = self.ring.header(self.at);
        // SAFETY: the frame has at most half the capacity, and the memory is mapped twice in a row,
        // so the frame is inside the mapping. The reader has released this memory, and reads it
        // only after the commit.
        let payload = unsafe {
            header.add(8).cast::<u64>().write(self.size as u64);
            if D {
                header.add(16).cast::<u64>().write(self.at.position);
            }
            slice::from_raw_parts_mut(self.ring.payload(self.at, self.size), self.size)
        };
        measure::write(payload, word);
        // Release: the reader sees the length and the bytes.
        let (commit, value) = self.ring.commit(self.at);
        commit.store(value, Ordering::Release);
        self.at = end;
        Ok(())
    }
}

struct MinimalReader<const D: bool> {
    ring: MinimalRing<D>,
    at: Place,
}

impl<const D: bool> Receiver for MinimalReader<D> {
    #[inline]
    fn receive(&mut self) -> Result<u64, Problem> {
        let (commit, value) = self.ring.commit(self.at);
        // Acquire: the length and the bytes were stored before the commit word.
        while commit.load(Ordering::Acquire) != value {
            spin_loop();
        }
        let header = self.ring.header(self.at);
        // SAFETY: the writer has written this frame, and does not touch it until it is released.
        // The writer belongs to this program, so the length and the position are right.
        let (len, payload) = unsafe {
            let len = header.add(8).cast::<u64>().read() as usize;
            if D {
                self.at.position = header.add(16).cast::<u64>().read();
            }
            (len, slice::from_raw_parts(self.ring.payload(self.at, len), len))
        };
        let word = measure::read(payload)?;
        self.at = MinimalRing::<D>::after(self.at, len);
        let [position, count] = self.ring.cursor();
        // Release: the bytes have been read.
        position.store(self.at.position, Ordering::Release);
        if D {
            count.store(self.at.count, Ordering::Release);
        }
        Ok(word)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::super::super::case::{Measure, Wait};
    use super::*;
    use crate::memory;

    #[test]
    fn packets_come_through_lap_after_lap() {
        let subjects = [Subject::MinimalRing, Subject::DescriptorRing];
        for (subject, size) in
            subjects.into_iter().flat_map(|own| [8, 40, 41, 48, 49, 4096, 1 << 20].map(|n| (own, n)))
        {
            let case = Case::new(Measure::Throughput, subject, "shm", Wait::Spin, size);
            let files = [0, 1].map(|_| memory::file(bytes(&case)).unwrap());
            let mut sides =
                [0, 1].map(|place| connect(&case, place, [files[0].as_fd(), files[1].as_fd()]).unwrap());
            let lap = (case.buffer() / (HEADER + size).next_multiple_of(LINE)).max(DESCRIPTORS);
            for _ in 0..3 * if size > 64 { case.buffer() / size } else { lap } {
                sides[0].block(1).unwrap();
                sides[1].block(1).unwrap();
            }
            assert_eq!(sides[1].losses(), [0, 0]);
        }
    }
}

//! Stripline's ring without the link layer.

use std::hint::spin_loop;
use std::os::fd::BorrowedFd;

use stripline_ring::{Fence, Mode, Reader, ReaderMode, Writer};

use super::super::case::Case;
use super::super::measure::{self, Receiver, Sender, Side};
use crate::Problem;
use crate::memory::{Mapping, PAGE};
use crate::timeout::wait_until;

/// The size of the control page and the cursor page in bytes.
const HEAD: usize = 2 * PAGE;

/// Returns the number of bytes of memory for one ring.
pub(crate) fn bytes(case: &Case) -> usize {
    HEAD + case.buffer()
}

/// Connects one side, which writes one of the two rings and reads the other.
pub(crate) fn connect(case: &Case, place: u32, files: [BorrowedFd<'_>; 2]) -> Result<Box<dyn Side>, Problem> {
    let capacity = case.buffer();
    let own = Mapping::new(files[place as usize], HEAD, capacity)?;
    let peers = Mapping::new(files[1 - place as usize], HEAD, capacity)?;
    // SAFETY: the memory is fresh, zeroed and mapped twice, and there is no other writer. The
    // mapping outlives the writer.
    let mut writer = unsafe { Writer::new(own.at(0).cast(), own.at(HEAD), capacity) };
    // SAFETY: the cursor is the page after the control page. The page is zeroed, and no other
    // reader uses it.
    unsafe { writer.attach(own.at(PAGE).cast(), Mode::Blocking { depth: 0 }) };
    // No side sleeps in this case.
    writer.set_fence(Fence::Compiler);
    let mut reader = reader(&peers, capacity)?;
    reader.set_fence(Fence::Compiler);
    let sender = RingSender { writer, size: case.size, _memory: own };
    Ok(measure::side(case, place, sender, RingReceiver { reader, _memory: peers }))
}

/// Returns a reader of the peer's ring, as soon as the ring exists.
fn reader(memory: &Mapping, capacity: usize) -> Result<Reader, Problem> {
    let mut found = None;
    wait_until::<Problem>("the ring's writer did not start", || {
        // SAFETY: this is the memory of a ring, or zeros, which the reader refuses. The mapping
        // outlives the reader.
        let reader = unsafe {
            let (control, cursor) = (memory.at(0).cast(), memory.at(PAGE).cast());
            Reader::new(control, memory.at(HEAD), capacity, cursor, ReaderMode::Blocking)
        };
        found = reader.ok().and_then(|mut reader| reader.is_attached().then_some(reader));
        Ok(found.is_some())
    })?;
    found.ok_or_else(|| "there is no reader".into())
}

struct RingSender {
    writer: Writer,
    size: usize,
    /// Dropped after the writer, which uses this memory.
    _memory: Mapping,
}

impl Sender for RingSender {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        loop {
            if let Ok(bytes) = self.writer.try_reserve(self.size) {
                measure::write(bytes, word);
                break;
            }
            spin_loop();
        }
        self.writer.publish(self.size);
        self.writer.for_each_sleeper(|_| {});
        Ok(())
    }
}

struct RingReceiver {
    reader: Reader,
    /// Dropped after the reader, which uses this memory.
    _memory: Mapping,
}

impl Receiver for RingReceiver {
    fn receive(&mut self) -> Result<u64, Problem> {
        let word = loop {
            match self.reader.try_next() {
                Ok(Some(bytes)) => break measure::read(bytes)?,
                Ok(None) => spin_loop(),
                Err(error) => return Err(error.to_string()),
            }
        };
        self.reader.release();
        Ok(word)
    }
}

//! What a process that is going to be killed leaves behind for its parent: some numbers in memory that outlives it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use rustix::fs::MemfdFlags;

/// Words of one lane.
const WORDS: u64 = 32;

/// A number that is noted.
#[derive(Clone, Copy, Debug)]
pub enum Note {
    /// A sender: packets that it has begun to send.
    Begun,
    /// A sender: packets that it has sent.
    Sent,
    /// When it reached its fail point, monotonic nanoseconds.
    KilledNs,
    /// A receiver: the number of its first packet, plus 1.
    First,
    /// A receiver: the first packet that it was told to have missed before that, plus 1.
    ResumedFrom,
    /// A receiver: the number of the packet taken last, plus 1.
    Taken,
    /// A receiver: the number of the packet given back last, plus 1.
    Released,
    /// A receiver: it is about to leave, and nobody comes in its place.
    Departs,
}

/// The notes of one lane's children, one after the other.
#[derive(Debug)]
pub struct Notes {
    file: File,
    lane: u64,
}

/// The memory of all lanes.
pub struct Board(File);

impl Board {
    /// Memory for so many lanes.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(workers: u64) -> Result<Self, String> {
        let memory = rustix::fs::memfd_create("torture-notes", MemfdFlags::CLOEXEC);
        let file = File::from(memory.map_err(|e| format!("no memory for notes: {e}"))?);
        file.set_len(workers * WORDS * 8).map_err(|e| format!("no memory for notes: {e}"))?;
        Ok(Self(file))
    }

    /// The notes of a lane.
    ///
    /// # Errors
    /// When the system lacks descriptors.
    pub fn worker(&self, worker: u64) -> Result<Notes, String> {
        let file = self.0.try_clone().map_err(|e| format!("no descriptor for notes: {e}"))?;
        Ok(Notes { file, lane: worker })
    }
}

impl Notes {
    /// Where a child finds them.
    pub fn address(&self) -> String {
        format!("/proc/{}/fd/{}:{}", std::process::id(), self.file.as_raw_fd(), self.lane)
    }

    /// Opens what [`Notes::address`] says.
    ///
    /// # Errors
    /// When it does not say anything that can be opened.
    pub fn open(address: &str) -> Result<Self, String> {
        let (path, worker) = address.rsplit_once(':').ok_or("no address of notes")?;
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(|e| format!("cannot open {path}: {e}"))?;
        Ok(Self { file, lane: worker.parse().map_err(|_| "no lane".to_string())? })
    }

    /// Forgets everything noted.
    pub fn clear(&self) {
        // Memory that exists does not refuse writing.
        let _ = self.file.write_all_at(&[0; (WORDS * 8) as usize], self.lane * WORDS * 8);
    }

    /// Notes a number.
    pub fn set(&self, note: Note, value: u64) {
        let _ = self.file.write_all_at(&value.to_ne_bytes(), self.offset(note));
    }

    /// What has been noted; 0 when nothing has.
    pub fn get(&self, note: Note) -> u64 {
        let mut bytes = [0; 8];
        let _ = self.file.read_exact_at(&mut bytes, self.offset(note));
        u64::from_ne_bytes(bytes)
    }

    fn offset(&self, note: Note) -> u64 {
        (self.lane * WORDS + note as u64) * 8
    }
}

/// Monotonic nanoseconds, the same for all processes.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

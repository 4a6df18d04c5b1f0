//! Notes that a killed process leaves to the parent: numbers in memory that outlives the process.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use rustix::fs::MemfdFlags;

/// Words of one worker.
const WORDS: u64 = 32;

/// A number that a process notes.
#[derive(Clone, Copy, Debug)]
pub enum Note {
    /// For a sender: the number of packets that it has begun to send.
    Begun,
    /// For a sender: the number of packets that it has sent.
    Sent,
    /// The time of the fail point in monotonic nanoseconds.
    KilledNs,
    /// For a receiver: the number of the first packet, plus 1.
    First,
    /// For a receiver: the first packet of the gap reported before the first packet, plus 1.
    ResumedFrom,
    /// For a receiver: the number of the last packet received, plus 1.
    Taken,
    /// For a receiver: the number of the last packet released, plus 1.
    Released,
    /// For a receiver: it is about to end, and has no successor.
    Departs,
    /// For a receiver over an impaired link: the number of packets that gaps reported, and the
    /// number of gaps.
    Missing,
    Gaps,
    /// The hash of all packets.
    Hash,
    /// The process is about to stop itself; the process has continued.
    Stops,
    GoesOn,
}

/// The notes of the children of one worker, which run one after the other.
#[derive(Debug)]
pub struct Notes {
    file: File,
    lane: u64,
}

/// The memory of all workers.
pub struct Board(File);

impl Board {
    /// Allocates memory for all workers.
    ///
    /// # Errors
    /// When the system has no memory.
    pub fn new(workers: u64) -> Result<Self, String> {
        let memory = rustix::fs::memfd_create("torture-notes", MemfdFlags::CLOEXEC);
        let file = File::from(memory.map_err(|e| format!("no memory for notes: {e}"))?);
        file.set_len(workers * WORDS * 8).map_err(|e| format!("no memory for notes: {e}"))?;
        Ok(Self(file))
    }

    /// Returns the notes of a worker.
    ///
    /// # Errors
    /// When the system lacks descriptors.
    pub fn worker(&self, worker: u64) -> Result<Notes, String> {
        let file = self.0.try_clone().map_err(|e| format!("no descriptor for notes: {e}"))?;
        Ok(Notes { file, lane: worker })
    }
}

impl Notes {
    /// Returns the path under which a child opens the notes.
    pub fn address(&self) -> String {
        format!("/proc/{}/fd/{}:{}", std::process::id(), self.file.as_raw_fd(), self.lane)
    }

    /// Opens the path of [`Notes::address`].
    ///
    /// # Errors
    /// When the path cannot be opened.
    pub fn open(address: &str) -> Result<Self, String> {
        let (path, worker) = address.rsplit_once(':').ok_or("no address of notes")?;
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(|e| format!("cannot open {path}: {e}"))?;
        Ok(Self { file, lane: worker.parse().map_err(|_| "no lane".to_string())? })
    }

    /// Clears all numbers.
    pub fn clear(&self) {
        // A write to existing memory does not fail.
        let _ = self.file.write_all_at(&[0; (WORDS * 8) as usize], self.lane * WORDS * 8);
    }

    /// Notes a number.
    pub fn set(&self, note: Note, value: u64) {
        let _ = self.file.write_all_at(&value.to_ne_bytes(), self.offset(note));
    }

    /// Returns a number, or 0 if none was noted.
    pub fn get(&self, note: Note) -> u64 {
        let mut bytes = [0; 8];
        let _ = self.file.read_exact_at(&mut bytes, self.offset(note));
        u64::from_ne_bytes(bytes)
    }

    fn offset(&self, note: Note) -> u64 {
        (self.lane * WORDS + note as u64) * 8
    }
}

/// Returns monotonic nanoseconds, which are the same for all processes.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

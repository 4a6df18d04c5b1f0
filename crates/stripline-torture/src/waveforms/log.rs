//! The log of a running component, in memory that outlives the component.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use rustix::fs::MemfdFlags;
use stripline::{Gap, GapReason, fail_point};

use crate::notes::now_ns;

/// Words of a record. The size of a record divides a page, so that a kill never leaves a partial
/// record.
const WORDS: usize = 4;
const BYTES: usize = WORDS * 8;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The component was started in this process, at this monotonic time in nanoseconds.
    Started {
        /// Monotonic nanoseconds.
        at_ns: u64,
        /// The time at which the process created the component, before the start.
        made_ns: u64,
    },
    /// The component is about to send the packet of this number.
    Begun(u64),
    /// The send of this packet has returned.
    Sent(u64),
    /// A gap was reported before the next packet of this sender.
    Gap {
        /// The component that sends.
        sender: usize,
        /// The first missing packet.
        first: u64,
        /// The number of missing packets.
        packets: u64,
        /// Whether a restart is the reason.
        is_restart: bool,
    },
    /// The component has received a packet.
    Packet {
        /// The sender, and how often the sender had been started.
        origin: Origin,
        /// The number of the packet.
        sequence: u64,
    },
    /// The component has released the last packet.
    Released,
    /// The component fell too far behind this sender.
    Ejected(usize),
    /// A gap was reported after the end of the stream.
    GapAtEnd {
        /// The first missing packet.
        first: u64,
        /// The number of missing packets.
        packets: u64,
    },
    /// All streams have ended.
    Ended,
    /// The component has returned without an error, and the output has sent this number of packets.
    Done(u64),
    /// A packet or an end arrived that breaks the contract. The number is an index into [`WRONG`].
    Wrong(u64),
    /// The process dies at a fail point, at this monotonic time in nanoseconds.
    Dies {
        /// Monotonic nanoseconds.
        at_ns: u64,
    },
}

/// The texts of [`Record::Wrong`].
pub const WRONG: [&str; 4] = [
    "a packet was damaged",
    "a packet came under another number or over another connection",
    "a packet came after the end",
    "the end was taken back",
];

/// A sender: the component, and the number of earlier starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The component.
    pub component: usize,
    /// The number of earlier starts.
    pub life: usize,
}

impl Origin {
    /// Returns the origin as one number, which each packet contains.
    pub fn number(self) -> u64 {
        (self.component as u64) << 32 | self.life as u64
    }

    /// Converts the number of [`Origin::number`] back.
    pub fn from_number(number: u64) -> Self {
        Self { component: (number >> 32) as usize, life: (number & 0xffff_ffff) as usize }
    }
}

impl Record {
    fn words(self) -> [u64; WORDS] {
        match self {
            Self::Started { at_ns, made_ns } => [1, at_ns, made_ns, 0],
            Self::Begun(sequence) => [2, sequence, 0, 0],
            Self::Sent(sequence) => [3, sequence, 0, 0],
            Self::Gap { sender, first, packets, is_restart } => {
                [4 | u64::from(is_restart) << 8, sender as u64, first, packets]
            }
            Self::Packet { origin, sequence } => [5, origin.number(), sequence, 0],
            Self::Released => [6, 0, 0, 0],
            Self::Ejected(sender) => [7, sender as u64, 0, 0],
            Self::GapAtEnd { first, packets } => [8, first, packets, 0],
            Self::Ended => [9, 0, 0, 0],
            Self::Done(sent) => [10, sent, 0, 0],
            Self::Wrong(what) => [11, what, 0, 0],
            Self::Dies { at_ns } => [12, at_ns, 0, 0],
        }
    }

    fn parse([kind, a, b, c]: [u64; WORDS]) -> Option<Self> {
        Some(match kind & 0xff {
            1 => Self::Started { at_ns: a, made_ns: b },
            2 => Self::Begun(a),
            3 => Self::Sent(a),
            4 => Self::Gap { sender: a as usize, first: b, packets: c, is_restart: kind >> 8 != 0 },
            5 => Self::Packet { origin: Origin::from_number(a), sequence: b },
            6 => Self::Released,
            7 => Self::Ejected(a as usize),
            8 => Self::GapAtEnd { first: a, packets: b },
            9 => Self::Ended,
            10 => Self::Done(a),
            11 => Self::Wrong(a),
            12 => Self::Dies { at_ns: a },
            _ => return None,
        })
    }

    /// Returns the record of a gap reported before a packet.
    pub fn gap(sender: usize, gap: &Gap) -> Self {
        let is_restart = gap.reason == GapReason::PeerRestart;
        Self::Gap { sender, first: gap.first, packets: gap.packets, is_restart }
    }
}

/// Memory to which processes write and that outlives them.
pub struct Memory(File);

impl Memory {
    /// Allocates the memory.
    ///
    /// # Errors
    /// When the system has no memory left.
    pub fn new() -> Result<Self, String> {
        let memory = rustix::fs::memfd_create("torture-log", MemfdFlags::CLOEXEC);
        memory.map(|fd| Self(fd.into())).map_err(|e| format!("no memory for a log: {e}"))
    }

    /// Returns the path under which other processes open the memory.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Returns the file, for use as the output of a child.
    ///
    /// # Errors
    /// When the system lacks descriptors.
    pub fn file(&self) -> Result<File, String> {
        self.0.try_clone().map_err(|e| format!("no descriptor for a log: {e}"))
    }

    /// Returns the bytes in the memory.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.0.metadata().map_or(0, |of| of.len()) as usize];
        // A read of existing memory does not fail.
        let _ = self.0.read_exact_at(&mut bytes, 0);
        bytes
    }

    /// Returns whether anything was written.
    pub fn is_written(&self) -> bool {
        self.0.metadata().is_ok_and(|of| of.len() > 0)
    }

    /// Appends bytes.
    pub fn write(&self, bytes: &[u8]) {
        // A write to existing memory does not fail.
        let _ = (&self.0).write_all(bytes);
    }

    /// Returns the records in the memory.
    ///
    /// # Errors
    /// When the memory contains other bytes.
    pub fn records(&self) -> Result<Vec<Record>, String> {
        parse(&self.bytes())
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<Record>, String> {
    let (chunks, rest) = bytes.as_chunks::<BYTES>();
    if !rest.is_empty() {
        return Err(format!("a log with {} bytes left over", rest.len()));
    }
    let record = |chunk: &[u8; BYTES]| {
        let (words, _) = chunk.as_chunks::<8>();
        let mut of = [0; WORDS];
        of.iter_mut().zip(words).for_each(|(word, bytes)| *word = u64::from_ne_bytes(*bytes));
        Record::parse(of).ok_or_else(|| format!("a log with the words {of:?}"))
    };
    chunks.iter().map(record).collect()
}

/// The log of a running component.
pub struct Log(File);

/// The logs of all components of this process.
static OPEN: Mutex<Vec<Log>> = Mutex::new(Vec::new());

impl Log {
    /// Opens the log. From now on, deaths of this process are written to the log. Returns the
    /// number of earlier starts, and the number of packets begun.
    ///
    /// # Errors
    /// When there is no log at this path.
    pub fn open(path: &str) -> Result<(Self, usize, u64), String> {
        let file = File::options().read(true).append(true).open(path);
        let file = file.map_err(|e| format!("cannot open the log {path}: {e}"))?;
        let records = Memory(file.try_clone().map_err(|e| format!("the log {path}: {e}"))?).records()?;
        let starts = records.iter().filter(|record| matches!(record, Record::Started { .. })).count();
        let begun = records.iter().filter(|record| matches!(record, Record::Begun(_))).count();
        let others = file.try_clone().map_err(|e| format!("the log {path}: {e}"))?;
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(Self(others));
        fail_point::in_last_moment(|| {
            let now = now_ns();
            let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
            open.iter_mut().for_each(|log| log.write(Record::Dies { at_ns: now }));
        });
        Ok((Self(file), starts, begun as u64))
    }

    /// Writes a record.
    pub fn write(&mut self, record: Record) {
        let mut bytes = [0; BYTES];
        let (places, _) = bytes.as_chunks_mut::<8>();
        places.iter_mut().zip(record.words()).for_each(|(place, word)| *place = word.to_ne_bytes());
        // A single call, so the system appends the record as a whole. A write to existing memory
        // does not fail.
        let _ = self.0.write_all(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let memory = Memory::new().expect("memory");
        let (mut log, starts, _) = Log::open(&memory.path()).expect("its log");
        let origin = Origin { component: 3, life: 2 };
        let records = [
            Record::Started { at_ns: 4, made_ns: 3 },
            Record::Gap { sender: 3, first: 7, packets: 2, is_restart: true },
            Record::Packet { origin, sequence: 9 },
            Record::Begun(0),
            Record::Done(1),
            Record::Dies { at_ns: 5 },
        ];
        assert!(memory.records().expect("records").is_empty());
        records.into_iter().for_each(|record| log.write(record));
        let (_, again, begun) = Log::open(&memory.path()).expect("its log");
        assert_eq!((starts, again, begun), (0, 1, 1));
        assert_eq!(memory.records().expect("records"), records);
        assert_eq!(Origin::from_number(origin.number()), origin);
        memory.write(b"x");
        assert!(memory.records().is_err());
    }
}

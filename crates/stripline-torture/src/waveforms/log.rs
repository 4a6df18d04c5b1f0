//! The log of a component that runs, in memory that outlives it.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use rustix::fs::MemfdFlags;
use stripline::{Gap, GapReason, fail_point};

use crate::notes::now_ns;

/// Words of a record. Its size divides a page, so that a kill never leaves a part of a record.
const WORDS: usize = 4;
const BYTES: usize = WORDS * 8;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The component was started, at this monotonic time in nanoseconds, in this process.
    Started {
        /// Monotonic nanoseconds.
        at_ns: u64,
        /// When its process had made it, before it was started.
        made_ns: u64,
    },
    /// It is about to send the packet of this number.
    Begun(u64),
    /// The send of this packet has returned.
    Sent(u64),
    /// A gap was reported before the next packet of that sender.
    Gap {
        /// The component that sends.
        sender: usize,
        /// The first packet missed.
        first: u64,
        /// How many are missing.
        packets: u64,
        /// Whether a restart is the reason.
        is_restart: bool,
    },
    /// It has received a packet.
    Packet {
        /// The sender, and how often that had been started.
        origin: Origin,
        /// The number of the packet.
        sequence: u64,
    },
    /// It has released its last packet.
    Released,
    /// It fell too far behind that sender.
    Ejected(usize),
    /// After the end of the stream, a gap was reported there.
    GapAtEnd {
        /// The first packet missed.
        first: u64,
        /// How many are missing.
        packets: u64,
    },
    /// All streams have ended.
    Ended,
    /// It has returned without an error, and its output has sent so many packets.
    Done(u64),
    /// A packet or an end arrived that breaks the contract: an index into [`WRONG`].
    Wrong(u64),
    /// Its process dies at a fail point, at this monotonic time in nanoseconds.
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

/// A sender: the component, and how often it had been started before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The component.
    pub component: usize,
    /// Its starts before this one.
    pub life: usize,
}

impl Origin {
    /// Returns it as one number, which goes with each packet.
    pub fn number(self) -> u64 {
        (self.component as u64) << 32 | self.life as u64
    }

    /// Reads the number of [`Origin::number`].
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

/// Memory that processes write to and that outlives them.
pub struct Memory(File);

impl Memory {
    /// Allocates it.
    ///
    /// # Errors
    /// When the system has no memory for it.
    pub fn new() -> Result<Self, String> {
        let memory = rustix::fs::memfd_create("torture-log", MemfdFlags::CLOEXEC);
        memory.map(|fd| Self(fd.into())).map_err(|e| format!("no memory for a log: {e}"))
    }

    /// Returns the path under which other processes open it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Returns the file itself, as the output of a child.
    ///
    /// # Errors
    /// When the system lacks descriptors.
    pub fn file(&self) -> Result<File, String> {
        self.0.try_clone().map_err(|e| format!("no descriptor for a log: {e}"))
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.0.metadata().map_or(0, |of| of.len()) as usize];
        // A read of memory that exists does not fail.
        let _ = self.0.read_exact_at(&mut bytes, 0);
        bytes
    }

    /// Returns whether it has any bytes.
    pub fn is_written(&self) -> bool {
        self.0.metadata().is_ok_and(|of| of.len() > 0)
    }

    /// Appends bytes.
    pub fn write(&self, bytes: &[u8]) {
        // A write to memory that exists does not fail.
        let _ = (&self.0).write_all(bytes);
    }

    /// Returns its records.
    ///
    /// # Errors
    /// When it holds other bytes.
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

/// The log of a component that runs.
pub struct Log(File);

/// The logs of all components of this process.
static OPEN: Mutex<Vec<Log>> = Mutex::new(Vec::new());

impl Log {
    /// Opens the log, which has the deaths of this process from now on. Counts earlier starts, and
    /// packets begun.
    ///
    /// # Errors
    /// When there is no log at that path.
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

    /// Writes one record.
    pub fn write(&mut self, record: Record) {
        let mut bytes = [0; BYTES];
        let (places, _) = bytes.as_chunks_mut::<8>();
        places.iter_mut().zip(record.words()).for_each(|(place, word)| *place = word.to_ne_bytes());
        // One call: the system appends it as a whole. A write to memory that exists does not fail.
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

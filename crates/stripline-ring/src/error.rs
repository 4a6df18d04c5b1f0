//! Errors of both sides, and the protocol violations behind them.

use std::error::Error;
use std::fmt;

use crate::ReaderId;

/// The reason why the writer got no space.
///
/// ```
/// use stripline_ring::{HeapRing, ReserveError};
///
/// let (_ring, mut writer) = HeapRing::new(4096);
/// assert_eq!(writer.try_reserve(2000), Err(ReserveError::TooLarge { max: 1968 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReserveError {
    /// The frame is larger than any frame of this ring can be.
    TooLarge {
        /// The largest frame of this ring, in bytes.
        max: usize,
    },
    /// A blocking reader has not released enough yet.
    Full {
        /// The slowest reader among the blocking readers.
        slowest: ReaderId,
    },
    /// A reader wrote a value to its cursor that no correct reader writes. The reader stays
    /// attached, and the error is returned again until the reader is detached.
    Misbehaved {
        /// The reader.
        reader: ReaderId,
        /// The violation.
        violation: ReaderViolation,
    },
}

/// A protocol violation by a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReaderViolation {
    /// The reader released up to a position at which no frame can end.
    ReleasedUnaligned {
        /// The position written.
        released: u64,
    },
    /// The released position went backwards.
    ReleasedBackwards {
        /// The position written.
        released: u64,
        /// The position that was written before.
        before: u64,
    },
    /// The reader released frames that are not published.
    ReleasedUnpublished {
        /// The position written.
        released: u64,
        /// The end of the published frames.
        head: u64,
    },
    /// The count of released frames went backwards.
    CountBackwards {
        /// The count written.
        count: u64,
        /// The count that was written before.
        before: u64,
    },
    /// The count of released frames exceeds the number of published frames.
    CountUnpublished {
        /// The count written.
        count: u64,
        /// The number of published frames.
        published: u64,
    },
}

/// The reason why a reader cannot use the memory that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachError {
    /// The memory does not hold a ring.
    NotARing {
        /// The value found in place of the magic number.
        magic: u64,
    },
    /// This reader does not support the version of the ring.
    Version {
        /// The version of the ring.
        found: u32,
        /// The version that this build supports.
        known: u32,
    },
    /// The capacity of the ring is invalid, or differs from the capacity of the memory.
    Capacity {
        /// The capacity in the ring's control page, in bytes.
        found: u64,
        /// The capacity of the memory, in bytes.
        expected: usize,
    },
}

/// The reason why a reader cannot continue.
///
/// ```
/// use stripline_ring::{HeapRing, Mode, ReadError};
///
/// let (ring, mut writer) = HeapRing::new(4096);
/// let (_, mut reader) = ring.attach(&mut writer, Mode::Lossy);
/// assert_eq!(reader.try_next(), Err(ReadError::WrongMode));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The writer broke the protocol, or another process with write access to the writer's memory
    /// did.
    Corrupt {
        /// The part of the protocol that was broken.
        what: Corruption,
    },
    /// The writer has detached this reader.
    Detached,
    /// The call does not fit the mode. A lossy reader copies frames
    /// ([`Reader::try_copy`](crate::Reader::try_copy)). A blocking reader borrows frames
    /// ([`Reader::try_next`](crate::Reader::try_next)).
    WrongMode,
}

/// A value in the writer's memory that no correct writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Corruption {
    /// The writer has counted a frame with a commit word that does not match the position of the
    /// frame.
    CommitWord {
        /// The position of the frame.
        position: u64,
        /// The word found.
        found: u64,
    },
    /// The frame is longer than the maximum.
    Length {
        /// The position of the frame.
        position: u64,
        /// The length in the header.
        len: usize,
        /// The largest valid length.
        max: usize,
    },
    /// The frame is not the next one.
    FrameCount {
        /// The position of the frame.
        position: u64,
        /// The low half of the expected count.
        expected: u32,
        /// The low half of the count in the header.
        found: u32,
    },
    /// A position or count is out of range or went backwards.
    Progress {
        /// The value found.
        found: u64,
    },
    /// The writer attached this reader in another mode than the reader's mode.
    Mode {
        /// The mode found.
        found: u32,
    },
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { max } => write!(f, "a frame of this ring can have at most {max} bytes"),
            Self::Full { slowest } => write!(f, "the ring is full: {slowest} has not released enough"),
            Self::Misbehaved { reader, violation } => {
                write!(f, "{reader} broke the protocol: it {violation}")
            }
        }
    }
}

impl fmt::Display for ReaderViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReleasedUnaligned { released } => {
                write!(f, "released up to position {released}, where no frame can end")
            }
            Self::ReleasedBackwards { released, before } => {
                write!(f, "went back from released position {before} to {released}")
            }
            Self::ReleasedUnpublished { released, head } => {
                write!(f, "released up to position {released}, but frames are published only up to {head}")
            }
            Self::CountBackwards { count, before } => {
                write!(f, "went back from {before} released frames to {count}")
            }
            Self::CountUnpublished { count, published } => {
                write!(f, "counts {count} released frames, but only {published} are published")
            }
        }
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARing { magic } => write!(f, "the memory holds no ring: it starts with {magic:#x}"),
            Self::Version { found, known } => {
                write!(f, "the ring has version {found}, this build supports {known}")
            }
            Self::Capacity { found, expected } => {
                write!(f, "the ring's capacity is {found} bytes, and the memory's {expected}")
            }
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt { what } => write!(f, "the ring is corrupt: {what}"),
            Self::Detached => f.write_str("the writer has detached this reader"),
            Self::WrongMode => f.write_str("a lossy reader has to copy, a blocking one to borrow"),
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommitWord { position, found } => {
                write!(f, "the commit word at position {position} is {found:#x}")
            }
            Self::Length { position, len, max } => {
                write!(f, "the frame at position {position} claims {len} bytes, of at most {max}")
            }
            Self::FrameCount { position, expected, found } => {
                write!(f, "the frame at position {position} is number {found}, not {expected} (modulo 2^32)")
            }
            Self::Progress { found } => write!(f, "{found} cannot be a position or count here"),
            Self::Mode { found } => {
                write!(f, "the reader was attached in mode {found}, which is not its own")
            }
        }
    }
}

impl Error for ReserveError {}
impl Error for ReaderViolation {}
impl Error for AttachError {}
impl Error for ReadError {}
impl Error for Corruption {}

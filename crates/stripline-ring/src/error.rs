//! What can go wrong, and who did it.

use std::error::Error;
use std::fmt;

use crate::ReaderId;

/// Why the writer got no space.
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
    /// No frame of this ring can be that large.
    TooLarge {
        /// The most bytes that a frame can have here.
        max: usize,
    },
    /// A blocking reader has not released enough yet.
    Full {
        /// The reader furthest behind of those that the writer has to wait for.
        slowest: ReaderId,
    },
    /// A reader wrote something onto its cursor that no correct reader writes. It stays attached, and this error
    /// comes back, until it is detached.
    Misbehaved {
        /// Who.
        reader: ReaderId,
        /// What.
        deed: Misdeed,
    },
}

/// What a reader did that no correct reader does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misdeed {
    /// It released up to a position at which no frame can end.
    ReleasedUnaligned {
        /// What it wrote.
        released: u64,
    },
    /// It took back what it had released.
    ReleasedBackwards {
        /// What it wrote.
        released: u64,
        /// What it had written before.
        before: u64,
    },
    /// It released what had not been published.
    ReleasedUnpublished {
        /// What it wrote.
        released: u64,
        /// Where the published frames end.
        head: u64,
    },
    /// Its count of released frames went down.
    CountBackwards {
        /// What it wrote.
        count: u64,
        /// What it had written before.
        before: u64,
    },
    /// It counts more frames than have been published.
    CountUnpublished {
        /// What it wrote.
        count: u64,
        /// How many have been published.
        published: u64,
    },
}

/// Why a reader cannot use the memory it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachError {
    /// The memory does not hold a ring.
    NotARing {
        /// What was found in the place of the magic number.
        magic: u64,
    },
    /// The ring is of a version that this reader does not know.
    Version {
        /// The ring's version.
        found: u32,
        /// The version known here.
        known: u32,
    },
    /// The ring's capacity is impossible, or not that of the memory.
    Capacity {
        /// What the ring says.
        found: u64,
        /// What the memory has.
        expected: usize,
    },
}

/// Why a reader cannot go on.
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
    /// The writer, or someone who can write its memory, broke the protocol.
    Corrupt {
        /// Which part of it.
        what: Corruption,
    },
    /// The writer no longer respects this reader.
    Detached,
    /// A lossy reader has to copy ([`Reader::try_copy`](crate::Reader::try_copy)), a blocking one to borrow
    /// ([`Reader::try_next`](crate::Reader::try_next)).
    WrongMode,
}

/// What a reader found that no correct writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Corruption {
    /// A commit word that is neither clear nor that of its position.
    CommitWord {
        /// Where.
        position: u64,
        /// What was there.
        found: u64,
    },
    /// A frame longer than any can be.
    Length {
        /// Where.
        position: u64,
        /// What its header says.
        len: usize,
        /// The most there can be.
        max: usize,
    },
    /// A frame that is not the next one.
    FrameCount {
        /// Where.
        position: u64,
        /// The low half of the count expected.
        expected: u32,
        /// What its header says.
        found: u32,
    },
    /// A position or count that is impossible, or that went backwards.
    Progress {
        /// What was found.
        found: u64,
    },
    /// The writer attached this reader in another mode than the reader's.
    Mode {
        /// What was found.
        found: u32,
    },
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { max } => write!(f, "a frame of this ring can have at most {max} bytes"),
            Self::Full { slowest } => write!(f, "the ring is full: {slowest} has not released enough"),
            Self::Misbehaved { reader, deed } => write!(f, "{reader} misbehaved: it {deed}"),
        }
    }
}

impl fmt::Display for Misdeed {
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
                write!(f, "the ring has version {found}, known here is {known}")
            }
            Self::Capacity { found, expected } => {
                write!(f, "the ring says its capacity is {found} bytes, its memory has {expected}")
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
impl Error for Misdeed {}
impl Error for AttachError {}
impl Error for ReadError {}
impl Error for Corruption {}

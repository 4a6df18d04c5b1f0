//! A byte ring for one writer and many readers, in memory that processes share.
//!
//! Frames are written in place, one after the other, and read in place. There are no copies, locks,
//! reference counts or system calls. A small frame costs the transfer of one cache line. The cost
//! of a write does not grow with the number of readers.
//!
//! A reader is attached in one of two modes. The writer waits for **blocking** readers: the space
//! of a frame is free once all of them have released it. The writer overtakes **lossy** readers. A
//! lossy reader copies a frame out, checks that the frame was not overwritten in the meantime, and
//! counts exactly the frames that it has missed.
//!
//! This crate contains only the algorithm. The layer above maps memory, passes it to another
//! process, spins, sleeps and wakes. The [`Writer`] reports the readers to wake
//! ([`Writer::for_each_sleeper`]). The [`Reader`] reports that the writer should be woken
//! ([`Reader::release`]).
//!
//! ```
//! use stripline_ring::{HeapRing, Mode};
//!
//! let (ring, mut writer) = HeapRing::new(4096);
//! let (_, mut reader) = ring.attach(&mut writer, Mode::Blocking { depth: 0 });
//!
//! let bytes = writer.try_reserve(5)?;
//! bytes.copy_from_slice(b"hello");
//! writer.publish(5);
//!
//! assert_eq!(reader.try_next()?, Some(&b"hello"[..]));
//! reader.release();
//! assert_eq!(reader.try_next()?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Memory
//!
//! ```text
//! written by the writer, mapped read-only by readers
//! ┌───────────────────┬──────────────────────────────┬──────────────────────────────┐
//! │ Control           │ data: `capacity` bytes       │ the same bytes again         │
//! └───────────────────┴──────────────────────────────┴──────────────────────────────┘
//!
//! Control     0  magic u64, capacity u64, version u32          written once
//!           128  head, count, newest, tail, tail_count, claim  written with every frame
//!           256  writer_waiting u32                            before and after a sleep
//!           384  closed u32                                    written once
//!           388  fenced u32                                    rarely
//!
//! written by one reader and the writer, one such page each
//! Cursor      0  released: position u64, count u64             by the reader, with every frame
//!           128  sleeping u32                                  by both, around a sleep
//!           256  start u64, start_count u64, state u32,        by the writer, on attaching
//!                mode u32, wake_frames u32, low_frames u32     and detaching
//!           384  Sleepers, unless it is shared
//!
//! Sleepers    0  any u32                                       by both sides, around a sleep
//!
//! a frame at position p, at byte p mod capacity of the data
//!    p                p+8               p+16                         next multiple of 64
//!    ├────────────────┼────────┬────────┼───────────────────┬────────┤
//!    │ commit word    │ length │ count  │ the frame's bytes │ padding│  the next commit word:
//!    │ p | 1          │ u32    │ u32    │                   │        │  any other until it is there
//!    └────────────────┴────────┴────────┴───────────────────┴────────┘
//! ```
//!
//! Positions are byte positions that only grow; frames start at multiples of 64. `count` is the low
//! half of the number of frames published before. Words are little-endian: big-endian machines are
//! refused at compile time.
//!
//! The data is mapped twice in a row, so a frame that crosses the end of the ring is still a single
//! slice. Headers are always accessed through the first mapping.
//!
//! # Protocol
//!
//! - **Publish.** The writer fills in the bytes of a frame, then the header, and last the commit
//!   word. A reader polls only the commit word at the reader's position. A commit word contains its
//!   position, so no commit word of another lap matches it. However, the bytes of an earlier frame
//!   may match. Therefore, before each commit word, the writer checks the place of the next commit
//!   word, and clears the place if it matches.
//! - **Space.** The writer caches the position up to which all blocking readers allow it to go. The
//!   writer loads the cursors again only when the cached position is not enough, which is about
//!   once per lap.
//! - **Overtaking.** While there are lossy readers, the writer stores two positions before it
//!   writes. `claim` is the end of the region that the writer is about to write; `tail` is the
//!   oldest frame that remains. A lossy reader copies a frame and then loads the claim. If the
//!   claim is more than a lap ahead of the frame, the reader discards the copy. The reader
//!   continues at the tail or at the newest frame.
//! - **Sleep.** The side that goes to sleep sets a flag and then checks for work again. The other
//!   side publishes work and then checks the flag. Full fences in between ensure that at least one
//!   side sees the other ([`Fence`]). A reader sets two flags: one for itself and one for the group
//!   of readers ([`Sleepers`]). The writer checks one word for each group.
//!
//! # Trust
//!
//! Every word that the peer can write is loaded once and validated before use. A value that no
//! correct peer writes becomes an error that names the value ([`ReaderViolation`], [`Corruption`]).
//! There is no panic, no endless loop and no access out of bounds.
//!
//! One property cannot be checked: the bytes that a blocking reader borrows lie in memory that the
//! writer can write. Borrow only from a writer that is as trusted as the reader's process (a writer
//! of the same user). From other writers, copy the frames ([`Reader::try_next_copied`]).
//!
//! For lossy readers, the writer's plain stores race with the readers' atomic loads. A torn copy is
//! discarded. Under the memory model this is still a race, as with every sequence lock over plain
//! memory. The fences are placed so that neither the compiler nor the processor can exploit the
//! race.

#[cfg(target_endian = "big")]
compile_error!("Stripline runs on little-endian machines only: rings and packet headers are little-endian");

mod attached;
mod error;
mod fence;
mod heap;
mod kept;
mod layout;
mod lossy;
mod mem;
mod reader;
mod snapshot;
mod writer;

pub use error::{AttachError, Corruption, ReadError, ReaderViolation, ReserveError};
pub use fence::Fence;
pub use heap::{HeapCursor, HeapRing, HeapSleepers};
pub use kept::KeptFrame;
pub use layout::{
    CAPACITY_MAX, CAPACITY_MIN, Control, Cursor, HEADER, LINE, Sleepers, frame_stride, is_valid_capacity,
    max_frame,
};
pub use lossy::CopyOutcome;
pub use reader::{Reader, ReaderMode};
pub use snapshot::{CursorSnapshot, Snapshot};
pub use writer::{Lag, Mode, ReaderId, Sleeper, Writer};

// Compiles the examples of the README, and runs those that can run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! A byte ring for one writer and many readers, in memory that processes share.
//!
//! Frames are written in place, one behind the other, and read in place: no copies, no locks, no reference counts, no
//! system calls. A small frame costs the transfer of one cache line. What it costs to write does not grow with the
//! number of readers.
//!
//! A reader is attached in one of two modes. The writer waits for **blocking** readers: a frame's space is free once
//! all of them have released it. It overtakes **lossy** readers, which copy frames out, check that they were still
//! there, and count exactly what they missed.
//!
//! This crate is the algorithm alone. Who maps the memory, hands it to another process, spins, sleeps or wakes is
//! the layer above: the [`Writer`] says whom to wake ([`Writer::for_each_sleeper`]), and so does the [`Reader`]
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
//! Control              0  magic u64, capacity u64, version u32          written once
//!                    128  head, count, newest, tail, tail_count, claim  written with every frame
//!                    256  writer_waiting u32                            before and after a sleep
//!                    384  closed u32                                    written once
//!                    388  fenced u32                                    rarely
//!
//! written by one reader and the writer, one such page each
//! Cursor               0  released: position u64, count u64             by the reader, with every frame
//!                    128  sleeping u32                                  by both, around a sleep
//!                    256  start u64, start_count u64, state u32,        by the writer, on attaching
//!                         mode u32, wake_frames u32, low_frames u32     and detaching
//!                    384  Sleepers, unless it is shared
//!
//! Sleepers             0  any u32                                       by readers, around a sleep, and the writer
//!
//! a frame at position p, at byte p mod capacity of the data
//!    p                p+8               p+16                                    next multiple of 64
//!    ├────────────────┼────────┬────────┼───────────────────────────┬───────────┤
//!    │ commit word    │ length │ count  │ the frame's bytes         │ padding   │  the next commit word
//!    │ p | 1          │ u32    │ u32    │                           │           │  0 until it is published
//!    └────────────────┴────────┴────────┴───────────────────────────┴───────────┘
//! ```
//!
//! Positions are byte positions that only grow; frames start at multiples of 64. `count` is the low half of the
//! number of frames published before. Words are little-endian: big-endian machines are refused at compile time.
//!
//! Because the data is mapped twice in a row, a frame that runs over the end of the ring is still one slice. Headers
//! are always reached through the first mapping.
//!
//! # Protocol
//!
//! - **Publish.** The writer fills in a frame's bytes, clears the commit word where the next frame will start, writes
//!   the header, and then the commit word. A reader polls the commit word at its own position and nothing else. The
//!   word beyond is cleared first because bytes of an earlier lap may look like one; it holds the position so that no
//!   other lap's can be taken for it.
//! - **Space.** The writer remembers up to where all blocking readers allow it to go, and looks at their cursors
//!   again only when that does not suffice: about once per lap.
//! - **Overtaking.** While there are lossy readers the writer announces, before it writes, up to where it is going to
//!   (`claim`), and which is the oldest frame that stays (`tail`). A lossy reader copies, and then looks at the
//!   claim: if that is more than a lap ahead of the frame, the copy is thrown away, and the reader goes on at the
//!   tail, or at the newest frame.
//! - **Sleep.** Whoever goes to sleep sets a flag and then looks once more; whoever has something to offer offers it
//!   and then looks at the flag. Full fences in between see to it that one sees the other ([`Fence`]). Readers set two
//!   flags, their own and that of their group ([`Sleepers`]): the writer looks at one word for each group.
//!
//! # Trust
//!
//! Every word that the peer can write is loaded once and checked before it is used. What no correct peer writes is an
//! error that names it ([`Misdeed`], [`Corruption`]): no panic, no endless loop, no access out of bounds. One thing
//! cannot be checked: the bytes that a blocking reader borrows lie in memory that the writer can write. Borrow only
//! from a writer that is as trusted as the reader's own process (the same user's); from others, copy
//! ([`Reader::try_next_copied`]).
//!
//! For lossy readers, the writer's plain stores race with their atomic loads. What was torn is thrown away, but by
//! the letter of the memory model it is a race all the same, as with every sequence lock over plain memory; the
//! fences are placed so that neither compiler nor processor can make use of it.

#[cfg(target_endian = "big")]
compile_error!("Stripline runs on little-endian machines only: rings and packet headers are little-endian");

mod attached;
mod error;
mod fence;
mod heap;
mod layout;
mod lossy;
mod mem;
mod reader;
mod snapshot;
mod writer;

pub use error::{AttachError, Corruption, Misdeed, ReadError, ReserveError};
pub use fence::Fence;
pub use heap::{HeapCursor, HeapRing, HeapSleepers};
pub use layout::{
    CAPACITY_MAX, CAPACITY_MIN, Control, Cursor, HEADER, LINE, Sleepers, frame_stride, is_valid_capacity,
    max_frame,
};
pub use lossy::Copied;
pub use reader::{Reader, ReaderMode};
pub use snapshot::{CursorSnapshot, Snapshot};
pub use writer::{Lag, Mode, ReaderId, Sleeper, Writer};

//! The reading side for lossy readers: copies a frame, then checks that the frame was not
//! overwritten.

use crate::layout::{POSITION_MAX, commit_word, frame_stride, is_valid_position};
use crate::mem::{Ordering, fence};
use crate::{Corruption, ReadError, Reader, ReaderMode};

/// The outcome of [`Reader::try_copy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyOutcome {
    /// There is no frame, or the writer lapped the reader on every attempt.
    Empty,
    /// A frame was copied.
    Frame {
        /// Number of frames skipped since the last one, because they were overwritten or older than
        /// the newest `depth`.
        skipped: u64,
    },
}

impl Reader {
    /// Copies the bytes of the next frame to `into`, replacing the content of `into`.
    ///
    /// Skips frames that the writer has overwritten, and all but the newest `depth` frames (0: as
    /// many as the ring holds). Unless a frame is returned, the content of `into` is arbitrary.
    ///
    /// # Errors
    /// See [`ReadError`].
    ///
    /// ```
    /// use stripline_ring::{CopyOutcome, HeapRing, Mode};
    ///
    /// let (ring, mut writer) = HeapRing::new(4096);
    /// let (_, mut reader) = ring.attach(&mut writer, Mode::Lossy);
    /// for number in 0..10 {
    ///     writer.try_reserve(1).unwrap()[0] = number;
    ///     writer.publish(1);
    /// }
    /// let mut frame = Vec::new();
    /// assert_eq!(reader.try_copy(2, &mut frame), Ok(CopyOutcome::Frame { skipped: 8 }));
    /// assert_eq!(frame, [8]);
    /// ```
    pub fn try_copy(&mut self, depth: u32, into: &mut Vec<u8>) -> Result<CopyOutcome, ReadError> {
        if self.mode() != ReaderMode::Lossy {
            return Err(ReadError::WrongMode);
        }
        if !self.ready()? {
            return Ok(CopyOutcome::Empty);
        }
        let mut from = From::Own;
        for attempt in 0..ATTEMPTS {
            match self.attempt(from, depth, into)? {
                Attempt::Empty => break,
                Attempt::Copied(frame) => {
                    let skipped = frame.count - self.count;
                    self.position = frame.position + frame_stride(frame.len) as u64;
                    self.count = frame.count + 1;
                    self.store_released();
                    return Ok(CopyOutcome::Frame { skipped });
                }
                // The oldest frame is also the next one to be overwritten. After losing the oldest
                // frame twice, the reader takes the newest one, which lasts at least half a lap.
                Attempt::Overtaken if attempt < 2 => from = From::Tail,
                Attempt::Overtaken | Attempt::Stale => from = From::Newest,
            }
        }
        if self.is_detached() { Err(ReadError::Detached) } else { Ok(CopyOutcome::Empty) }
    }

    /// Returns whether the writer may have begun to overwrite the bytes at `position`. Call this
    /// after loading the bytes.
    pub(crate) fn is_overtaken(&self, position: u64) -> bool {
        // The fence keeps earlier loads from moving behind the load of the claim. If one of these
        // loads saw a store that followed a claim (and the writer's fence), this load sees that
        // claim.
        fence(Ordering::Acquire);
        // Acquire: the tail that was stored before the claim is visible with the claim.
        let claim = self.control().progress.0.claim.load(Ordering::Acquire);
        claim > position + self.data.capacity() as u64
    }

    fn attempt(&self, from: From, depth: u32, into: &mut Vec<u8>) -> Result<Attempt, ReadError> {
        let (position, hint) = self.starting_point(from)?;
        let mut frame = match self.probe(position, hint)? {
            Probe::Frame(frame) => frame,
            Probe::Nothing => return Ok(Attempt::Empty),
            Probe::Overtaken => return Ok(Attempt::Overtaken),
        };
        // A jump ahead skips at least one frame and never goes back.
        let expected = if from == From::Own { frame.count == self.count } else { frame.count > self.count };
        if !expected {
            let found = frame.count as u32;
            return Err(corrupt(Corruption::FrameCount { position, expected: self.count as u32, found }));
        }
        // A reader that has jumped to the newest frame takes this frame, even if more frames have
        // been published since.
        if depth > 0 && from != From::Newest {
            // Acquire: every counted frame is committed.
            let published = self.control().progress.0.count.load(Ordering::Acquire);
            let surplus = published.saturating_sub(frame.count).saturating_sub(u64::from(depth));
            if surplus > 0 && depth == 1 {
                return Ok(Attempt::Stale);
            }
            if surplus > self.data.capacity() as u64 / 64 {
                return Ok(Attempt::Overtaken); // more than the ring can hold
            }
            for _ in 0..surplus {
                let position = frame.position + frame_stride(frame.len) as u64;
                let expected = frame.count + 1;
                frame = match self.probe(position, expected)? {
                    Probe::Frame(frame) if frame.count == expected => frame,
                    Probe::Overtaken => return Ok(Attempt::Overtaken),
                    Probe::Frame(_) | Probe::Nothing => {
                        return Err(corrupt(Corruption::Progress { found: published }));
                    }
                };
            }
        }
        into.clear();
        self.data.copy_out(frame.position, frame.len, into);
        Ok(if self.is_overtaken(frame.position) { Attempt::Overtaken } else { Attempt::Copied(frame) })
    }

    /// Returns the position at which to search for a frame, and the approximate count of the frame.
    fn starting_point(&self, from: From) -> Result<(u64, u64), ReadError> {
        let progress = &self.control().progress.0;
        // Acquire: the count that was stored before the tail is not older than the tail, and the
        // frames are committed. Either count may be newer than the position, but the frame itself
        // has the exact count.
        let (position, hint) = match from {
            From::Own => return Ok((self.position, self.count)),
            From::Tail => {
                (progress.tail.load(Ordering::Acquire), progress.tail_count.load(Ordering::Relaxed))
            }
            From::Newest => (progress.newest.load(Ordering::Acquire), progress.count.load(Ordering::Relaxed)),
        };
        if !is_valid_position(position) || position <= self.position {
            return Err(corrupt(Corruption::Progress { found: position }));
        }
        if hint > POSITION_MAX {
            return Err(corrupt(Corruption::Progress { found: hint }));
        }
        Ok((position, hint))
    }

    /// Loads and validates the frame at `position`. The count of the frame must be near `hint`.
    fn probe(&self, position: u64, hint: u64) -> Result<Probe, ReadError> {
        // Acquire: the header and the bytes are visible with the commit word.
        let commit = self.data.commit(position).load(Ordering::Acquire);
        let word = self.data.header(position).load(Ordering::Relaxed);
        if self.is_overtaken(position) {
            return Ok(Probe::Overtaken);
        }
        if commit != commit_word(position) {
            return Ok(Probe::Nothing);
        }
        let (len, low) = self.checked_header(position, word)?;
        Ok(Probe::Frame(Frame { position, len, count: nearest(hint, low) }))
    }
}

/// Maximum number of attempts to get a frame in one call, so that a hostile writer cannot hold up
/// the reader for ever.
const ATTEMPTS: u32 = 8;

#[derive(Clone, Copy, PartialEq)]
enum From {
    Own,
    Tail,
    Newest,
}

enum Attempt {
    Empty,
    Copied(Frame),
    Overtaken,
    /// The caller wants only the newest frame, and this frame is older.
    Stale,
}

enum Probe {
    Nothing,
    Frame(Frame),
    Overtaken,
}

struct Frame {
    position: u64,
    len: usize,
    count: u64,
}

/// Returns the count nearest to `hint` that has the low half `low`.
///
/// The result is exact, because a hint is off by fewer frames than a ring can hold: 2^31 / 64.
fn nearest(hint: u64, low: u32) -> u64 {
    let ahead = low.wrapping_sub(hint as u32) as i32;
    hint.wrapping_add_signed(i64::from(ahead))
}

fn corrupt(what: Corruption) -> ReadError {
    ReadError::Corrupt { what }
}

//! The receiving side of the ring transports.

use std::os::fd::AsFd;

use stripline_ring::{Copied, Reader, ReaderMode};

use super::{CursorPage, RingMemory};
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::link::Overflow;
use crate::sys::doorbell::{Doorbell, Sleep};
use crate::sys::socket::Socket;
use crate::transport::{Connect, Inlet, Next};

/// One reader of a ring.
pub(in crate::transport) struct RingInlet {
    // Dropped before the memory it reads.
    reader: Reader,
    // Its drop tells the other side that this reader is gone.
    tie: Tie,
    bells: Bells,
    connection: String,
    lossy: Option<Lossy>,
    gone: bool,
    slept: bool,
    cursor: CursorPage,
    _memory: std::sync::Arc<RingMemory>,
}

/// What holds the two sides together, and tells either of the other's death.
pub(in crate::transport) enum Tie {
    /// A socket to the other process.
    Socket(Socket),
    /// Something whose drop takes the reader out, in the same process.
    Local(#[expect(dead_code, reason = "held for its drop")] Box<dyn Send>),
}

/// The bells between the two sides.
pub(in crate::transport) struct Bells {
    /// Rung by the writer when there is a packet for a sleeping reader.
    pub data: Doorbell,
    /// Rung by the reader when there is space for a sleeping writer.
    pub space: Doorbell,
}

struct Lossy {
    /// Packets kept; 0: as many as the ring holds.
    keep: u32,
    frame: Vec<u8>,
    taken: bool,
}

impl RingInlet {
    pub(in crate::transport) fn new(
        memory: std::sync::Arc<RingMemory>,
        cursor: CursorPage,
        bells: Bells,
        tie: Tie,
        request: &Connect,
    ) -> Result<Self> {
        let options = request.options;
        let (mode, lossy) = match options.overflow {
            Overflow::Block => (ReaderMode::Blocking, None),
            // The queue in front of the component does the dropping; the ring only must never block for it.
            Overflow::DropOldest | Overflow::DropNewest | Overflow::Eject => (ReaderMode::Lossy, Some(0)),
        };
        // SAFETY: both mappings are of the sizes checked when they were mapped and live in this value, which
        // drops the reader first.
        let reader =
            unsafe { Reader::new(memory.control(), memory.data(), memory.capacity, cursor.cursor(), mode) };
        let deed = |e| Error::misbehaved(&request.connection, format!("gave memory of no use: {e}"));
        let reader = reader.map_err(deed)?;
        Ok(Self {
            reader,
            tie,
            bells,
            connection: request.connection.clone(),
            lossy: lossy.map(|keep| Lossy { keep, frame: Vec::new(), taken: false }),
            gone: false,
            slept: false,
            cursor,
            _memory: memory,
        })
    }
}

#[cfg(feature = "fail-points")]
impl Drop for RingInlet {
    fn drop(&mut self) {
        fail_point!("reader-detach");
    }
}

impl Inlet for RingInlet {
    fn try_next(&mut self) -> Result<Next<'_>> {
        // Asked before looking: what was published before the end is then certainly seen.
        let closed = self.gone || self.reader.is_closed();
        let nothing = if closed { Next::Gone } else { Next::Empty };
        if !self.reader.is_attached() {
            return Ok(nothing);
        }
        let connection = &self.connection;
        let corrupt = |error| Error::misbehaved(connection, format!("broke the ring's rules: {error}"));
        match &mut self.lossy {
            None => match self.reader.try_next().map_err(corrupt)? {
                Some(frame) => Ok(Next::Frame(frame)),
                None => Ok(nothing),
            },
            Some(lossy) => {
                if !lossy.taken {
                    match self.reader.try_copy(lossy.keep, &mut lossy.frame).map_err(corrupt)? {
                        Copied::Empty => return Ok(nothing),
                        Copied::Frame { .. } => lossy.taken = true,
                    }
                }
                Ok(Next::Frame(&lossy.frame))
            }
        }
    }

    fn release(&mut self) {
        match &mut self.lossy {
            None => {
                fail_point!("release");
                if self.reader.release() {
                    fail_point!("release-stored");
                    self.bells.space.ring();
                }
            }
            Some(lossy) => lossy.taken = false,
        }
    }

    fn prepare_sleep(&mut self) -> bool {
        let sleep = !self.gone && !self.reader.is_closed() && self.reader.prepare_sleep();
        self.slept = sleep;
        fail_point!("reader-sleep");
        sleep
    }

    fn cancel_sleep(&mut self) {
        if self.slept {
            self.slept = false;
            fail_point!("reader-wake");
            self.reader.cancel_sleep();
            self.bells.data.quiet();
        }
    }

    fn sleep_on<'a>(&'a self, sleep: &mut Sleep<'a>) {
        sleep.readable(self.bells.data.as_fd());
        if let Tie::Socket(socket) = &self.tie {
            sleep.readable(socket.as_fd());
        }
    }

    fn check_peer(&mut self) {
        if let Tie::Socket(socket) = &self.tie
            && !self.gone
        {
            // After the handshake the sender says nothing on this socket: anything to read is its end.
            let mut sleep = Sleep::default();
            sleep.readable(socket.as_fd());
            self.gone = sleep.until(Some(std::time::Instant::now())).unwrap_or(true);
        }
    }

    fn is_cheap(&self) -> bool {
        true
    }

    fn is_orphaned(&mut self) -> bool {
        self.check_peer();
        self.gone || self.reader.is_closed()
    }

    fn resume_from(&self) -> Option<u64> {
        self.cursor.resume_from()
    }

    fn first_sent(&self) -> Option<(u64, u64)> {
        self.cursor.first_sent()
    }
}

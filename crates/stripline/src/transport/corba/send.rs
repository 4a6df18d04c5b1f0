//! The sending end.

use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use super::{CorbaTicket, PROBE, charge};
use crate::error::Result;
use crate::sys::corba::CallClient;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::fork::Local;
use crate::sys::mutex::lock;
use crate::sys::transit_page::TransitPage;
use crate::transport::carrier::{PathProbe, PathSink};
use crate::transport::stream::MessageFrames;

/// Bytes that the kernel's buffer is to have. It may give less.
const BUFFER: i32 = 1 << 20;
/// Bytes that it has at least, unless the system is set to less. Half of that is used.
const BUFFER_USUAL: u32 = 212_992;
/// After so many bytes in the kernel, its own count is read.
const LOOK_AFTER: u64 = 32 * 1024;
/// Attempts to connect while the receiver's process has others to accept.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// The sending end.
pub(super) struct CorbaSink {
    state: Local<Mutex<CallState>>,
    page: TransitPage,
    /// Rung by the receiver once there is room, or a probe has come.
    doorbell: Doorbell,
    key: u64,
    frames_max: u64,
    calls_max: u64,
    bytes_max: usize,
    unit: Option<NonZeroU32>,
}

struct CallState {
    client: CallClient,
    /// Frames of packets handed over, in all, and the calls that they were in.
    sent: u64,
    calls: u64,
    /// What these take of the kernel's buffer, in all.
    charged: u64,
    /// The frames and calls taken, and what has left the kernel, when that was read last.
    taken: u64,
    calls_taken: u64,
    received: u64,
    /// The most that may be in the kernel's buffer.
    window: u64,
    /// What was charged when the kernel's own count was read last; `None`: never.
    looked_at: Option<u64>,
    /// Whether a wait was announced.
    is_waiting: bool,
    /// Bytes of the frame that was cut last, which are still to come.
    rest: usize,
}

impl CorbaSink {
    /// Connects to the servant of a ticket.
    pub(super) fn connect(
        ticket: &CorbaTicket,
        socket: OwnedFd,
        page: TransitPage,
        doorbell: Doorbell,
    ) -> Result<Self, String> {
        let client = CallClient::new(&ticket.object, socket).map_err(|e| e.to_string())?;
        let state = CallState {
            client,
            sent: 0,
            calls: 0,
            charged: 0,
            taken: 0,
            calls_taken: 0,
            received: 0,
            window: u64::from(BUFFER_USUAL / 2),
            looked_at: None,
            is_waiting: false,
            rest: 0,
        };
        let sink = Self {
            state: Local::new(Mutex::new(state)),
            page,
            doorbell,
            key: ticket.key,
            frames_max: ticket.frames,
            calls_max: ticket.calls_max(),
            bytes_max: ticket.bytes as usize,
            unit: ticket.unit,
        };
        sink.send_probe()?;
        Ok(sink)
    }

    /// Connects, where omniORB has not yet, and sends a probe.
    fn send_probe(&self) -> Result<(), String> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match lock(&self.state).client.call(self.key, PROBE, 0, &[]) {
                Err(_) if attempts < ATTEMPTS => std::thread::sleep(PAUSE),
                outcome => return outcome,
            }
        }
    }

    /// Returns what there is room for.
    ///
    /// # Errors
    /// `WouldBlock`. The doorbell rings once there is room.
    fn admit(&self, state: &mut CallState, bytes: &[u8]) -> io::Result<MessageFrames> {
        if std::mem::take(&mut state.is_waiting) {
            self.doorbell.drain();
        }
        let cached = self.admitted(state, bytes);
        if cached.as_ref().is_ok_and(|admitted| admitted.bytes == bytes.len()) {
            return cached.map_err(|_| io::ErrorKind::WouldBlock.into());
        }
        // These words are on a line that the receiver writes: they are read where it matters.
        (state.taken, state.received) = (self.page.taken(), self.page.received());
        state.calls_taken = self.page.messages_taken();
        let lacks = match self.admitted(state, bytes) {
            Ok(admitted) if admitted.bytes > 0 => return Ok(admitted),
            Ok(_) => Lacks::Frames,
            Err(lacks) => lacks,
        };
        match lacks {
            Lacks::Frames => state.taken = self.page.announce_wait(),
            Lacks::Kernel => state.received = self.page.announce_wait_for_receipt(),
        }
        state.calls_taken = self.page.messages_taken();
        match self.admitted(state, bytes) {
            Ok(admitted) if admitted.bytes > 0 => Ok(admitted),
            Ok(_) if state.sent == state.taken && state.calls == state.calls_taken => {
                Err(io::Error::other("the bytes are no whole frames"))
            }
            _ => {
                state.is_waiting = true;
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
    }

    /// Returns the frames of the next call, by what was read last.
    fn admitted(&self, state: &CallState, bytes: &[u8]) -> Result<MessageFrames, Lacks> {
        if state.calls.saturating_sub(state.calls_taken) >= self.calls_max {
            return Err(Lacks::Frames);
        }
        let in_transit = state.sent.saturating_sub(state.taken);
        let room = self.frames_max.saturating_sub(in_transit);
        let mut admitted = MessageFrames::new(bytes, state.rest, room, self.bytes_max);
        if let Some(unit) = self.unit {
            admitted.frames = admitted.frames.max(admitted.bytes as u64 / u64::from(unit.get()));
            if admitted.frames > room && in_transit > 0 {
                return Err(Lacks::Frames);
            }
        }
        let in_kernel = state.charged.saturating_sub(state.received);
        // One that is larger than all the room travels alone.
        let fits = in_kernel == 0 || in_kernel + charge(admitted.bytes) <= state.window;
        if admitted.bytes > 0 && !fits { Err(Lacks::Kernel) } else { Ok(admitted) }
    }

    fn send(&self, state: &mut CallState, bytes: &[u8], admitted: &MessageFrames) -> io::Result<usize> {
        let numbers = [self.key, state.calls, state.sent + admitted.frames];
        state.charged += charge(admitted.bytes);
        self.page.set_charged(state.charged);
        let is_due = state.looked_at.is_none_or(|at| state.charged - at >= LOOK_AFTER);
        if is_due {
            self.call_and_look(state, numbers, bytes)?;
        } else {
            let [key, number, frames] = numbers;
            state.client.call(key, number, frames, bytes).map_err(broken)?;
        }
        state.sent += admitted.frames;
        state.calls += 1;
        state.rest = admitted.rest;
        self.page.set_sent(state.sent, state.calls, None);
        Ok(admitted.bytes)
    }

    /// Calls, and reads what the kernel has. A receiver that counts what it has not read would make
    /// a later call wait.
    #[cold]
    fn call_and_look(&self, state: &mut CallState, numbers: [u64; 3], bytes: &[u8]) -> io::Result<()> {
        let enlarge_to = if state.looked_at.is_none() { BUFFER } else { 0 };
        let Some(buffer) = state.client.call_and_look(numbers, bytes, enlarge_to).map_err(broken)? else {
            return Ok(());
        };
        state.looked_at = Some(state.charged);
        state.window = u64::from(buffer.bytes / 2);
        if buffer.queued > buffer.bytes / 4 * 3 {
            return Err(broken("the receiver counts calls that it has not read".into()));
        }
        Ok(())
    }
}

/// The thing that a sender has to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacks {
    /// Frames or calls that the receiver takes.
    Frames,
    /// Room in the kernel.
    Kernel,
}

/// Returns the error of a call that failed. Its receiver is gone.
#[cold]
fn broken(error: String) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, error)
}

impl PathSink for CorbaSink {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        if !self.state.is_current() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let state = &mut *lock(&self.state);
        let admitted = self.admit(state, bytes)?;
        self.send(state, &bytes[..admitted.bytes], &admitted)
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        poll_set.readable(self.doorbell.as_fd());
    }

    fn probe(&self) -> Option<&dyn PathProbe> {
        Some(self)
    }
}

impl PathProbe for CorbaSink {
    fn try_once(&self) -> Result<bool, String> {
        self.doorbell.drain();
        if self.page.is_connected() {
            return Ok(true);
        }
        if !self.state.is_current() {
            return Err("the process is a child of the sender".into());
        }
        self.send_probe()?;
        Ok(false)
    }

    fn answers(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    fn failure(&self, within: Duration) -> String {
        format!(
            "the receiver's servant has not been called by omniORB within {within:?}; mount /proc in both processes"
        )
    }
}

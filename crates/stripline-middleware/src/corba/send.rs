//! The sending end.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use stripline::carrier::fork::Local;
use stripline::carrier::mutex::lock;
use stripline::carrier::{Doorbell, Frames, Opening, PathSink, PollSet, violation};
use stripline::{Error, Result};

use super::credit::CreditTaker;
use super::{BYTES_MIN, CorbaTicket, END, LOW_CHARGE, PROBE, charge};
use crate::corba::orb::{CallClient, KernelBuffer};
use crate::transit::MessageFrames;
use crate::transit::TransitPage;

/// The kernel's buffer size that is requested. The kernel may give less.
const BUFFER: i32 = 1 << 20;
/// The least size of the kernel's buffer, unless the system is set to less. Half of it is used.
const BUFFER_USUAL: u32 = 212_992;
/// The kernel's own count is read each time this many more bytes were charged.
const LOOK_AFTER: u64 = 32 * 1024;
/// Attempts to connect while the receiver's process has other connections to accept.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// The sending end.
pub(super) struct CorbaSink {
    state: Local<Mutex<CallState>>,
    page: TransitPage,
    /// Rung by the receiver once there is room, or once a probe has arrived.
    doorbell: Doorbell,
    key: u64,
    frames_max: u64,
    calls_max: u64,
    unit: Option<NonZeroU32>,
    /// The receiver on another host; `None`: the receiver is on this host.
    remote: Local<Option<RemoteEnds>>,
}

/// The ends that only a path to another host has.
struct RemoteEnds {
    receiver: SocketAddr,
    credits: CreditTaker,
    /// The thread that connects. Connecting to a host that does not answer takes seconds.
    opening: Mutex<Option<JoinHandle<OpenOutcome>>>,
}

/// A connected client, and the kernel's buffer of the connection.
type OpenOutcome = Result<(CallClient, KernelBuffer), String>;

struct CallState {
    /// `None`: the connection is still to come.
    client: Option<CallClient>,
    /// The most bytes of a call.
    bytes_max: usize,
    /// The frames of packets handed over, in total, and the calls that carried them.
    sent: u64,
    calls: u64,
    /// The charges of these calls in the kernel's buffer, in total.
    charged: u64,
    /// The frames and calls taken, and the charges that have left the kernel, as last read.
    taken: u64,
    calls_taken: u64,
    received: u64,
    /// The greatest charge that may be in the kernel's buffer.
    window: u64,
    /// The charges at the last reading of the kernel's own count; `None`: it was never read.
    looked_at: Option<u64>,
    /// Whether a wait was announced.
    is_waiting: bool,
    /// The bytes of the last cut frame that are still to be sent.
    rest: usize,
}

impl CallState {
    fn new(client: Option<CallClient>, bytes_max: u32) -> Self {
        Self {
            client,
            bytes_max: bytes_max as usize,
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
        }
    }

    /// Calls with a key, a number and a frame count.
    fn call(&mut self, [key, number, frames]: [u64; 3], bytes: &[u8]) -> Result<(), String> {
        let client = self.client.as_mut().ok_or("the path is not connected yet")?;
        client.call(key, number, frames, bytes)
    }

    /// Takes the connection to another host into use. Credits on it may be late by [`LOW_CHARGE`],
    /// and the rest of the window has to take a call.
    fn open(&mut self, client: CallClient, buffer: KernelBuffer) -> Result<(), String> {
        self.client = Some(client);
        self.window = u64::from(buffer.bytes / 2);
        let left = self.window.saturating_sub(LOW_CHARGE);
        let fits = left.saturating_sub(charge(0)) / 5 * 4;
        self.bytes_max = self.bytes_max.min(usize::try_from(fits).unwrap_or(usize::MAX));
        if left < charge(BYTES_MIN as usize) {
            return Err(format!(
                "the kernel gives a buffer of {} bytes to the connection, and a path of CORBA takes {}; raise \
                 net.core.wmem_max",
                buffer.bytes,
                2 * (LOW_CHARGE + charge(BYTES_MIN as usize))
            ));
        }
        Ok(())
    }
}

impl CorbaSink {
    /// Makes the end of a sender to a process of the same host, and sends a probe.
    ///
    /// # Errors
    /// The error of the call.
    pub(super) fn call_process(
        ticket: &CorbaTicket,
        client: CallClient,
        page: TransitPage,
        doorbell: Doorbell,
    ) -> Result<Self, String> {
        let sink = Self::new(ticket, Some(client), page, doorbell, None);
        sink.send_probe()?;
        Ok(sink)
    }

    /// Makes the end of a sender to another host, and begins to connect.
    ///
    /// # Errors
    /// A lack of memory, descriptors or threads, or no route to the receiver.
    pub(super) fn call_host(ticket: &CorbaTicket, receiver: SocketAddr) -> Result<Self> {
        let (credits, page, doorbell) = CreditTaker::new(ticket, receiver)?;
        let (object, key, probe) = (ticket.object.clone(), ticket.key, credits.probe()?);
        let open = move || {
            let mut client = CallClient::of_address(&object, receiver).map_err(|e| e.to_string())?;
            client.call(key, PROBE, 0, &probe)?;
            let buffer = client.call_and_look([key, PROBE, 0], &probe, BUFFER)?;
            Ok((client, buffer.ok_or("the connection has no socket")?))
        };
        let opening = std::thread::Builder::new()
            .name("corba-open".into())
            .spawn(open)
            .map_err(|e| Error::not_started("cannot start a thread", e))?;
        let remote = RemoteEnds { receiver, credits, opening: Mutex::new(Some(opening)) };
        Ok(Self::new(ticket, None, page, doorbell, Some(remote)))
    }

    fn new(
        ticket: &CorbaTicket,
        client: Option<CallClient>,
        page: TransitPage,
        doorbell: Doorbell,
        remote: Option<RemoteEnds>,
    ) -> Self {
        Self {
            state: Local::new(Mutex::new(CallState::new(client, ticket.bytes))),
            page,
            doorbell,
            key: ticket.key,
            frames_max: ticket.frames,
            calls_max: ticket.calls_max(),
            unit: ticket.unit,
            remote: Local::new(remote),
        }
    }

    /// Connects, if omniORB has not connected yet, and sends a probe.
    fn send_probe(&self) -> Result<(), String> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match lock(&self.state).call([self.key, PROBE, 0], &[]) {
                Err(_) if attempts < ATTEMPTS => std::thread::sleep(PAUSE),
                outcome => return outcome,
            }
        }
    }

    /// Returns whether the connection to another host is open. If so, the thread that connects has
    /// ended, or is about to.
    fn has_opened(&self, remote: &RemoteEnds, is_connected: bool) -> Result<bool, String> {
        let mut opening = lock(&remote.opening);
        if !is_connected && !opening.as_ref().is_some_and(JoinHandle::is_finished) {
            return Ok(opening.is_none());
        }
        if let Some(thread) = opening.take() {
            let (client, buffer) = thread.join().map_err(|_| "the thread that connects has panicked")??;
            lock(&self.state).open(client, buffer)?;
        }
        Ok(true)
    }

    /// Returns the frames that there is room for.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room. The doorbell rings once there is room.
    fn admit(&self, state: &mut CallState, bytes: &[u8]) -> io::Result<MessageFrames> {
        if std::mem::take(&mut state.is_waiting) {
            self.doorbell.drain();
        }
        let cached = self.admitted(state, bytes);
        if cached.as_ref().is_ok_and(|admitted| admitted.bytes == bytes.len()) {
            return cached.map_err(|_| io::ErrorKind::WouldBlock.into());
        }
        // These words are on a line that the receiver writes, so they are read only when they
        // matter.
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
                Err(io::Error::other("the bytes are not whole frames"))
            }
            _ => {
                state.is_waiting = true;
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
    }

    /// Returns the frames of the next call, by the counts that were read last.
    fn admitted(&self, state: &CallState, bytes: &[u8]) -> Result<MessageFrames, Lacks> {
        if state.calls.saturating_sub(state.calls_taken) >= self.calls_max {
            return Err(Lacks::Frames);
        }
        let in_transit = state.sent.saturating_sub(state.taken);
        let room = self.frames_max.saturating_sub(in_transit);
        let mut admitted = MessageFrames::new(bytes, state.rest, room, state.bytes_max);
        if let Some(unit) = self.unit {
            admitted.frames = admitted.frames.max(admitted.bytes as u64 / u64::from(unit.get()));
            if admitted.frames > room && in_transit > 0 {
                return Err(Lacks::Frames);
            }
        }
        let in_kernel = state.charged.saturating_sub(state.received);
        // A call that is larger than all the room travels alone.
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
            state.call(numbers, bytes).map_err(broken)?;
        }
        state.sent += admitted.frames;
        state.calls += 1;
        state.rest = admitted.rest;
        self.page.set_sent(state.sent, state.calls, None);
        Ok(admitted.bytes)
    }

    /// Calls, and reads the kernel's count. A receiver that counts calls as received that it has
    /// not read would make a later call wait.
    #[cold]
    fn call_and_look(&self, state: &mut CallState, numbers: [u64; 3], bytes: &[u8]) -> io::Result<()> {
        let enlarge_to = if state.looked_at.is_none() { BUFFER } else { 0 };
        let client = state.client.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let Some(buffer) = client.call_and_look(numbers, bytes, enlarge_to).map_err(broken)? else {
            return Ok(());
        };
        state.looked_at = Some(state.charged);
        state.window = u64::from(buffer.bytes / 2);
        if buffer.queued > buffer.bytes / 4 * 3 {
            return Err(violation("counted calls that it has not read"));
        }
        Ok(())
    }
}

/// The resource that a sender has to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacks {
    /// Frames or calls that the receiver has to take.
    Frames,
    /// Room in the kernel's buffer.
    Kernel,
}

/// Returns the error of a call that failed because the receiver is gone.
#[cold]
fn broken(error: String) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, error)
}

impl PathSink for CorbaSink {
    fn write(&self, frames: &mut Frames<'_>, _longest: Duration) -> io::Result<usize> {
        if !self.state.is_current() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let state = &mut *lock(&self.state);
        let admitted = self.admit(state, frames)?;
        self.send(state, &frames[..admitted.bytes], &admitted)
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        poll_set.readable(self.doorbell.as_fd());
    }

    fn open(&self) -> Result<Opening<'_>, String> {
        self.doorbell.drain();
        if !self.state.is_current() {
            return Err("the process is a child of the sender".into());
        }
        let is_connected = self.page.is_connected();
        let is_open = match &*self.remote {
            Some(remote) => self.has_opened(remote, is_connected)? && is_connected,
            None => {
                if !is_connected {
                    self.send_probe()?;
                }
                is_connected
            }
        };
        Ok(if is_open { Opening::Done } else { self.waits() })
    }
}

impl CorbaSink {
    /// Returns the state of a path that is not open yet.
    fn waits(&self) -> Opening<'_> {
        let (lacks, remedy) = match &*self.remote {
            Some(remote) if lock(&remote.opening).is_some() => (
                format!("the receiver's host has not accepted a connection to {}", remote.receiver),
                "let both hosts connect to each other",
            ),
            Some(remote) => (
                format!("the receiver has not called this process at {}", remote.credits.address()),
                "let both hosts connect to each other",
            ),
            None => (
                "the receiver's servant has not been called by omniORB".into(),
                "mount /proc in both processes",
            ),
        };
        Opening::Waits { on: self.doorbell.as_fd(), lacks, remedy }
    }
}

impl Drop for CorbaSink {
    /// Ends a path to another host by a last call. This process may end before everything has
    /// arrived; the rest is in the kernel then.
    fn drop(&mut self) {
        if self.remote.is_some() && self.state.is_current() {
            let state = &mut *lock(&self.state);
            // The call fails if the receiver is gone, or was never there.
            let _ = state.call([self.key, END, state.calls], &[]);
        }
    }
}

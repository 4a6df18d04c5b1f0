//! The bytes that wait for the client of `rtl-tcp-sink`, and the thread that sends them.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use stripline::component::Status;

use super::protocol::{Command, Header};

/// The bytes of a write.
const PIECE_BYTES: usize = 1 << 16;

/// The most bytes of commands that one read takes.
const COMMANDS_BYTES: usize = 512;

/// The time that a client has for the last samples at the end of a run.
const END_TIME: Duration = Duration::from_secs(1);

/// The interval at which a wait checks that time.
const STEP_TIME: Duration = Duration::from_millis(50);

/// The samples that wait for a client. Without a client, and beyond the limit, samples are dropped
/// and counted.
pub(super) struct ClientQueue {
    state: Mutex<QueueState>,
    /// Wakes the thread.
    wake: OwnedFd,
    bytes_max: usize,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<u8>,
    has_client: bool,
    counts: QueueCounts,
    /// The time until which the rest is sent; `None`: more samples may come.
    until: Option<Instant>,
}

/// Counts of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueCounts {
    /// Samples that the system has taken for a client.
    pub sent: u64,
    /// Samples that a slow client did not take.
    pub slow: u64,
    /// Samples for which there was no client, or that a client left behind.
    pub without_client: u64,
    /// Changes from samples that were taken to samples that were not.
    pub places: u64,
    /// Whether the latest samples were dropped.
    is_missing: bool,
}

impl QueueCounts {
    fn miss(&mut self) {
        self.places += u64::from(!std::mem::replace(&mut self.is_missing, true));
    }
}

impl ClientQueue {
    /// Creates a queue for `samples_max` samples.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(samples_max: usize) -> io::Result<Arc<Self>> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let bytes_max = samples_max.saturating_mul(2);
        Ok(Arc::new(Self { state: Mutex::default(), wake, bytes_max }))
    }

    /// Adds samples of two bytes each, as far as there is room. Returns the counts.
    pub fn push(&self, bytes: &[u8]) -> QueueCounts {
        let mut state = self.lock();
        let QueueState { waiting, has_client, counts, .. } = &mut *state;
        let room = if *has_client { self.bytes_max.saturating_sub(waiting.len()) } else { 0 };
        let taken = &bytes[..bytes.len().min(room)];
        let dropped = (bytes.len() - taken.len()) as u64 / 2;
        if !taken.is_empty() {
            waiting.extend(taken);
            counts.is_missing = false;
        }
        if dropped > 0 {
            *(if *has_client { &mut counts.slow } else { &mut counts.without_client }) += dropped;
            counts.miss();
        }
        let counts = *counts;
        drop(state);
        if !taken.is_empty() {
            self.notify();
        }
        counts
    }

    /// Lets the thread end once the rest is sent.
    pub fn finish(&self) {
        self.lock().until = Some(Instant::now() + END_TIME);
        self.notify();
    }

    /// Returns the counts.
    pub fn counts(&self) -> QueueCounts {
        self.lock().counts
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        // A full counter wakes, too.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Waits for the socket, or a notification.
    fn wait(&self, socket: &impl std::os::fd::AsFd, flags: PollFlags) -> io::Result<()> {
        let time = Timespec { tv_sec: 0, tv_nsec: STEP_TIME.subsec_nanos().into() };
        let mut polled = [PollFd::new(socket, flags), PollFd::new(&self.wake, PollFlags::IN)];
        match poll(&mut polled, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        Ok(())
    }
}

/// The thread that serves one client after the other.
pub(super) struct Server {
    pub listener: TcpListener,
    pub queue: Arc<ClientQueue>,
    /// The commands of clients; `None`: no tuner takes them.
    pub commands: Option<SyncSender<Command>>,
    pub clients: Status<u64>,
    /// Commands that no tuner takes.
    pub ignored: Status<u64>,
}

impl Server {
    /// Serves until the end of the queue.
    ///
    /// # Errors
    /// The system has no socket left.
    pub fn run(self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    self.clients.add(1);
                    self.serve(socket);
                    continue;
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            if self.queue.lock().until.is_some() {
                return Ok(());
            }
            self.queue.wait(&self.listener, PollFlags::IN)?;
        }
    }

    /// Serves a client until it leaves, or until the end of the queue.
    fn serve(&self, mut socket: TcpStream) {
        let mut unsent = Vec::new();
        let served = self.exchange(&mut socket, &mut unsent);
        let mut state = self.queue.lock();
        let left = ((unsent.len() + state.waiting.len()) / 2) as u64;
        state.waiting.clear();
        state.has_client = false;
        state.counts.without_client += left;
        if left > 0 {
            state.counts.miss();
        }
        drop(state);
        if let Err(error) = served {
            log::warn!(target: "stripline::rtl-tcp-sink", "the client has left: {error}; waiting for the next one");
        }
    }

    /// Sends samples and takes commands. The bytes that were not sent stay in `unsent`.
    fn exchange(&self, socket: &mut TcpStream, unsent: &mut Vec<u8>) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let mut header = Header::R820T.encode().to_vec();
        let mut command = Vec::new();
        self.queue.lock().has_client = true;
        loop {
            self.take_commands(socket, &mut command)?;
            while !header.is_empty() {
                let Some(count) = written(socket, &header)? else { break };
                header.drain(..count);
            }
            let until = {
                let mut state = self.queue.lock();
                let count = PIECE_BYTES.saturating_sub(unsent.len()).min(state.waiting.len());
                unsent.extend(state.waiting.drain(..count));
                state.until
            };
            let mut sent = 0;
            while header.is_empty() && sent < unsent.len() {
                let Some(count) = written(socket, &unsent[sent..])? else { break };
                sent += count;
            }
            // Samples count when their last byte is sent.
            let before = unsent.len();
            unsent.drain(..sent);
            let mut state = self.queue.lock();
            state.counts.sent += (before.div_ceil(2) - unsent.len().div_ceil(2)) as u64;
            let is_done = unsent.is_empty() && state.waiting.is_empty();
            drop(state);
            match until {
                Some(until) if is_done || Instant::now() >= until => return Ok(()),
                _ => {}
            }
            let out = if is_done && header.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            if sent == 0 || is_done {
                self.queue.wait(socket, PollFlags::IN | out)?;
            }
        }
    }

    /// Takes the commands that have arrived.
    ///
    /// # Errors
    /// The client has left.
    fn take_commands(&self, socket: &mut TcpStream, partial: &mut Vec<u8>) -> io::Result<()> {
        let mut bytes = [0; COMMANDS_BYTES];
        match socket.read(&mut bytes) {
            Ok(0) => return Err(io::Error::other("the connection is closed")),
            Ok(count) => partial.extend_from_slice(&bytes[..count]),
            Err(error) if is_passing(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        let (whole, rest) = partial.as_chunks::<{ Command::BYTES }>();
        for command in whole {
            let taken = self.commands.as_ref().map(|commands| commands.try_send(Command::decode(*command)));
            match taken {
                Some(Ok(())) => {}
                None | Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) => {
                    self.ignored.add(1)
                }
            }
        }
        *partial = rest.to_vec();
        Ok(())
    }
}

/// Writes what the system takes; `None`: nothing now.
fn written(socket: &mut TcpStream, bytes: &[u8]) -> io::Result<Option<usize>> {
    match socket.write(bytes) {
        Ok(count) => Ok(Some(count)),
        Err(error) if is_passing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

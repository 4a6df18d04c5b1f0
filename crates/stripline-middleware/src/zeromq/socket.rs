//! Sockets of ZeroMQ, each with a monitor. A process has one context, made when it is first needed.
//! The free descriptors are counted beforehand, because libzmq aborts the process when it runs out
//! of descriptors.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stripline::carrier::fork::{Local, PerProcess};
use stripline::carrier::mutex::lock;
use stripline::carrier::{Doorbell, PollSet};
use stripline::{Error, Result};

use crate::system::check_descriptors;

/// Descriptors that a context takes with the first socket.
const FOR_CONTEXT: usize = 8;
/// Descriptors that a socket takes with a monitor, a listener and a connection.
const FOR_SOCKET: usize = 8;

static LIBRARY: PerProcess<Mutex<Library>> = PerProcess::new(Mutex::default);

/// The part of ZeroMQ that this process uses.
#[derive(Default)]
struct Library {
    /// Made with the first socket, and kept until the last socket is closed. So no thread remains
    /// when the process has no link.
    context: Option<zmq::Context>,
    sockets: usize,
    /// The monitors of closed sockets that still had something to send.
    lingering: Vec<zmq::Socket>,
}

impl Library {
    /// Ends the context if no socket is left. The end waits for the context's threads, which are
    /// idle.
    fn end_unused(&mut self) {
        self.lingering.retain(|monitor| !is_destroyed(monitor));
        if self.sockets == 0 && self.lingering.is_empty() {
            self.context = None;
        }
    }
}

/// A socket's share in the context.
struct ContextShare;

impl Drop for ContextShare {
    fn drop(&mut self) {
        let mut library = lock(LIBRARY.get());
        library.sockets -= 1;
        library.end_unused();
    }
}

/// Returns the version of libzmq in this program.
pub(crate) fn version() -> String {
    let (major, minor, patch) = zmq::version();
    format!("libzmq {major}.{minor}.{patch}")
}

/// A socket with the descriptors to sleep on, and a state under the same lock. A child of a fork
/// never drops the socket.
pub(crate) struct ZeromqSocket<S> {
    inner: Local<Mutex<MonitoredSocket<S>>>,
    messages: RawFd,
    events: RawFd,
}

/// A socket, its monitor, and a state for its user.
pub(crate) struct MonitoredSocket<S> {
    /// `None`: closed.
    socket: Option<zmq::Socket>,
    /// The monitor is read until the socket is destroyed. Otherwise ZeroMQ's thread would wait for
    /// a reader, and delay all other work. `None`: the monitor lingers.
    monitor: Option<zmq::Socket>,
    pub state: S,
    /// Dropped after the sockets.
    _share: ContextShare,
}

/// An event of a socket's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketEvent {
    /// The other end has been found.
    Connected,
    /// A connection has begun at a bound socket. The number is the connection's descriptor.
    Accepted(u32),
    /// A connection has ended.
    Disconnected(u32),
    /// The other end cannot be reached, or is not a peer of ZeroMQ.
    Failed,
    /// The socket is closed, and the messages that it had taken have left the process.
    Closed,
}

impl<S> ZeromqSocket<S> {
    /// Makes a socket that holds at most `messages_max` messages.
    ///
    /// # Errors
    /// A lack of descriptors or sockets, with the remedy.
    pub(crate) fn new(kind: zmq::SocketType, messages_max: i32, state: S) -> Result<Self> {
        let (context, share) = context()?;
        let failed = |e: zmq::Error| {
            let remedy = "a process has at most 1023 sockets of ZeroMQ, three for each connection";
            Error::system(format!("cannot make a socket of ZeroMQ ({remedy})"), io::Error::from(e))
        };
        let make = move || {
            let socket = context.socket(kind)?;
            socket.set_sndhwm(messages_max)?;
            socket.set_rcvhwm(messages_max)?;
            socket.set_linger(0)?;
            // A stopped peer is late, not gone. A peer that is gone does not come back on this
            // socket.
            socket.set_handshake_ivl(0)?;
            socket.set_reconnect_ivl(-1)?;
            let place = monitor_place();
            socket.monitor(&place, i32::from(zmq::SocketEvent::ALL.to_raw()))?;
            let monitor = context.socket(zmq::PAIR)?;
            monitor.set_linger(0)?;
            // The queue has no bound, because ZeroMQ's thread would wait for a reader.
            monitor.set_rcvhwm(0)?;
            monitor.connect(&place)?;
            let (messages, events) = (socket.get_fd()?, monitor.get_fd()?);
            let monitored =
                MonitoredSocket { socket: Some(socket), monitor: Some(monitor), state, _share: share };
            Ok(Self { inner: Local::new(Mutex::new(monitored)), messages, events })
        };
        make().map_err(failed)
    }

    /// Takes the lock; `None` in a child of the process that made the socket.
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, MonitoredSocket<S>>> {
        self.inner.is_current().then(|| lock(&self.inner))
    }

    /// Returns the protected value without the lock, as the caller is the only user.
    pub(crate) fn get_mut(&mut self) -> Option<&mut MonitoredSocket<S>> {
        let is_current = self.inner.is_current();
        is_current.then(|| self.inner.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the descriptor that becomes readable when the state of the socket changes. The
    /// caller must try to receive before each sleep on it.
    pub(crate) fn messages(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the socket. Only `finish` may close the socket
        // before `self` ends, in the drop of its user. In a child, nothing is closed.
        unsafe { BorrowedFd::borrow_raw(self.messages) }
    }

    /// Returns the monitor's descriptor. The caller must call [`MonitoredSocket::next_event`]
    /// before each sleep on it.
    pub(crate) fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: as above.
        unsafe { BorrowedFd::borrow_raw(self.events) }
    }
}

impl<S> MonitoredSocket<S> {
    /// Returns the socket.
    ///
    /// # Errors
    /// `BrokenPipe` once the socket is closed.
    pub(crate) fn socket(&self) -> io::Result<&zmq::Socket> {
        self.socket.as_ref().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// Returns whether a message can be received. After this call, the socket's descriptor becomes
    /// readable when a message arrives.
    pub(crate) fn has_message(&self) -> bool {
        self.socket
            .as_ref()
            .is_some_and(|socket| socket.get_events().is_ok_and(|events| events.contains(zmq::POLLIN)))
    }

    /// Returns the next event; `None`: nothing has happened.
    pub(crate) fn next_event(&self) -> Option<SocketEvent> {
        self.monitor.as_ref().and_then(next_event)
    }

    /// Sends the last message, and waits until it has left the process behind all others, or the
    /// connection has ended. False: neither happened within `longest`; ZeroMQ then goes on sending
    /// for `linger`.
    pub(crate) fn finish(&mut self, last: Vec<u8>, linger: Duration, longest: Duration) -> bool {
        let (Some(mut socket), Some(monitor)) = (self.socket.take(), self.monitor.take()) else {
            return true;
        };
        let left = send_last(&mut socket, last);
        // Without a connection, the wait has no purpose.
        let has_left = left.map_or(true, |left| await_left(&left, &monitor, Instant::now() + longest));
        (self.socket, self.monitor) = (Some(socket), Some(monitor));
        if !has_left {
            self.close_later(linger);
        }
        has_left
    }

    /// Closes the socket. ZeroMQ goes on sending for `linger`.
    fn close_later(&mut self, linger: Duration) {
        let (Some(socket), Some(monitor)) = (self.socket.take(), self.monitor.take()) else { return };
        let linger = i32::try_from(linger.as_millis()).unwrap_or(i32::MAX);
        if let Err(error) = socket.set_linger(linger) {
            log::warn!(target: "stripline::transport", "packets that ZeroMQ has not sent are lost: {error}");
        }
        drop(socket);
        lock(LIBRARY.get()).lingering.push(monitor);
    }
}

/// A message that rings when ZeroMQ no longer uses it.
struct LastMessage {
    bytes: Vec<u8>,
    left: Doorbell,
}

/// Sends a message of more than 16 KiB as the last message. Returns a doorbell that rings once the
/// last byte of the message is in the kernel, or the message is discarded.
fn send_last(socket: &mut zmq::Socket, bytes: Vec<u8>) -> Result<Doorbell> {
    unsafe extern "C" fn release(_data: *mut c_void, last: *mut c_void) {
        // SAFETY: the pointer is the box below. Only this function gets it, once.
        let last = unsafe { Box::from_raw(last.cast::<LastMessage>()) };
        last.left.notify();
    }
    let left = Doorbell::new()?;
    let last = Box::into_raw(Box::new(LastMessage { bytes, left: left.clone() }));
    let mut message = MaybeUninit::<zmq_sys::zmq_msg_t>::uninit();
    // SAFETY: the box lives until `release`, and its bytes do not move. The first call initialises
    // the message, and the second or the third one closes it. The socket is open.
    let is_sent = unsafe {
        let bytes = &mut (*last).bytes;
        let (start, length) = (bytes.as_mut_ptr().cast(), bytes.len());
        if zmq_sys::zmq_msg_init_data(message.as_mut_ptr(), start, length, Some(release), last.cast()) != 0 {
            drop(Box::from_raw(last));
            false
        } else if zmq_sys::zmq_msg_send(message.as_mut_ptr(), socket.as_mut_ptr(), zmq::DONTWAIT) == -1 {
            zmq_sys::zmq_msg_close(message.as_mut_ptr());
            false
        } else {
            true
        }
    };
    if is_sent { Ok(left) } else { Err(Error::of_system("ZeroMQ has no connection")) }
}

/// Waits until the doorbell of a last message rings, or the connection has ended; false: neither
/// happened before `until`.
fn await_left(left: &Doorbell, monitor: &zmq::Socket, until: Instant) -> bool {
    let Ok(events) = monitor.get_fd() else { return true };
    // SAFETY: the monitor is open, and so is its descriptor.
    let events = unsafe { BorrowedFd::borrow_raw(events) };
    loop {
        let is_end = |event| matches!(event, SocketEvent::Disconnected(_) | SocketEvent::Failed);
        if std::iter::from_fn(|| next_event(monitor)).any(is_end) {
            return true;
        }
        let mut poll_set = PollSet::default();
        poll_set.readable(left.as_fd());
        poll_set.readable(events);
        if !poll_set.wait(Some(until)).unwrap_or(false) {
            return false;
        }
        if poll_set.is_ready(0) {
            return true;
        }
    }
}

impl<S> Drop for MonitoredSocket<S> {
    /// Ends the monitor before the monitor's reader is closed, and discards unsent messages.
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            // A monitor without events replaces it. The call fails only without free descriptors.
            if socket.monitor(&monitor_place(), 0).is_err()
                && let Some(monitor) = self.monitor.take()
            {
                lock(LIBRARY.get()).lingering.push(monitor);
            }
        }
    }
}

/// Returns a name for the monitor of a socket.
fn monitor_place() -> String {
    static MONITORS: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the names need only differ.
    format!("inproc://monitor-{}", MONITORS.fetch_add(1, Ordering::Relaxed))
}

/// Returns the next event of a monitor; `None`: nothing has happened.
fn next_event(monitor: &zmq::Socket) -> Option<SocketEvent> {
    loop {
        let event = monitor.recv_bytes(zmq::DONTWAIT).ok()?;
        // Skip the address, which follows immediately.
        while monitor.get_rcvmore().unwrap_or(false) {
            monitor.recv_bytes(zmq::DONTWAIT).ok()?;
        }
        let [low, high, value @ ..] = &event[..] else { continue };
        let value = value.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let kind = u16::from_ne_bytes([*low, *high]);
        let is = |event: zmq::SocketEvent| kind == event.to_raw();
        use zmq::SocketEvent::*;
        if is(HANDSHAKE_SUCCEEDED) {
            return Some(SocketEvent::Connected);
        } else if is(ACCEPTED) {
            return Some(SocketEvent::Accepted(value));
        } else if is(DISCONNECTED) {
            return Some(SocketEvent::Disconnected(value));
        } else if is(MONITOR_STOPPED) {
            return Some(SocketEvent::Closed);
        } else if [CLOSED, HANDSHAKE_FAILED_NO_DETAIL, HANDSHAKE_FAILED_PROTOCOL, HANDSHAKE_FAILED_AUTH]
            .into_iter()
            .any(is)
        {
            return Some(SocketEvent::Failed);
        }
    }
}

/// Returns whether the socket of a monitor is destroyed.
fn is_destroyed(monitor: &zmq::Socket) -> bool {
    std::iter::from_fn(|| next_event(monitor)).any(|event| event == SocketEvent::Closed)
}

/// Maps an error of ZeroMQ for an end of a path.
pub(crate) fn path_error(error: zmq::Error) -> io::Error {
    match error {
        zmq::Error::EAGAIN => io::ErrorKind::WouldBlock.into(),
        zmq::Error::EINTR => io::ErrorKind::Interrupted.into(),
        other => io::Error::other(other),
    }
}

/// Returns the context of this process, after a check that a socket has enough descriptors.
fn context() -> Result<(zmq::Context, ContextShare)> {
    let mut library = lock(LIBRARY.get());
    check_descriptors("ZeroMQ", FOR_SOCKET + if library.context.is_none() { FOR_CONTEXT } else { 0 })?;
    let context = library.context.get_or_insert_with(zmq::Context::new).clone();
    library.sockets += 1;
    Ok((context, ContextShare))
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;
    use stripline::carrier::own_process::in_own_process;

    #[test]
    fn a_lack_of_descriptors_or_sockets_is_an_error_and_nothing_aborts() {
        let test = "zeromq::socket::tests::a_lack_of_descriptors_or_sockets_is_an_error_and_nothing_aborts";
        for lacks in ["descriptors", "sockets"] {
            in_own_process(test, lacks, || run_out(lacks));
        }
    }

    /// Makes sockets until an error occurs, twice.
    fn run_out(of: &str) {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let (limit, part) =
            if of == "sockets" { (maximum, "at most 1023 sockets") } else { (Some(100), "`ulimit -n`") };
        setrlimit(Resource::Nofile, Rlimit { current: limit, maximum }).unwrap();
        for _ in 0..2 {
            let mut sockets = Vec::new();
            let error = loop {
                match ZeromqSocket::new(zmq::PULL, 8, ()) {
                    Ok(socket) => sockets.push(socket),
                    Err(error) => break error.to_string(),
                }
            };
            // Each socket takes at least three descriptors, without bytes of a peer.
            assert!(sockets.len() > 5 && error.contains(part), "{} sockets: {error}", sockets.len());
        }
    }
}

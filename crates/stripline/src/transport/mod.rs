//! Transports: one file (or folder) each, behind two small traits and a registry by name.
//!
//! A sending port owns one outlet for each transport its connections use; a receiving port owns one
//! inlet for each connection. Frames are opaque here: the link layer wrote them.

mod accept;
#[cfg(test)]
mod ack_model;
pub(crate) mod duplex;
pub(crate) mod handshake;
mod inproc;
mod peer_monitor;
mod ring;
mod shm;
pub(crate) mod stream;
mod tcp;
mod uds;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::flow;
use crate::flow::{AckSender, AckWait};
use crate::inspect::SendingPort;
use crate::packet::payload::TypeName;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::futex::{ParkWaker, ParkWakers};
use crate::terms::{Flow, Group, LinkOptions, Overflow, Scope, WaitStrategy, Watermarks};

/// All transports. A new one must be added here and nowhere else.
static TRANSPORTS: [&dyn Transport; 4] = [&inproc::Inproc, &shm::Shm, &uds::Uds, &tcp::Tcp];

/// The capabilities of a transport, for `stripline transports` and for refusing unsupported
/// options.
///
/// ```
/// let names: Vec<_> = stripline::transport::all().map(|t| t.name).collect();
/// assert_eq!(names, ["inproc", "shm", "uds", "tcp"]);
/// ```
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// Its name in a waveform file.
    pub name: &'static str,
    /// A summary of one line.
    pub summary: &'static str,
    /// How far it reaches.
    pub reach: Reach,
    /// Copies of the payload between `send` and `receive`.
    pub copies: &'static str,
    /// The unit that `depth` and the watermarks bound under `block`, unless the link keeps flow
    /// control.
    pub depth: &'static str,
    /// The kinds of flow control that can keep them.
    pub flows: &'static [Flow],
    /// The scopes it supports.
    pub scopes: &'static [Scope],
    /// The overflow policies it supports.
    pub overflows: &'static [Overflow],
    /// Whether packets are in a ring of memory, which can be made of huge pages and locked.
    pub ring: bool,
    /// Whether it can be opened to a group of users, which takes credentials from the kernel.
    pub groups: bool,
    /// The processes that may connect.
    pub trust: &'static str,
}

/// How far a transport reaches.
///
/// ```
/// use stripline::transport::{Reach, all};
///
/// let inproc = all().find(|transport| transport.name == "inproc").expect("it is built in");
/// assert_eq!(inproc.reach, Reach::Process);
/// assert_eq!(inproc.reach.to_string(), "one process");
/// assert!(Reach::Process < Reach::Host);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Threads of one process.
    Process,
    /// Processes of one host.
    Host,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "one process",
            Self::Host => "one host",
        })
    }
}

/// Returns the capabilities of every transport, in the order of the registry.
///
/// ```
/// for transport in stripline::transport::all() {
///     println!("{}: {}, {}", transport.name, transport.reach, transport.summary);
/// }
/// ```
pub fn all() -> impl Iterator<Item = Capabilities> {
    TRANSPORTS.iter().map(|t| t.capabilities())
}

/// Returns the transport of that name.
///
/// # Errors
/// An unknown name; the message lists the transports.
pub(crate) fn find(name: &str) -> Result<&'static dyn Transport> {
    TRANSPORTS.iter().copied().find(|t| t.capabilities().name == name).ok_or_else(|| {
        let known: Vec<&str> = all().map(|t| t.name).collect();
        Error::failed(format!("there is no transport `{name}`; use one of {}", known.join(", ")))
    })
}

/// Refuses options that a transport does not support.
///
/// ```
/// use stripline::terms::{LinkOptions, Scope};
///
/// let options = LinkOptions { scope: Scope::Target, locked: true, ..LinkOptions::default() };
/// assert!(stripline::transport::check("shm", &options).is_ok());
/// let refusal = stripline::transport::check("uds", &options).unwrap_err();
/// assert!(refusal.to_string().contains("locked"));
/// ```
///
/// # Errors
/// [`Error::Unsupported`] naming the transport, the option and the alternatives.
pub fn check(name: &str, options: &LinkOptions) -> Result<()> {
    let gives = find(name)?.capabilities();
    let unsupported = |rule: String, has: Vec<&str>| Error::Unsupported {
        transport: name.into(),
        rule,
        alternatives: format!("use {}", has.join(" or ")),
    };
    if !gives.scopes.contains(&options.scope) {
        let has = gives.scopes.iter().map(|s| s.as_str()).collect();
        return Err(unsupported(format!("scope {}", options.scope), has));
    }
    if !gives.overflows.contains(&options.overflow) {
        let has = gives.overflows.iter().map(|o| o.as_str()).collect();
        return Err(unsupported(format!("overflow {}", options.overflow), has));
    }
    if !gives.flows.contains(&options.flow) {
        let has = gives.flows.iter().map(|f| f.as_str()).collect();
        return Err(unsupported(format!("flow {}", options.flow), has));
    }
    for (asked, key, why, gives) in [
        (
            options.huge_pages,
            "huge-pages",
            "it has no ring of memory",
            (|t| t.ring) as fn(&Capabilities) -> bool,
        ),
        (options.locked, "locked", "it has no ring of memory", |t| t.ring),
        (options.group.is_some(), "group", "the kernel does not provide the peer's credentials", |t| {
            t.groups
        }),
    ] {
        if asked && !gives(&find(name)?.capabilities()) {
            let has = all().filter(gives).map(|t| t.name).collect();
            return Err(unsupported(format!("{key} ({why})"), has));
        }
    }
    Ok(())
}

/// A kind of link.
pub(crate) trait Transport: Send + Sync {
    fn capabilities(&self) -> Capabilities;

    /// Opens the sending side of a port; receivers may connect from now on.
    fn bind(&self, request: BindRequest) -> Result<Box<dyn Outlet>>;

    /// Connects a receiving port; blocks for a few seconds at most.
    fn connect(&self, endpoint: &Endpoint, request: &ConnectRequest) -> Result<Box<dyn Inlet>>;

    /// Opens the listener of a server of calls; clients may connect from now on.
    fn listen_calls(
        &self,
        request: BindRequest,
        acceptor: Box<dyn duplex::CallAcceptor>,
    ) -> Result<duplex::CallListener>;

    /// Connects to a server of calls; blocks for a few seconds at most. `bind` has the options of
    /// the direction to the server, `request` those of the direction back.
    fn connect_calls(
        &self,
        endpoint: &Endpoint,
        request: &ConnectRequest,
        bind: BindRequest,
    ) -> Result<duplex::CallConnection>;
}

/// A sending port's request to a transport.
#[derive(Clone)]
pub(crate) struct BindRequest {
    /// The port, for names and messages.
    pub port: String,
    pub payload: TypeName,
    /// Bytes of a shared ring; half of it bounds a frame on every transport.
    pub buffer: u32,
    /// The strongest scope of its connections.
    pub scope: Scope,
    /// The watermarks of the queue in this process under scope `none`.
    pub watermarks: Watermarks,
    /// How long a send waits for room.
    pub send_timeout: Option<Duration>,
    pub wait: WaitStrategy,
    /// Whether the ring is of huge pages.
    pub huge_pages: bool,
    /// Whether all sides lock the ring into memory.
    pub locked: bool,
    /// A group that may connect besides the same user.
    pub group: Option<Group>,
    pub stop: StopToken,
}

impl BindRequest {
    /// Returns the constant part of the port's inspection view.
    fn inspection(&self, endpoint: &Endpoint) -> SendingPort {
        SendingPort {
            name: self.port.clone(),
            transport: endpoint.transport.clone(),
            address: endpoint.address.clone(),
            payload: self.payload.to_string(),
            buffer: u64::from(self.buffer),
            wait: self.wait.to_string(),
            ..SendingPort::default()
        }
    }
}

/// A receiving port's request to a transport.
#[derive(Clone)]
pub(crate) struct ConnectRequest {
    /// The connection's name, `from -> to`; the same again after a restart.
    pub connection: String,
    pub payload: TypeName,
    pub options: LinkOptions,
}

/// The address of a sending port. A process that has it may connect, subject to the transport's own
/// checks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    /// The transport's name.
    pub transport: String,
    /// Where it listens, in the transport's own form.
    pub address: String,
    /// The key that the connecting side must send, and the one that the listening side must return.
    pub keys: [u64; 2],
}

impl Endpoint {
    pub(crate) fn new(transport: &str, address: String) -> Result<Self> {
        Ok(Self { transport: transport.into(), address, keys: [random()?, random()?] })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport, self.address)
    }
}

/// Returns a random number that other users cannot guess.
pub(crate) fn random() -> Result<u64> {
    getrandom::u64().map_err(|e| Error::failed(format!("no random numbers: {e}")))
}

/// How long an operation may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// Return at once.
    Never,
    /// Until done, stopped, or this time.
    Until(Option<Instant>),
    /// Until done or this time, even when stopped: for messages that must still be sent at the end.
    Finish(Instant),
}

impl Wait {
    pub(crate) const FOREVER: Self = Self::Until(None);

    /// Returns a wait until done, stopped, or this time from now. A time beyond the clock's range
    /// means no limit.
    pub(crate) fn within(timeout: Duration) -> Self {
        Self::Until(Instant::now().checked_add(timeout))
    }

    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Never => None,
            Self::Until(deadline) => deadline,
            Self::Finish(deadline) => Some(deadline),
        }
    }

    /// Whether its deadline is over.
    pub(crate) fn is_expired(self) -> bool {
        self.deadline().is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub(crate) fn is_stoppable(self) -> bool {
        !matches!(self, Self::Finish(_))
    }
}

/// The stop request, shared by all ports of a component.
#[derive(Clone, Debug)]
pub(crate) struct StopToken {
    flag: Arc<AtomicBool>,
    doorbell: Doorbell,
    wakers: Arc<ParkWakers>,
}

impl StopToken {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { flag: Arc::default(), doorbell: Doorbell::new()?, wakers: Arc::default() })
    }

    /// Wakes every port that sleeps; the doorbell is never drained.
    pub(crate) fn stop(&self) {
        // Release: a thread that sees the flag sees what led to it. A flag alone would suffice.
        self.flag.store(true, Ordering::Release);
        self.doorbell.notify();
        self.wakers.wake();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        // Relaxed: a late read costs one more packet and orders no other data.
        self.flag.load(Ordering::Relaxed)
    }

    /// Returns the wakers to wake besides the doorbell.
    pub(crate) fn wakers(&self) -> &ParkWakers {
        &self.wakers
    }

    pub(crate) fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }
}

/// The sending side of one port over one transport: any number of receivers.
pub(crate) trait Outlet: Send {
    fn endpoint(&self) -> Endpoint;

    /// Returns the largest frame, in bytes.
    fn frame_max(&self) -> usize;

    /// Returns the number of receivers connected now.
    fn receivers(&self) -> usize;

    /// Whether there are no receivers, as far as can be checked without a system call.
    fn has_no_receivers(&self) -> bool {
        self.receivers() == 0
    }

    /// Whether a receiver's policy drops packets, so that a frame sent once may be lost.
    fn is_lossy(&self) -> bool;

    /// Whether no receiver can miss a frame, however slow it is.
    fn loses_nothing(&self) -> bool {
        false
    }

    /// Accepts receivers that came, and removes those that left; true when some came. Cheap when
    /// nothing has changed.
    fn admit(&mut self) -> bool;

    /// Reserves room for a frame of up to `bytes` at every blocking receiver, and returns it for
    /// writing.
    fn reserve(&mut self, bytes: usize, wait: Wait) -> Result<&mut [u8]>;

    /// Fast path of [`Outlet::reserve`]: no accepting, checking or waiting is needed. After `None`,
    /// which holds nothing, call `reserve`.
    fn try_reserve_fast(&mut self, _bytes: usize) -> Option<&mut [u8]> {
        None
    }

    /// Returns the room reserved last.
    fn reserved(&mut self) -> &mut [u8];

    /// Sends the first `bytes` of the reserved room.
    fn publish(&mut self, bytes: usize, wait: Wait) -> Result<()>;

    /// Releases the reserved room unsent.
    fn cancel(&mut self);

    /// Checks that it can wait for a scope; to be called before the packet is published.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    fn supports_scope(&self, _scope: Scope) -> Result<()> {
        Ok(())
    }

    /// Waits until every receiver of the packet published last has acknowledged it. A receiver that
    /// left before is not waited for.
    ///
    /// # Errors
    /// The first error; the other receivers are waited for all the same. The packet stays sent.
    fn wait_acks(&mut self, _awaited: &AckWait) -> Result<()> {
        Ok(())
    }

    /// Returns the flow control of the link that stalls it for that connection, and for how long.
    fn flow_stall(&self, _connection: &str) -> Option<(Flow, Duration)> {
        None
    }

    /// Waits until everything published has left this process.
    fn flush(&mut self, wait: Wait) -> Result<()>;
}

/// The receiving side of one connection.
pub(crate) trait Inlet: Send {
    /// Returns the next frame; the same one until it is released.
    fn try_next(&mut self) -> Result<Next<'_>>;

    /// Fast path of [`Inlet::try_next`]: a frame that is already buffered. After `None`, call
    /// `try_next`.
    fn try_next_fast(&mut self) -> Option<&[u8]> {
        None
    }

    /// Spins for that many polls, or until there may be a frame.
    fn spin(&mut self, _looks: u32) {
        std::hint::spin_loop();
    }

    /// Whether another frame may follow the last one without a system call.
    fn has_buffered(&self) -> bool {
        true
    }

    /// Releases the frame returned last.
    fn release(&mut self);

    /// Sends a goodbye before the drop: this receiver has finished, and no other comes in its
    /// place.
    fn say_goodbye(&mut self) {}

    /// Requests a wake-up; false when there is a frame already.
    fn prepare_sleep(&mut self) -> bool;

    /// Withdraws the request.
    fn cancel_sleep(&mut self);

    /// Whether it can be parked on until then. Parking works on one inlet alone, and is cheaper
    /// than `poll`.
    fn can_park(&self, _deadline: Option<Instant>) -> bool {
        false
    }

    /// Returns the waker that ends parking for other reasons. Without it, parking is short.
    fn waker(&self) -> Option<Arc<dyn ParkWaker>> {
        None
    }

    /// Prepares to park, as [`Inlet::prepare_sleep`] does for a sleep.
    fn prepare_park(&mut self) -> bool {
        false
    }

    /// Parks, after preparation, until there is a frame, a wake-up or the deadline; false: the
    /// deadline has passed. May return spuriously.
    fn park(&mut self, _deadline: Option<Instant>) -> Result<bool> {
        Ok(true)
    }

    /// Adds the descriptors that wake it.
    fn add_to<'a>(&'a self, poll_set: &mut PollSet<'a>);

    /// Returns the sender of acknowledgements; `None` where the sending side cannot wait.
    fn acks(&self) -> Option<Arc<dyn AckSender>> {
        None
    }

    /// Takes this receiver's flow control, if the link keeps it.
    fn take_flow(&mut self) -> Option<flow::Receiver> {
        None
    }

    /// Whether the port cannot find packets without help. Then a thread must move them to its queue
    /// before the sender may get acknowledgements.
    fn needs_receive_queue(&self) -> bool {
        false
    }

    /// Returns when the last frame arrived, in monotonic nanoseconds; `None`: when it was returned.
    fn received_ns(&self) -> Option<u64> {
        None
    }

    /// Returns a probe of its queue in this process, for inspection.
    fn queue_probe(&self) -> Option<Weak<dyn QueueProbe>> {
        None
    }

    /// Whether a poll takes no system call, so that a short spin pays.
    fn polls_without_syscall(&self) -> bool {
        false
    }

    /// Whether the other end has hung up, although frames of it may be left to take.
    fn is_peer_gone(&mut self) -> bool {
        false
    }

    /// Returns, after a restart of this side, the sequence number after the last packet that its
    /// predecessor had taken. Available with the first frame.
    fn resume_from(&self) -> Option<u64>;

    /// Returns the sequence number and sample index of the first frame sent to this receiver, where
    /// that frame may have been lost. Available with the first frame that was not.
    fn first_sent(&self) -> Option<(u64, u64)> {
        None
    }
}

/// A queue that another thread can inspect.
pub(crate) trait QueueProbe: Send + Sync {
    /// Returns the number of packets in it now.
    fn packets(&self) -> usize;
}

/// The result of polling an inlet.
#[derive(Debug)]
pub(crate) enum Next<'a> {
    Frame(&'a [u8]),
    Empty,
    /// No frame will ever come again.
    Closed,
}

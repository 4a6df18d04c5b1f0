//! Transports: one file (or folder) each, behind two small traits and a registry by name.
//!
//! A sending port owns one outlet for each transport its connections use; a receiving port owns one
//! inlet for each connection. Frames are opaque here: the link layer wrote them.

mod accept;
mod answer;
#[cfg(test)]
mod answer_model;
pub(crate) mod duplex;
pub(crate) mod handshake;
mod inproc;
pub(crate) mod pump;
mod queued;
mod ring;
mod shm;
pub(crate) mod stream;
mod tcp;
mod uds;
mod watch;

pub(crate) use answer::{Answers, Awaited, Fate};
pub(crate) use stream::AlignedBuffer;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::introspect::SendingPort;
use crate::link::flow;
use crate::link::{Flow, Group, LinkOptions, Overflow, Scope, WaitStrategy, Watermarks};
use crate::payload::TypeName;
use crate::sys::doorbell::{Doorbell, Sleep};
use crate::sys::futex::{Alarm, Alarms};

/// Every transport; adding one means adding it here and nowhere else.
static TRANSPORTS: [&dyn Transport; 4] = [&inproc::Inproc, &shm::Shm, &uds::Uds, &tcp::Tcp];

/// What a transport gives, for `stripline transports` and for refusing what it cannot.
///
/// ```
/// let names: Vec<_> = stripline::transport::all().map(|t| t.name).collect();
/// assert_eq!(names, ["inproc", "shm", "uds", "tcp"]);
/// ```
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// Its name in a waveform file.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// How far it reaches.
    pub reach: Reach,
    /// Copies of the payload between `send` and `receive`.
    pub copies: &'static str,
    /// What `depth` and the watermarks bound under `block`, as long as the link does not see to it.
    pub depth: &'static str,
    /// Who can see to it that they are kept.
    pub flows: &'static [Flow],
    /// The scopes it keeps.
    pub scopes: &'static [Scope],
    /// The overflow policies it keeps.
    pub overflows: &'static [Overflow],
    /// Whether packets lie in a ring of memory, which can be made of huge pages and locked.
    pub ring: bool,
    /// Whether it can be opened to a group of users, which takes credentials from the kernel.
    pub groups: bool,
    /// Who may connect.
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

/// What every transport gives, in the order of the registry.
///
/// ```
/// for transport in stripline::transport::all() {
///     println!("{}: {}, {}", transport.name, transport.reach, transport.summary);
/// }
/// ```
pub fn all() -> impl Iterator<Item = Capabilities> {
    TRANSPORTS.iter().map(|t| t.capabilities())
}

/// The transport of that name.
///
/// # Errors
/// When there is none; the message lists those there are.
pub(crate) fn find(name: &str) -> Result<&'static dyn Transport> {
    TRANSPORTS.iter().copied().find(|t| t.capabilities().name == name).ok_or_else(|| {
        let known: Vec<&str> = all().map(|t| t.name).collect();
        Error::failed(format!("there is no transport `{name}`; use one of {}", known.join(", ")))
    })
}

/// Refuses rules that a transport does not keep.
///
/// ```
/// use stripline::link::{LinkOptions, Scope};
///
/// let options = LinkOptions { scope: Scope::Target, locked: true, ..LinkOptions::default() };
/// assert!(stripline::transport::check("shm", &options).is_ok());
/// let refusal = stripline::transport::check("uds", &options).unwrap_err();
/// assert!(refusal.to_string().contains("locked"));
/// ```
///
/// # Errors
/// [`Error::Unsupported`] naming the transport, the rule and the alternatives.
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
        (options.group.is_some(), "group", "the kernel does not say who is at the other end", |t| t.groups),
    ] {
        if asked && !gives(&find(name)?.capabilities()) {
            let has = all().filter(gives).map(|t| t.name).collect();
            return Err(unsupported(format!("{key} ({why})"), has));
        }
    }
    Ok(())
}

/// One kind of link.
pub(crate) trait Transport: Send + Sync {
    fn capabilities(&self) -> Capabilities;

    /// Opens the sending side of a port; receivers may connect from now on.
    fn bind(&self, request: Bind) -> Result<Box<dyn Outlet>>;

    /// Connects a receiving port; blocks for a few seconds at most.
    fn connect(&self, endpoint: &Endpoint, request: &Connect) -> Result<Box<dyn Inlet>>;

    /// Opens the door of a server of calls; clients may come from now on.
    fn open(&self, request: Bind, host: Box<dyn duplex::Host>) -> Result<duplex::Door>;

    /// Goes to the door of a server of calls; blocks for a few seconds at most. `bind` says what is asked of the way
    /// there, `request` what of the way back.
    fn visit(&self, endpoint: &Endpoint, request: &Connect, bind: Bind) -> Result<duplex::Visit>;
}

/// What a sending port asks of a transport.
#[derive(Clone)]
pub(crate) struct Bind {
    /// The port, for names and messages.
    pub port: String,
    pub payload: TypeName,
    /// Bytes of a shared ring; half of it bounds a frame on every transport.
    pub buffer: u32,
    /// The strongest scope of its connections.
    pub scope: Scope,
    /// Of the queue in this process under scope `none`.
    pub watermarks: Watermarks,
    /// How long a send waits for room.
    pub send_timeout: Option<Duration>,
    pub wait: WaitStrategy,
    /// Whether the ring is of huge pages.
    pub huge_pages: bool,
    /// Whether all sides lock the ring into memory.
    pub locked: bool,
    /// Who may connect besides the same user.
    pub group: Option<Group>,
    pub stop: Stop,
}

impl Bind {
    /// What those who look from outside are told of the port, without what changes.
    fn shown(&self, endpoint: &Endpoint) -> SendingPort {
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

/// What a receiving port asks of a transport.
#[derive(Clone)]
pub(crate) struct Connect {
    /// The connection's name, `from -> to`; the same again after a restart.
    pub connection: String,
    pub payload: TypeName,
    pub options: LinkOptions,
}

/// Where a sending port can be reached; whoever knows it may connect, subject to the transport's own checks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Endpoint {
    pub transport: String,
    pub address: String,
    /// What the connecting side must show, and then what the listening side must answer.
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

/// A random number that other users cannot guess.
pub(crate) fn random() -> Result<u64> {
    getrandom::u64().map_err(|e| Error::failed(format!("no random numbers: {e}")))
}

/// How long an operation may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// Answer at once.
    Never,
    /// Until done, stopped, or this time.
    Until(Option<Instant>),
    /// Until done or this time, even when stopped: for what must still be said at the end.
    Finish(Instant),
}

impl Wait {
    pub(crate) const FOREVER: Self = Self::Until(None);

    /// Until done, stopped, or this time from now; a time beyond what the clock can say is for ever.
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
    pub(crate) fn has_passed(self) -> bool {
        self.deadline().is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub(crate) fn heeds_stop(self) -> bool {
        !matches!(self, Self::Finish(_))
    }
}

/// The request to stop, shared by all ports of a component.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    flag: Arc<AtomicBool>,
    bell: Doorbell,
    alarms: Arc<Alarms>,
}

impl Stop {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { flag: Arc::default(), bell: Doorbell::new()?, alarms: Arc::default() })
    }

    /// Wakes every port that sleeps; the bell is never quieted.
    pub(crate) fn stop(&self) {
        // Release: whoever sees the flag sees what led to it. A flag alone would do.
        self.flag.store(true, Ordering::Release);
        self.bell.ring();
        self.alarms.raise();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        // Relaxed: a late look costs one more packet, nothing else hangs on it.
        self.flag.load(Ordering::Relaxed)
    }

    /// What to raise besides the bell.
    pub(crate) fn alarms(&self) -> &Alarms {
        &self.alarms
    }

    pub(crate) fn bell(&self) -> &Doorbell {
        &self.bell
    }
}

/// The sending side of one port over one transport: any number of receivers.
pub(crate) trait Outlet: Send {
    fn endpoint(&self) -> Endpoint;

    /// The largest frame, in bytes.
    fn frame_max(&self) -> usize;

    /// Receivers connected now.
    fn receivers(&self) -> usize;

    /// Whether nobody is connected, as far as is known without asking the system.
    fn is_alone(&self) -> bool {
        self.receivers() == 0
    }

    /// Whether a receiver's policy drops packets, so that it may have lost what was said once.
    fn is_lossy(&self) -> bool;

    /// Whether no receiver can miss a frame, however slow it is and whatever happens to others.
    fn loses_nothing(&self) -> bool {
        false
    }

    /// Takes in receivers that came or went; true when some came. Cheap when nothing changed.
    fn admit(&mut self) -> bool;

    /// Makes room for a frame of up to `bytes` at every receiver that blocks, and gives the place to write it.
    fn reserve(&mut self, bytes: usize, wait: Wait) -> Result<&mut [u8]>;

    /// As [`Outlet::reserve`] where nobody is to be taken in, looked at or waited for. `None` says nothing, and holds
    /// nothing.
    fn reserve_at_hand(&mut self, _bytes: usize) -> Option<&mut [u8]> {
        None
    }

    /// The place reserved last.
    fn reserved(&mut self) -> &mut [u8];

    /// Sends the first `bytes` of what was reserved.
    fn publish(&mut self, bytes: usize, wait: Wait) -> Result<()>;

    /// Gives the reserved place back unsent.
    fn cancel(&mut self);

    /// Whether it can wait for what a scope promises; to be asked before the packet is published.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    fn confirms(&self, _scope: Scope) -> Result<()> {
        Ok(())
    }

    /// Waits until every receiver of the packet published last has answered. One that left before it was published is not
    /// waited for.
    ///
    /// # Errors
    /// What went wrong first; the others are waited for all the same. The packet stays sent.
    fn confirm(&mut self, _awaited: &Awaited) -> Result<()> {
        Ok(())
    }

    /// Which flow control of the link holds it up for the sake of that connection, and for how long it has.
    fn held_by(&self, _connection: &str) -> Option<(Flow, Duration)> {
        None
    }

    /// Waits until everything published has left this process.
    fn flush(&mut self, wait: Wait) -> Result<()>;
}

/// The receiving side of one connection.
pub(crate) trait Inlet: Send {
    /// The next frame, again and again until it is released.
    fn try_next(&mut self) -> Result<Next<'_>>;

    /// As [`Inlet::try_next`] where there is a frame and nothing else to be said. `None` says nothing.
    fn at_hand(&mut self) -> Option<&[u8]> {
        None
    }

    /// Pauses for that many looks, or until there may be something.
    fn linger(&mut self, _looks: u32) {
        std::hint::spin_loop();
    }

    /// Whether there may be another frame behind the one returned last that can be had without asking the system.
    fn may_hold_more(&self) -> bool {
        true
    }

    /// Done with the frame returned last.
    fn release(&mut self);

    /// Says, before it is dropped, that this receiver has not died but is done: nobody comes in its place.
    fn leave(&mut self) {}

    /// Asks to be woken; false when there is something to take already.
    fn prepare_sleep(&mut self) -> bool;

    /// Awake again.
    fn cancel_sleep(&mut self);

    /// Whether it can be napped on until then: slept on alone, in a way that is cheaper than on descriptors.
    fn can_nap(&self, _deadline: Option<Instant>) -> bool {
        false
    }

    /// What ends a nap on this inlet for other reasons. Without it, naps are short.
    fn alarm(&self) -> Option<Arc<dyn Alarm>> {
        None
    }

    /// As [`Inlet::prepare_sleep`], for a nap.
    fn prepare_nap(&mut self) -> bool {
        false
    }

    /// Sleeps, prepared for it, until there is something to take, the alarm or the deadline; false: it has passed. May
    /// return for no reason.
    fn nap(&mut self, _deadline: Option<Instant>) -> Result<bool> {
        Ok(true)
    }

    /// What wakes it.
    fn sleep_on<'a>(&'a self, sleep: &mut Sleep<'a>);

    /// Where is said what becomes of packets that the sender waits for; `None` where it cannot wait.
    fn answers(&self) -> Option<Arc<dyn Answers>> {
        None
    }

    /// What holds the sender up for this receiver's sake, if the link does.
    fn flow(&mut self) -> Option<flow::Receiver> {
        None
    }

    /// Whether packets lie where the port cannot find them without help, so that somebody has to take them to its queue
    /// before the sender may be told that they are there.
    fn needs_queue(&self) -> bool {
        false
    }

    /// When the frame returned last came in, monotonic nanoseconds; `None`: as it was returned.
    fn received_ns(&self) -> Option<u64> {
        None
    }

    /// Its queue in this process, for those who look from outside.
    fn depot(&self) -> Option<Weak<dyn Depot>> {
        None
    }

    /// Whether looking costs no system call, so that a short spin pays.
    fn is_cheap(&self) -> bool {
        false
    }

    /// Whether the other end has hung up, although frames of it may be left to take.
    fn is_orphaned(&mut self) -> bool {
        false
    }

    /// After a restart of this side: the sequence number after the last packet that its predecessor had taken.
    /// Known with the first frame.
    fn resume_from(&self) -> Option<u64>;

    /// Sequence number and sample index of the first frame that was sent to this receiver, where that frame may
    /// have been lost. Known with the first frame that was not.
    fn first_sent(&self) -> Option<(u64, u64)> {
        None
    }
}

/// A queue that can be looked at from another thread.
pub(crate) trait Depot: Send + Sync {
    /// Packets in it now.
    fn packets(&self) -> usize;
}

/// What an inlet has.
#[derive(Debug)]
pub(crate) enum Next<'a> {
    Frame(&'a [u8]),
    Empty,
    /// Nothing will ever come again.
    Gone,
}

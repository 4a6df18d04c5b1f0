//! The sending end.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ::zenoh::bytes::ZBytes;
use ::zenoh::liveliness::LivelinessToken;
use ::zenoh::matching::MatchingListener;
use ::zenoh::pubsub::{Publisher, Subscriber};

use stripline::carrier::fork::Local;
use stripline::carrier::mutex::lock;
use stripline::carrier::{Doorbell, Frames, Opening, PathSink, PollSet};
use stripline::{Error, Result};

use super::{ASKS, CREDIT_BYTES, ZenohTicket};
use crate::transit::{ArrivalLimit, MessageLimits, PREFIX_BYTES, SentCounts, TransitSender};
use crate::transit::{PlainStream, plain_key};
use crate::zenoh::session::{
    LINK_BYTES, MESSAGE_MAX, MESSAGE_OVERHEAD, SessionReach, ZenohSession, has_subscriber, put,
    watch_subscribers,
};

/// The longest wait of an ending sender for the next bytes to arrive. The bytes take milliseconds,
/// unless the receiver's process is stopped.
const FINISH_TIME: Duration = Duration::from_secs(5);
/// The longest wait of an ending sender in total. The session continues for this time, if this
/// process lives on.
const LINGER: Duration = Duration::from_secs(60);

const LIMITS: MessageLimits = MessageLimits { message: MESSAGE_MAX - PREFIX_BYTES, on_the_way: LINK_BYTES };
/// The limits across a router. The router's queue may have two batches, and the router alone
/// decides what it does when the queue is full. Bytes within these limits fit the buffers of the
/// router's sockets when the receiver is stopped.
const LIMITS_OF_ROUTER: MessageLimits = MessageLimits { message: 16 << 10, on_the_way: 32 << 10 };

/// The sending end.
pub(super) struct ZenohSink {
    shared: Local<Arc<SinkShared>>,
}

/// The state that the sink shares with the thread that opens the session.
struct SinkShared {
    transit: TransitSender,
    address: String,
    state: Mutex<SinkState>,
    /// Rung when the link has changed.
    changed: Doorbell,
    /// Whether the receiver's subscription has been found.
    is_found: AtomicBool,
    /// Whether a found subscription was lost.
    is_lost: AtomicBool,
    limits: MessageLimits,
    /// Whether the receiver is on another host, so that messages write the receiver's part of the
    /// page.
    is_remote: bool,
    /// Whether the receiver has hung up, so that no further bytes need arrive.
    is_receiver_gone: Arc<AtomicBool>,
}

/// The part of the state that the lock protects.
struct SinkState {
    link: LinkState,
    counts: SentCounts,
    plain: PlainStream,
}

enum LinkState {
    Opening,
    Open(Box<OpenLink>),
    Failed(String),
    /// The sink was dropped.
    Ended,
}

/// The ends of a link, in the order in which they are dropped.
struct OpenLink {
    _subscribers: MatchingListener<()>,
    publisher: Publisher<'static>,
    _token: LivelinessToken,
    _credits: Option<Subscriber<()>>,
    _session: ZenohSession,
}

impl ZenohSink {
    /// Begins to connect to the receiver of a ticket, on a separate thread, because zenoh waits for
    /// the receiver.
    pub(super) fn connect(
        ticket: ZenohTicket,
        reach: SessionReach,
        transit: TransitSender,
        is_remote: bool,
        is_receiver_gone: Arc<AtomicBool>,
    ) -> Result<Self> {
        let address = match &reach {
            SessionReach::Router(address) => format!("the router {address}"),
            SessionReach::Connect(address) => address.to_string(),
            SessionReach::Listen(_) => String::new(),
        };
        let shared = Arc::new(SinkShared {
            transit,
            address,
            limits: if matches!(reach, SessionReach::Router(_)) { LIMITS_OF_ROUTER } else { LIMITS },
            is_remote,
            state: Mutex::new(SinkState {
                link: LinkState::Opening,
                counts: SentCounts::default(),
                plain: PlainStream::default(),
            }),
            changed: Doorbell::new()?,
            is_found: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            is_receiver_gone,
        });
        let opening = Arc::clone(&shared);
        let open = move || {
            let link = OpenLink::open(&ticket, &reach, &opening)
                .map_or_else(LinkState::Failed, |link| LinkState::Open(Box::new(link)));
            let mut state = lock(&opening.state);
            if matches!(state.link, LinkState::Opening) {
                state.link = link;
            }
            drop(state);
            opening.changed.notify();
        };
        // The thread is not joined: a receiver that is stopped would hold up the end of this sink.
        std::thread::Builder::new()
            .name("zenoh-open".into())
            .spawn(open)
            .map_err(|e| Error::not_started("cannot start a thread", e))?;
        Ok(Self { shared: Local::new(shared) })
    }
}

impl OpenLink {
    fn open(ticket: &ZenohTicket, reach: &SessionReach, shared: &Arc<SinkShared>) -> Result<Self, String> {
        let session = ZenohSession::open(reach)?;
        let sink = Arc::downgrade(shared);
        let take_credit = move |bytes: ZBytes| {
            if let Some(shared) = sink.upgrade() {
                shared.take_credit(&bytes.to_bytes());
            }
        };
        let credits = shared.is_remote.then(|| session.subscribe(&ticket.credit_key(), take_credit));
        let credits = credits.transpose()?;
        let token = session.token(&ticket.sender_key())?;
        let publisher = session.publisher(&ticket.data_key())?;
        let sink = Arc::downgrade(shared);
        let each = move |is_there| {
            if let Some(shared) = sink.upgrade() {
                shared.set_found(is_there);
            }
        };
        let subscribers = watch_subscribers(&publisher, each)?;
        if has_subscriber(&publisher)? {
            shared.set_found(true);
        }
        Ok(Self { _subscribers: subscribers, publisher, _token: token, _credits: credits, _session: session })
    }
}

impl SinkShared {
    /// Records that the receiver's subscription was found, or lost.
    fn set_found(&self, is_there: bool) {
        // AcqRel and Release: read by the thread that the doorbell wakes.
        if is_there {
            self.is_found.store(true, Ordering::Release);
        } else if self.is_found.load(Ordering::Acquire) {
            self.is_lost.store(true, Ordering::Release);
        }
        self.changed.notify();
    }

    /// Checks that the receiver's subscription is not lost.
    fn check_link(&self) -> io::Result<()> {
        let is_lost = self.is_lost.load(Ordering::Acquire);
        if is_lost { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    /// Takes the credits of a receiver on another host.
    fn take_credit(&self, bytes: &[u8]) {
        let Ok(words) = <[u8; CREDIT_BYTES]>::try_from(bytes) else { return };
        let [units, messages, arrived] = bytemuck::cast::<_, [u64; 3]>(words).map(u64::from_le);
        let page = &self.transit.page;
        let low = MessageLimits::low(self.limits.on_the_way);
        let wakes =
            [page.set_taken(units, messages, self.transit.bound.low()), page.set_received(arrived, low)];
        if wakes.contains(&true) {
            self.transit.doorbell.notify();
        }
    }

    /// Asks a receiver on another host which bytes have arrived.
    fn ask(&self, link: &LinkState) {
        if let (LinkState::Open(link), true) = (link, self.is_remote) {
            // The put fails if the session has ended, which also ends the wait.
            let _ = put(&link.publisher, self.transit.bound.prefix(ASKS).to_vec());
        }
    }

    /// Returns the state of a link that can be written to.
    ///
    /// # Errors
    /// `WouldBlock` if the link is not open yet. With any other error, the link has ended.
    fn open_state(&self) -> io::Result<MutexGuard<'_, SinkState>> {
        self.check_link()?;
        let state = lock(&self.state);
        match &state.link {
            LinkState::Open(_) if self.is_found.load(Ordering::Acquire) => Ok(state),
            LinkState::Open(_) | LinkState::Opening => {
                self.changed.drain();
                // The doorbell may have rung in between.
                let is_found = self.is_found.load(Ordering::Acquire);
                if is_found && matches!(state.link, LinkState::Open(_)) {
                    return Ok(state);
                }
                Err(io::ErrorKind::WouldBlock.into())
            }
            LinkState::Failed(error) => Err(io::Error::new(io::ErrorKind::BrokenPipe, error.clone())),
            LinkState::Ended => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Hands over the frames that there is room for in one message.
    fn put(&self, state: &mut SinkState, bytes: &[u8]) -> io::Result<usize> {
        let LinkState::Open(link) = &state.link else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let admitted = self.transit.admit(&mut state.counts, bytes, self.limits)?;
        let (number, bytes) = (state.counts.sent + admitted.frames, &bytes[..admitted.bytes]);
        // A router may lose a message, and the plain message after it would not show the loss.
        let payload = if self.is_remote { None } else { state.plain.payload_of(bytes) };
        let message = match payload {
            Some(payload) => [&plain_key(self.transit.bound), payload].concat(),
            None => [&self.transit.bound.prefix(number), bytes].concat(),
        };
        state.plain.note(number, bytes);
        let length = message.len() as u64 + MESSAGE_OVERHEAD;
        put(&link.publisher, message).map_err(|e| io::Error::new(io::ErrorKind::BrokenPipe, e))?;
        self.transit.sent(&mut state.counts, &admitted, length);
        Ok(admitted.bytes)
    }

    /// Waits until all sent bytes have arrived, or the receiver is gone. Returns false if nothing
    /// more has arrived for `idle`, or not everything within [`LINGER`].
    fn await_arrival(&self, counts: &SentCounts, idle: Duration) -> bool {
        let mut limit = ArrivalLimit::new(idle, LINGER);
        loop {
            self.transit.doorbell.drain();
            self.changed.drain();
            let is_gone =
                self.is_receiver_gone.load(Ordering::Relaxed) || self.is_lost.load(Ordering::Acquire);
            let Some(until) = limit.next_wait(counts, &self.transit.page).filter(|_| !is_gone) else {
                return true;
            };
            let mut poll_set = PollSet::default();
            poll_set.readable(self.transit.doorbell.as_fd());
            poll_set.readable(self.changed.as_fd());
            if !poll_set.wait(Some(until)).unwrap_or(false) {
                return false;
            }
        }
    }
}

impl ZenohSink {
    /// Waits until the path is open.
    ///
    /// # Errors
    /// A description of the problem.
    pub(super) fn await_open(&self) -> Result<(), String> {
        let until = Instant::now() + FINISH_TIME;
        while let Opening::Waits { on, lacks, remedy } = self.open()? {
            let mut poll_set = PollSet::default();
            poll_set.readable(on);
            if !poll_set.wait(Some(until)).map_err(|e| e.to_string())? {
                return Err(format!("{lacks} within {FINISH_TIME:?}; {remedy}"));
            }
        }
        Ok(())
    }
}

impl PathSink for ZenohSink {
    fn write(&self, frames: &mut Frames<'_>, _longest: Duration) -> io::Result<usize> {
        if !self.shared.is_current() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut state = self.shared.open_state()?;
        let mut written = 0;
        while written < frames.len() {
            match self.shared.put(&mut state, &frames[written..]) {
                Ok(now) => written += now,
                Err(_) if written > 0 => break,
                Err(error) => {
                    // Drain earlier rings, so that only the loss of the link ends a wait for room.
                    self.shared.changed.drain();
                    self.shared.check_link()?;
                    return Err(error);
                }
            }
        }
        Ok(written)
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        poll_set.readable(self.shared.transit.doorbell.as_fd());
        poll_set.readable(self.shared.changed.as_fd());
    }

    /// Checks whether zenoh has found the receiver, which it does on threads of its own.
    fn open(&self) -> Result<Opening<'_>, String> {
        if !self.shared.is_current() {
            return Err("the path belongs to the parent of this process".into());
        }
        match self.shared.open_state() {
            Ok(_) => Ok(Opening::Done),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Opening::Waits {
                on: self.shared.changed.as_fd(),
                lacks: format!("zenoh has found no receiver at {}", self.shared.address),
                remedy: "start both processes in one network namespace, with its loopback interface up",
            }),
            Err(e) => Err(e.to_string()),
        }
    }
}

impl Drop for ZenohSink {
    /// Waits until all sent bytes have arrived, because this process may end at once.
    fn drop(&mut self) {
        if !self.shared.is_current() {
            return;
        }
        let mut state = lock(&self.shared.state);
        let link = std::mem::replace(&mut state.link, LinkState::Ended);
        let counts = std::mem::take(&mut state.counts);
        drop(state);
        self.shared.ask(&link);
        if !matches!(link, LinkState::Open(_)) || self.shared.await_arrival(&counts, FINISH_TIME) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        log::warn!(
            target: "stripline::transport",
            "not all that was sent to {} has arrived, and nothing more for {FINISH_TIME:?}", shared.address
        );
        let linger = move || {
            shared.await_arrival(&counts, LINGER);
            drop(link);
        };
        if std::thread::Builder::new().name("zenoh-linger".into()).spawn(linger).is_err() {
            log::warn!(target: "stripline::transport", "it is lost: there is no thread to wait for it");
        }
    }
}

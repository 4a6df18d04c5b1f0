//! The receiving end.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::zenoh::bytes::ZBytes;
use ::zenoh::pubsub::Subscriber;

use super::ZenohTicket;
use crate::packet::LastSent;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::fork::Local;
use crate::sys::scoped_call::CallSlot;
use crate::sys::transit_page::TransitPage;
use crate::sys::zenoh::{MESSAGE_OVERHEAD, SessionReach, ZenohSession};
use crate::transport::carrier::{CallbackFeed, CallbackSource, PathSource, WAIT_MAX};
use crate::transport::transit::{PREFIX_BYTES, TransitBound};

/// How long what a living sender has handed over is waited for. It takes some microseconds.
const SENT_TIME: Duration = Duration::from_millis(100);
/// A message of so many bytes stays in the memory of zenoh until it is read. A smaller one is
/// copied: it would keep a buffer of 64 KiB.
const KEPT_BYTES: usize = 16 * 1024;

/// The receiving end.
pub(super) struct ZenohSource {
    inner: Local<Inner>,
    bound: TransitBound,
    /// The frames up to the end of the message that was read last, in all.
    number: u64,
    /// Messages read, in all.
    messages: u64,
    /// Whether what the sender has handed over is waited for: a call does not begin before its
    /// cancellation, which was sent, is read.
    awaits_sent: bool,
    /// Whether that has not come in time, and nothing since.
    is_late: bool,
}

/// What a child of a fork leaves as it is. The subscriptions end before the session.
struct Inner {
    source: CallbackSource<Message>,
    shared: Arc<Shared>,
    _subscriptions: [Subscriber<()>; 2],
    _session: ZenohSession,
}

/// What the thread of zenoh uses, too.
struct Shared {
    page: TransitPage,
    /// The sender's.
    doorbell: Doorbell,
    /// Bytes that have arrived, in all.
    arrived: AtomicU64,
    /// Messages without the key.
    foreign: AtomicU64,
}

/// A message with its prefix.
enum Message {
    Copied(Vec<u8>),
    /// In one piece.
    Kept(ZBytes),
}

impl Message {
    fn new(bytes: ZBytes) -> Self {
        let mut pieces = bytes.slices();
        match (pieces.next(), pieces.next()) {
            (Some(piece), None) if piece.len() >= KEPT_BYTES => Self::Kept(bytes.clone()),
            _ => Self::Copied(bytes.to_bytes().into_owned()),
        }
    }

    fn whole(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Kept(bytes) => bytes.slices().next().unwrap_or_default(),
        }
    }
}

impl AsRef<[u8]> for Message {
    /// Returns the frames.
    fn as_ref(&self) -> &[u8] {
        self.whole().get(PREFIX_BYTES..).unwrap_or_default()
    }
}

impl ZenohSource {
    /// Opens a session, and returns the ticket to it.
    pub(super) fn listen(
        reach: &SessionReach,
        key: String,
        bound: TransitBound,
        page: TransitPage,
        doorbell: Doorbell,
        awaits_sent: bool,
    ) -> Result<(Self, ZenohTicket), String> {
        let session = ZenohSession::open(reach)?;
        let address = session.address().ok_or("zenoh, listen: there is no address")?;
        let ticket = ZenohTicket { address, key, bound };
        let (feed, source) = CallbackSource::new(usize::MAX).map_err(|e| e.to_string())?;
        let feed = Arc::new(feed);
        let (arrived, foreign) = Default::default();
        let shared = Arc::new(Shared { page, doorbell, arrived, foreign });
        let (its_feed, its_shared) = (Arc::clone(&feed), Arc::clone(&shared));
        let data =
            session.subscribe(&ticket.data_key(), move |bytes| its_shared.take(&bound, &its_feed, bytes))?;
        let sender = session.watch(&ticket.sender_key(), move |is_there| {
            if !is_there {
                feed.end();
            }
        })?;
        let inner = Inner { source, shared, _subscriptions: [data, sender], _session: session };
        let inner = Local::new(inner);
        Ok((Self { inner, bound, number: 0, messages: 0, awaits_sent, is_late: false }, ticket))
    }

    fn read_with(&mut self, into: &mut [u8], longest: Duration) -> io::Result<usize> {
        if !self.inner.is_current() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let inner = &mut *self.inner;
        let mut outcome = inner.source.read(into, longest);
        let is_empty = |e: &io::Error| e.kind() == io::ErrorKind::WouldBlock;
        if self.awaits_sent && !self.is_late && outcome.as_ref().is_err_and(is_empty) {
            // A sender that is stopped is waited for once.
            let page = &inner.shared.page;
            let is_due = |brought| page.messages() > brought;
            self.is_late = !inner.source.await_message(SENT_TIME, is_due) && is_due(self.messages);
            outcome = inner.source.read(into, Duration::ZERO);
        }
        let (bytes, message) = outcome?;
        self.is_late = false;
        if let Some(message) = message {
            self.messages += 1;
            self.number = self.bound.number_of(message.whole()).unwrap_or(self.number);
            let shared = &inner.shared;
            if shared.page.set_taken(self.number, self.messages, self.bound.low()) {
                shared.doorbell.notify();
            }
        }
        Ok(bytes)
    }
}

impl Shared {
    /// Takes a message on the thread of zenoh.
    fn take(&self, bound: &TransitBound, feed: &CallbackFeed<Message>, bytes: ZBytes) {
        let length = bytes.len() as u64 + MESSAGE_OVERHEAD;
        let message = Message::new(bytes);
        if bound.number_of(message.whole()).is_none() || message.as_ref().is_empty() {
            // Of another process, which has found the key. It is not in the page's counts.
            // Relaxed: it decides only about the line below.
            if self.foreign.fetch_add(1, Ordering::Relaxed) == 0 {
                log::warn!(
                    target: "stripline::transport",
                    "messages without the key come to a subscriber of zenoh; they are dropped"
                );
            }
            return;
        }
        feed.push(message);
        // Relaxed: the page orders it. One link brings its messages one after the other.
        let arrived = self.arrived.fetch_add(length, Ordering::Relaxed) + length;
        if self.page.set_arrived(arrived) {
            self.doorbell.notify();
        }
    }
}

impl PathSource for ZenohSource {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_with(into, Duration::ZERO)
    }

    fn can_wait(&self) -> bool {
        true
    }

    fn read_within(&mut self, into: &mut [u8], longest: Duration) -> io::Result<usize> {
        self.read_with(into, if longest < WAIT_MAX { Duration::ZERO } else { longest })
    }

    fn await_end(&mut self) -> bool {
        // What the page counts and does not come was in the sender's memory.
        let page = &self.inner.shared.page;
        !self.inner.is_current() || self.inner.source.await_end(|brought| page.messages() <= brought)
    }

    fn last_sent(&self) -> Option<LastSent> {
        self.inner.shared.page.last_sent()
    }

    fn bytes(&self) -> BorrowedFd<'_> {
        self.inner.source.arrivals()
    }

    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) {
        if self.inner.is_current() {
            self.inner.source.poll(poll_set);
        }
    }

    fn call_slot(&self) -> Option<&Arc<CallSlot>> {
        Some(self.inner.source.call_slot())
    }
}

//! The receiving end.

use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::zenoh::bytes::ZBytes;
use ::zenoh::pubsub::{Publisher, Subscriber};

use stripline::carrier::fork::Local;
use stripline::carrier::mutex::lock;
use stripline::carrier::{
    CallbackFeed, CallbackSource, Doorbell, LastSentReader, PathSource, PollSet, ReadRoom, ReadWait, Source,
};

use super::{ASKS, CREDIT_BYTES, ZenohTicket};
use crate::transit::PlainStream;
use crate::transit::TransitPage;
use crate::transit::{MessageLimits, PREFIX_BYTES, TransitBound};
use crate::zenoh::session::{LINK_BYTES, MESSAGE_OVERHEAD, SessionReach, ZenohSession, put};

/// The longest wait for messages that a living sender has handed over. Such messages take some
/// microseconds.
const SENT_TIME: Duration = Duration::from_millis(100);
/// The bytes that arrive between two messages to a sender on another host: a part of the bytes that
/// the sender may have on the way.
const CREDIT_STEP: u64 = 16 << 10;
/// The bytes from which on a message stays in the memory of zenoh until it is read. A smaller
/// message is copied, because it would keep a buffer of 64 KiB.
const KEPT_BYTES: usize = 16 * 1024;
/// The most bytes of memory that is used again for another message.
const REUSED_BYTES: usize = 2048;

/// The receiving end.
pub(super) struct ZenohSource {
    inner: Local<SourceParts>,
    bound: TransitBound,
    /// The frame count up to the end of the message that was read last.
    number: u64,
    /// The messages read, in total.
    messages: u64,
    /// Whether to wait for messages that the sender has handed over. A call then does not begin
    /// before a cancellation that was sent is read.
    awaits_sent: bool,
    /// Whether the last such wait ended without a message, and no message has arrived since.
    is_late: bool,
}

/// The parts that a child of a fork leaves as they are. The subscriptions end before the session.
struct SourceParts {
    source: CallbackSource<Arrived>,
    shared: Arc<SourceShared>,
    _subscriptions: [Subscriber<()>; 2],
    _session: ZenohSession,
}

/// The parts of a receiving end.
pub(super) struct ReceivingEnds {
    pub page: TransitPage,
    /// The sender's doorbell.
    pub doorbell: Doorbell,
    /// Whether the sender is on another host, and shares neither page nor doorbell.
    pub is_remote: bool,
    pub awaits_sent: bool,
}

/// The state that the source shares with the thread of zenoh.
struct SourceShared {
    page: Arc<TransitPage>,
    /// The sender's doorbell.
    doorbell: Doorbell,
    /// The credits to a sender on another host.
    credits: Option<Mutex<Credits>>,
    /// The bytes that have arrived, in total.
    arrived: AtomicU64,
    /// The number of messages without the key.
    foreign: AtomicU64,
    incoming: Mutex<IncomingMessages>,
}

/// The state that earlier messages have left for the next one.
#[derive(Default)]
struct IncomingMessages {
    plain: PlainStream,
    /// Read messages, kept so that their memory is used again. Another thread would give the memory
    /// back to the allocator.
    used: Vec<Arrived>,
}

impl IncomingMessages {
    /// Returns memory for a copy.
    fn memory(&mut self, feed: &CallbackFeed<Arrived>) -> Vec<u8> {
        if self.used.is_empty() {
            feed.take_used(&mut self.used);
        }
        match self.used.pop() {
            Some(Arrived::Copied(mut bytes)) => {
                bytes.clear();
                bytes
            }
            _ => Vec::new(),
        }
    }
}

/// The credits to a sender on another host.
struct Credits {
    publisher: Publisher<'static>,
    /// Frames between two credits.
    step: u64,
    /// The frames and messages taken.
    taken: [u64; 2],
    /// The counts that were sent last: frames and messages taken, and bytes arrived.
    sent: [u64; 3],
}

impl Credits {
    /// Sends the counts, if they have changed and a credit is due, or enough was taken or has
    /// arrived.
    fn send(&mut self, arrived: u64, is_due: bool) {
        let [units, messages] = self.taken;
        let now = [units, messages, arrived];
        let is_enough = units - self.sent[0] >= self.step || arrived - self.sent[2] >= CREDIT_STEP;
        if now == self.sent || !is_due && !is_enough {
            return;
        }
        let words: [u8; CREDIT_BYTES] = bytemuck::cast(now.map(u64::to_le));
        // The put fails if the session has ended, which the sender detects as well.
        let _ = put(&self.publisher, words.to_vec());
        self.sent = now;
    }
}

/// A message with the prefix.
enum Arrived {
    Copied(Vec<u8>),
    /// The message is in one piece.
    Kept(ZBytes),
}

impl Arrived {
    /// Returns whether the memory of the message is used again. The memory of a large message would
    /// lie idle.
    fn is_reusable(&self) -> bool {
        matches!(self, Self::Copied(bytes) if bytes.capacity() <= REUSED_BYTES)
    }

    fn whole(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Kept(bytes) => bytes.slices().next().unwrap_or_default(),
        }
    }
}

impl AsRef<[u8]> for Arrived {
    /// Returns the frames.
    fn as_ref(&self) -> &[u8] {
        self.whole().get(PREFIX_BYTES..).unwrap_or_default()
    }
}

impl ZenohSource {
    /// Opens a session, and returns the ticket to it.
    pub(super) fn open(
        reach: &SessionReach,
        key: String,
        bound: TransitBound,
        ends: ReceivingEnds,
    ) -> Result<(Self, ZenohTicket), String> {
        let ReceivingEnds { page, doorbell, is_remote, awaits_sent } = ends;
        let session = ZenohSession::open(reach)?;
        let ticket = ZenohTicket { address: session.address(), key, bound };
        let publisher = is_remote.then(|| session.publisher(&ticket.credit_key())).transpose()?;
        let step = (bound.frames / 16).max(1);
        let credits =
            publisher.map(|publisher| Mutex::new(Credits { publisher, step, taken: [0; 2], sent: [0; 3] }));
        let (feed, source) = CallbackSource::unbounded().map_err(|e| e.to_string())?;
        let feed = Arc::new(feed);
        let (arrived, foreign, incoming) = Default::default();
        let page = Arc::new(page);
        let shared = Arc::new(SourceShared { page, doorbell, credits, arrived, foreign, incoming });
        let (fed, sharing) = (Arc::clone(&feed), Arc::clone(&shared));
        let data = session.subscribe(&ticket.data_key(), move |bytes| sharing.take(&bound, &fed, bytes))?;
        let sender = session.watch(&ticket.sender_key(), move |is_there| {
            if !is_there {
                feed.end();
            }
        })?;
        let inner = SourceParts { source, shared, _subscriptions: [data, sender], _session: session };
        let inner = Local::new(inner);
        Ok((Self { inner, bound, number: 0, messages: 0, awaits_sent, is_late: false }, ticket))
    }

    fn read_with(&mut self, into: &mut [u8], wait: ReadWait) -> io::Result<usize> {
        if !self.inner.is_current() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let inner = &mut *self.inner;
        // Messages that the page counts but that do not come were in the sender's memory. The page
        // counts no messages of a sender on another host. The token of such a sender ends after all
        // messages.
        let shared = &*inner.shared;
        let has_all = |brought| shared.credits.is_none() && shared.page.messages() <= brought;
        let mut outcome = inner.source.read(into, wait, has_all);
        let is_empty = |e: &io::Error| e.kind() == io::ErrorKind::WouldBlock;
        if self.awaits_sent && !self.is_late && outcome.as_ref().is_err_and(is_empty) {
            // A sender that is stopped is waited for only once.
            let page = &inner.shared.page;
            let is_due = |brought| page.messages() > brought;
            self.is_late = !inner.source.await_message(SENT_TIME, is_due) && is_due(self.messages);
            outcome = inner.source.read(into, ReadWait::Never, has_all);
        }
        if outcome.as_ref().is_err_and(is_empty) {
            inner.shared.send_credit(None, true);
        }
        let (bytes, message) = outcome?;
        self.is_late = false;
        if let Some(message) = message {
            self.messages += 1;
            self.number = self.bound.number_of(message.whole()).unwrap_or(self.number);
            if message.is_reusable() {
                inner.source.give_back(message);
            }
            let shared = &inner.shared;
            if shared.page.set_taken(self.number, self.messages, self.bound.low()) {
                shared.doorbell.notify();
            }
            shared.send_credit(Some([self.number, self.messages]), false);
        }
        Ok(bytes)
    }
}

impl SourceShared {
    /// Takes a message on the thread of zenoh.
    fn take(&self, bound: &TransitBound, feed: &CallbackFeed<Arrived>, bytes: ZBytes) {
        let length = bytes.len() as u64 + MESSAGE_OVERHEAD;
        let whole = bytes.to_bytes();
        let mut number = bound.number_of(&whole);
        if number == Some(ASKS) {
            return self.send_credit(None, true);
        }
        let mut incoming = lock(&self.incoming);
        let message = match (&whole, number) {
            (Cow::Borrowed(piece), Some(_)) if piece.len() >= KEPT_BYTES => Arrived::Kept(bytes.clone()),
            (_, is_whole) => {
                let mut memory = incoming.memory(feed);
                match is_whole {
                    Some(_) => memory.extend_from_slice(&whole),
                    None if incoming.plain.write_whole(*bound, &whole, &mut memory) => {
                        number = bound.number_of(&memory);
                    }
                    None => {}
                }
                Arrived::Copied(memory)
            }
        };
        if let Some(number) = number {
            incoming.plain.note(number, message.as_ref());
        }
        drop(incoming);
        if number.is_none() || message.as_ref().is_empty() {
            // The message is from another process, which has found the key. The page does not count
            // it. Relaxed: the count only decides about the line below.
            if self.foreign.fetch_add(1, Ordering::Relaxed) == 0 {
                log::warn!(
                    target: "stripline::transport",
                    "messages without the key come to a subscriber of zenoh; they are dropped"
                );
            }
            return;
        }
        feed.push(message);
        // Relaxed: the page orders the count. A link brings the messages one after the other.
        let arrived = self.arrived.fetch_add(length, Ordering::Relaxed) + length;
        if self.page.set_received(arrived, MessageLimits::low(LINK_BYTES)) {
            self.doorbell.notify();
        }
        self.send_credit(None, false);
    }

    /// Sends the counts of taken frames and arrived bytes to a sender on another host, if a credit
    /// is due, or enough was taken or has arrived.
    fn send_credit(&self, taken: Option<[u64; 2]>, is_due: bool) {
        let Some(credits) = &self.credits else { return };
        let mut credits = lock(credits);
        credits.taken = taken.unwrap_or(credits.taken);
        // Relaxed: the value only counts.
        credits.send(self.arrived.load(Ordering::Relaxed), is_due);
    }
}

impl PathSource for ZenohSource {
    fn read(&mut self, room: &mut ReadRoom<'_>, wait: ReadWait) -> io::Result<usize> {
        self.read_with(room.bytes(), wait)
    }

    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        !self.inner.is_current() || self.inner.source.poll(poll_set)
    }
}

impl From<ZenohSource> for Source {
    fn from(end: ZenohSource) -> Self {
        let page = Arc::clone(&end.inner.shared.page);
        let last_sent: LastSentReader = Box::new(move || page.last_sent());
        // No call slot: the runtime of zenoh stands still while its threads wait in a handler.
        Self { can_wait: true, is_filled_by_threads: true, last_sent: Some(last_sent), ..Self::new(end) }
    }
}

//! Replies that are sent later, from any thread.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Refusal;
use super::replies::{ReplyMessage, ReplySender};
use super::wire::ReplyStatus;

/// The right and the duty to answer one call, on any thread and at any time. The handlers of
/// [`Service::operation_of`](super::Service::operation_of) get a responder.
///
/// Dropping a responder refuses the call, so that the client does not wait without end. A reply
/// never blocks. A reply has no effect once the client has gone or the server has ended.
///
/// ```
/// use stripline::call::{ClientOptions, Operation, Responder, ServerOptions, Service};
/// use stripline::payload::TypeName;
///
/// let bytes = TypeName::of::<u8>();
/// let reverse = Operation::new("reverse", bytes.clone(), bytes.clone(), bytes)?;
/// let service = Service::new("text")?.operation_of(reverse.clone(), |request, responder: Responder| {
///     let mut text = request.to_vec();
///     std::thread::spawn(move || {
///         text.reverse();
///         responder.reply(&text);
///     });
/// })?;
/// let node = stripline::node::Node::isolated()?;
/// let mut server = node.service_server(service, ServerOptions::default())?;
/// let text = node.service_client("text", ClientOptions::default())?.operation_of(&reverse)?;
/// let pending = text.start(&b"abc".to_vec().into()).expect("a server is there").into_owned();
/// server.serve_one(std::time::Duration::from_secs(5))?;
/// assert_eq!(pending.wait().expect("it was served").0, b"cba");
/// # Ok::<(), stripline::Error>(())
/// ```
#[must_use = "a call without a reply is refused"]
pub struct Responder {
    replies: Arc<ReplySender>,
    number: u64,
    deadline_us: u32,
    claim: ReplyClaim,
}

impl Responder {
    pub(super) fn new(replies: &Arc<ReplySender>, number: u64, deadline_us: u32) -> Self {
        Self { replies: Arc::clone(replies), number, deadline_us, claim: ReplyClaim::default() }
    }

    /// Returns the name of the client's connection.
    pub fn client(&self) -> &str {
        &self.replies.connection
    }

    /// Returns the time for which the client waits for the reply, counted from the call.
    pub fn deadline(&self) -> Duration {
        Duration::from_micros(u64::from(self.deadline_us))
    }

    /// Sends the reply, which is bytes of the operation's reply type.
    pub fn reply(self, bytes: &[u8]) {
        self.send(ReplyStatus::Done, bytes);
    }

    /// Sends the operation's own error, which is bytes of the operation's error type.
    pub fn fail(self, bytes: &[u8]) {
        self.send(ReplyStatus::UserError, bytes);
    }

    /// Refuses the call: the client gets [`Refusal::Failed`] with the reason.
    pub fn refuse(self, reason: impl fmt::Display) {
        self.send(ReplyStatus::Refused(Refusal::Failed), reason.to_string().as_bytes());
    }

    /// Refuses the call with another kind of refusal than [`Responder::refuse`]. The method is for
    /// programs that decode requests themselves, and for handlers in languages with exceptions.
    pub fn refuse_as(self, refusal: Refusal, reason: impl fmt::Display) {
        self.send(ReplyStatus::Refused(refusal), reason.to_string().as_bytes());
    }

    /// Returns the claim to the answer, for the case that the handler panics.
    pub(super) fn claim(&self) -> ReplyClaim {
        self.claim.clone()
    }

    fn send(&self, status: ReplyStatus, payload: &[u8]) {
        if self.claim.take() {
            let (number, deadline_us) = (self.number, self.deadline_us);
            self.replies.send(&ReplyMessage { number, status, payload, deadline_us });
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let (refusal, words) = if std::thread::panicking() {
            (Refusal::Panicked, "the thread with the request panicked")
        } else {
            (Refusal::Failed, "the server dropped the request without a reply")
        };
        self.send(ReplyStatus::Refused(refusal), words.as_bytes());
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").field("client", &self.client()).finish_non_exhaustive()
    }
}

/// The right to give the only answer to a call.
#[derive(Clone, Default)]
pub(super) struct ReplyClaim(Arc<AtomicBool>);

impl ReplyClaim {
    /// Returns whether the call has no answer yet. From now on the call counts as answered.
    pub(super) fn take(&self) -> bool {
        // Relaxed: the flag guards no other data.
        !self.0.swap(true, Ordering::Relaxed)
    }
}

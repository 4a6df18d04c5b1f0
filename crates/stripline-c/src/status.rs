//! The outcomes of calls, with numbers that never change.

use stripline_bindings::Code;

use crate::text::Text;

/// The outcome of a call.
///
/// 0 is success, a negative number is an outcome without an error, and a positive number is an
/// error. `docs/errors.md` lists the numbers up to 999. A number never gets another meaning. A
/// later library may add numbers: treat a number that is not in this header as `STRIPLINE_FAILED`.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The call succeeded.
    Ok = 0,
    /// Nothing arrived within the time that the call waits.
    Empty = -1,
    /// End of stream: no packet follows.
    Ended = -2,
    /// The component or node was stopped.
    Stopped = 1,
    /// A receiver's queue is full, and the send does not wait.
    Full = 2,
    /// A receiver had no room for as long as the send waits. Nothing was sent.
    Stalled = 3,
    /// The packet exceeds a limit.
    TooLarge = 4,
    /// The receiver fell behind, and its policy is `eject`.
    Ejected = 5,
    /// A transport does not support an option.
    Unsupported = 6,
    /// The other end broke the protocol, and the connection was closed.
    PeerMisbehaved = 7,
    /// The other end refused the connection.
    Refused = 8,
    /// A port or topic was used in a way that it does not allow.
    Port = 9,
    /// A message does not decode as the expected type.
    Decode = 10,
    /// A handler failed or panicked. No further packet is handled.
    Handler = 11,
    /// A receiver did not acknowledge a packet in time. The packet stays sent.
    Unanswered = 12,
    /// A receiver left before it acknowledged a packet.
    ReceiverGone = 13,
    /// A receiver refused a packet.
    PacketRefused = 14,
    /// Too many packets wait behind a missing one. The packets count as lost.
    WindowOverflow = 15,
    /// Two packets have the same place in the sequence.
    DuplicatePacket = 16,
    /// The operating system or a middleware's library reported an error.
    System = 17,
    /// A child process used a handle that its parent had made.
    Forked = 18,
    /// A component rejects the properties.
    InvalidProperties = 19,
    /// A component's own failure, in its own words.
    Failed = 20,
    /// All packets that a port may hold are in use. Nothing is lost.
    TooManyHeld = 21,
    /// A waker ended the wait. Nothing is lost.
    Interrupted = 22,
    /// A setting does not fit: a variable, a topics file, an option.
    Configuration = 23,
    /// The operation's own error, as its reply.
    UserError = 100,
    /// No server was found until the deadline. The call was not sent.
    NoServer = 101,
    /// The reply did not arrive in time.
    CallUnanswered = 102,
    /// The server left while the call was outstanding. The server may have run the call.
    ServerGone = 103,
    /// This side cancelled the call.
    CallCancelled = 104,
    /// The limit of outstanding calls is reached. The call was not sent.
    TooManyCalls = 105,
    /// The reply has another type.
    ReplyDecode = 106,
    /// The server does not have the operation.
    UnknownOperation = 110,
    /// Request, reply or error of the operation has another type.
    WrongType = 111,
    /// The operation's handler panicked; the server continues.
    HandlerPanicked = 112,
    /// The deadline had passed before the handler began.
    DeadlinePassed = 113,
    /// The client cancelled before the handler began.
    CancelledEarly = 114,
    /// Too many calls wait at the server.
    Overloaded = 115,
    /// The server itself waits in this chain of calls.
    CallCycle = 116,
    /// The server could not send the reply.
    ReplyFailed = 117,
    /// An argument is wrong: NULL, not UTF-8, out of range, or from a newer header. Nothing was
    /// done.
    InvalidArgument = 1001,
    /// This library has failed. From then on, the handle of the call can only be freed.
    Panicked = 1002,
    /// The handle is in use, by a running handler or by another thread. Nothing was done.
    InUse = 1003,
}

impl Status {
    /// Returns the outcome of a failure with that code.
    pub(crate) fn of(code: Code) -> Self {
        let found = FAILURES.iter().find(|status| **status as i32 == code.number());
        // A code of a later version of the Rust library. A test of this crate would detect it.
        found.copied().unwrap_or(Self::Failed)
    }

    /// Returns the word and the usual remedy of an outcome, by number.
    pub(crate) fn describe(number: i32) -> Option<(&'static str, &'static str)> {
        match number {
            0 => Some(("ok", "")),
            -1 => Some(("empty", "")),
            -2 => Some(("ended", "")),
            _ => Code::from_number(number).map(|code| (code.word(), code.remedy())),
        }
    }
}

impl From<Status> for Code {
    fn from(status: Status) -> Self {
        Self::from_number(status as i32).unwrap_or(stripline::ErrorCode::Failed.into())
    }
}

macro_rules! failures {
    ($($name:ident)*) => {
        /// The outcomes that are failures.
        const FAILURES: &[Status] = &[$(Status::$name),*];
    };
}

failures! {
    Stopped Full Stalled TooLarge Ejected Unsupported PeerMisbehaved Refused Port Decode Handler
    Unanswered ReceiverGone PacketRefused WindowOverflow DuplicatePacket System Forked
    InvalidProperties Failed TooManyHeld Interrupted Configuration UserError NoServer CallUnanswered
    ServerGone CallCancelled TooManyCalls ReplyDecode UnknownOperation WrongType HandlerPanicked
    DeadlinePassed CancelledEarly Overloaded CallCycle ReplyFailed InvalidArgument Panicked
    InUse
}

/// Returns the word of an outcome in lower case, such as `too-large`. The word is `unknown` for a
/// number that this library does not have.
///
/// - Ownership: the text is static.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_status_word(status: i32) -> Text {
    Text::of(Status::describe(status).map_or("unknown", |(word, _)| word))
}

/// Returns the usual remedy for an outcome, in one sentence. The text is empty if nothing needs a
/// remedy. `stripline_error_message` has the remedy for the case at hand.
///
/// - Ownership: the text is static.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_status_remedy(status: i32) -> Text {
    Text::of(Status::describe(status).map_or("", |(_, remedy)| remedy))
}

#[cfg(test)]
mod tests {
    use stripline::ErrorCode;

    use super::*;

    #[test]
    fn every_code_has_a_status_with_its_number() {
        let library = ErrorCode::ALL.iter().map(|code| Code::from(*code));
        for code in library.chain([Code::PANICKED, Code::IN_USE]) {
            assert_eq!(Status::of(code) as i32, code.number(), "{}", code.word());
        }
    }

    #[test]
    fn every_outcome_has_a_word() {
        assert_eq!(Status::describe(Status::TooLarge as i32).map(|(word, _)| word), Some("too-large"));
        assert_eq!(Status::describe(Status::InUse as i32).map(|(word, _)| word), Some("in-use"));
        assert_eq!((Status::describe(-3), Status::describe(999)), (None, None));
        assert_eq!((Status::describe(i32::MAX), Status::describe(65_536 + 1)), (None, None));
    }
}

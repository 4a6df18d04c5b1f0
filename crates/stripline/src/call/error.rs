//! The outcomes of a call other than a reply.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorCode};

/// The outcome of a call without a reply.
///
/// ```
/// use stripline::call::{CallError, ClientOptions};
/// use std::time::Duration;
///
/// let node = stripline::node::Node::isolated()?;
/// let options = ClientOptions { deadline: Duration::from_millis(1), ..ClientOptions::default() };
/// let nobody = node.client::<f64, f64, String>("tune", options)?;
/// let error = nobody.call(&1090e6).unwrap_err();
/// assert!(matches!(error, CallError::NoServer { .. }));
/// assert!(error.to_string().contains("there is no server of `tune`"));
/// # Ok::<(), stripline::Error>(())
/// ```
#[non_exhaustive]
#[derive(Debug)]
pub enum CallError<E> {
    /// The operation's own error.
    User(E),
    /// No server was there when the deadline passed. The call was not made.
    NoServer {
        /// The name of the service.
        service: String,
        /// The time for which the client waited for a server.
        waited: Duration,
    },
    /// The deadline passed before the reply arrived. A later reply is dropped and counted.
    Unanswered {
        /// The service and operation, and the server.
        call: String,
        /// The deadline.
        deadline: Duration,
    },
    /// The server died or left while the call was outstanding. The server may or may not have run
    /// the call.
    ServerGone {
        /// The service and operation, and the server.
        call: String,
    },
    /// This side cancelled the call.
    Cancelled,
    /// The server did not run the call, or did not complete it.
    Refused {
        /// The service and operation, and the server.
        call: String,
        /// The kind of refusal.
        refusal: Refusal,
        /// The server's explanation.
        reason: String,
    },
    /// The limit of outstanding calls at this server has been reached. The call was not made.
    TooMany {
        /// The name of the service.
        service: String,
        /// The limit.
        outstanding_max: u32,
    },
    /// The reply, or the operation's error, has another type.
    Decode {
        /// The service and operation, and the server.
        call: String,
        /// A description of the mismatch.
        reason: String,
    },
    /// The call could not be made, or the wait failed, for example with [`Error::Stopped`].
    Link(Error),
}

impl<E> CallError<E> {
    /// Returns the code of this outcome: a number and a word that never change. A refusal has the
    /// code of the kind of refusal, and [`CallError::Link`] the code of the error in it.
    ///
    /// ```
    /// use stripline::{Error, ErrorCode};
    /// use stripline::call::{CallError, NoError};
    ///
    /// let error: CallError<NoError> = Error::Stopped.into();
    /// assert_eq!(error.code(), ErrorCode::Stopped);
    /// assert_eq!(CallError::<NoError>::Cancelled.code().word(), "call-cancelled");
    /// ```
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::User(_) => ErrorCode::UserError,
            Self::NoServer { .. } => ErrorCode::NoServer,
            Self::Unanswered { .. } => ErrorCode::CallUnanswered,
            Self::ServerGone { .. } => ErrorCode::ServerGone,
            Self::Cancelled => ErrorCode::CallCancelled,
            Self::Refused { refusal, .. } => refusal.code(),
            Self::TooMany { .. } => ErrorCode::TooManyCalls,
            Self::Decode { .. } => ErrorCode::ReplyDecode,
            Self::Link(error) => error.code(),
        }
    }
}

/// The error type of an operation without errors.
///
/// ```
/// use stripline::call::{Client, ClientOptions, NoError};
///
/// let node = stripline::node::Node::isolated()?;
/// let frequency_hz: Client<(), f64, NoError> = node.client("frequency", ClientOptions::default())?;
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoError {}

impl fmt::Display for NoError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for NoError {}

/// The kinds of refusal of a call by a server.
///
/// ```
/// assert_eq!(stripline::call::Refusal::Cycle.to_string(), "a cycle of calls");
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server does not have the operation.
    UnknownOperation,
    /// The operation's request, reply or error has another type.
    WrongType,
    /// The handler of the operation panicked. The server continues.
    Panicked,
    /// The deadline had passed before the handler began.
    DeadlinePassed,
    /// The client cancelled the call before the handler began. The client no longer waits for this
    /// reply, which serves tools that read the wire.
    Cancelled,
    /// The [limit](super::ServerOptions::waiting) of waiting calls at the server is reached.
    Overloaded,
    /// The server itself waits in this chain of nested calls, so it could never answer.
    Cycle,
    /// The reply of the server could not be sent.
    Failed,
}

impl Refusal {
    /// All kinds, in the order of their numbers on the wire.
    pub(super) const ALL: [Self; 8] = [
        Self::UnknownOperation,
        Self::WrongType,
        Self::Panicked,
        Self::DeadlinePassed,
        Self::Cancelled,
        Self::Overloaded,
        Self::Cycle,
        Self::Failed,
    ];

    fn code(self) -> ErrorCode {
        match self {
            Self::UnknownOperation => ErrorCode::UnknownOperation,
            Self::WrongType => ErrorCode::WrongType,
            Self::Panicked => ErrorCode::HandlerPanicked,
            Self::DeadlinePassed => ErrorCode::DeadlinePassed,
            Self::Cancelled => ErrorCode::CancelledEarly,
            Self::Overloaded => ErrorCode::Overloaded,
            Self::Cycle => ErrorCode::CallCycle,
            Self::Failed => ErrorCode::ReplyFailed,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownOperation => "an unknown operation",
            Self::WrongType => "another type",
            Self::Panicked => "its handler panicked",
            Self::DeadlinePassed => "the deadline had passed",
            Self::Cancelled => "it was cancelled",
            Self::Overloaded => "it has too much to do",
            Self::Cycle => "a cycle of calls",
            Self::Failed => "its reply could not be sent",
        })
    }
}

impl<E: fmt::Display> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(error) => error.fmt(f),
            Self::NoServer { service, waited } => write!(
                f,
                "there is no server of `{service}` in this domain, and none came within {waited:?}; start one, or \
                 raise the deadline"
            ),
            Self::Unanswered { call, deadline } => write!(
                f,
                "{call} did not answer within {deadline:?}; find out why the server is slow, or raise the deadline"
            ),
            Self::ServerGone { call } => write!(
                f,
                "{call}: the server is gone and has not answered; it may or may not have carried the call out"
            ),
            Self::Cancelled => f.write_str("the call was cancelled"),
            Self::Refused { call, refusal, reason } => write!(f, "{call}: {refusal}: {reason}"),
            Self::TooMany { service, outstanding_max } => write!(
                f,
                "`{service}`: {outstanding_max} calls are outstanding, which is the limit; wait for some of \
                 them, or raise the client's `outstanding`"
            ),
            Self::Decode { call, reason } => write!(f, "{call}: the reply is of another type: {reason}"),
            Self::Link(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Display + fmt::Debug> std::error::Error for CallError<E> {}

impl<E> From<Error> for CallError<E> {
    fn from(error: Error) -> Self {
        Self::Link(error)
    }
}

impl<E: fmt::Display> From<CallError<E>> for Error {
    fn from(error: CallError<E>) -> Self {
        match error {
            CallError::Link(error) => error,
            error => Error::Call { code: error.code(), message: error.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_refusal_has_a_code_of_its_own() {
        let codes: BTreeSet<_> = Refusal::ALL.map(|refusal| refusal.code().number()).into();
        assert_eq!(codes, (110..118).collect());
        let refused: CallError<NoError> =
            CallError::Refused { call: "tune".into(), refusal: Refusal::Cycle, reason: String::new() };
        assert_eq!(refused.code(), ErrorCode::CallCycle);
    }
}

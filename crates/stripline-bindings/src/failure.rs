//! Failures on the way to a program in another language.

use std::fmt;
use std::ops::Deref;

use stripline::call::{CallError, RawBytes};
use stripline::{Error, ErrorCode};

/// A failure of a call, with the parts that a program in any language gets. The failure is small,
/// because it is part of the results of functions that rarely fail.
///
/// ```
/// use stripline::ErrorCode;
/// use stripline_bindings::Failure;
///
/// let failure = Failure::new(ErrorCode::Port, "the loan is closed");
/// assert_eq!((failure.code.number(), failure.message.as_str()), (9, "the loan is closed"));
/// ```
pub struct Failure(Box<Parts>);

/// The parts of a [`Failure`].
///
/// ```
/// let full = stripline::Error::Full { connection: "a -> b".into() };
/// let failure = stripline_bindings::Failure::from(full);
/// assert_eq!(failure.connection.as_deref(), Some("a -> b"));
/// ```
#[derive(Debug)]
pub struct Parts {
    /// The kind of failure.
    pub code: Code,
    /// One sentence that names the failure, the place and the remedy.
    pub message: String,
    /// The connection or peer that the failure is about, as `from -> to`.
    pub connection: Option<String>,
    /// The error number of the operating system.
    pub os_code: Option<i32>,
    /// Whether a wait was interrupted after the packet or call had been sent.
    pub is_sent: bool,
}

/// The kind of a failure: a kind of the library, or a failure of a handle in the binding.
///
/// ```
/// use stripline::ErrorCode;
/// use stripline_bindings::Code;
///
/// assert_eq!(Code::from(ErrorCode::Stopped).number(), 1);
/// assert_eq!(Code::from_number(1003), Some(Code::IN_USE));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Library(ErrorCode),
    Panicked,
    InUse,
}

impl Code {
    /// The library has panicked, and the handle of the call can only be freed.
    pub const PANICKED: Self = Self(Kind::Panicked);
    /// A running handler or another thread uses the handle.
    pub const IN_USE: Self = Self(Kind::InUse);

    /// Returns the kind with a number.
    pub fn from_number(number: i32) -> Option<Self> {
        let own = [Self::PANICKED, Self::IN_USE].into_iter().find(|own| own.number() == number);
        own.or_else(|| Some(ErrorCode::from_number(u16::try_from(number).ok()?)?.into()))
    }

    /// Returns the number, which never gets another meaning.
    pub fn number(self) -> i32 {
        match self.0 {
            Kind::Library(code) => code.number().into(),
            Kind::Panicked => 1002,
            Kind::InUse => 1003,
        }
    }

    /// Returns the word in lower case, such as `too-large`.
    pub fn word(self) -> &'static str {
        match self.0 {
            Kind::Library(code) => code.word(),
            Kind::Panicked => "panicked",
            Kind::InUse => "in-use",
        }
    }

    /// Returns the usual remedy, in one sentence.
    pub fn remedy(self) -> &'static str {
        match self.0 {
            Kind::Library(code) => code.remedy(),
            Kind::Panicked => "Free the handle, and report the text as a bug of the library.",
            Kind::InUse => "Call from one thread at a time, and not from the handle's own handler.",
        }
    }
}

impl From<ErrorCode> for Code {
    fn from(code: ErrorCode) -> Self {
        Self(Kind::Library(code))
    }
}

impl Failure {
    /// Creates a failure that is not about a connection.
    #[cold]
    pub fn new(code: impl Into<Code>, message: impl Into<String>) -> Self {
        let (code, message) = (code.into(), message.into());
        Self(Box::new(Parts { code, message, connection: None, os_code: None, is_sent: false }))
    }

    /// Creates a failure for an argument that the caller must change.
    #[cold]
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgument, message)
    }

    /// Returns the failure with the place of the mistake before the message.
    #[cold]
    pub fn within(mut self, place: &str) -> Self {
        self.0.message = format!("{place}: {}", self.0.message);
        self
    }

    /// Returns the parts.
    pub fn into_parts(self) -> Parts {
        *self.0
    }
}

impl Deref for Failure {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        Self(Box::new(Parts {
            code: error.code().into(),
            message: error.to_string(),
            connection: error.connection().map(String::from),
            os_code: error.os_code(),
            is_sent: matches!(error, Error::Interrupted { sent: true, .. }),
        }))
    }
}

impl From<CallError<RawBytes>> for Failure {
    #[cold]
    fn from(failed: CallError<RawBytes>) -> Self {
        let code = failed.code();
        match failed {
            CallError::Link(error) => error.into(),
            failed => Self::new(code, failed.to_string()),
        }
    }
}

impl From<Failure> for Error {
    /// Returns the failure as the failure of a component. The kind is kept if the launcher decides
    /// by it.
    #[cold]
    fn from(failure: Failure) -> Self {
        let Parts { code, message, .. } = failure.into_parts();
        match code.0 {
            Kind::Library(code) if code.is_lasting() => Self::Call { code, message },
            _ => Self::Failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_library_keeps_its_parts() {
        let failure = Failure::from(Error::system("cannot open", std::io::Error::from_raw_os_error(24)));
        assert_eq!((failure.code, failure.os_code), (ErrorCode::System.into(), Some(24)));
        let failure = Failure::from(Error::Full { connection: "b -> c".into() });
        assert_eq!(failure.connection.as_deref(), Some("b -> c"));
        assert!(!failure.code.remedy().is_empty());
    }

    #[test]
    fn every_code_is_found_by_its_number() {
        let own = [Code::PANICKED, Code::IN_USE];
        for code in ErrorCode::ALL.iter().map(|code| Code::from(*code)).chain(own) {
            assert_eq!(Code::from_number(code.number()), Some(code), "{}", code.word());
        }
        for number in [-3, 0, 999, i32::MAX, 65_536 + 1] {
            assert_eq!(Code::from_number(number), None);
        }
    }
}

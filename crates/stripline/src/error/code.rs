//! The number and the word of each kind of error.

use std::fmt;

/// Declares the codes in one place: number, variant, word, meaning, and remedy.
macro_rules! codes {
    ($($number:literal $variant:ident $word:literal $meaning:literal $remedy:literal)*) => {
        /// The kind of an error, with a number and a word that never change.
        ///
        /// The number is for programs in other languages, the word for logs and scripts. A later
        /// version may add codes, and never gives one a second meaning. [docs/errors.md] lists the
        /// codes with their remedies.
        ///
        /// ```
        /// use stripline::{Error, ErrorCode};
        ///
        /// let code = Error::failed("the antenna is not plugged in").code();
        /// assert_eq!((code.number(), code.word()), (20, "failed"));
        /// assert_eq!(ErrorCode::from_number(20), Some(ErrorCode::Failed));
        /// ```
        ///
        /// [docs/errors.md]: https://docs.rs/crate/stripline/latest/source/docs/errors.md
        #[non_exhaustive]
        #[repr(u16)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $variant = $number,)*
        }

        impl ErrorCode {
            /// All codes, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the word in kebab case.
            ///
            /// ```
            /// assert_eq!(stripline::ErrorCode::PeerMisbehaved.word(), "peer-misbehaved");
            /// ```
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// Returns the usual remedy in one sentence. The text of an [`Error`](crate::Error) has
            /// the remedy for the specific case.
            ///
            /// ```
            /// let remedy = stripline::ErrorCode::ReplyDecode.remedy();
            /// assert_eq!(remedy, "Compare the types of both ends.");
            /// ```
            pub const fn remedy(self) -> &'static str {
                match self {
                    $(Self::$variant => $remedy,)*
                }
            }
        }
    };
}

codes! {
    1 Stopped "stopped" "The component or node was stopped."
        "Return it: it counts as a clean end."
    2 Full "full" "A receiver's queue is full, and the send does not wait."
        "Send again later, wait, or raise `depth`."
    3 Stalled "stalled" "A receiver had no room for as long as the send waits."
        "Find out why it takes nothing; raise `send-timeout-ms` or `depth`, or choose another `overflow`."
    4 TooLarge "too-large" "The packet exceeds a limit."
        "Send with `send`, which splits it; raise `buffer`; 1 GiB is the most."
    5 Ejected "ejected" "The receiver fell behind, and its policy is `eject`."
        "Raise `depth` or choose another policy."
    6 Unsupported "unsupported" "A transport cannot keep an option."
        "Take one of the alternatives in the text."
    7 PeerMisbehaved "peer-misbehaved" "The other end broke the protocol."
        "Find the program at the other end; receiving goes on with the others."
    8 Refused "refused" "The other end refused the connection."
        "Change the cause that the reason names: type, key, policy."
    9 Port "port" "A port or topic was used in a way that it does not allow."
        "Change the call as the text states."
    10 Decode "decode" "A message does not decode as its type."
        "Compare the types of both ends."
    11 Handler "handler" "A handler failed or panicked."
        "Fix the handler; the text names the packet."
    12 Unanswered "unanswered" "A receiver did not acknowledge a packet in time."
        "Find out why it is slow; raise `deadline-ms` or choose a weaker scope."
    13 ReceiverGone "receiver-gone" "A receiver left before it acknowledged a packet."
        "Send it again if another receiver needs it."
    14 PacketRefused "packet-refused" "A receiver refused a packet."
        "Follow its reason."
    15 WindowOverflow "window-overflow" "Too many packets wait behind a missing one."
        "Raise the window, or wait less for a missing packet."
    16 DuplicatePacket "duplicate-packet" "Two packets have the same place in the sequence."
        "Forward one packet for each that arrives."
    17 System "system" "The operating system or a middleware's library reported an error."
        "Follow its text; limits are named with their remedy."
    18 Forked "forked" "A child of a fork used an object of its parent."
        "Make a node and its ports in the child, or execute a program."
    19 InvalidProperties "invalid-properties" "A component rejects its properties."
        "Change the property that the text names."
    20 Failed "failed" "A component failed; the text is the component's."
        "Follow its text."
    21 TooManyHeld "too-many-held" "All packets that a port may hold are in use."
        "Drop one, hold more, or keep a copy."
    22 Interrupted "interrupted" "A waker ended the wait."
        "Call again; after `sent`, go on with the next packet."
    23 Configuration "configuration" "A setting does not fit: a variable, a file, an option."
        "Change the setting that the text names."
    100 UserError "user-error" "The operation's own error, as the reply of a call."
        "Read the error: it is a value of the operation."
    101 NoServer "no-server" "There was no server for a call."
        "Start a server, or raise the deadline."
    102 CallUnanswered "call-unanswered" "The reply of a call did not arrive in time."
        "Find out why the server is slow, or raise the deadline."
    103 ServerGone "server-gone" "The server left with the call outstanding."
        "Call again if a second time does no harm."
    104 CallCancelled "call-cancelled" "This side cancelled the call."
        "None is needed."
    105 TooManyCalls "too-many-calls" "The limit of outstanding calls is reached."
        "Wait for some, or raise `outstanding`."
    106 ReplyDecode "reply-decode" "The reply of a call has another type."
        "Compare the types of both ends."
    110 UnknownOperation "unknown-operation" "The server does not have the operation."
        "Compare the versions of both programs."
    111 WrongType "wrong-type" "Request, reply or error of the operation has another type."
        "Compare the types of both ends."
    112 HandlerPanicked "handler-panicked" "The operation's handler panicked."
        "Fix the handler."
    113 DeadlinePassed "deadline-passed" "The deadline had passed before the handler began."
        "Raise the deadline, or give the server a pool."
    114 CancelledEarly "cancelled-early" "The client cancelled before the handler began."
        "None is needed."
    115 Overloaded "overloaded" "Too many calls wait at the server."
        "Raise `waiting`, give it a pool, or call less."
    116 CallCycle "call-cycle" "The server waits in this chain of calls itself."
        "Break the cycle."
    117 ReplyFailed "reply-failed" "The server could not send its reply."
        "Read its reason."
    1001 InvalidArgument "invalid-argument" "A text or number that a program passes is wrong."
        "Change the argument that the text names."
}

impl ErrorCode {
    /// Returns the number, which is never 0.
    ///
    /// ```
    /// assert_eq!(stripline::ErrorCode::Stopped.number(), 1);
    /// ```
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Returns whether an error of this kind at the start of a component comes again at each start,
    /// until the program or the configuration changes. The launcher does not restart such a
    /// component.
    ///
    /// ```
    /// use stripline::ErrorCode;
    ///
    /// assert!(ErrorCode::InvalidProperties.is_lasting());
    /// assert!(!ErrorCode::System.is_lasting() && !ErrorCode::Failed.is_lasting());
    /// ```
    pub const fn is_lasting(self) -> bool {
        matches!(
            self,
            Self::Unsupported
                | Self::Port
                | Self::InvalidProperties
                | Self::Configuration
                | Self::InvalidArgument
        )
    }

    /// Returns the code with that number; `None` for a number of a later version.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.number() == number)
    }
}

/// Writes the word.
impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers and words that programs rely on. Rows are added and never changed.
    const COMMITTED: [(u16, &str); 39] = [
        (1, "stopped"),
        (2, "full"),
        (3, "stalled"),
        (4, "too-large"),
        (5, "ejected"),
        (6, "unsupported"),
        (7, "peer-misbehaved"),
        (8, "refused"),
        (9, "port"),
        (10, "decode"),
        (11, "handler"),
        (12, "unanswered"),
        (13, "receiver-gone"),
        (14, "packet-refused"),
        (15, "window-overflow"),
        (16, "duplicate-packet"),
        (17, "system"),
        (18, "forked"),
        (19, "invalid-properties"),
        (20, "failed"),
        (21, "too-many-held"),
        (22, "interrupted"),
        (23, "configuration"),
        (100, "user-error"),
        (101, "no-server"),
        (102, "call-unanswered"),
        (103, "server-gone"),
        (104, "call-cancelled"),
        (105, "too-many-calls"),
        (106, "reply-decode"),
        (110, "unknown-operation"),
        (111, "wrong-type"),
        (112, "handler-panicked"),
        (113, "deadline-passed"),
        (114, "cancelled-early"),
        (115, "overloaded"),
        (116, "call-cycle"),
        (117, "reply-failed"),
        (1001, "invalid-argument"),
    ];

    #[test]
    fn no_code_is_ever_renumbered_or_renamed() {
        let there: Vec<_> = ErrorCode::ALL.iter().map(|code| (code.number(), code.word())).collect();
        assert_eq!(there, COMMITTED);
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_number(code.number()), Some(*code));
            assert_eq!(code.to_string(), code.word());
        }
        assert_eq!((ErrorCode::from_number(0), ErrorCode::from_number(u16::MAX)), (None, None));
    }

    #[test]
    fn the_document_has_a_full_item_for_each_code() {
        let document = include_str!("../../../../docs/errors.md");
        let items = document.split("\n- ").skip(1).map(|item| {
            let item = item.split("\n\n").next().unwrap();
            item.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        let mut documented = Vec::new();
        for item in items {
            let parts = || {
                let (number, rest) = item.split_once(" `")?;
                let (word, rest) = rest.split_once("` (")?;
                let (side, rest) = rest.split_once("): ")?;
                let (meaning, remedy) = rest.strip_suffix('*')?.split_once(" *")?;
                Some((number, word, side, meaning, remedy))
            };
            let Some((number, word, side, meaning, remedy)) = parts() else { panic!("five parts: {item}") };
            assert!(!meaning.is_empty() && !side.is_empty(), "{item}");
            documented.push((number.parse().unwrap(), word.to_string(), remedy.to_string()));
        }
        let there: Vec<(u16, String, String)> =
            ErrorCode::ALL.iter().map(|it| (it.number(), it.word().into(), it.remedy().into())).collect();
        assert_eq!(documented, there, "left: docs/errors.md");
    }
}

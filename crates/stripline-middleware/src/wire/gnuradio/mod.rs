//! The messages of GNU Radio's blocks for ZeroMQ (gr-zeromq 3.10).
//!
//! | file | content |
//! | --- | --- |
//! | `message.rs` | messages with the tags of their samples |
//! | `pmt.rs` | values in their serialized form |
//! | `description.rs` | tags with a counterpart in the description of a stream or a packet |
//! | `carried.rs` | tags in the description of a stream, for the blocks of Stripline |

mod carried;
mod description;
mod message;
mod pmt;
#[cfg(test)]
mod recorded_tests;

use std::fmt;

pub use carried::{CarriedTags, KEYWORD};
pub use description::Described;
pub use message::{Tag, TaggedMessage, join_parts};
pub use pmt::Pmt;

/// An error in a message of GNU Radio. The text describes the problem.
///
/// ```
/// use stripline_middleware::gnuradio::TaggedMessage;
///
/// let error = TaggedMessage::parse(&[0; 16]).unwrap_err();
/// assert!(error.to_string().contains("no tags"), "{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadMessage(String);

impl BadMessage {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }
}

impl fmt::Display for BadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadMessage {}

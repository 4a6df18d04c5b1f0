//! The link: what every connection promises, whatever transport carries it. Sequence numbers, streams, gap
//! reports, end of stream, and statistics live here and nowhere else.

mod borrowed;
mod discard;
mod histogram;
mod incoming;
mod joiner;
mod mailbox;
mod options;
mod origin;
mod outgoing;
mod receipt;
mod resequence;
mod sampler;
mod sign;
mod splitter;
mod stats;
mod waiting;

pub(crate) use borrowed::{Lent, LentMut};
pub(crate) use histogram::Histogram;
pub(crate) use incoming::{Ends, Incoming, Outcome, Taken};
pub(crate) use joiner::{Joined, Joiner};
pub(crate) use mailbox::{Delivery, Mailbox};
pub use options::{LinkOptions, Overflow, Scope};
pub(crate) use origin::Terms;
pub(crate) use outgoing::{Outgoing, Stamp};
pub(crate) use receipt::Receipt;
pub(crate) use resequence::{Place, Resequencer};
pub(crate) use sampler::Sampler;
pub use sampler::Sampling;
pub use stats::{ConnectionReport, LatencyReport, Recorded};
pub(crate) use stats::{ConnectionStats, ReportWithTimes};
pub(crate) use waiting::Spinner;
pub use waiting::WaitStrategy;

pub use crate::sys::credentials::Group;

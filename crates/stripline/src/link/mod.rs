//! The link: what every connection guarantees, on every transport. Sequence numbers, streams, gap
//! reports, end of stream, and statistics are implemented only here.

mod borrowed;
mod connection;
mod copied;
mod discard;
pub(crate) mod flow;
mod histogram;
mod incoming;
mod joiner;
mod options;
mod outgoing;
mod port_events;
mod receipt;
mod resequence;
mod resequencing;
mod sampler;
mod sign;
mod splitter;
mod stats;
mod waiting;

pub(crate) use borrowed::{Lent, LentMut};
pub(crate) use connection::ConnectionOptions;
pub(crate) use copied::Copied;
pub use flow::Flow;
pub(crate) use flow::Watermarks;
pub(crate) use histogram::Histogram;
pub(crate) use incoming::{ArrivedWhile, EndsWhen, Incoming, LentPacket, Polled};
pub(crate) use joiner::{Joined, Joiner};
pub use options::{LinkOptions, Overflow, Resequence, Scope};
pub(crate) use outgoing::Outgoing;
pub(crate) use port_events::{PortEvent, PortEvents};
pub(crate) use receipt::Receipt;
pub(crate) use resequence::{Place, Resequencer};
pub use sampler::Sampling;
pub use stats::{ConnectionReport, LatencyReport, RawLatencies};
pub(crate) use stats::{ConnectionStats, ReportWithTimes};
pub(crate) use waiting::Spinner;
pub use waiting::WaitStrategy;

pub use crate::sys::credentials::Group;
